//! Marks pods of a silent node as not ready. So Services send them no requests.
//!
//! Upstream: `MarkPodsNotReady` in `pkg/controller/util/node`. It PUTs the whole pod; the cache
//! here lacks whole pods. The patch carries the resource version, so it fails for a changed pod
//! as the PUT does.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::Pod;
use steersman_values::clock::whole_seconds;

/// The patch of the status that sets the `Ready` condition of `pod` to `False`. `None` if the pod
/// lacks the condition, or if it is `False` already. All other conditions stay: the kubelet may be
/// alive and know them better.
pub(super) fn not_ready(pod: &Pod, now: Timestamp) -> Option<Value> {
    let ready = pod.conditions.iter().find(|c| c.kind == *"Ready")?;
    if ready.status == *"False" {
        return None;
    }
    // The directive keeps the order of the conditions.
    let order = pod.conditions.iter().map(|c| json!({"type": &*c.kind}));
    let condition = json!({
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": whole_seconds(now).to_string(),
    });
    Some(json!({
        "metadata": {
            "uid": pod.meta.uid.to_string(),
            "resourceVersion": pod.meta.resource_version.to_string(),
        },
        "status": {
            "$setElementOrder/conditions": order.collect::<Vec<_>>(),
            "conditions": [condition],
        },
    }))
}
