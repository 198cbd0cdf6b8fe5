//! Rules of nodes: the taints of unhealthy nodes, and the evictions from them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// A pod that tolerates all NoExecute taints of its node for ever is not evicted.
pub const TOLERATED: Rule = Rule {
    name: "no pod that tolerates the taints of its node is evicted",
    check: tolerated,
};
/// A zone gets one NoExecute taint in ten seconds, by the default rate.
pub const TAINT_RATE: Rule = Rule {
    name: "nodes of a zone are tainted at the rate of the zone",
    check: taint_rate,
};
/// While no node is ready, none gets a NoExecute taint. Neither does one in a small zone of which most
/// nodes are not ready.
pub const DISRUPTION: Rule = Rule {
    name: "disrupted zones get no taints",
    check: disruption,
};
/// A node that is ready gets no NoExecute taint.
pub const READY_NODE: Rule = Rule {
    name: "a ready node gets no NoExecute taint",
    check: ready_node,
};

/// The client of the node lifecycle and the taint eviction controller.
const NODE_CONTROLLER: &str = "node-controller";

/// The taints of the node lifecycle controller.
const KEYS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Two taints may be a second closer than the rate, because their times have whole seconds.
const APART: SignedDuration = SignedDuration::from_secs(9);

/// The NoExecute taints of a node.
fn no_execute(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.filter(|taint| taint["effect"] == "NoExecute")
}

/// The NoExecute taint of the node lifecycle controller on a node.
fn own_taint(node: &Value) -> Option<&Value> {
    no_execute(node).find(|taint| KEYS.iter().any(|key| taint["key"] == *key))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let fits = |field: &str| {
        let wanted = text(toleration, field);
        wanted.is_empty() || wanted == text(taint, field)
    };
    let is_equal = text(toleration, "value") == text(taint, "value");
    fits("effect") && fits("key") && (text(toleration, "operator") == "Exists" || is_equal)
}

fn tolerated(state: &State, change: &Change) -> Result<(), String> {
    let is_eviction = &*change.plural == "pods" && change.begins_deletion();
    let before = change.before.as_deref();
    let Some(pod) = before.filter(|_| is_eviction && change.is_by(NODE_CONTROLLER)) else {
        return Ok(());
    };
    let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let Some(node) = state.get("nodes", name) else {
        return Ok(());
    };
    let tolerations = || pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let is_forever = |taint: &Value| {
        let first = tolerations().find(|toleration| tolerates(toleration, taint));
        first.is_some_and(|toleration| toleration["tolerationSeconds"].is_null())
    };
    let mut versions = state.recent_versions("nodes", node);
    if versions.any(|node| no_execute(node).any(|taint| !is_forever(taint))) {
        return Ok(());
    }
    Err(format!("{} tolerates the taints of {name}", change.key))
}

/// The node of `change`, if the change gives it the first NoExecute taint of the controller.
fn newly_tainted(change: &Change) -> Option<&Value> {
    let is_update = &*change.plural == "nodes" && change.kind == ChangeKind::Updated;
    let was_tainted = change.before.as_deref().and_then(own_taint).is_some();
    let is_tainted = own_taint(&change.object).is_some();
    (is_update && is_tainted && !was_tainted && change.is_by(NODE_CONTROLLER))
        .then_some(&*change.object)
}

fn zone(node: &Value) -> &Value {
    &node["metadata"]["labels"]["topology.kubernetes.io/zone"]
}

