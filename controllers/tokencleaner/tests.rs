//! Whole syncs against the in-memory API server, under paused time.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict, internal_error};

use super::DESCRIPTOR;
use crate::testing::tokens::{bootstrap_token, signing_token};
use crate::testing::world::World;

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

const HOUR: Duration = Duration::from_secs(3600);

impl World {
    async fn cleaning_tokens() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// A token Secret that expires after `seconds`.
    fn expiring(&self, id: &str, seconds: i64) -> Value {
        let expiration = self.clock.now() + jiff::SignedDuration::from_secs(seconds);
        signing_token(id, &expiration.to_string())
    }

    fn has_token(&self, id: &str) -> bool {
        self.find("secrets", &format!("bootstrap-token-{id}"))
            .is_some()
    }

    fn deletions(&self) -> usize {
        self.writes_by("token-cleaner").len()
    }
}

/// Upstream: `TestCleanerNoExpiration`, `TestCleanerExpired`, `TestCleanerNotExpired` and
/// `TestCleanerExpiredAt`.
#[tokio::test(start_paused = true)]
async fn a_token_is_deleted_at_its_expiration() {
    let world = World::cleaning_tokens().await;
    world.create(signing_token("eternal", "")).await;
    for (id, seconds) in [("past", -3600), ("soon", 90), ("later", 3600)] {
        world.create(world.expiring(id, seconds)).await;
    }
    let present = || ["eternal", "past", "soon", "later"].map(|id| world.has_token(id));
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(present(), [true, false, true, true]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(present(), [true, false, false, true]);
    tokio::time::sleep(HOUR).await;
    assert_eq!(present(), [true, false, false, false]);
    let deletions =
        ["past", "soon", "later"].map(|id| format!("delete {SECRETS}/bootstrap-token-{id} 200"));
    assert_eq!(world.writes_by("token-cleaner"), deletions);
}

#[tokio::test(start_paused = true)]
async fn a_changed_expiration_moves_the_deletion() {
    let world = World::cleaning_tokens().await;
    world.create(world.expiring("longer", 60)).await;
    world.create(world.expiring("sooner", 7200)).await;
    for (id, seconds) in [("longer", 3600), ("sooner", 60)] {
        let data = world.expiring(id, seconds)["data"].clone();
        let path = format!("{SECRETS}/bootstrap-token-{id}");
        world
            .cluster
            .patch(&path, json!({ "data": data }))
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        [world.has_token("longer"), world.has_token("sooner")],
        [true, false]
    );
    tokio::time::sleep(HOUR).await;
    assert!(!world.has_token("longer"));
    assert_eq!(world.deletions(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_bootstrap_tokens_of_kube_system_are_deleted() {
    let world = World::cleaning_tokens().await;
    let mut opaque = world.expiring("opaque", -60);
    opaque["type"] = json!("Opaque");
    let mut elsewhere = world.expiring("elsewhere", -60);
    elsewhere["metadata"]["namespace"] = json!("default");
    // Neither the name nor the other values matter.
    let odd = [
        bootstrap_token("odd", &[("expiration", "2020-01-01T00:00:00Z")]),
        bootstrap_token("malformed", &[("expiration", "tomorrow")]),
        bootstrap_token("long", &[("expiration", &"9".repeat(100_000))]),
    ];
    let far = bootstrap_token("far", &[("expiration", "9999-12-31T23:59:59Z")]);
    for secret in [opaque, elsewhere, far].into_iter().chain(odd) {
        world.create(secret).await;
    }
    world.at_rest().await;
    let names: Vec<_> = world.cluster.objects("secrets");
    let mut names: Vec<_> = names
        .iter()
        .filter_map(|s| s["metadata"]["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["bootstrap-token-elsewhere", "bootstrap-token-opaque", "far"]
    );
    assert_eq!(world.deletions(), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_deletions_are_retried() {
    for refusal in [internal_error(), conflict()] {
        let world = World::cleaning_tokens().await;
        let delete = Matcher::new("delete", "secrets");
        world.cluster.faults().reject(delete, refusal, Some(3));
        world.create(world.expiring("abcdef", 5)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!world.has_token("abcdef"));
        assert_eq!(world.deletions(), 4);
    }
}

/// A user extends the token, but the cache of the controller does not show it yet.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_does_not_delete_an_extended_token() {
    let world = World::cleaning_tokens().await;
    world.create(world.expiring("abcdef", 60)).await;
    world.at_rest().await;
    let view = world.hold("secrets", world.cluster.revision());
    let path = format!("{SECRETS}/bootstrap-token-abcdef");
    let data = world.expiring("abcdef", 3600)["data"].clone();
    world
        .cluster
        .patch(&path, json!({ "data": data }))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let writes = world.writes_by("token-cleaner");
    let conflict = format!("delete {path} 409");
    assert!(writes.iter().all(|write| *write == conflict), "{writes:#?}");
    // Back-off makes these requests rare until the cache shows the change.
    assert!((5..20).contains(&writes.len()), "{writes:#?}");
    world.cluster.faults().remove(view);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.has_token("abcdef"));
    tokio::time::sleep(HOUR).await;
    assert!(!world.has_token("abcdef"));
}

/// A finalizer keeps the Secret. Each of its events causes one request at most.
#[tokio::test(start_paused = true)]
async fn a_token_with_a_finalizer_causes_no_loop() {
    let world = World::cleaning_tokens().await;
    let mut token = world.expiring("abcdef", -60);
    token["metadata"]["finalizers"] = json!(["example.com/keep"]);
    world.create(token).await;
    tokio::time::sleep(HOUR).await;
    assert!(world.has_token("abcdef"));
    assert!(
        world.deletions() <= 2,
        "{:?}",
        world.writes_by("token-cleaner")
    );
}
