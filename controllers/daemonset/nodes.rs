//! The DaemonSets that a change of a node concerns.
//!
//! node -> queue of nodes -> one evaluation per DaemonSet -> queue of DaemonSets
//!
//! A sync evaluates all nodes, so it should run only if the change of the node matters. This check
//! costs one evaluation per DaemonSet, and one look-up of the pods on the node.
//!
//! Upstream: `syncNodeUpdate` in `daemon_controller.go`.

use std::collections::HashSet;
use std::convert::Infallible;

use steersman_helpers::scheduling::{Comparisons, PodsByNode};
use steersman_objects::{DaemonSet, Meta, Node, Object, ObjectKey};
use steersman_runtime::informer::Store;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use super::placement::{Placement, place};

/// Enqueues the DaemonSets of changed nodes.
///
/// Its queue has keys of nodes, and several changes of one node become one evaluation.
pub(super) struct NodeSyncer {
    pub(super) nodes: Store<Node>,
    pub(super) daemon_sets: Store<DaemonSet>,
    pub(super) pods: PodsByNode,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) comparisons: Comparisons,
}

impl Syncer for NodeSyncer {
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Infallible> {
        let Some(node) = self.nodes.get(key) else {
            // Pods that were bound to it enqueue their owners when podgc deletes them.
            tracing::debug!("Node not found, skipping update");
            return Ok(Requeue::Never);
        };
        // Pods that wait for the scheduler are not among them, as upstream. If their node no longer fits, the
        // next event of their owner tells.
        let pods = self.pods.bound_to(&node.meta.name);
        let owners: HashSet<(&str, &str)> =
            pods.iter().filter_map(|pod| owner(&pod.meta)).collect();
        for ds in self.daemon_sets.list() {
            let placement = place(&ds.spec.constraints, &node, self.comparisons);
            let has_pod = owners.contains(&(&*ds.meta.namespace, &*ds.meta.name));
            if concerns(placement, has_pod, ds.status.number_misscheduled) {
                self.queue.add(ds.key());
            }
        }
        Ok(Requeue::Never)
    }
}

/// Namespace and name of the DaemonSet that controls a pod. As upstream, the UID does not matter:
/// one sync too many is harmless.
fn owner(pod: &Meta) -> Option<(&str, &str)> {
    let reference = pod.controller()?;
    (*reference.kind == *DaemonSet::RESOURCE.kind).then_some((&*pod.namespace, &*reference.name))
}

