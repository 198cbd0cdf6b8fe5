//! Which change enqueues which owners, and which expectation it settles.

use std::sync::Arc;
use std::time::Duration;

use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::object::{Object, ObjectKey, OwnerReference, Pod};
use steersman_runtime::workqueue::WorkQueue;

use super::guard::Guard;
use super::owner::PodOwner;

/// Hears of every change to owners and pods from here on.
pub(super) fn register<O: PodOwner>(
    owners: &SharedInformer<O>,
    pods: &SharedInformer<Pod>,
    queue: &WorkQueue<ObjectKey>,
    guard: &Arc<Guard>,
) {
    let handlers = Arc::new(Handlers { owners: owners.store(), queue: queue.clone(), guard: Arc::clone(guard) });
    let forget = || {
        let guard = Arc::clone(guard);
        move || guard.own_writes.forget_all()
    };
    owners.on_rewind(forget());
    pods.on_rewind(forget());
    let of_owners = Arc::clone(&handlers);
    owners.add_handler(move |change| of_owners.owner_changed(&change));
    pods.add_handler(move |change| handlers.pod_changed(&change));
}

struct Handlers<O> {
    owners: Store<O>,
    queue: WorkQueue<ObjectKey>,
    guard: Arc<Guard>,
}

impl<O: PodOwner> Handlers<O> {
    fn owner_changed(&self, change: &Change<'_, O>) {
        let key = match change {
            Change::Added { object, .. } => object.key(),
            Change::Updated { old, new } => {
                let key = new.key();
                if old.meta().uid != new.meta().uid {
                    self.guard.forget(&key);
                }
                key
            }
            Change::Deleted { object, .. } => {
                let key = object.key();
                self.guard.forget(&key);
                key
            }
        };
        self.queue.add(key);
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        match change {
            Change::Added { object, .. } => self.pod_added(object),
            Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
                self.pod_deleted(old);
                self.pod_added(new);
            }
            // A resync says nothing new.
            Change::Updated { old, new } if old.meta.resource_version == new.meta.resource_version => {}
            Change::Updated { old, new } => self.pod_updated(old, new),
            Change::Deleted { object, .. } => self.pod_deleted(object),
        }
    }

    fn pod_added(&self, pod: &Pod) {
        if pod.meta.is_terminating() {
            // First seen on its way out, after a restart or a gap.
            return self.pod_deleted(pod);
        }
        match pod.meta.controller() {
            Some(reference) => {
                if let Some(owner) = self.resolve(pod, reference) {
                    let key = owner.key();
                    self.guard.expectations.creation_observed(&key);
                    self.queue.add(key);
                }
            }
            None => self.enqueue_matching(pod),
        }
    }

    fn pod_updated(&self, old: &Pod, new: &Pod) {
        let relabelled = old.meta.labels != new.meta.labels;
        if new.meta.is_terminating() {
            // Graceful deletion: the replacement is due now, not when the pod is gone.
            self.pod_deleted(new);
            if relabelled {
                self.pod_deleted(old);
            }
            return;
        }
        let (before, after) = (old.meta.controller(), new.meta.controller());
        let moved = before != after;
        if let Some(owner) = before.filter(|_| moved).and_then(|reference| self.resolve(old, reference)) {
            self.queue.add(owner.key());
        }
        match after {
            Some(reference) => {
                let Some(owner) = self.resolve(new, reference) else { return };
                self.queue.add(owner.key());
                // Nothing will change in the cluster when the pod becomes available, so this is remembered. The API stores whole
                // seconds; the sync itself asks to come back at the exact time.
                if !old.is_ready() && new.is_ready() && owner.min_ready_seconds() > 0 {
                    let delay = Duration::from_secs(u64::try_from(owner.min_ready_seconds()).unwrap_or(0));
                    self.queue.add_after(owner.key(), delay);
                }
            }
            None if relabelled || moved => self.enqueue_matching(new),
            None => {}
        }
    }

    fn pod_deleted(&self, pod: &Pod) {
        if let Some(owner) = pod.meta.controller().and_then(|reference| self.resolve(pod, reference)) {
            let key = owner.key();
            self.guard.expectations.deletion_observed(&key, &pod.key());
            self.queue.add(key);
        }
    }

    /// The cached owner that `reference` means, if it is of our kind and still the same object.
    fn resolve(&self, pod: &Pod, reference: &OwnerReference) -> Option<Arc<O>> {
        if *reference.kind != *O::RESOURCE.kind {
            return None;
        }
        let key = ObjectKey { namespace: pod.meta.namespace.clone(), name: Arc::from(reference.name.as_str()) };
        self.owners.get(&key).filter(|owner| owner.meta().uid == reference.uid)
    }

    /// Enqueues every owner that may want to adopt the orphan `pod`.
    fn enqueue_matching(&self, pod: &Pod) {
        if pod.meta.labels.is_empty() {
            return;
        }
        for owner in self.owners.in_namespace(&pod.meta.namespace) {
            let wants =
                |selector: &steersman_runtime::labels::Selector| !selector.is_everything() && selector.matches(&pod.meta.labels);
            if owner.selector().is_ok_and(wants) {
                self.queue.add(owner.key());
            }
        }
    }
}
