//! A new leader whose caches lack dependents that were there before it began to lead.

use steersman_devcluster::faults::{Matcher, RuleId};

use super::*;

/// A Secret that `owner` owns and that blocks its deletion.
fn secret(name: &str, owner: &Value) -> Value {
    let mut secret = owned(name, &[(owner, true)]);
    secret["kind"] = json!("Secret");
    secret
}

impl World {
    /// `a` and `b`, which own a Secret each, and a new leader to whom the server's cache shows neither.
    async fn half_blind() -> (Self, RuleId) {
        let mut world = Self::bare().await;
        let before = world.cluster.revision();
        for name in ["a", "b"] {
            let owner = world.map(name, &[]).await;
            world.create(secret(&format!("of-{name}"), &owner)).await;
        }
        let stale = Matcher { resource: Some("secrets".to_owned()), ..Matcher::default() };
        let view = world.cluster.faults().hold_view(stale, before);
        let since = world.cluster.revision();
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.since = since;
                context
            })
            .await;
        tokio::time::sleep(A_WHILE).await;
        world.cluster.clear_requests();
        (world, view)
    }

    fn secrets(&self) -> Vec<(String, usize)> {
        let owners = |secret: &Value| secret["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        let secrets = self.cluster.objects("secrets");
        secrets.iter().map(|secret| (secret["metadata"]["name"].as_str().unwrap().to_owned(), owners(secret))).collect()
    }

    fn lists(&self, plural: &str) -> usize {
        self.cluster.requests().iter().filter(|request| request.verb == "list" && request.resource == plural).count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_that_no_cache_shows_yet() {
    let (world, view) = World::half_blind().await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.maps(), ["a", "b"]);
    assert!(world.lists("secrets") > 0 && world.lists("configmaps") == 0, "only what may be incomplete is asked for");
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
    assert_eq!(world.secrets(), [("of-a".to_owned(), 0), ("of-b".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_was_found_complete_is_not_asked_for_again() {
    let mut world = World::bare().await;
    for name in ["a", "b", "c"] {
        world.map(name, &[]).await;
    }
    // Further than any cache can be.
    let since = world.cluster.revision() + 1_000_000;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.since = since;
            context
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.clear_requests();
    world.delete_with("a", "Foreground").await;
    world.until_maps(&["b", "c"]).await;
    let asked = ["secrets", "pods", "nodes"].map(|plural| world.lists(plural));
    assert_eq!(asked, [1, 1, 0], "of what is in no namespace nothing can depend on it");
    world.delete_with("b", "Orphan").await;
    world.until_maps(&["c"]).await;
    assert_eq!(asked, ["secrets", "pods", "nodes"].map(|plural| world.lists(plural)));
}
