//! The DaemonSets that a change enqueues, and the expectations that it satisfies.
//!
//! A change of a DaemonSet enqueues it. A change of a pod or revision enqueues its controller, and
//! a change of an orphan enqueues all DaemonSets that may adopt it. Created and deleted pods count
//! down expectations. A change of a node enqueues the node, in a queue of its own ([`super::nodes`]).
//!
//! Upstream: the handlers in `daemon_controller.go`.

use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{ControllerRevision, DaemonSet, Node, Object, ObjectKey, Pod};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::{DependentEvent, dependent_events};
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::workqueue::WorkQueue;

/// The informers that the handlers listen to.
pub(super) struct Informers {
    pub(super) daemon_sets: SharedInformer<DaemonSet>,
    pub(super) revisions: SharedInformer<ControllerRevision>,
    pub(super) pods: SharedInformer<Pod>,
    pub(super) nodes: SharedInformer<Node>,
}

/// Registers the handlers of all informers. Changed nodes go to `node_queue`.
pub(super) fn register(
    informers: &Informers,
    queue: &WorkQueue<ObjectKey>,
    node_queue: &WorkQueue<ObjectKey>,
    control: &PodControl,
) {
    let handlers = Arc::new(Handlers {
        daemon_sets: informers.daemon_sets.store(),
        queue: queue.clone(),
        node_queue: node_queue.clone(),
        control: control.clone(),
    });
    let [of_daemon_sets, of_revisions, of_pods] = [(); 3].map(|()| Arc::clone(&handlers));
    informers
        .daemon_sets
        .add_handler(move |change| of_daemon_sets.daemon_set_changed(&change));
    informers
        .revisions
        .add_handler(move |change| of_revisions.revision_changed(&change));
    informers
        .pods
        .add_handler(move |change| of_pods.pod_changed(&change));
    informers
        .nodes
        .add_handler(move |change| handlers.node_changed(&change));
}

/// The handlers of all informers, and the objects that they act on.
pub(super) struct Handlers {
    pub(super) daemon_sets: Store<DaemonSet>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) node_queue: WorkQueue<ObjectKey>,
    pub(super) control: PodControl,
}

impl Handlers {
    /// Enqueues the DaemonSet. Drops the expectations of a deleted or recreated one, which would
    /// delay the first sync of its successor.
    ///
    /// Upstream: `addDaemonset`, `updateDaemonset` and `deleteDaemonset`.
    pub(super) fn daemon_set_changed(&self, change: &Change<'_, DaemonSet>) {
        let key = change.object().key();
        let is_gone = match change {
            Change::Added { .. } => false,
            Change::Updated { old, new } => old.meta.uid != new.meta.uid,
            Change::Deleted { .. } => true,
        };
        if is_gone {
            self.control.forget(&key);
        }
        self.queue.add(key);
    }

    /// Enqueues the DaemonSets that a change of a revision concerns. A new revision of a DaemonSet
    /// is that of its own sync.
    ///
    /// Upstream: `addHistory`, `updateHistory` and `deleteHistory`.
    pub(super) fn revision_changed(&self, change: &Change<'_, ControllerRevision>) {
        dependent_events(&self.daemon_sets, change, |event| {
            if !matches!(event, DependentEvent::Created(_)) {
                self.queue.add(event.owner().key());
            }
        });
    }

    /// Enqueues the DaemonSets that a change of a pod concerns, and counts their expectations down.
    ///
    /// Upstream: `addPod`, `updatePod` and `deletePod`. A terminating pod counts as deleted.
    pub(super) fn pod_changed(&self, change: &Change<'_, Pod>) {
        dependent_events(&self.daemon_sets, change, |event| {
            self.control.observe(change, &event);
            let ds = event.owner();
            self.queue.add(ds.key());
            // A pod becomes available without a change of an object, so a delayed key replaces the
            // event. The API stores whole seconds, hence the additional second.
            let seconds = u64::try_from(ds.spec.min_ready_seconds).unwrap_or(0);
            if seconds > 0 && matches!(event, DependentEvent::Updated(_)) && becomes_ready(change) {
                let delay = Duration::from_secs(seconds) + Duration::from_secs(1);
                self.queue.add_after(ds.key(), delay);
            }
        });
    }

    /// Enqueues a new node, and a node with other labels or taints. Heartbeats of kubelets change
    /// neither, so they cause no work. The pods of a deleted node enqueue their owners.
    ///
    /// Upstream: `addNode` and `updateNode`. Conditions of a node do not matter, since a problem of the node
    /// becomes a taint.
    pub(super) fn node_changed(&self, change: &Change<'_, Node>) {
        let node = match change {
            Change::Added { object, .. } => object,
            Change::Updated { old, new } if !has_equal_placement(old, new) => new,
            Change::Updated { .. } | Change::Deleted { .. } => return,
        };
        self.node_queue.add(node.key());
    }
}

/// Whether all DaemonSets treat both nodes alike. Upstream: `shouldIgnoreNodeUpdate`.
fn has_equal_placement(old: &Node, new: &Node) -> bool {
    old.meta.labels == new.meta.labels && old.spec.taints == new.spec.taints
}

/// Whether the pod was unready before and is ready now.
fn becomes_ready(change: &Change<'_, Pod>) -> bool {
    matches!(change, Change::Updated { old, new } if !old.is_ready() && new.is_ready())
}
