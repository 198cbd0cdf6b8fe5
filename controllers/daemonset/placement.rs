//! Whether a node should run a pod of a DaemonSet.
//!
//! Resources, ports and other pods have no influence: the scheduler checks them. An evaluation
//! allocates no memory. One sync evaluates each node once, and a change of a node evaluates it once
//! per DaemonSet. Upstream: `NodeShouldRunDaemonPod` in `daemon_controller.go`.

use steersman_helpers::scheduling::{Comparisons, Constraints, untolerated};
use steersman_objects::{Node, Taint};

use super::tolerations;

/// The answer for one node.
///
/// Upstream returns two booleans, `shouldRun` and `shouldContinueRunning`. The fourth combination does not
/// occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// The node should have a pod.
    Run,
    /// The node gets no pod, and an existing pod stays.
    Keep,
    /// The node gets no pod, and an existing pod is deleted.
    Remove,
}

impl Placement {
    /// Whether an existing pod stays.
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Run | Self::Keep)
    }
}

/// The reason why a node gets no pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle<'a> {
    /// The pods are for another node.
    Name,
    /// The node selector or the required affinity does not match.
    Labels,
    /// The pods do not tolerate this taint.
    Taint(&'a Taint),
}

/// The placement of pods with these constraints on `node`.
///
/// A taint `NoSchedule` that the pod does not tolerate keeps an existing pod, and a taint
/// `NoExecute` removes it.
///
/// Upstream: the second boolean of `NodeShouldRunDaemonPod` tells whether an existing pod stays.
pub(super) fn place(constraints: &Constraints, node: &Node, comparisons: Comparisons) -> Placement {
    match obstacle(constraints, node, comparisons) {
        None => Placement::Run,
        Some(Obstacle::Taint(taint)) if taint.effect == *"NoSchedule" => Placement::Keep,
        Some(_) => Placement::Remove,
    }
}

/// The reason why pods with these constraints do not run on `node`.
///
/// The order decides about the answer: the name, then the labels, then taints. Of taints, `NoExecute` comes
/// first, because it also removes pods.
pub(super) fn obstacle<'a>(
    constraints: &Constraints,
    node: &'a Node,
    comparisons: Comparisons,
) -> Option<Obstacle<'a>> {
    #[cfg(test)]
    evaluations::count();
    let is_other = |name: &str| *name != *node.meta.name;
    if constraints.node_name.as_deref().is_some_and(is_other) {
        return Some(Obstacle::Name);
    }
    if !constraints.selects(node) {
        return Some(Obstacle::Labels);
    }
    let repelling = |effect: &str| {
        let is_relevant = |taint: &&'a Taint| {
            taint.effect == *effect
                && !tolerations::tolerates(constraints.host_network, &taint.key, effect)
        };
        let taints = node.spec.taints.iter().filter(is_relevant);
        untolerated(taints, &constraints.tolerations, comparisons)
    };
    repelling("NoExecute")
        .or_else(|| repelling("NoSchedule"))
        .map(Obstacle::Taint)
}