fn taint_rate(state: &State, change: &Change) -> Result<(), String> {
    let Some(node) = newly_tainted(change) else {
        return Ok(());
    };
    let time = |node: &Value| -> Option<Timestamp> {
        own_taint(node)?["timeAdded"].as_str()?.parse().ok()
    };
    let at = time(node);
    let is_close = |other: &&Value| {
        let apart = time(other)
            .zip(at)
            .map(|(other, at)| other.duration_until(at));
        zone(other) == zone(node) && apart.is_some_and(|apart| apart.abs() < APART)
    };
    let close = state.all("nodes").filter(is_close).count();
    // A process that has just started has a token of its own.
    if close <= 2 {
        return Ok(());
    }
    Err(format!("{} is node {close} in {APART}", change.key))
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn disruption(state: &State, change: &Change) -> Result<(), String> {
    let Some(tainted) = newly_tainted(change) else {
        return Ok(());
    };
    let is_down = |node: &&Value| !state.recent_versions("nodes", node).any(is_ready);
    let down = |nodes: &[&Value]| nodes.iter().filter(|node| is_down(node)).count();
    let all: Vec<&Value> = state.all("nodes").collect();
    if down(&all) == all.len() {
        return Err(format!("{} is tainted, and no node is ready", change.key));
    }
    let zone: Vec<&Value> = all
        .into_iter()
        .filter(|node| zone(node) == zone(tainted))
        .collect();
    let down = down(&zone);
    let size = zone.len();
    // Flags `--unhealthy-zone-threshold` and `--large-cluster-size-threshold`.
    if down < size && down > 2 && down * 100 >= size * 55 && size <= 50 {
        return Err(format!(
            "{} is tainted, and {down} of {size} nodes of its zone are not ready",
            change.key
        ));
    }
    Ok(())
}

fn ready_node(state: &State, change: &Change) -> Result<(), String> {
    let Some(node) = newly_tainted(change) else {
        return Ok(());
    };
    if state.recent_versions("nodes", node).all(is_ready) {
        return Err(format!("{} is ready", change.key));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, with};
    use super::*;

    /// A node with its `Ready` condition and the times of its NoExecute taints.
    fn node(name: &str, ready: &str, tainted_at: &[&str]) -> Value {
        let taint = |time: &&str| json!({"key": KEYS[1], "effect": "NoExecute", "timeAdded": format!("2026-01-01T00:00:{time}Z")});
        let taints: Vec<Value> = tainted_at.iter().map(taint).collect();
        let mut node = with(
            object(name, json!({ "taints": taints })),
            "/status",
            json!({"conditions": [{"type": "Ready", "status": ready}]}),
        );
        node["metadata"]["namespace"] = json!("");
        node
    }

    fn pod(tolerations: Value) -> Value {
        object("p", json!({"nodeName": "n", "tolerations": tolerations}))
    }

    #[test]
    fn pods_that_tolerate_their_node_stay() {
        let all = || json!([{"operator": "Exists"}]);
        let minute = || json!([{"operator": "Exists", "tolerationSeconds": 60}]);
        let world = |tainted_at: &[&str], tolerations: Value| {
            vec![
                ("nodes", node("n", "Unknown", tainted_at)),
                ("pods", pod(tolerations)),
            ]
        };
        let case = |why, world: Vec<(&'static str, Value)>, by, breaks| {
            let pod = world[1].1.clone();
            (why, world, by, "pods", ChangeKind::Deleted, pod, breaks)
        };
        check(
            TOLERATED,
            [
                case(
                    "tolerates all",
                    world(&["00"], all()),
                    NODE_CONTROLLER,
                    true,
                ),
                case(
                    "tolerates a minute",
                    world(&["00"], minute()),
                    NODE_CONTROLLER,
                    false,
                ),
                case(
                    "tolerates nothing",
                    world(&["00"], json!([])),
                    NODE_CONTROLLER,
                    false,
                ),
                case(
                    "without taints",
                    world(&[], json!([])),
                    NODE_CONTROLLER,
                    true,
                ),
                case("by a user", world(&["00"], all()), "kubectl", false),
            ],
        );
    }

    #[test]
    fn zones_are_tainted_at_their_rate() {
        let world = |others: [&str; 2]| {
            let [a, b] = others;
            vec![
                ("nodes", node("a", "Unknown", &[a])),
                ("nodes", node("b", "Unknown", &[b])),
                ("nodes", node("n", "Unknown", &[])),
            ]
        };
        let case = |why, others, by, breaks| {
            let tainted = node("n", "Unknown", &["30"]);
            (
                why,
                world(others),
                by,
                "nodes",
                ChangeKind::Updated,
                tainted,
                breaks,
            )
        };
        check(
            TAINT_RATE,
            [
                case("at the rate", ["10", "20"], NODE_CONTROLLER, false),
                case("two at once", ["10", "30"], NODE_CONTROLLER, false),
                case("three at once", ["29", "30"], NODE_CONTROLLER, true),
                case("by a user", ["29", "30"], "kubectl", false),
            ],
        );
    }

    #[test]
    fn disrupted_zones_are_not_tainted() {
        let case = |why, ready: [&str; 5], by, breaks| {
            let others = ["a", "b", "c", "d", "e"].into_iter().zip(ready);
            let others = others.map(|(name, ready)| ("nodes", node(name, ready, &[])));
            let lost = ("nodes", node("n", "Unknown", &[]));
            let tainted = node("n", "Unknown", &["30"]);
            let world = others.chain([lost]).collect();
            (
                why,
                world,
                by,
                "nodes",
                ChangeKind::Updated,
                tainted,
                breaks,
            )
        };
        let three = ["True", "True", "True", "Unknown", "False"];
        let four = ["True", "True", "Unknown", "Unknown", "False"];
        check(
            DISRUPTION,
            [
                case("one of six", ["True"; 5], NODE_CONTROLLER, false),
                case("half", three, NODE_CONTROLLER, false),
                case("most", four, NODE_CONTROLLER, true),
                case("most, by a user", four, "kubectl", false),
                case("all", ["Unknown"; 5], NODE_CONTROLLER, true),
            ],
        );
    }

    #[test]
    fn ready_nodes_get_no_taint() {
        let case = |why, ready: &str, breaks| {
            let world = vec![("nodes", node("n", ready, &[]))];
            let tainted = node("n", ready, &["30"]);
            (
                why,
                world,
                NODE_CONTROLLER,
                "nodes",
                ChangeKind::Updated,
                tainted,
                breaks,
            )
        };
        check(
            READY_NODE,
            [
                case("ready", "True", true),
                case("silent", "Unknown", false),
            ],
        );
    }
}
