//! A new leader with caches that lack dependents from before its term.

use steersman_devcluster::faults::{Matcher, RuleId, internal_error};
use steersman_devcluster::status::Status;
use steersman_runtime::controller::ControllerContext;

use super::*;

/// A Secret with a blocking reference to `owner`.
fn secret(name: &str, owner: &Value) -> Value {
    let mut secret = owned(name, &[(owner, true)]);
    secret["kind"] = json!("Secret");
    secret
}

impl World {
    /// ConfigMaps `a` and `b` that own a Secret each, and a new leader. The API server's watch
    /// cache omits both Secrets until the returned rule is removed.
    async fn with_unseen_secrets() -> (Self, RuleId) {
        let mut world = Self::bare().await;
        let before = world.cluster.revision();
        for name in ["a", "b"] {
            let owner = world.config_map(name, &[]).await;
            world.create(secret(&format!("of-{name}"), &owner)).await;
        }
        let stale = Matcher {
            resource: Some("secrets".to_owned()),
            ..Matcher::default()
        };
        let view = world.cluster.faults().hold_view(stale, before);
        world.start_term(world.cluster.revision()).await;
        tokio::time::sleep(A_WHILE).await;
        world.clear_requests();
        (world, view)
    }

    /// Starts the collector in a term that began at this resource version.
    async fn start_term(&mut self, term_start_rv: u64) {
        let begin = |mut context: ControllerContext| {
            context.term_start_rv = term_start_rv;
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
async fn foreground_deletion_waits_for_unseen_dependents() {
    let (world, view) = World::with_unseen_secrets().await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.config_maps(), ["a", "b"]);
    assert!(
        world.lists("secrets") > 0 && world.lists("configmaps") == 0,
        "only the type with an old cache is listed"
    );
    world.cluster.faults().remove(view);
    world.until_config_maps(&["b"]).await;
    assert_eq!(world.secrets(), [("of-b".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn unseen_dependents_are_orphaned_and_not_deleted() {
    let (world, view) = World::with_unseen_secrets().await;
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.config_maps(), ["a", "b"]);
    world.cluster.faults().remove(view);
    world.until_config_maps(&["b"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.secrets(),
        [("of-a".to_owned(), 0), ("of-b".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn dependents_that_the_cache_shows_during_the_list_are_orphaned_too() {
    let (world, view) = World::with_unseen_secrets().await;
    world.cluster.faults().delay(
        Matcher::new("list", "secrets"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.cluster.faults().remove(view);
    world.until_config_maps(&["b"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.secrets(),
        [("of-a".to_owned(), 0), ("of-b".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_type_that_cannot_be_listed_delays_owners_for_a_limited_time() {
    // (answer, minimum and maximum time that an owner waits, in seconds)
    let cases = [
        (Status::no_such_resource(), 0, 1),
        (internal_error(), 100, 400),
    ];
    for (answer, least, most) in cases {
        let mut world = World::bare().await;
        world.config_map("a", &[]).await;
        let future_rv = world.cluster.revision() + 1_000_000;
        world.start_term(future_rv).await;
        world
            .cluster
            .faults()
            .reject(Matcher::new("list", "secrets"), answer, None);
        let begun = tokio::time::Instant::now();
        world.delete_with("a", "Foreground").await;
        world.until_config_maps(&[]).await;
        let waited = begun.elapsed().as_secs();
        assert!((least..=most).contains(&waited), "{waited} s");
    }
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_a_reference_that_became_blocking() {
    let mut world = World::bare().await;
    let owner = world.config_map("a", &[]).await;
    let mut not_blocking = with_finalizer(secret("of-a", &owner));
    not_blocking["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
    world.create(not_blocking).await;
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
    world.start_term(world.cluster.revision()).await;
    tokio::time::sleep(A_WHILE).await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.config_maps(), ["a"]);
    world.cluster.faults().remove(view);
    world
        .patch("secrets", "of-a", json!({"metadata": {"finalizers": null}}))
        .await;
    world.until_config_maps(&[]).await;
    assert_eq!(world.secrets(), []);
}

#[tokio::test(start_paused = true)]
async fn a_complete_list_is_not_repeated() {
    let mut world = World::bare().await;
    for name in ["a", "b", "c"] {
        world.config_map(name, &[]).await;
    }
    // A resource version that no cache reaches.
    world.start_term(world.cluster.revision() + 1_000_000).await;
    tokio::time::sleep(A_WHILE).await;
    world.clear_requests();
    world.delete_with("a", "Foreground").await;
    world.until_config_maps(&["b", "c"]).await;
    let lists = ["secrets", "pods", "nodes"].map(|plural| world.lists(plural));
    assert_eq!(
        lists,
        [1, 1, 0],
        "cluster-scoped objects cannot depend on a ConfigMap"
    );
    world.delete_with("b", "Orphan").await;
    world.until_config_maps(&["c"]).await;
    assert_eq!(
        lists,
        ["secrets", "pods", "nodes"].map(|plural| world.lists(plural))
    );
}
