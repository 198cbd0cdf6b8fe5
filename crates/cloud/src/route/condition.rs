//! Decides about the condition `NetworkUnavailable` of a node.
//!
//! Upstream: `updateNetworkingCondition`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

const KIND: &str = "NetworkUnavailable";

/// The patch of the status of `node`; `None` if the condition is right already.
pub(super) fn patch(node: &Node, has_routes: bool, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = if has_routes {
        ("False", "RouteCreated", "RouteController created a route")
    } else {
        let message = "RouteController failed to create a route";
        ("True", "NoRouteCreated", message)
    };
    let mut conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let current = conditions.find(|condition| condition.type_ == KIND);
    if current.is_some_and(|c| c.status == status && c.reason.as_deref() == Some(reason)) {
        return None;
    }
    Some(json!({
        "metadata": {"uid": node.metadata.uid},
        "status": {"conditions": [{
            "type": KIND, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestUpdateNetworkingCondition`, `TestUpdateNetworkingConditionWithCalicoScenario`.
    #[test]
    fn the_condition_is_written_when_status_or_reason_differ() {
        // (current status and reason, routes exist, new status and reason)
        let cases = [
            (None, true, Some(("False", "RouteCreated"))),
            (None, false, Some(("True", "NoRouteCreated"))),
            (Some(("False", "RouteCreated")), true, None),
            (Some(("True", "NoRouteCreated")), false, None),
            (
                Some(("False", "RouteCreated")),
                false,
                Some(("True", "NoRouteCreated")),
            ),
            (
                Some(("True", "NoRouteCreated")),
                true,
                Some(("False", "RouteCreated")),
            ),
            (
                Some(("False", "CalicoIsUp")),
                true,
                Some(("False", "RouteCreated")),
            ),
            (
                Some(("True", "CalicoIsDown")),
                false,
                Some(("True", "NoRouteCreated")),
            ),
        ];
        for (current, has_routes, expected) in cases {
            let conditions = current.map(|(status, reason)| {
                json!([
                    {"type": "Ready", "status": "True", "reason": "RouteCreated"},
                    {"type": KIND, "status": status, "reason": reason},
                ])
            });
            let json = json!({"metadata": {"uid": "u"}, "status": {"conditions": conditions}});
            let node: Node = serde_json::from_value(json).unwrap();
            let patch = patch(&node, has_routes, Timestamp::UNIX_EPOCH);
            let found = patch.as_ref().map(|patch| {
                let condition = &patch["status"]["conditions"][0];
                assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
                (
                    condition["status"].as_str().unwrap(),
                    condition["reason"].as_str().unwrap(),
                )
            });
            assert_eq!(found, expected, "{current:?}");
        }
    }
}
