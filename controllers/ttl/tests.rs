//! Tests of the TTL controller against the in-memory API server.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::testing::world::World;

fn node(name: &str, ttl: Option<&str>) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    if let Some(ttl) = ttl {
        node["metadata"]["annotations"] = json!({TTL_ANNOTATION: ttl, "other": "kept"});
    }
    node
}

impl World {
    fn ttls(&self) -> Vec<String> {
        let nodes = self.cluster.objects("nodes");
        let ttl = |node: &Value| {
            node["metadata"]["annotations"][TTL_ANNOTATION]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        };
        nodes.iter().map(ttl).collect()
    }

    async fn until_all_have(&self, ttl: &str) {
        self.until(&format!("all nodes have {ttl}"), |_| {
            self.ttls().iter().all(|found| found == ttl)
        })
        .await;
    }

    fn patches(&self) -> usize {
        self.cluster
            .requests()
            .iter()
            .filter(|request| request.verb == "patch" && request.resource == "nodes")
            .count()
    }

    /// Updates every node, as kubelets do regularly.
    async fn touch_all(&self, mark: &str) {
        for node in self.cluster.objects("nodes") {
            let path = format!(
                "/api/v1/nodes/{}",
                node["metadata"]["name"].as_str().unwrap()
            );
            self.cluster
                .patch(&path, json!({"metadata": {"labels": {"touched": mark}}}))
                .await
                .unwrap();
        }
    }
}

/// Upstream: `TestUpdateNodeIfNeeded`, `TestPatchNode`.
#[tokio::test(start_paused = true)]
async fn a_node_is_patched_only_when_its_annotation_differs() {
    // (annotation, patched)
    let cases = [
        (None, true),
        (Some("0"), false),
        (Some("+0"), false),
        (Some("00"), false),
        (Some("15"), true),
        (Some("soon"), true),
        (Some(""), true),
    ];
    for (ttl, patched) in cases {
        let mut world = World::bare().await;
        world.cluster.create(node("a", ttl)).await.unwrap();
        world.clear_requests();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.patches(), usize::from(patched), "{ttl:?}");
        if patched {
            world.until_all_have("0").await;
        }
        let annotations = &world.cluster.objects("nodes")[0]["metadata"]["annotations"];
        assert_eq!(
            annotations["other"].as_str(),
            ttl.map(|_| "kept"),
            "{ttl:?}"
        );
    }
}

/// Upstream: `TestTTLAnnotations`.
#[tokio::test(start_paused = true)]
async fn the_annotation_follows_the_size_of_the_cluster() {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    for number in 0..100 {
        world
            .cluster
            .create(node(&format!("n{number:03}"), None))
            .await
            .unwrap();
    }
    world.until_all_have("0").await;
    world.cluster.create(node("n100", None)).await.unwrap();
    world
        .until("the new node has 15", |_| {
            world.ttls().last().is_some_and(|ttl| ttl == "15")
        })
        .await;
    assert_eq!(
        world.ttls().iter().filter(|ttl| *ttl == "15").count(),
        1,
        "other nodes wait for their next update"
    );
    world.touch_all("1").await;
    world.until_all_have("15").await;

    for (left, expected) in [(90, "15"), (89, "0")] {
        while world.cluster.count("nodes") > left {
            let last = world.cluster.objects("nodes").pop().unwrap();
            let path = format!(
                "/api/v1/nodes/{}",
                last["metadata"]["name"].as_str().unwrap()
            );
            world.cluster.delete(&path).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.touch_all(expected).await;
        world.until_all_have(expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_all_nodes_are_counted_before_the_first_patch() {
    let mut world = World::bare().await;
    for number in 0..600 {
        world
            .cluster
            .create(node(&format!("n{number:03}"), None))
            .await
            .unwrap();
    }
    world.clear_requests();
    world.restart(&[DESCRIPTOR]).await;
    world.until_all_have("30").await;
    assert_eq!(world.patches(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_failed_patch_is_retried() {
    use steersman_devcluster::faults::{Matcher, conflict};
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world
        .cluster
        .faults()
        .reject(Matcher::new("patch", "nodes"), conflict(), Some(3));
    world.cluster.create(node("a", None)).await.unwrap();
    world.until_all_have("0").await;
    assert_eq!(world.patches(), 4);
}
