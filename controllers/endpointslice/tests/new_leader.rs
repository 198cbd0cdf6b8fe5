//! A new leader whose caches are older than its term.

use std::time::Duration;

use serde_json::json;
use steersman_devcluster::faults::Matcher;

use super::{NAME, service, trigger_time};
use crate::endpointslice::DESCRIPTOR;
use crate::testing::world::World;

/// Longer than several comparisons of the caches with the API server.
const A_WHILE: Duration = Duration::from_secs(20);

impl World {
    /// Stops the controller, and keeps the cluster.
    async fn without_controller(&mut self) {
        self.at_rest().await;
        self.restart(&[]).await;
    }

    /// Creates or replaces the Service, which has no cluster IP, with these families.
    fn load_service(&self, families: &[&str]) {
        let policy = ["SingleStack", "RequireDualStack"][families.len() - 1];
        let mut service = service(json!({
            "clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": families, "ipFamilyPolicy": policy,
        }));
        service["metadata"]["namespace"] = json!("default");
        service["metadata"]["uid"] = json!("uid-of-web");
        self.cluster.load(service).unwrap();
    }

    /// Creates a pod with an address of each family, which end in `n`.
    async fn start_dual_pod(&self, name: &str, n: u8) {
        self.create(super::pod(name, "node")).await;
        let ips = json!([{"ip": format!("10.0.0.{n}")}, {"ip": format!("fd00::{n}")}]);
        let status = json!({"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips});
        self.pod_status(name, status).await;
    }

    /// Changes a pod in a field that is no part of its endpoint.
    async fn touch_pod(&self, name: &str) {
        let touch = json!({"metadata": {"annotations": {"touched": "1"}}});
        self.patch("pods", name, touch).await;
    }

    /// Value of a counter, or number of observations of a histogram. The name has its labels.
    fn metric(&self, name: &str) -> f64 {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        let line = format!("endpoint_slice_controller_{name} ");
        let value = text.lines().find_map(|text| text.strip_prefix(&line));
        value.map_or(0.0, |value| value.parse().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_cache_of_services_deletes_no_slices_of_a_new_family() {
    let mut world = World::with_slices().await;
    world.load_service(&["IPv4"]);
    world.start_dual_pod("a", 1).await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.load_service(&["IPv4", "IPv6"]);
    world.without_controller().await;
    assert_eq!(world.endpoints(), ["10.0.0.1", "fd00::1"]);
    let view = world
        .take_over_behind(&[DESCRIPTOR], "services", before)
        .await;
    let writes = world.writes_of(tokio::time::sleep(A_WHILE)).await;
    assert_eq!(writes, [""; 0], "the cache lacks the family IPv6");
    let writes = world.writes_of(async { world.cluster.faults().remove(view) });
    assert_eq!(writes.await, [""; 0]);
    assert_eq!(world.endpoints(), ["10.0.0.1", "fd00::1"]);
}

#[tokio::test(start_paused = true)]
async fn one_sync_writes_both_families() {
    let mut world = World::with_slices().await;
    world.load_service(&["IPv4", "IPv6"]);
    world.start_dual_pod("a", 1).await;
    world.without_controller().await;
    // The cache of slices is complete, and does not show it.
    let before = world.cluster.revision();
    world.start_dual_pod("b", 2).await;
    let view = world
        .take_over_behind(&[DESCRIPTOR], "endpointslices", before)
        .await;
    let writes = world.writes_of(tokio::time::sleep(A_WHILE)).await;
    assert_eq!(writes, ["update 200"; 2]);
    let both = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"];
    assert_eq!(world.endpoints(), both);
    world.cluster.faults().remove(view);
    assert_eq!(world.writes_of(async {}).await, [""; 0]);
}

/// Upstream ends a sync with an old cache before it counts anything.
#[tokio::test(start_paused = true)]
async fn a_sync_on_old_caches_leaves_no_trace() {
    let mut world = World::with_slices().await;
    let mut hinted = service(json!({}));
    hinted["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let created = world.create(hinted).await["metadata"]["creationTimestamp"].clone();
    world.without_controller().await;
    let events = world.service_events().await.len();
    world.run_pod_at("a", "node", "10.0.0.1").await;
    let before = world.cluster.revision();
    world.touch_pod("a").await;
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    let writes = world.writes_of(tokio::time::sleep(A_WHILE)).await;
    assert_eq!(writes, [""; 0]);
    assert!(world.metric("syncs{result=\"stale\"}") > 1.0);
    for name in [
        "endpoints_added_per_sync_count",
        "endpoints_removed_per_sync_count",
        "endpoints_desired",
    ] {
        assert_eq!(world.metric(name), 0.0, "{name}");
    }
    assert_eq!(world.service_events().await.len(), events);

    let writes = world.writes_of(async { world.cluster.faults().remove(view) });
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(
        trigger_time(&world.slice()),
        created.as_str(),
        "the first sync of a Service has the time of its creation"
    );
    assert!(world.metric("endpoints_added_per_sync_count") >= 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_catches_up_during_a_sync_does_not_confirm_what_was_read() {
    let mut world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.run_pod_at("b", "node", "10.0.0.2").await;
    world.without_controller().await;
    let services = world.hold("services", before);
    let slow = Matcher::new("get", "services").client("endpointslice-controller");
    let slow = world.cluster.faults().delay(slow, A_WHILE, Some(1));
    let pods = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    let writes = world.writes_of(async {
        world.cluster.faults().met(slow).await;
        for view in [services, pods] {
            world.cluster.faults().remove(view);
        }
        // The event of this change brings the cache of pods beyond the start of the term.
        world.touch_pod("b").await;
        tokio::time::sleep(2 * A_WHILE).await;
    });
    assert_eq!(writes.await, [""; 0], "the sync read pods without b");
    let both = ["10.0.0.1 ready serving", "10.0.0.2 ready serving"];
    assert_eq!(world.endpoints(), both);
}

#[tokio::test(start_paused = true)]
async fn old_caches_of_any_type_lead_to_no_wrong_write() {
    for plural in ["services", "pods", "endpointslices"] {
        let mut world = World::with_service(json!({})).await;
        world.start_pod("a", "node", "10.0.0.1").await;
        world.at_rest().await;
        let before = world.cluster.revision();
        let published = json!({"spec": {"publishNotReadyAddresses": true}});
        world.patch("services", NAME, published).await;
        world.start_pod("b", "node", "10.0.0.2").await;
        world.without_controller().await;
        let expected = world.endpoints();
        let view = world.take_over_behind(&[DESCRIPTOR], plural, before).await;
        let writes = world.writes_of(tokio::time::sleep(A_WHILE)).await;
        assert_eq!(writes, [""; 0], "{plural}");
        world.cluster.faults().remove(view);
        assert_eq!(world.writes_of(async {}).await, [""; 0], "{plural}");
        assert_eq!(world.endpoints(), expected, "{plural}");
    }
}
