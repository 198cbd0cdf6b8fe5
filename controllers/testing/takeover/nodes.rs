//! Takeover of nodes and of pods on tainted nodes, at rest without a write, and in the middle of a
//! loss.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::testing::NAMESPACE;
use crate::testing::world::World;
use crate::{nodelifecycle, tainteviction};

/// The time of the takeover.
const BEGIN: &str = "2026-11-21T03:00:00Z";

/// The time of the last change before that.
const CHANGED: &str = "2026-11-21T02:50:00Z";

const AN_HOUR: Duration = Duration::from_secs(3600);

fn uid(number: u32) -> String {
    format!("{number:08x}-56c0-4c6e-a4bd-6d5d8f7d8a01")
}

/// A node with this status and reason of its `Ready` condition, and these keys of taints.
pub(super) fn node(number: u32, ready: &str, reason: &str, taints: &[(&str, &str)]) -> Value {
    let taint = |(key, effect): &(&str, &str)| json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect, "timeAdded": CHANGED});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": "m",
            "lastHeartbeatTime": CHANGED, "lastTransitionTime": CHANGED})
    };
    let others = if ready == "Unknown" {
        "Unknown"
    } else {
        "False"
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("node-{number}"), "uid": uid(number), "creationTimestamp": CHANGED,
            "labels": {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"},
        },
        "spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()},
        "status": {"conditions": [
            condition("MemoryPressure", others, reason),
            condition("DiskPressure", others, reason),
            condition("PIDPressure", others, reason),
            condition("Ready", ready, reason),
        ]},
    })
}

pub(super) fn lease(number: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("node-{number}"), "namespace": "kube-node-lease", "uid": uid(1000 + number)},
        "spec": {"renewTime": "2026-11-21T02:50:00.000000Z"},
    })
}

pub(super) fn pod(name: &str, node: u32, ready: &str, tolerations: Value) -> Value {
    let number = name
        .bytes()
        .fold(5000_u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid(number), "generation": 1, "creationTimestamp": CHANGED},
        "spec": {
            "nodeName": format!("node-{node}"), "containers": [{"name": "main", "image": "web"}],
            "tolerations": tolerations,
        },
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": CHANGED},
        ]},
    })
}

/// A cluster with these objects, which both controllers then take over.
async fn taken_over(objects: impl IntoIterator<Item = Value>) -> World {
    let begin: Timestamp = BEGIN.parse().unwrap();
    let mut world = World::bare_at(begin).await;
    for object in objects {
        world.cluster.load(object).unwrap();
    }
    renew(&world, &[0, 1]);
    world
        .restart(&[nodelifecycle::DESCRIPTOR, tainteviction::DESCRIPTOR])
        .await;
    world
}

/// Renews the Leases of these nodes from now on.
fn renew(world: &World, nodes: &[u32]) {
    renew_named(world, nodes.iter().map(|number| format!("node-{number}")));
}

/// Renews the Leases of these nodes from now on.
pub(super) fn renew_named(world: &World, nodes: impl IntoIterator<Item = impl Into<String>>) {
    let nodes: Vec<String> = nodes.into_iter().map(Into::into).collect();
    let cluster = world.cluster.clone();
    let clock = world.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let time = clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            for name in &nodes {
                let path = cluster.path("leases", "kube-node-lease", name);
                let renewed = json!({"spec": {"renewTime": time}});
                cluster.patch(&path, renewed).await.unwrap();
            }
        }
    });
}

/// Writes of the controllers, without Events: upstream registers each node after each start.
fn writes(world: &World) -> Vec<String> {
    world.writes()
}

#[tokio::test(start_paused = true)]
async fn nodes_at_rest_are_taken_over_without_a_write() {
    let unreachable = &[("unreachable", "NoExecute"), ("unreachable", "NoSchedule")];
    let not_ready = &[("not-ready", "NoSchedule"), ("not-ready", "NoExecute")];
    let tolerates = json!([{"operator": "Exists"}]);
    let mut evicted = pod("evicted", 2, "False", json!([]));
    evicted["metadata"]["deletionTimestamp"] = json!(CHANGED);
    evicted["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastProbeTime": null,
        "lastTransitionTime": CHANGED, "observedGeneration": 1,
    });
    evicted["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(target);
    let world = taken_over([
        node(0, "True", "KubeletReady", &[]),
        node(1, "False", "KubeletNotReady", not_ready),
        node(2, "Unknown", "NodeStatusUnknown", unreachable),
        lease(0),
        lease(1),
        lease(2),
        pod("web", 0, "True", json!([])),
        pod("daemon", 1, "False", tolerates.clone()),
        pod("daemon-2", 2, "False", tolerates),
        evicted,
    ])
    .await;
    let state = |world: &World| {
        [
            world.cluster.objects("nodes"),
            world.cluster.objects("pods"),
        ]
    };
    let before = state(&world);
    tokio::time::sleep(AN_HOUR).await;
    assert_eq!(writes(&world), Vec::<String>::new());
    assert_eq!(state(&world), before);
}

/// The former manager wrote the status of the node and stopped: pods and taints are missing.
#[tokio::test(start_paused = true)]
async fn a_loss_that_another_manager_began_is_completed() {
    let minute = json!([{"operator": "Exists", "tolerationSeconds": 60}]);
    let world = taken_over([
        node(0, "True", "KubeletReady", &[]),
        node(1, "True", "KubeletReady", &[]),
        node(2, "Unknown", "NodeStatusUnknown", &[]),
        lease(0),
        lease(1),
        lease(2),
        pod("web", 2, "True", minute),
    ])
    .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The monitor and the queue of pods may find the pod at the same time; one patch conflicts.
    let mut found = writes(&world);
    found.retain(|write| !write.ends_with("409"));
    found.sort();
    assert_eq!(
        found,
        [
            "patch /api/v1/nodes/node-2 200",
            "patch /api/v1/nodes/node-2 200",
            "patch pods/web/status 200",
        ]
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let pods = world.cluster.objects("pods");
    assert!(pods[0]["metadata"]["deletionTimestamp"].is_string());
}
