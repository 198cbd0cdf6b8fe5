//! Takeover of slices that upstream's controller left, at rest and in the middle of a roll-out.

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;

use super::{NAME, node, service};
use crate::endpointslice::DESCRIPTOR;
use crate::testing::world::World;

/// A slice of the Service as upstream leaves it. `endpoints` are pods by name, address and readiness.
fn slice(name: &str, owner: &Value, endpoints: &[(&str, &str, bool)]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(pod, ip, ready)| {
            json!({
                "addresses": [ip], "conditions": {"ready": ready, "serving": ready, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": pod, "uid": format!("uid-{pod}")},
                "nodeName": "node", "zone": "a",
            })
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "generateName": "web-", "namespace": "default", "uid": format!("uid-{name}"), "generation": 3,
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z"},
            "labels": {
                "kubernetes.io/service-name": NAME,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": NAME, "uid": owner["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// Loads a pod with an address.
fn load_pod(world: &World, name: &str, ip: &str, ready: bool) {
    let status = if ready { "True" } else { "False" };
    let mut pod = super::pod(name, "node");
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["uid"] = json!(format!("uid-{name}"));
    pod["status"] = json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    });
    world.cluster.load(pod).unwrap();
}

/// A cluster with the Service, a ready pod `a` and an unready pod `b`. No controller runs.
async fn cluster() -> (World, Value) {
    let world = World::bare().await;
    world.cluster.load(node("node", "a", "4")).unwrap();
    let service = world.create(service(json!({}))).await;
    load_pod(&world, "a", "10.0.0.1", true);
    load_pod(&world, "b", "10.0.0.2", false);
    (world, service)
}

#[tokio::test(start_paused = true)]
async fn slices_at_rest_are_not_written() {
    let a = ("a", "10.0.0.1", true);
    let b = ("b", "10.0.0.2", false);
    // (why, endpoints of each slice)
    let cases: [(&str, &[&[(&str, &str, bool)]]); 3] = [
        ("one slice", &[&[a, b]]),
        ("another order", &[&[b, a]]),
        ("two slices, which are not merged", &[&[b], &[a]]),
    ];
    for (why, slices) in cases {
        let (mut world, service) = cluster().await;
        for (n, endpoints) in slices.iter().enumerate() {
            world
                .cluster
                .load(slice(&format!("web-{n}"), &service, endpoints))
                .unwrap();
        }
        world.restart(&[DESCRIPTOR]).await;
        assert_eq!(world.writes_of(async {}).await, [""; 0], "{why}");
        assert!(world.service_events().await.is_empty(), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_in_a_roll_out_get_only_the_missing_changes() {
    let a = ("a", "10.0.0.1", true);
    let gone = ("gone", "10.0.0.9", true);
    // (why, endpoints, writes)
    let cases: [(&str, &[(&str, &str, bool)], &[&str]); 3] = [
        ("a pod is missing", &[a], &["update 200"]),
        (
            "a pod is gone",
            &[a, gone, ("b", "10.0.0.2", false)],
            &["update 200"],
        ),
        (
            "readiness changed",
            &[a, ("b", "10.0.0.2", true)],
            &["update 200"],
        ),
    ];
    for (why, endpoints, expected) in cases {
        let (mut world, service) = cluster().await;
        world
            .cluster
            .load(slice("web-0", &service, endpoints))
            .unwrap();
        world.restart(&[DESCRIPTOR]).await;
        assert_eq!(world.writes_of(async {}).await, expected, "{why}");
        assert_eq!(
            world.endpoints(),
            ["10.0.0.1 ready serving", "10.0.0.2"],
            "{why}"
        );
        world.restart(&[DESCRIPTOR]).await;
        assert_eq!(world.writes_of(async {}).await, [""; 0], "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_reads_the_nodes_that_its_cache_lacks() {
    // (whether the node exists, endpoints)
    let cases: [(bool, &[&str]); 2] = [
        (true, &["10.0.0.1 ready serving", "10.0.0.2"]),
        (false, &[]),
    ];
    for (exists, expected) in cases {
        let (mut world, service) = cluster().await;
        world.cluster.delete("/api/v1/nodes/node").await.unwrap();
        let gone = world.cluster.revision();
        if exists {
            world.cluster.load(node("node", "a", "4")).unwrap();
        }
        let a = ("a", "10.0.0.1", true);
        world.cluster.load(slice("web-0", &service, &[a])).unwrap();
        let nodes = Matcher {
            resource: Some("nodes".to_owned()),
            ..Matcher::default()
        };
        world.cluster.faults().hold_view(nodes, gone);
        let term = world.cluster.revision();
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.term_start_rv = term;
                context
            })
            .await;
        assert_eq!(world.writes_of(async {}).await, ["update 200"], "{exists}");
        assert_eq!(world.endpoints(), expected, "{exists}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_of_another_manager_is_not_written() {
    let mut world = World::with_service(json!({})).await;
    world.restart(&[DESCRIPTOR]).await;
    assert_eq!(world.writes_of(async {}).await, [""; 0]);
}
