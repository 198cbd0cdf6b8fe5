//! Topology hints: CPU of zones, changes of nodes, restarts.

use serde_json::{Value, json};

use super::{NAME, endpoints_of, node, service};
use crate::endpointslice::DESCRIPTOR;
use crate::testing::world::World;

/// A Service with topology hints, and two pods in each of two zones with equal CPU.
async fn hinted() -> World {
    let mut world = World::bare().await;
    for zone in ["a", "b"] {
        world
            .cluster
            .load(node(&format!("node-{zone}"), zone, "4"))
            .unwrap();
    }
    for (n, zone) in ["a", "a", "b", "b"].into_iter().enumerate() {
        world
            .run_pod_at(
                &format!("pod-{n}"),
                &format!("node-{zone}"),
                &format!("10.0.0.{n}"),
            )
            .await;
    }
    world.restart(&[DESCRIPTOR]).await;
    let mut service = service(json!({}));
    service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    world.create(service).await;
    world.at_rest().await;
    world
}

impl World {
    /// The hinted zones of all endpoints, in the order of the endpoints.
    fn hinted_zones(&self) -> Vec<Value> {
        let zone = |endpoint: &Value| endpoint["hints"]["forZones"][0]["name"].clone();
        endpoints_of(&self.slice()).iter().map(zone).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_hinted_to_their_zones_until_the_nodes_change() {
    let world = hinted().await;
    assert_eq!(world.hinted_zones(), ["a", "a", "b", "b"]);
    let enabled = "Topology Aware Hints has been enabled, addressType: IPv4";
    let events = world.service_events().await;
    assert_eq!(
        events,
        [("TopologyAwareHintsEnabled".to_owned(), enabled.to_owned())]
    );

    // A third zone with most of the CPU needs endpoints.
    let writes = world.writes_of(async {
        world.cluster.load(node("node-c", "c", "16")).unwrap();
    });
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(
        world.hinted_zones(),
        vec![Value::Null; 4],
        "the minimums of three zones exceed 4 endpoints"
    );

    let writes = world.writes_of(async {
        let off =
            json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": null}}});
        world.patch("services", NAME, off).await;
    });
    assert_eq!(writes.await, [""; 0], "no hints are left to remove");
}

#[tokio::test(start_paused = true)]
async fn removing_the_annotation_removes_the_hints() {
    let world = hinted().await;
    let writes = world.writes_of(async {
        let off =
            json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": null}}});
        world.patch("services", NAME, off).await;
    });
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(world.hinted_zones(), vec![Value::Null; 4]);
    let disabled = "Topology Aware Hints has been disabled, addressType: IPv4".to_owned();
    let events = world.service_events().await;
    assert!(
        events.contains(&("TopologyAwareHintsDisabled".to_owned(), disabled)),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_hints() {
    let mut world = hinted().await;
    world.restart(&[DESCRIPTOR]).await;
    assert_eq!(world.writes_of(async {}).await, [""; 0]);
    assert_eq!(world.hinted_zones(), ["a", "a", "b", "b"]);
}

#[tokio::test(start_paused = true)]
async fn traffic_distribution_hints_zones_and_nodes() {
    let world = World::with_service(json!({"trafficDistribution": "PreferSameNode"})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let hints = json!({"forNodes": [{"name": "node"}], "forZones": [{"name": "a"}]});
    assert_eq!(endpoints_of(&world.slice())[0]["hints"], hints);
    let writes = world.writes_of(async {
        world
            .patch(
                "services",
                NAME,
                json!({"spec": {"trafficDistribution": null}}),
            )
            .await;
    });
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(endpoints_of(&world.slice())[0]["hints"], Value::Null);
}
