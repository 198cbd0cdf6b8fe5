//! The Jobs and orphans that a change enqueues, and the expectations that it satisfies.
//!
//! A new or changed spec enqueues the Job at once. Changes of pods and of the status wait for one
//! second, so that one sync handles many of them. Pods that no unfinished Job tracks go to the
//! queue of orphans, which removes their tracking finalizer.
//!
//! Upstream: `addPod`, `updateJob` and so on in `job_controller.go`.
//!
//! A pod concerns the Job that is its controller, and an orphan the Jobs that may adopt it:
//! `dependent_events` finds both, and tells old and new owners apart.

use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{Job, Object, ObjectKey, Pod};
use steersman_runtime::consistency::Memory;
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::{DependentEvent, dependent_events, owner_of};
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use super::end_state;
use super::gates::JobGates;
use super::memory::JobMemory;
use super::metrics::JobMetrics;
use super::orphans::OrphanKey;

/// The delay of a sync after a change of a pod or a status. Upstream: `SyncJobBatchPeriod`. It limits a Job
/// to about one sync per second, however many pods end.
pub(super) const BATCH: Duration = Duration::from_secs(1);

/// The objects that the handlers act on.
pub(super) struct Handlers {
    pub(super) gates: JobGates,
    pub(super) jobs: Store<Job>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) orphans: WorkQueue<OrphanKey>,
    pub(super) control: PodControl,
    pub(super) memory: Arc<JobMemory>,
    pub(super) metrics: JobMetrics,
    pub(super) clock: Clock,
}

impl Handlers {
    /// Registers the handlers of Jobs and pods.
    pub(super) fn register(self, jobs: &SharedInformer<Job>, pods: &SharedInformer<Pod>) {
        let handlers = Arc::new(self);
        let of_jobs = Arc::clone(&handlers);
        jobs.add_handler(move |change| of_jobs.job_changed(&change));
        pods.add_handler(move |change| handlers.pod_changed(&change));
    }

    fn job_changed(&self, change: &Change<'_, Job>) {
        match change {
            Change::Added { object, .. } => self.job_added(object),
            // A gap of the watch can hide that another Job has taken the name. Both events are then due.
            Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
                self.job_deleted(old);
                self.job_added(new);
            }
            Change::Updated { old, new } => self.job_updated(old, new),
            Change::Deleted { object, .. } => self.job_deleted(object),
        }
    }

    /// Upstream: `addJob`. After a restart each Job comes here, so the metric counts each external one anew.
    fn job_added(&self, job: &Job) {
        self.queue.add(job.key());
        // The metric counts Jobs, so the sync itself does nothing for these.
        if let Some(name) = self.gates.external_manager(job) {
            self.metrics.external(name);
        }
    }

    /// Upstream: `updateJob`. The generation rises with each change of the spec, and a write of the status
    /// keeps it.
    fn job_updated(&self, old: &Job, new: &Job) {
        let key = new.key();
        if new.finished().is_some() {
            // A finished Job needs no further sync. Its pods have lost the finalizer already; the
            // orphan queue takes care of those that got it again.
            self.control.forget(&key);
            self.memory.forget(&key);
            self.enqueue_pods_of(new);
            return;
        }
        if old.meta.generation == new.meta.generation {
            // Own writes of the status come here, too; the delay joins them with the events of pods.
            self.queue.add_after(key.clone(), BATCH);
        } else {
            self.queue.add(key.clone());
        }
        // A user may change the deadline, and the timer of the last sync has the old one.
        let deadline = |job: &Job| job.spec.active_deadline_seconds;
        if deadline(new).is_some()
            && deadline(old) != deadline(new)
            && let Some(left) = end_state::deadline_in(new, new.status.start_time, self.clock.now())
        {
            self.queue.add_after(key, left);
        }
    }

    /// Drops the records about the Job, which would delay the first sync of its successor. Upstream:
    /// `deleteJob`. The sync of the key finds no Job, and forgets the rest.
    fn job_deleted(&self, job: &Job) {
        let key = job.key();
        self.control.forget(&key);
        self.memory.forget(&key);
        self.queue.add(key);
        self.enqueue_pods_of(job);
    }

    /// Upstream: `enqueueLabelSelector`. The UID is in the key, so that only the pods of this Job are meant;
    /// upstream takes all pods of the selector.
    fn enqueue_pods_of(&self, job: &Job) {
        match &job.spec.selector {
            Ok(selector) => self.orphans.add(OrphanKey::Selected {
                namespace: job.meta.namespace.clone(),
                uid: job.meta.uid.clone(),
                selector: selector.clone(),
            }),
            Err(error) => {
                tracing::error!(job = %job.key(), %error, "selector is malformed, pods keep their finalizers");
            }
        }
    }

    /// Enqueues the Jobs that a change of a pod concerns, and counts their expectations down.
    ///
    /// Upstream: `addPod`, `updatePod` and `deletePod`.
    fn pod_changed(&self, change: &Change<'_, Pod>) {
        // Before all else: the metric also counts pods that concern no Job.
        self.metrics.pod_changed(change);
        if let Some(pod) = orphaned(&self.jobs, change) {
            self.orphans.add(OrphanKey::Named(pod.key()));
        }
        dependent_events(&self.jobs, change, |event| {
            let job = event.owner();
            let is_deleted = matches!(event, DependentEvent::Deleted(_));
            // The sync of a finished Job does nothing.
            if is_deleted && job.finished().is_some() {
                return;
            }
            self.control.observe(change, &event);
            let key = job.key();
            match removed(change) {
                // A pod that is gone will never show the removal, so it counts as shown.
                Some(gone) if is_deleted => self.memory.removals.observed(&key, &gone.meta.uid),
                // The old state plays no part, as upstream: events may be joined, and the newest one decides.
                _ if !change.object().has_job_tracking => {
                    let uid = &change.object().meta.uid;
                    self.memory.removals.observed(&key, uid);
                }
                _ => {}
            }
            self.queue.add_after(key, BATCH);
        });
    }
}

/// The pod that a change shows as gone. A change of the UID under one name is the deletion of the old pod.
fn removed<'a>(change: &Change<'a, Pod>) -> Option<&'a Arc<Pod>> {
    match change {
        Change::Deleted { object, .. } => Some(object),
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => Some(old),
        _ => None,
    }
}

/// The pod of a change, if it has the tracking finalizer although no sync of a Job removes it. Such
/// a pod lost its controller, or it is terminating and its Job is unknown or finished.
///
/// Upstream: the calls of `enqueueOrphanPod`. A false alarm is harmless, because the sync of the orphan asks
/// again.
fn orphaned<'a>(jobs: &Store<Job>, change: &Change<'a, Pod>) -> Option<&'a Arc<Pod>> {
    let pod = change.object();
    // A resync shows the same state again.
    if let Change::Updated { old, new } = change
        && old.meta.resource_version == new.meta.resource_version
    {
        return None;
    }
    let ends = pod.meta.is_terminating() || matches!(change, Change::Deleted { .. });
    let is_orphan = match pod.meta.controller() {
        None => true,
        Some(_) => ends && owner_of(jobs, &pod.meta).is_none_or(|job| job.finished().is_some()),
    };
    (pod.has_job_tracking && is_orphan).then_some(pod)
}

#[cfg(test)]
mod tests;