/// The number of evaluations on this thread, for tests of the amount of work.
#[cfg(test)]
pub(super) mod evaluations {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.with(|count| count.set(count.get() + 1));
    }

    /// The evaluations since the last call.
    pub(crate) fn take() -> usize {
        COUNT.with(|count| count.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;
    use crate::testing::daemon_set;

    fn node(labels: Value, taints: Value) -> Node {
        let json = json!({"metadata": {"name": "test-node", "labels": labels}, "spec": {"taints": taints}});
        Node::decode(json.to_string().as_bytes()).unwrap()
    }

    fn placement(spec: Value, node: &Node) -> Placement {
        let ds = daemon_set("foo").pod_spec(spec).build();
        place(&ds.spec.constraints, node, Comparisons::Disabled)
    }

    /// A spec with a required affinity of one term with this requirement.
    fn affinity(part: &str, key: &str, operator: &str, values: Value) -> Value {
        let term = json!({ part: [{"key": key, "operator": operator, "values": values}] });
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
    }

    #[test]
    fn node_should_run_daemon_pod() {
        use Placement::{Remove, Run};
        let labels = json!({"name": "simple-daemon", "type": "production"});
        let labelled = || node(labels.clone(), json!([]));
        let cordoned = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
        let container =
            |field: &str, value: Value| json!({"containers": [{"name": "a", field: value}]});
        let resources = |memory: &str, cpu: &str| {
            container(
                "resources",
                json!({"requests": {"memory": memory, "cpu": cpu}}),
            )
        };
        let port = container("ports", json!([{"containerPort": 80, "hostPort": 666}]));
        let typed = |value: &str| affinity("matchExpressions", "type", "In", json!([value]));
        let other_type = json!({"nodeSelector": {"name": "simple-daemon", "type": "test"}});
        // (predicateName, pod spec, node, placement)
        let cases = [
            ("ShouldRunDaemonPod", json!({}), labelled(), Run),
            (
                "InsufficientResourceError",
                resources("75M", "75m"),
                labelled(),
                Run,
            ),
            (
                "ErrPodNotMatchHostName",
                json!({"nodeName": "other-node"}),
                labelled(),
                Remove,
            ),
            ("ErrPodNotFitsHostPorts", port, labelled(), Run),
            (
                "InsufficientResourceError",
                resources("100M", "200m"),
                labelled(),
                Run,
            ),
            (
                "ShouldRunDaemonPod",
                resources("100M", "50m"),
                labelled(),
                Run,
            ),
            ("ErrNodeSelectorNotMatch", other_type, labelled(), Remove),
            (
                "ShouldRunDaemonPod",
                json!({ "nodeSelector": labels }),
                labelled(),
                Run,
            ),
            ("ErrPodAffinityNotMatch", typed("test"), labelled(), Remove),
            ("ShouldRunDaemonPod", typed("production"), labelled(), Run),
            (
                "ShouldRunDaemonPodOnUnschedulableNode",
                json!({}),
                node(labels.clone(), cordoned),
                Run,
            ),
            // Not upstream's:
            (
                "own name",
                json!({"nodeName": "test-node"}),
                labelled(),
                Run,
            ),
            ("empty name", json!({"nodeName": ""}), labelled(), Run),
            (
                "excluded by name",
                affinity(
                    "matchFields",
                    "metadata.name",
                    "NotIn",
                    json!(["test-node"]),
                ),
                labelled(),
                Remove,
            ),
        ];
        for (name, spec, node, expected) in cases {
            assert_eq!(placement(spec, &node), expected, "{name}");
        }
    }

    #[test]
    fn taints_keep_or_remove_pods() {
        use Placement::{Keep, Remove, Run};
        let taint = |effect: &str| json!({"key": "dedicated", "value": "user1", "effect": effect});
        let tolerated = |effect: &str| json!({"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "user1", "effect": effect}]});
        let problem = |name: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{name}"), "effect": effect});
        // (why, pod spec, taints, placement)
        let cases = [
            ("NoSchedule", json!({}), vec![taint("NoSchedule")], Keep),
            ("NoExecute", json!({}), vec![taint("NoExecute")], Remove),
            (
                "PreferNoSchedule",
                json!({}),
                vec![taint("PreferNoSchedule")],
                Run,
            ),
            (
                "tolerated NoSchedule",
                tolerated("NoSchedule"),
                vec![taint("NoSchedule")],
                Run,
            ),
            (
                "tolerated NoExecute",
                tolerated("NoExecute"),
                vec![taint("NoExecute")],
                Run,
            ),
            (
                "one of two tolerated",
                tolerated("NoExecute"),
                vec![taint("NoExecute"), taint("NoSchedule")],
                Keep,
            ),
            (
                "both",
                json!({}),
                vec![taint("NoSchedule"), taint("NoExecute")],
                Remove,
            ),
            (
                "not ready",
                json!({}),
                vec![problem("not-ready", "NoExecute")],
                Run,
            ),
            (
                "unreachable",
                json!({}),
                vec![problem("unreachable", "NoExecute")],
                Run,
            ),
            (
                "pressure",
                json!({}),
                vec![
                    problem("disk-pressure", "NoSchedule"),
                    problem("memory-pressure", "NoSchedule"),
                    problem("pid-pressure", "NoSchedule"),
                ],
                Run,
            ),
            (
                "network unavailable",
                json!({}),
                vec![problem("network-unavailable", "NoSchedule")],
                Keep,
            ),
            (
                "network unavailable, host network",
                json!({"hostNetwork": true}),
                vec![problem("network-unavailable", "NoSchedule")],
                Run,
            ),
        ];
        for (why, spec, taints, expected) in cases {
            assert_eq!(
                placement(spec, &node(json!({}), json!(taints))),
                expected,
                "{why}"
            );
        }
    }
}
