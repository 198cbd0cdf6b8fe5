//! The budgets and pods that a change enqueues.
//!
//! A change of a budget enqueues it. A change of a pod enqueues the budgets that select it, and the
//! pod itself if its condition `DisruptionTarget` may become stale. A change of the size of a
//! workload enqueues the budgets that count by size.
//!
//! Upstream has no handlers of workloads, see the module documentation of the controller.

use std::sync::Arc;

use steersman_objects::{
    Deployment, Object, ObjectKey, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController,
    StatefulSet,
};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::{Change, InformerFactory, Store};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use steersman_values::labels::Labels;

use super::events;
use super::expected::{Basis, basis};
use super::stale::stale_after;

/// The objects that the handlers act on.
///
/// They hold only handles of shared caches and queues.
pub(super) struct Handlers {
    pub(super) budgets: Store<PodDisruptionBudget>,
    pub(super) pods: Store<Pod>,
    pub(super) queue: WorkQueue<ObjectKey>,
    /// Keys of pods with a condition `DisruptionTarget`.
    pub(super) stale: WorkQueue<ObjectKey>,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
}

/// Registers the handlers of budgets, pods and workloads.
///
/// Workloads serve only as sizes here; their other changes are of no interest.
pub(super) fn register(informers: &InformerFactory, handlers: Handlers) {
    let handlers = Arc::new(handlers);
    let queue = handlers.queue.clone();
    informers
        .shared::<PodDisruptionBudget>()
        .add_handler(move |change| queue.add(change.object().key()));
    let of_pods = Arc::clone(&handlers);
    informers
        .shared::<Pod>()
        .add_handler(move |change| of_pods.pod_changed(&change));
    follow_size::<ReplicationController>(informers, &handlers, |rc| rc.spec.replicas);
    follow_size::<ReplicaSet>(informers, &handlers, |rs| rs.spec.replicas);
    follow_size::<Deployment>(informers, &handlers, |deployment| deployment.spec.replicas);
    follow_size::<StatefulSet>(informers, &handlers, |set| set.spec.replicas);
}

/// Enqueues the budgets of a namespace whenever the size of a `T` in it changes. New workloads have no pods
/// yet, and pods of a deleted one change themselves.
fn follow_size<T: Object>(
    informers: &InformerFactory,
    handlers: &Arc<Handlers>,
    size: fn(&T) -> i32,
) {
    let handlers = Arc::clone(handlers);
    informers.shared::<T>().add_handler(move |change| {
        if let Change::Updated { old, new } = change
            && size(old) != size(new)
        {
            handlers.resized(&new.meta().namespace);
        }
    });
}

impl Handlers {
    /// Upstream: `addPod`, `updatePod` and `deletePod`, with `getPdbForPod`. Every change counts, since
    /// readiness, deletion and labels all matter.
    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let pod = change.object();
        let namespace = &pod.meta.namespace;
        let budgets = self.budgets_of(namespace, &pod.meta.labels);
        if let [first, _, ..] = &budgets[..] {
            events::several_budgets(&self.recorder, pod, first);
        }
        self.enqueue(&budgets);
        // The old budgets would count the pod until their next event otherwise.
        if let Change::Updated { old, .. } = change
            && old.meta.labels != pod.meta.labels
        {
            self.enqueue(&self.budgets_of(namespace, &old.meta.labels));
        }
        // A deleted pod keeps its last state, and a condition in it no longer matters.
        let is_deleted = matches!(change, Change::Deleted { .. });
        if let Some(wait) = stale_after(pod, self.clock.now()).filter(|_| !is_deleted) {
            self.stale.add_after(pod.key(), wait);
        }
    }

    /// Enqueues the budgets of `namespace` that count by the sizes of workloads. Budgets without
    /// pods are left out, because each of their syncs repeats an Event.
    fn resized(&self, namespace: &str) {
        let mut budgets = self.budgets.in_namespace(namespace);
        budgets.retain(|budget| basis(&budget.spec) == Basis::Scales);
        if budgets.is_empty() {
            return;
        }
        let pods = self.pods.in_namespace(namespace);
        budgets.retain(|budget| pods.iter().any(|pod| selects(budget, &pod.meta.labels)));
        self.enqueue(&budgets);
    }

    /// The queue merges equal keys, so a burst of changes of pods leads to one sync per budget.
    fn enqueue(&self, budgets: &[Arc<PodDisruptionBudget>]) {
        budgets
            .iter()
            .for_each(|budget| self.queue.add(budget.key()));
    }

    /// The budgets that select a pod with `labels`, by name.
    ///
    /// They are sorted, so that the Event about several budgets names the same one each time.
    fn budgets_of(&self, namespace: &str, labels: &Labels) -> Vec<Arc<PodDisruptionBudget>> {
        let mut budgets = self.budgets.in_namespace(namespace);
        budgets.retain(|budget| selects(budget, labels));
        budgets.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        budgets
    }
}

/// True if `budget` selects pods with `labels`. A malformed selector matches no pod.
///
/// An empty selector matches all pods, and a missing one matches none.
fn selects(budget: &PodDisruptionBudget, labels: &Labels) -> bool {
    let selector = budget.spec.selector.as_ref();
    selector.is_ok_and(|selector| selector.matches(labels))
}
