//! The batch period: changes of pods within it lead to one write.

use std::time::Duration;

use serde_json::json;

use super::{node, service};
use crate::endpointslice::DESCRIPTOR;
use crate::testing::world::World;

const MS: Duration = Duration::from_millis(1);

/// Delays of three changes, and the expected writes after them.
///
/// Upstream's rows, without its wait for the start of the controller. Here the Service has its
/// placeholder before the first change, so each change outside a batch is one more write.
const CASES: [(&str, &str, [u32; 3], usize); 3] = [
    ("no batching", "0s", [200, 100, 100], 3),
    ("one batch", "1s", [200, 100, 100], 1),
    ("two batches", "1s", [200, 100, 1000], 2),
];

/// A cluster with a Service, a batch period, and pods called `pod-0` and so on.
async fn batching(period: &str, pods: usize) -> World {
    let mut world = World::bare().await;
    world.cluster.load(node("node", "a", "4")).unwrap();
    let configure = |context: steersman_runtime::controller::ControllerContext| {
        context.with_flag("endpointslice-updates-batch-period", period)
    };
    for n in 0..pods {
        world
            .run_pod_at(&format!("pod-{n}"), "node", &format!("10.0.0.{}", n + 1))
            .await;
    }
    world.restart_with(&[DESCRIPTOR], configure).await;
    world.create(service(json!({}))).await;
    world.at_rest().await;
    world
}

/// Upstream: `TestPodAddsBatching`.
#[tokio::test(start_paused = true)]
async fn added_pods_are_batched() {
    for (case, period, delays, expected) in CASES {
        let world = batching(period, 0).await;
        let writes = world.writes_of(async {
            for (n, delay) in delays.into_iter().enumerate() {
                tokio::time::sleep(MS * delay).await;
                // One request creates a ready pod with an address, so it is one change. Others wait for it.
                let mut pod = super::pod(&format!("pod-{n}"), "node");
                let ip = format!("10.0.0.{}", n + 1);
                pod["status"] = json!({
                    "phase": "Running", "podIPs": [{"ip": ip}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                });
                world.cluster.load(pod_in_default(pod)).unwrap();
            }
        });
        assert_eq!(writes.await.len(), expected, "{case}");
        assert_eq!(world.endpoints().len(), 3, "{case}");
    }
}

/// Upstream: `TestPodUpdatesBatching`.
#[tokio::test(start_paused = true)]
async fn updated_pods_are_batched() {
    for (case, period, delays, expected) in CASES {
        let world = batching(period, 10).await;
        let writes = world.writes_of(async {
            for (n, delay) in delays.into_iter().enumerate() {
                tokio::time::sleep(MS * delay).await;
                let ip = format!("10.0.1.{n}");
                let status = json!({"podIP": ip, "podIPs": [{"ip": ip}]});
                world.pod_status(&format!("pod-{n}"), status).await;
            }
        });
        assert_eq!(writes.await.len(), expected, "{case}");
        let moved = world.endpoints();
        let moved = moved.iter().filter(|text| text.starts_with("10.0.1."));
        assert_eq!(moved.count(), 3, "{case}");
    }
}

/// Upstream: `TestPodDeleteBatching`.
#[tokio::test(start_paused = true)]
async fn deleted_pods_are_batched() {
    for (case, period, delays, expected) in CASES {
        let world = batching(period, 10).await;
        let writes = world.writes_of(async {
            for (n, delay) in delays.into_iter().enumerate() {
                tokio::time::sleep(MS * delay).await;
                world.kill(&format!("pod-{n}")).await;
            }
        });
        assert_eq!(writes.await.len(), expected, "{case}");
        assert_eq!(world.endpoints().len(), 7, "{case}");
    }
}

/// The pod with the namespace that a loaded object needs.
fn pod_in_default(mut pod: serde_json::Value) -> serde_json::Value {
    pod["metadata"]["namespace"] = json!("default");
    pod
}
