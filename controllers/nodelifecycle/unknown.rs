//! The status of a node that has been silent for too long: its kubelet's conditions are `Unknown`.
//!
//! Upstream: the second half of `tryUpdateNodeHealth` in `node_lifecycle_controller.go`.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_runtime::clock::whole_seconds;
use steersman_runtime::object::Node;

/// The conditions that kubelets own. `NetworkUnavailable` belongs to the network.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The served status of `node` with all conditions of the kubelet `Unknown`.
pub(super) fn status(node: &Node, now: Timestamp) -> Value {
    let mut object = node.document.to_object();
    let mut status = match object.remove("status") {
        Some(status @ Value::Object(_)) => status,
        _ => json!({}),
    };
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let now = json!(whole_seconds(now).to_string());
    let created = json!(node.meta.created.map(|time| time.to_string()));
    let conditions = status["conditions"].as_array_mut().into_iter();
    for conditions in conditions {
        for kind in OF_KUBELET {
            match conditions.iter_mut().find(|known| known["type"] == kind) {
                Some(known) if known["status"] == "Unknown" => {}
                Some(known) => {
                    known["status"] = json!("Unknown");
                    known["reason"] = json!("NodeStatusUnknown");
                    known["message"] = json!("Kubelet stopped posting node status.");
                    known["lastTransitionTime"] = now.clone();
                }
                None => conditions.push(json!({
                    "type": kind,
                    "status": "Unknown",
                    "lastHeartbeatTime": created,
                    "lastTransitionTime": now,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                })),
            }
        }
    }
    status
}
