//! Terminating pods on nodes with the taint `node.kubernetes.io/out-of-service`.
//!
//! The kubelet of such a node is down, so it cannot finish the deletion of its pods. The volumes of
//! these pods can move to other nodes only after the pods are gone.
//!
//! Upstream: `gcTerminating` in `pkg/controller/podgc/gc_controller.go`.

use std::sync::Arc;

use steersman_objects::{Node, Pod};

use super::Nodes;
use super::terminated::deletion_order;

/// The taint that an administrator adds to a node after the node went down. Every value and effect
/// counts.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The terminating pods on out-of-service nodes, in the order of their removal.
pub(super) fn terminating_pods(pods: &[Arc<Pod>], nodes: &Nodes) -> Vec<Arc<Pod>> {
    let mut found: Vec<Arc<Pod>> = pods
        .iter()
        .filter(|pod| pod.meta.is_terminating())
        .filter(|pod| {
            pod.node
                .as_deref()
                .and_then(|name| nodes.get(name))
                .is_some_and(|node| is_out_of_service(node))
        })
        .cloned()
        .collect();
    found.sort_by(|a, b| deletion_order(a, b));
    found
}

/// Whether the node has the taint and is not ready. The kubelet of a ready node removes its pods.
fn is_out_of_service(node: &Node) -> bool {
    !node.is_ready()
        && node
            .spec
            .taints
            .iter()
            .any(|taint| &*taint.key == OUT_OF_SERVICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::podgc::by_name;
    use crate::testing::pods::{node, pod};

    #[test]
    fn gc_terminating() {
        let taint = |effect| [(OUT_OF_SERVICE, effect)];
        let nodes = [
            node("worker-0", false, &taint("NoExecute")),
            node("worker-1", false, &[]),
            node("worker-2", true, &[]),
            node("worker-3", false, &taint("NoSchedule")),
            node("worker-4", false, &taint("PreferNoSchedule")),
            node("worker-5", true, &taint("NoExecute")),
            node(
                "worker-6",
                false,
                &[("node.kubernetes.io/not-ready", "NoExecute")],
            ),
        ];
        let nodes = by_name(nodes.map(Arc::new).to_vec());
        // (name, phase, terminating, node, deleted)
        let cases = [
            ("a1", "", false, "worker-0", false),
            ("b1", "", true, "worker-0", true),
            ("c1", "Pending", false, "worker-0", false),
            ("d1", "Running", false, "worker-0", false),
            ("e1", "Unknown", false, "worker-0", false),
            ("f1", "Running", true, "worker-0", true),
            ("g1", "Failed", true, "worker-0", true),
            ("h1", "Succeeded", true, "worker-0", true),
            ("b2", "", true, "worker-1", false),
            ("d2", "Running", false, "worker-1", false),
            ("b3", "", true, "worker-2", false),
            ("b4", "", true, "worker-3", true),
            ("b5", "", true, "worker-4", true),
            ("a5", "", false, "worker-4", false),
            ("ready again", "Running", true, "worker-5", false),
            ("another taint", "Running", true, "worker-6", false),
            ("node unknown", "Running", true, "worker-9", false),
            ("not bound", "Running", true, "", false),
        ];
        for (name, phase, terminating, node, deleted) in cases {
            let built = pod(name).phase(phase).node(node);
            let pod = Arc::new(if terminating { built.deleted(0) } else { built }.build());
            assert_eq!(
                terminating_pods(&[pod], &nodes).len(),
                usize::from(deleted),
                "{name}"
            );
        }
    }
}