/// Whether a DaemonSet has to sync for a node with this placement.
///
/// A pod on a node that should have none is to be deleted or counted as misscheduled. Upstream
/// counts it with the next event of the DaemonSet (kubernetes/kubernetes#132477 mended only the way
/// back). A pod that should run matters while the status counts misscheduled pods, since it may be
/// one of them.
fn concerns(placement: Placement, has_pod: bool, misscheduled: i32) -> bool {
    if has_pod {
        placement != Placement::Run || misscheduled > 0
    } else {
        placement == Placement::Run
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus::Registry;
    use serde_json::json;
    use steersman_objects::Pod;
    use steersman_runtime::workqueue::QueueMetrics;

    use super::*;
    use crate::testing::daemon_set;
    use crate::testing::pods::{node, pod};

    #[test]
    fn a_node_concerns_a_daemon_set_if_its_pods_may_change() {
        use Placement::{Keep, Remove, Run};
        // (placement, has a pod, misscheduled, concerns)
        let cases = [
            (Run, false, 0, true),
            (Run, true, 0, false),
            (Run, true, 1, true),
            (Keep, false, 0, false),
            (Keep, true, 0, true),
            (Keep, true, 1, true),
            (Remove, false, 0, false),
            (Remove, false, 1, false),
            (Remove, true, 0, true),
        ];
        for (placement, has_pod, misscheduled, expected) in cases {
            let found = concerns(placement, has_pod, misscheduled);
            assert_eq!(found, expected, "{placement:?} {has_pod} {misscheduled}");
        }
    }

    /// A syncer over caches of these objects.
    fn syncer(daemon_sets: Vec<DaemonSet>, nodes: Vec<Node>, pods: Vec<Pod>) -> NodeSyncer {
        let pods: Store<Pod> = pods.into_iter().map(Arc::new).collect();
        NodeSyncer {
            nodes: nodes.into_iter().map(Arc::new).collect(),
            daemon_sets: daemon_sets.into_iter().map(Arc::new).collect(),
            pods: PodsByNode::of(&pods),
            queue: WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap()),
            comparisons: Comparisons::Disabled,
        }
    }

    fn owned(name: &str, node: &str, kind: &str, owner: &str) -> Pod {
        let reference = json!({"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": true});
        pod(name)
            .node(node)
            .metadata("ownerReferences", json!([reference]))
            .build()
    }

    /// The second half of `TestUpdateNode`.
    #[tokio::test(start_paused = true)]
    async fn update_node() {
        let selecting = || daemon_set("ds").pod_spec(json!({"nodeSelector": {"color": "blue"}}));
        let blue = || {
            let json = json!({"metadata": {"name": "node1", "labels": {"color": "blue"}}});
            Node::decode(json.to_string().as_bytes()).unwrap()
        };
        let plain = || node("node1", true, &[]);
        let misscheduled = || selecting().status("numberMisscheduled", 1).build();
        let own = || owned("a", "node1", "DaemonSet", "ds");
        // (test, DaemonSet, node, pods, enqueued)
        let cases = [
            (
                "Node labels changed",
                selecting().build(),
                blue(),
                vec![],
                true,
            ),
            (
                "Node taints changed",
                daemon_set("ds").build(),
                plain(),
                vec![],
                true,
            ),
            (
                "Pod transitions from misscheduled to scheduled due to node label change",
                misscheduled(),
                blue(),
                vec![own()],
                true,
            ),
            (
                "the node does not fit",
                selecting().build(),
                plain(),
                vec![],
                false,
            ),
            (
                "the node does not fit any more",
                selecting().build(),
                plain(),
                vec![own()],
                true,
            ),
            (
                "the pod stays",
                selecting().build(),
                blue(),
                vec![own()],
                false,
            ),
            (
                "pod of another kind",
                selecting().build(),
                blue(),
                vec![owned("a", "node1", "ReplicaSet", "ds")],
                true,
            ),
            (
                "pod of another DaemonSet",
                selecting().build(),
                blue(),
                vec![owned("a", "node1", "DaemonSet", "other")],
                true,
            ),
            (
                "pod on another node",
                selecting().build(),
                blue(),
                vec![owned("a", "node2", "DaemonSet", "ds")],
                true,
            ),
        ];
        for (test, ds, node, pods, expected) in cases {
            let syncer = syncer(vec![ds], vec![node], pods);
            let Ok(_) = syncer.sync(&ObjectKey::new("", "node1")).await;
            assert_eq!(!syncer.queue.is_empty(), expected, "{test}");
        }
        let empty = syncer(vec![daemon_set("ds").build()], vec![], vec![]);
        let Ok(_) = empty.sync(&ObjectKey::new("", "node1")).await;
        assert!(empty.queue.is_empty(), "the node is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_costs_one_evaluation_per_daemon_set() {
        use super::super::placement::evaluations;
        for cluster in [10, 5_000] {
            let nodes = (0..cluster).map(|n| node(&format!("node-{n}"), true, &[]));
            let pods = (0..cluster).map(|n| {
                owned(
                    &format!("pod-{n}"),
                    &format!("node-{n}"),
                    "DaemonSet",
                    "ds-0",
                )
            });
            let sets = (0..20).map(|n| daemon_set(&format!("ds-{n}")).build());
            let syncer = syncer(sets.collect(), nodes.collect(), pods.collect());
            evaluations::take();
            let Ok(_) = syncer.sync(&ObjectKey::new("", "node-7")).await;
            assert_eq!(evaluations::take(), 20, "{cluster} nodes");
            assert_eq!(syncer.queue.len(), 19, "all DaemonSets without a pod there");
        }
    }
}
