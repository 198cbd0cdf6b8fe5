//! A new leader whose caches lack dependents that were there before it began to lead.

use steersman_devcluster::faults::{Matcher, RuleId, internal_error};
use steersman_devcluster::status::Status;
use steersman_runtime::controller::ControllerContext;

use super::*;

/// A Secret that `owner` owns and that blocks its deletion.
fn secret(name: &str, owner: &Value) -> Value {
    let mut secret = owned(name, &[(owner, true)]);
    secret["kind"] = json!("Secret");
    secret
}

impl World {
    /// `a` and `b`, which own a Secret each, and a new leader to whom the server's cache shows
    /// neither.
    async fn half_blind() -> (Self, RuleId) {
        let mut world = Self::bare().await;
        let before = world.cluster.revision();
        for name in ["a", "b"] {
            let owner = world.map(name, &[]).await;
            world.create(secret(&format!("of-{name}"), &owner)).await;
        }
        let stale = Matcher {
            resource: Some("secrets".to_owned()),
            ..Matcher::default()
        };
        let view = world.cluster.faults().hold_view(stale, before);
        world.lead_since(world.cluster.revision()).await;
        tokio::time::sleep(A_WHILE).await;
        world.cluster.clear_requests();
        (world, view)
    }

    /// A new leader, which began with this revision.
    async fn lead_since(&mut self, since: u64) {
        let begin = |mut context: ControllerContext| {
            context.term_start_rv = since;
            context
        };
        self.restart_with(&[DESCRIPTOR], begin).await;
    }

    fn secrets(&self) -> Vec<(String, usize)> {
        let owners = |secret: &Value| {
            secret["metadata"]["ownerReferences"]
                .as_array()
                .map_or(0, Vec::len)
        };
        let secrets = self.cluster.objects("secrets");
        secrets
            .iter()
            .map(|secret| {
                (
                    secret["metadata"]["name"].as_str().unwrap().to_owned(),
                    owners(secret),
                )
            })
            .collect()
    }

    fn lists(&self, plural: &str) -> usize {
        self.cluster
            .requests()
            .iter()
            .filter(|request| request.verb == "list" && request.resource == plural)
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_that_no_cache_shows_yet() {
    let (world, view) = World::half_blind().await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.maps(), ["a", "b"]);
    assert!(
        world.lists("secrets") > 0 && world.lists("configmaps") == 0,
        "only what may be incomplete is asked for"
    );
    world.cluster.faults().remove(view);
    world.until_maps(&["b"]).await;
    assert_eq!(world.secrets(), [("of-b".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn dependents_that_no_cache_shows_yet_are_orphaned_and_not_deleted() {
    let (world, view) = World::half_blind().await;
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.maps(), ["a", "b"]);
    world.cluster.faults().remove(view);
    world.until_maps(&["b"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.secrets(),
        [("of-a".to_owned(), 0), ("of-b".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn dependents_that_show_up_while_they_are_asked_for_are_orphaned_too() {
    let (world, view) = World::half_blind().await;
    world.cluster.faults().delay(
        Matcher::new("list", "secrets"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.cluster.faults().remove(view);
    world.until_maps(&["b"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.secrets(),
        [("of-a".to_owned(), 0), ("of-b".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_type_that_cannot_be_listed_holds_owners_up_for_a_while_only() {
    // (answer, for how long an owner waits at least, and at most)
    let cases = [
        (Status::no_such_resource(), 0, 1),
        (internal_error(), 100, 400),
    ];
    for (answer, least, most) in cases {
        let mut world = World::bare().await;
        world.map("a", &[]).await;
        let since = world.cluster.revision() + 1_000_000;
        world.lead_since(since).await;
        world
            .cluster
            .faults()
            .reject(Matcher::new("list", "secrets"), answer, None);
        let begun = tokio::time::Instant::now();
        world.delete_with("a", "Foreground").await;
        world.until_maps(&[]).await;
        let waited = begun.elapsed().as_secs();
        assert!((least..=most).contains(&waited), "{waited} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_became_a_blocking_one_is_waited_for() {
    let mut world = World::bare().await;
    let owner = world.map("a", &[]).await;
    let mut loose = held(secret("of-a", &owner));
    loose["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
    world.create(loose).await;
    let before = world.cluster.revision();
    let blocking = secret("of-a", &owner)["metadata"]["ownerReferences"].clone();
    world
        .patch(
            "secrets",
            "of-a",
            json!({"metadata": {"ownerReferences": blocking}}),
        )
        .await;
    let view = world.cluster.faults().hold_view(
        Matcher {
            resource: Some("secrets".to_owned()),
            ..Matcher::default()
        },
        before,
    );
    world.lead_since(world.cluster.revision()).await;
    tokio::time::sleep(A_WHILE).await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.maps(), ["a"]);
    world.cluster.faults().remove(view);
    world
        .patch("secrets", "of-a", json!({"metadata": {"finalizers": null}}))
        .await;
    world.until_maps(&[]).await;
    assert_eq!(world.secrets(), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_complete_is_not_asked_for_again() {
    let mut world = World::bare().await;
    for name in ["a", "b", "c"] {
        world.map(name, &[]).await;
    }
    // Further than any cache can be.
    world.lead_since(world.cluster.revision() + 1_000_000).await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.clear_requests();
    world.delete_with("a", "Foreground").await;
    world.until_maps(&["b", "c"]).await;
    let asked = ["secrets", "pods", "nodes"].map(|plural| world.lists(plural));
    assert_eq!(
        asked,
        [1, 1, 0],
        "of what is in no namespace nothing can depend on it"
    );
    world.delete_with("b", "Orphan").await;
    world.until_maps(&["c"]).await;
    assert_eq!(
        asked,
        ["secrets", "pods", "nodes"].map(|plural| world.lists(plural))
    );
}
