//! The nodes of the cluster and the pods of one DaemonSet, as one sync sees them.
//!
//! All decisions of a sync read one layout, so each node is evaluated once. Nodes and pods are
//! sorted, so the pods of a node are a slice, and decisions are in the order of node names.
//!
//! Upstream: `getNodesToDaemonPods` in `daemon_controller.go`, which groups the pods again for each
//! step of a sync.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_helpers::scheduling::{Comparisons, Constraints};
use steersman_objects::{Node, Pod};

use super::placement::{Placement, place};

/// The nodes of the cluster, with the pods of one DaemonSet on them.
///
/// Both lists are sorted once per sync. The look-up of a node is a binary search, so a sync takes n log n
/// steps.
pub(super) struct Layout {
    /// Sorted by name.
    nodes: Vec<(Arc<Node>, Placement)>,
    /// Sorted by the name of the node, then in the order of [`by_age`].
    pods: Vec<DaemonPod>,
}

/// A pod and its target node.
struct DaemonPod {
    node: Arc<str>,
    pod: Arc<Pod>,
}

/// A node and the pods on it.
///
/// It borrows the layout, so that no step of a decision copies pods.
pub(super) struct OnNode<'a> {
    /// Name of the node.
    pub(super) name: &'a Arc<str>,
    /// `None` for a node that does not exist.
    pub(super) placement: Option<Placement>,
    pods: &'a [DaemonPod],
}

impl Layout {
    /// The layout of `pods`, which belong to a DaemonSet with these constraints, on `nodes`.
    ///
    /// The layout omits pods without a target node. It also omits finished pods that are terminating,
    /// since only their finalizers keep them.
    pub(super) fn new(
        constraints: &Constraints,
        comparisons: Comparisons,
        nodes: Vec<Arc<Node>>,
        pods: &[Arc<Pod>],
    ) -> Self {
        let place = |node: Arc<Node>| {
            let placement = place(constraints, &node, comparisons);
            (node, placement)
        };
        let mut nodes: Vec<_> = nodes.into_iter().map(place).collect();
        nodes.sort_unstable_by(|(a, _), (b, _)| a.meta.name.cmp(&b.meta.name));
        let located = |pod: &Arc<Pod>| {
            Some(DaemonPod {
                node: target_node(pod)?,
                pod: Arc::clone(pod),
            })
        };
        let present = pods.iter().filter(|pod| is_present(pod));
        let mut pods: Vec<_> = present.filter_map(located).collect();
        let by_node = |a: &DaemonPod, b: &DaemonPod| a.node.cmp(&b.node);
        pods.sort_unstable_by(|a, b| by_node(a, b).then_with(|| by_age(&a.pod, &b.pod)));
        Self { nodes, pods }
    }

    /// All nodes that exist.
    pub(super) fn nodes(&self) -> impl Iterator<Item = OnNode<'_>> {
        self.nodes.iter().map(|(node, placement)| OnNode {
            name: &node.meta.name,
            placement: Some(*placement),
            pods: self.on(&node.meta.name),
        })
    }

    /// The nodes that pods name and that do not exist.
    ///
    /// Their pods either wait for the scheduler, or are left to podgc, which deletes pods of missing nodes.
    pub(super) fn missing_nodes(&self) -> impl Iterator<Item = OnNode<'_>> {
        let groups = self.pods.chunk_by(|a, b| a.node == b.node);
        let on_nodes = groups.map(|pods| OnNode {
            name: &pods[0].node,
            placement: None,
            pods,
        });
        on_nodes.filter(|node| !self.has_node(node.name))
    }

    /// The number of nodes that should run a pod.
    ///
    /// Upstream counts it again in `updatedDesiredNodeCounts` and in `updateDaemonSetStatus`.
    pub(super) fn desired(&self) -> usize {
        let runs = |(_, placement): &&(_, Placement)| *placement == Placement::Run;
        self.nodes.iter().filter(runs).count()
    }

    /// The pods on `node`, by two binary searches.
    fn on(&self, node: &str) -> &[DaemonPod] {
        let start = self.pods.partition_point(|pod| *pod.node < *node);
        let count = self.pods[start..].partition_point(|pod| *pod.node == *node);
        &self.pods[start..start + count]
    }

    /// Whether the cache of nodes has `name`.
    fn has_node(&self, name: &str) -> bool {
        let order = |(node, _): &(Arc<Node>, Placement)| (*node.meta.name).cmp(name);
        self.nodes.binary_search_by(order).is_ok()
    }
}

