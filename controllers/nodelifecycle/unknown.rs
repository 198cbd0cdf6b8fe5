//! The patch for a node that has been silent for too long: its kubelet's conditions are `Unknown`.
//!
//! Upstream: the second half of `tryUpdateNodeHealth` in `node_lifecycle_controller.go`. It PUTs the
//! whole node; the cache here lacks whole nodes. The patch carries the resource version, so it fails
//! for a changed node as the PUT does.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_runtime::clock::whole_seconds;
use steersman_runtime::object::Node;

/// The conditions that kubelets own. `NetworkUnavailable` belongs to the network.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The patch of the status that makes all conditions of the kubelet `Unknown`.
pub(super) fn patch(node: &Node, now: Timestamp) -> Value {
    let now = whole_seconds(now).to_string();
    let changed = OF_KUBELET.into_iter().filter_map(|kind| {
        let mut conditions = node.status.conditions.iter();
        match conditions.find(|known| known.kind == *kind) {
            Some(known) if known.status == *"Unknown" => None,
            Some(_) => Some(json!({
                "type": kind,
                "status": "Unknown",
                "lastTransitionTime": now,
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            })),
            None => Some(json!({
                "type": kind,
                "status": "Unknown",
                "lastHeartbeatTime": node.meta.created.map(|time| time.to_string()),
                "lastTransitionTime": now,
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
            })),
        }
    });
    json!({
        "metadata": {
            "uid": node.meta.uid.to_string(),
            "resourceVersion": node.meta.resource_version.to_string(),
        },
        "status": {"conditions": changed.collect::<Vec<_>>()},
    })
}
