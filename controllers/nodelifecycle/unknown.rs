//! The patch for a node that has been silent for too long: its kubelet's conditions are `Unknown`.
//!
//! Upstream: the second half of `tryUpdateNodeHealth` in `node_lifecycle_controller.go`. It PUTs the
//! whole node; the cache here lacks whole nodes. The patch carries the resource version, so it fails
//! for a changed node as the PUT does.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::Node;
use steersman_values::clock::whole_seconds;

/// The conditions that kubelets own. `NetworkUnavailable` belongs to the network. Upstream:
/// `nodeConditionTypes`.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The patch of the status that makes all conditions of the kubelet `Unknown`.
///
/// The conditions keep their order, because the API server takes the order from the patch. A
/// condition that is `Unknown` already keeps its reason and its time. A missing one is added with
/// the creation of the node as its heartbeat.
pub(super) fn patch(node: &Node, now: Timestamp) -> Value {
    let now = whole_seconds(now).to_string();
    let mut kinds = OF_KUBELET;
    kinds.sort_by_key(|kind| {
        let mut conditions = node.status.conditions.iter();
        let place = conditions.position(|known| known.kind == **kind);
        place.unwrap_or(usize::MAX)
    });
    let changed = kinds.into_iter().filter_map(|kind| {
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
                "lastHeartbeatTime": node.meta.created.map(|time| Timestamp::from(time).to_string()),
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

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn conditions_keep_the_order_of_the_node() {
        let condition = |kind| json!({"type": kind, "status": "False"});
        let conditions = ["MemoryPressure", "NetworkUnavailable", "Ready"].map(condition);
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        let node = Node::decode(node.to_string().as_bytes()).unwrap();
        let patch = patch(&node, Timestamp::UNIX_EPOCH);
        let changed = patch["status"]["conditions"].as_array().unwrap().iter();
        let kinds: Vec<_> = changed.map(|condition| &condition["type"]).collect();
        let expected = ["MemoryPressure", "Ready", "DiskPressure", "PIDPressure"];
        assert_eq!(kinds, expected);
    }
}