impl<'a> OnNode<'a> {
    /// The pods on the node. A bound pod comes before an unbound one, and an older pod before a
    /// younger one.
    pub(super) fn pods(&self) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().map(|located| &located.pod)
    }

    /// The pods that are not terminating.
    ///
    /// Without surge, a terminating pod still blocks its node.
    pub(super) fn remaining_pods(&self) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods().filter(|pod| !pod.meta.is_terminating())
    }

    /// Whether the node has no pod.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

/// The node that a pod is bound to, or that its affinity names. Upstream: `GetTargetNodeName`.
pub(super) fn target_node(pod: &Pod) -> Option<Arc<str>> {
    let node = pod.node.as_ref().or(pod.details().target_node.as_ref());
    node.map(|name| name.to_arc())
}

/// False for a finished pod that is terminating.
///
/// Upstream: the flag `includeDeletedTerminal` of `getNodesToDaemonPods`, which is false for decisions.
pub(super) fn is_present(pod: &Pod) -> bool {
    !(pod.is_finished() && pod.meta.is_terminating())
}

/// A bound pod first, then the older one, then by name. Upstream: `podByCreationTimestampAndPhase`.
fn by_age(a: &Pod, b: &Pod) -> Ordering {
    let key = |pod: &Pod| (pod.node.is_none(), pod.meta.created);
    key(a)
        .cmp(&key(b))
        .then_with(|| a.meta.name.cmp(&b.meta.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::daemon_set;
    use crate::testing::pods::{PodBuilder, node, pod};

    fn layout(nodes: &[&str], pods: Vec<PodBuilder>) -> Layout {
        let ds = daemon_set("foo").build();
        let nodes = nodes.iter().map(|name| Arc::new(node(name, true, &[])));
        let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
        Layout::new(
            &ds.spec.constraints,
            Comparisons::Disabled,
            nodes.collect(),
            &pods,
        )
    }

    fn names(node: &OnNode<'_>) -> (String, Vec<String>) {
        let pods = node.pods().map(|pod| pod.meta.name.to_string());
        (node.name.to_string(), pods.collect())
    }

    fn expected(groups: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let owned = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        groups
            .iter()
            .map(|(node, pods)| ((*node).to_owned(), owned(pods)))
            .collect()
    }

    #[test]
    fn pods_are_grouped_by_their_target_node() {
        let found = layout(
            &["b", "a", "c"],
            vec![
                pod("bound").node("a"),
                pod("pinned").target("b"),
                pod("young").node("b").created(9),
                pod("old").node("b").created(5),
                pod("gone").node("x"),
                pod("pinned-gone").target("x"),
                pod("failed").node("a").phase("Failed").created(1),
                pod("ended").node("a").phase("Failed").deleted(1),
                pod("ending").node("c").deleted(1),
                pod("nowhere"),
            ],
        );
        let nodes: Vec<_> = found.nodes().map(|node| names(&node)).collect();
        let groups: [(&str, &[&str]); 3] = [
            ("a", &["bound", "failed"]),
            ("b", &["old", "young", "pinned"]),
            ("c", &["ending"]),
        ];
        assert_eq!(nodes, expected(&groups));
        let missing: Vec<_> = found.missing_nodes().map(|node| names(&node)).collect();
        assert_eq!(missing, expected(&[("x", &["gone", "pinned-gone"])]));
        assert_eq!(found.desired(), 3);
        let remaining: usize = found
            .nodes()
            .map(|node| node.remaining_pods().count())
            .sum();
        assert_eq!(remaining, 5, "all but the terminating pod");
    }

    #[test]
    fn a_layout_evaluates_each_node_once() {
        use super::super::placement::evaluations;
        let names: Vec<String> = (0..500).map(|n| format!("node-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pods = names
            .iter()
            .map(|name| pod(&format!("on-{name}")).node(name));
        evaluations::take();
        let found = layout(&names, pods.collect());
        assert_eq!(evaluations::take(), 500);
        assert_eq!(found.nodes().filter(|node| !node.is_empty()).count(), 500);
        assert_eq!((found.desired(), evaluations::take()), (500, 0));
    }
}
