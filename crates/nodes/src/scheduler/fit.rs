//! Whether a pod fits a node, and the reasons for pods that fit no node.
//!
//! The checks and their texts are those of kube-scheduler's plugins NodeUnschedulable,
//! TaintToleration and NodeAffinity (`pkg/scheduler/framework/plugins`), in its order. Resources
//! and pod affinity have no effect.

use std::collections::BTreeMap;

use steersman_runtime::intern::Sym;
use steersman_runtime::object::{Node, Taint};
use steersman_runtime::scheduling::{Comparisons, Constraints, untolerated};

/// Key of the taint that an unschedulable node has.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Key of the taint that a node without the condition `Ready` has.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The effect that keeps new pods away from a node.
const NO_SCHEDULE: &str = "NoSchedule";

/// A node, with the fields that decide which pods it takes.
#[derive(Debug, Clone)]
pub(super) struct NodeFacts {
    /// The fields that controllers read too.
    pub(super) node: Node,
    /// `spec.unschedulable`, which `kubectl cordon` sets.
    pub(super) unschedulable: bool,
}

impl NodeFacts {
    /// Whether both take the same pods, as two versions of a node between which only heartbeats
    /// happened.
    pub(super) fn takes_same_pods(&self, other: &Self) -> bool {
        let key = |facts: &'_ Self| (facts.unschedulable, facts.node.is_ready());
        key(self) == key(other)
            && self.node.meta.labels == other.node.meta.labels
            && self.node.spec.taints == other.node.spec.taints
    }
}

/// A taint without a value, with the effect `NoSchedule`.
fn taint(key: &str) -> Taint {
    Taint {
        key: Sym::new(key),
        value: Sym::new(""),
        effect: Sym::new(NO_SCHEDULE),
    }
}

/// The first reason why a node does not take a pod; `None` if the pod fits.
pub(super) fn obstacle(
    constraints: &Constraints,
    NodeFacts {
        node,
        unschedulable,
    }: &NodeFacts,
) -> Option<&'static str> {
    let repels = |taint: &Taint| {
        untolerated([taint], &constraints.tolerations, Comparisons::Disabled).is_some()
    };
    if *unschedulable && repels(&taint(UNSCHEDULABLE)) {
        return Some("node(s) were unschedulable");
    }
    // Upstream's node lifecycle controller taints nodes that are not ready. Without it, the state
    // of the node has the same effect.
    let implied = (!node.is_ready()).then(|| taint(NOT_READY));
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), NO_SCHEDULE | "NoExecute");
    let mut taints = node.spec.taints.iter().filter(keeps_away).chain(&implied);
    if taints.any(repels) {
        return Some("node(s) had untolerated taint(s)");
    }
    (!constraints.selects(node)).then_some("node(s) didn't match Pod's node affinity/selector")
}

/// The message of a pod that fits none of `total` nodes, from the number of nodes per reason.
pub(super) fn nowhere(total: usize, reasons: &BTreeMap<&str, usize>) -> String {
    if total == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counts.sort_unstable();
    format!(
        "0/{total} nodes are available: {}. no new claims to deallocate, preemption: 0/{total} \
         nodes are available: {total} Preemption is not helpful for scheduling.",
        counts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_runtime::object::Object;

    use super::*;

    /// A ready node `n` with these labels and these further fields of its spec.
    fn node(labels: Value, spec: Value) -> NodeFacts {
        let unschedulable = spec["unschedulable"] == true;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let json =
            json!({"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": ready});
        NodeFacts {
            node: Node::decode(json.to_string().as_bytes()).unwrap(),
            unschedulable,
        }
    }

    fn constraints(spec: Value) -> Constraints {
        Constraints::of_pod(json!({ "spec": spec }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn node_selector_and_affinity_choose_nodes() {
        let affinity = |terms: Value| {
            let required = json!({ "nodeSelectorTerms": terms });
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let named = |name: &str| {
            affinity(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]),
            )
        };
        let mut both = named("n");
        both["nodeSelector"] = json!({"zone": "c"});
        // (why, spec of the pod, fits the node n with zone=b)
        let cases = [
            ("no rule", json!({}), true),
            ("selector", json!({"nodeSelector": {"zone": "b"}}), true),
            (
                "selector of another value",
                json!({"nodeSelector": {"zone": "c"}}),
                false,
            ),
            ("affinity", named("n"), true),
            ("affinity to another node", named("m"), false),
            ("no terms", affinity(json!([])), false),
            ("selector and affinity", both, false),
        ];
        for (why, spec, expected) in cases {
            let obstacle = obstacle(&constraints(spec), &node(json!({"zone": "b"}), json!({})));
            assert_eq!(obstacle.is_none(), expected, "{why}");
        }
    }

    #[test]
    fn taints_repel_pods_without_a_toleration() {
        let tainted = |effect: &str| {
            let taint = json!({"key": "k", "value": "v", "effect": effect});
            node(json!({}), json!({"taints": [taint]}))
        };
        let cordoned = || node(json!({}), json!({"unschedulable": true}));
        let not_ready = || NodeFacts {
            node: Node::decode(br#"{"metadata": {"name": "n"}}"#).unwrap(),
            unschedulable: false,
        };
        let taint = Some("node(s) had untolerated taint(s)");
        // (node, tolerations, obstacle)
        let cases = [
            (tainted("NoSchedule"), json!([]), taint),
            (tainted("NoExecute"), json!([]), taint),
            (tainted("PreferNoSchedule"), json!([]), None),
            (
                tainted("NoSchedule"),
                json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]),
                None,
            ),
            (
                tainted("NoSchedule"),
                json!([{"key": "k", "value": "other"}]),
                taint,
            ),
            (cordoned(), json!([]), Some("node(s) were unschedulable")),
            (
                cordoned(),
                json!([{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]),
                None,
            ),
            (
                not_ready(),
                json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}]),
                taint,
            ),
            (
                not_ready(),
                json!([{"key": NOT_READY, "operator": "Exists"}]),
                None,
            ),
        ];
        for (facts, tolerations, expected) in cases {
            let pod = constraints(json!({ "tolerations": tolerations }));
            let found = obstacle(&pod, &facts);
            assert_eq!(found, expected, "{facts:?} {tolerations}");
        }
    }

    #[test]
    fn heartbeats_change_no_placement() {
        let before = node(json!({"zone": "b"}), json!({}));
        // (why, node, takes the same pods)
        let cases = [
            (
                "heartbeat",
                node(json!({"zone": "b"}), json!({"podCIDR": "x"})),
                true,
            ),
            ("labels", node(json!({"zone": "c"}), json!({})), false),
            (
                "taints",
                node(json!({"zone": "b"}), json!({"taints": [{"key": "k"}]})),
                false,
            ),
            (
                "cordoned",
                node(json!({"zone": "b"}), json!({"unschedulable": true})),
                false,
            ),
        ];
        for (why, after, expected) in cases {
            assert_eq!(before.takes_same_pods(&after), expected, "{why}");
        }
    }

    #[test]
    fn messages_equal_those_of_kube_scheduler() {
        // Recorded from kube-scheduler 1.36.
        let reasons = BTreeMap::from([
            ("node(s) were unschedulable", 1),
            ("node(s) had untolerated taint(s)", 1),
            ("node(s) didn't match Pod's node affinity/selector", 1),
        ]);
        assert_eq!(
            nowhere(3, &reasons),
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), \
             1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is \
             not helpful for scheduling."
        );
        assert_eq!(
            nowhere(0, &BTreeMap::new()),
            "no nodes available to schedule pods"
        );
    }
}
