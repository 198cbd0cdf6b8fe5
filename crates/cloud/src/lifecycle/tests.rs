//! Tests of the cloud node lifecycle controller against the in-memory API server.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict};
use steersman_devcluster::status::Status;

use super::*;
use crate::provider::CloudError;
use crate::testing::cloud::{FakeCloud, Machine};
use crate::testing::world::World;

const A: &str = "/api/v1/nodes/a";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn failure() -> CloudError {
    CloudError::failed("unreachable")
}

/// A cluster with the node `a` and a running controller.
async fn world(ready: &str, machine: Machine) -> World {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", ready).await;
    world.cloud.set_machine("a", machine);
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world
}

impl World {
    fn taints(&self) -> Value {
        self.object("nodes", "a").unwrap()["spec"]["taints"].clone()
    }

    async fn set_ready(&self, status: &str) {
        let conditions = json!([{"type": "Ready", "status": status}]);
        let status = json!({"status": {"conditions": conditions}});
        self.patch(&format!("{A}/status"), status).await;
    }
}

/// Upstream: `Test_NodesDeleted`, `Test_NodesShutdown`.
#[tokio::test(start_paused = true)]
async fn readiness_and_machine_decide_about_a_node() {
    let shutdown = json!([{"key": SHUTDOWN, "effect": "NoSchedule"}]);
    // (ready, machine, failing call, calls of one pass, node stays, taints)
    let cases: [(&str, Machine, Option<&str>, &[&str], bool, Value); 9] = [
        ("True", Machine::Running, None, &[], true, json!(null)),
        ("True", Machine::Deleted, None, &[], true, json!(null)),
        ("True", Machine::ShutDown, None, &[], true, json!(null)),
        (
            "False",
            Machine::Running,
            None,
            &["exists a", "shut down a"],
            true,
            json!(null),
        ),
        (
            "Unknown",
            Machine::Deleted,
            None,
            &["exists a"],
            false,
            json!(null),
        ),
        (
            "False",
            Machine::Deleted,
            None,
            &["exists a"],
            false,
            json!(null),
        ),
        (
            "Unknown",
            Machine::Deleted,
            Some("exists"),
            &["exists a"],
            true,
            json!(null),
        ),
        (
            "Unknown",
            Machine::ShutDown,
            None,
            &["exists a", "shut down a"],
            true,
            shutdown,
        ),
        (
            "Unknown",
            Machine::ShutDown,
            Some("shut down"),
            &["exists a", "shut down a"],
            true,
            json!(null),
        ),
    ];
    for (ready, machine, failing, calls, stays, taints) in cases {
        let why = format!("{ready} {machine:?} {failing:?}");
        let mut world = World::new(FakeCloud::default());
        world.create_node("a", "10.244.0.0/24", ready).await;
        world.cloud.set_machine("a", machine);
        if let Some(call) = failing {
            world.cloud.fail(call, 1, failure);
        }
        world.start(descriptor::<FakeCloud>(), &[]).await;
        world.pass(3).await;
        assert_eq!(world.cloud.calls(), calls, "{why}");
        assert_eq!(world.object("nodes", "a").is_some(), stays, "{why}");
        if stays {
            assert_eq!(world.taints(), taints, "{why}");
            assert_eq!(world.events(), [""; 0], "{why}");
        } else {
            let text = "Normal DeletingNode Deleting node a because it does not exist in the cloud provider";
            assert_eq!(world.events(), [text], "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_condition_counts_as_unknown() {
    let mut world = World::new(FakeCloud::default());
    world
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}))
        .await;
    world.cloud.set_machine("a", Machine::Deleted);
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world
        .until("the node is deleted", || {
            world.object("nodes", "a").is_none()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_taint_goes_when_the_node_is_ready() {
    let world = world("Unknown", Machine::ShutDown).await;
    world
        .until("the taint", || world.taints() != json!(null))
        .await;
    let (path, body) = world.writes().remove(0);
    assert_eq!(path, format!("patch {A}"));
    assert_eq!(
        body["spec"],
        json!({"taints": [{"key": SHUTDOWN, "effect": "NoSchedule"}]})
    );
    assert!(body["metadata"]["resourceVersion"].is_string());

    world.pass(30).await;
    assert_eq!(world.writes().len(), 1, "the taint is set once");
    world.cloud.set_machine("a", Machine::Running);
    world.pass(30).await;
    assert_ne!(world.taints(), json!(null), "only a ready node loses it");
    world.set_ready("True").await;
    world
        .until("no taint", || world.taints() == json!(null))
        .await;
    assert_eq!(world.writes()[1].1["spec"], json!({"taints": null}));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_taints_is_repeated() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "Unknown").await;
    world.cloud.set_machine("a", Machine::ShutDown);
    let matcher = Matcher::new("patch", "nodes");
    world.cluster.faults().reject(matcher, conflict(), Some(4));
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world.pass(3).await;
    assert_ne!(world.taints(), json!(null));
    assert_eq!(world.writes().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_reported() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "Unknown").await;
    world.cloud.set_machine("a", Machine::Deleted);
    let matcher = Matcher::new("delete", "nodes");
    world
        .cluster
        .faults()
        .reject(matcher, Status::new(403, "Forbidden", "not today"), Some(1));
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world
        .until("the second pass deletes it", || {
            world.object("nodes", "a").is_none()
        })
        .await;
    world.pass(2).await;
    let failed = "Warning DeletingNodeFailed Failed deleting node a: ";
    assert!(
        world.events().iter().any(|event| event.starts_with(failed)),
        "{:#?}",
        world.events()
    );
    let (_, options) = world.writes().pop().unwrap();
    let preconditions = &options["preconditions"];
    assert!(preconditions["uid"].is_string() && preconditions["resourceVersion"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_again_outlives_an_old_cache() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "Unknown").await;
    let revision = world.cluster.revision();
    world.set_ready("True").await;
    world.cloud.set_machine("a", Machine::Deleted);
    let nodes = Matcher {
        resource: Some("nodes".to_owned()),
        ..Matcher::default()
    };
    world.cluster.faults().hold_view(nodes, revision);
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world.pass(30).await;
    assert!(world.object("nodes", "a").is_some());
    assert_eq!(world.events(), [""; 0]);
    assert!(world.cloud.calls().len() > 3, "each pass asks");
}

#[tokio::test(start_paused = true)]
async fn one_failing_node_delays_no_other() {
    let mut world = World::new(FakeCloud::default());
    for name in ["a", "b"] {
        world.create_node(name, "10.244.0.0/24", "Unknown").await;
        world.cloud.set_machine(name, Machine::Deleted);
    }
    world.cloud.fail("exists", 1, failure);
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world.pass(3).await;
    assert_eq!(world.cluster.count("nodes"), 1);
    world.pass(5).await;
    assert_eq!(world.cluster.count("nodes"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_instances_switches_the_loop_off() {
    let world = World::new(FakeCloud::without("instances"));
    let table = [descriptor::<FakeCloud>()];
    let built = (table[0].init)(&world.context(&table)).unwrap();
    assert!(built.is_switched_off());
}
