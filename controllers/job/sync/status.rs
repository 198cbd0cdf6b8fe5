//! The writes of one sync that count finished pods: the status, and the removal of finalizers.
//!
//! `tracking.rs` computes the writes. Most syncs send none, and a sync with ended pods sends two.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{StreamExt, stream};
use steersman_client::ApiError;
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_objects::{Job, JobStatus, Object, ObjectKey, ObjectReference, Uid};
use steersman_runtime::events::EventType;
use steersman_runtime::pod_control::Owner;

use super::{JobSyncer, TrackError};
use crate::job::backoff::Backoff;
use crate::job::end_state::Finish;
use crate::job::finalizers::{FinalizerPatch, is_gone};
use crate::job::pods::JobPod;
use crate::job::snapshot::Snapshot;
use crate::job::tracking;

/// Concurrent patches of pods per sync. The throttle of the client limits their rate. One request after the
/// other would make a Job of thousands of pods slow.
pub(super) const AT_ONCE: usize = 200;

/// The input of the steps that count finished pods.
pub(in crate::job) struct Write {
    pub(in crate::job) status: JobStatus,
    /// Whether the status differs from the served one already.
    pub(in crate::job) changed: bool,
    /// `None` while the Job goes on, or while pods of its end are left.
    pub(in crate::job) finish: Option<Finish>,
    /// The record to remember after the first write.
    pub(in crate::job) backoff: Backoff,
    /// Terminating pods that the end of the Job waits for. Zero if the gates do not delay the end.
    pub(in crate::job) terminating: usize,
}

impl JobSyncer {
    /// Writes the status and removes finalizers, in the steps of [`tracking`].
    ///
    /// Upstream: `trackJobStatusAndRemoveFinalizers` and `flushUncountedAndRemoveFinalizers`.
    pub(in crate::job) async fn track(
        &self,
        owner: Owner<'_, Job>,
        snapshot: &Snapshot<'_>,
        write: Write,
    ) -> Result<(), TrackError> {
        let Write {
            status,
            changed,
            finish,
            backoff,
            terminating,
        } = write;
        let key = owner.key;
        let cached = owner.object;
        let announces = self.gates.delays_ends();
        let now = self.clock.now();
        let mut plan = tracking::plan(snapshot, status, finish.as_ref(), announces, now);
        // The list must be stored before any finalizer goes: a crash would otherwise lose the pod.
        let written = if plan.needs_write || changed {
            let written = self.write_status(key, cached, &plan.status).await;
            let written = written.map_err(TrackError::Add)?;
            // After the write, so that a repeated sync does not count the same failures again.
            self.memory.backoffs.set(key, backoff);
            self.metrics
                .counted(cached, &cached.status, &written.status);
            Some(written)
        } else {
            None
        };
        // Counted only now, since a failed write repeats the sync.
        for (action, pods) in &plan.policy_actions {
            self.metrics.handled_by_policy(action, *pods);
        }
        let failure = self.release(key, &plan.released, &mut plan.tracked).await;

        // The second write starts from the answer of the first, and so it meets no conflict with it.
        let job = written.as_deref().unwrap_or(cached);
        let mut status = written
            .as_ref()
            .map_or(plan.status, |job| job.status.clone());
        let moved = tracking::count_untracked(&mut status, &plan.tracked);
        // A pod with a finalizer, or without a count, belongs to the Job; its end has to wait.
        let finish = finish.filter(|_| failure.is_none() && !plan.is_cut);
        let now = self.clock.now();
        let finish =
            finish.filter(|finish| tracking::finish(&mut status, finish, terminating, now));
        // Partial progress is written even after a failure, as upstream.
        if moved || finish.is_some() {
            let counted = self.write_status(key, job, &status).await;
            let counted = counted.map_err(TrackError::Remove)?;
            self.metrics.counted(cached, &job.status, &counted.status);
            if let Some(finish) = &finish {
                self.report_end(&counted, finish);
            }
        }
        failure.map_or(Ok(()), |error| Err(TrackError::Release(error)))
    }

    /// Removes the finalizers of `pods`. Pods without a failure leave `tracked`.
    ///
    /// Upstream: `removeTrackingFinalizerFromPods`. Each failure is of one pod, so the others go on.
    async fn release(
        &self,
        key: &ObjectKey,
        pods: &[JobPod],
        tracked: &mut HashSet<Uid>,
    ) -> Option<ApiError> {
        let uids = pods.iter().map(|pod| pod.meta.uid.clone());
        self.memory.removals.expect(key, uids);
        let patches: Vec<_> = pods.iter().map(|pod| self.release_one(key, pod)).collect();
        let mut outcomes = stream::iter(patches).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(uid) => {
                    tracked.remove(uid);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure
    }

    /// Removes the finalizer of `pod`, and returns the UID of the pod. A pod that is gone needs no finalizer
    /// removed, so this counts as success.
    async fn release_one<'a>(&self, key: &ObjectKey, pod: &'a JobPod) -> Result<&'a Uid, ApiError> {
        let uid = &pod.pod.meta.uid;
        let patched = self
            .control
            .patch(key, &pod.meta, &FinalizerPatch::remove(uid))
            .await;
        let Err(error) = patched else {
            return Ok(uid);
        };
        // No event will show the removal.
        self.memory.removals.observed(key, uid);
        if is_gone(&error) { Ok(uid) } else { Err(error) }
    }

    /// PUTs `status` on `job`, and returns the Job as stored. The precondition is the resource version of
    /// `job`, and a conflict ends the sync.
    async fn write_status(
        &self,
        key: &ObjectKey,
        job: &Job,
        status: &JobStatus,
    ) -> Result<Arc<Job>, StatusError> {
        let once = OnFailure::Return;
        let answer =
            write_status::<Job>(&self.client, &job.meta, &job.document, status, once).await?;
        let written = Arc::new(Job::decode(&answer).map_err(StatusError::Answer)?);
        self.cache.wrote(key, &written);
        Ok(written)
    }

    /// Tells users about the end of `job`.
    ///
    /// Upstream: `recordJobFinished`. It follows the write, so each end is reported once.
    fn report_end(&self, job: &Job, finish: &Finish) {
        if finish.is_complete {
            let completions = job.spec.completions;
            if completions.is_some_and(|completions| job.status.succeeded > completions) {
                let message = "Too many succeeded pods running after completion count reached";
                self.event(job, EventType::Warning, "TooManySucceededPods", message);
            }
            self.event(job, EventType::Normal, "Completed", "Job completed");
        } else {
            let about = ObjectReference::of(job);
            let reason = finish.reason.clone();
            let message = finish.message.clone();
            self.recorder
                .event(about, EventType::Warning, reason, message);
        }
        self.metrics.finished(job, finish);
    }
}
