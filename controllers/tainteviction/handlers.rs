//! Which changes of pods and nodes enqueue their keys.
//!
//! Upstream: `PodUpdated` and `NodeUpdated` in `taint_eviction.go`.

use steersman_objects::{Node, Object, ObjectKey, Pod};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::tolerance::no_execute;

/// Adds the handlers.
pub(super) fn register(
    pods: &SharedInformer<Pod>,
    pod_queue: &WorkQueue<ObjectKey>,
    nodes: &SharedInformer<Node>,
    node_queue: &WorkQueue<ObjectKey>,
) {
    let queue = pod_queue.clone();
    pods.add_handler(move |change| {
        if is_relevant_to_pod(change) {
            queue.add(change.object().key());
        }
    });
    let queue = node_queue.clone();
    nodes.add_handler(move |change| {
        if is_relevant_to_node(change) {
            queue.add(change.object().key());
        }
    });
}

/// Whether the eviction of the pod may change. Only bound pods are evicted. Labels and status of a
/// pod have no influence. A deletion cancels its timer.
fn is_relevant_to_pod(change: Change<'_, Pod>) -> bool {
    match change {
        Change::Added { object, .. } | Change::Deleted { object, .. } => object.node.is_some(),
        Change::Updated { old, new } => {
            old.meta.uid != new.meta.uid
                || old.node != new.node
                || old.spec.tolerations != new.spec.tolerations
        }
    }
}

/// Whether the evictions from the node may change. Taints with other effects have no influence.
fn is_relevant_to_node(change: Change<'_, Node>) -> bool {
    match change {
        Change::Added { .. } | Change::Deleted { .. } => true,
        Change::Updated { old, new } => {
            !no_execute(&old.spec.taints).eq(no_execute(&new.spec.taints))
        }
    }
}
