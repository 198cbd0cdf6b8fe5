//! Takeover of HorizontalPodAutoscalers at rest.

use std::time::Duration;

use serde_json::{Value, json};

use crate::podautoscaler;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// Longer than all timers of the controller.
const AN_HOUR: Duration = Duration::from_secs(3600);

/// A time before the takeover.
const CHANGED: &str = "2023-11-14T20:00:00Z";

fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

fn pod(name: &str) -> Value {
    let requests = json!({"requests": {"cpu": "500m"}});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": CHANGED});
    let mut pod = object(
        "v1",
        "Pod",
        name,
        json!({
            "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "i", "resources": requests}]},
            "status": {"phase": "Running", "startTime": CHANGED, "conditions": [ready]},
        }),
    );
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["metadata"]["annotations"] = json!({"simulate.steersman.dev/cpu": "250m"});
    pod
}

/// The conditions that upstream's manager leaves, and the current value of the metric.
fn status() -> Value {
    let condition = |kind, status, reason, message| {
        json!({
            "type": kind, "status": status, "lastTransitionTime": CHANGED, "reason": reason,
            "message": message,
        })
    };
    let current = json!({"averageUtilization": 50, "averageValue": "250m"});
    json!({
        "lastScaleTime": CHANGED, "currentReplicas": 2, "desiredReplicas": 2,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": [
            condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size"),
            condition(
                "ScalingActive",
                "True",
                "ValidMetricFound",
                "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
            ),
            condition(
                "ScalingLimited",
                "False",
                "DesiredWithinRange",
                "the desired count is within the acceptable range",
            ),
        ],
    })
}

#[tokio::test(start_paused = true)]
async fn autoscalers_at_rest_are_taken_over_without_a_write() {
    let mut world = World::bare().await;
    world.cluster.serve_metrics();
    let labels = json!({"matchLabels": {"app": "web"}});
    let target = json!({"spec": {"replicas": 2, "selector": labels, "template": {}}});
    let utilization = json!({"type": "Utilization", "averageUtilization": 50});
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
        "minReplicas": 1, "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
    });
    let autoscaler = json!({"spec": spec, "status": status()});
    for object in [
        pod("a"),
        pod("b"),
        object("apps/v1", "ReplicaSet", "web", target),
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "web",
            autoscaler,
        ),
    ] {
        world.cluster.load(object).unwrap();
    }
    world.restart(&[podautoscaler::DESCRIPTOR]).await;
    tokio::time::sleep(AN_HOUR).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
}
