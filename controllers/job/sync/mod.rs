//! One sync of one Job: claim its pods, create or delete pods, count finished ones.
//!
//! This module does all IO of a sync; its decisions are in the other files of the controller.
//! Upstream: `syncJob` and the parts of `manageJob` and `trackJobStatusAndRemoveFinalizers` that
//! write.
//!
//! The order of one sync: claim pods, take a snapshot, decide, confirm the caches, write pods, write the
//! status. Each later step sees the results of the earlier ones in `Counts` and in the status.

mod gang;
mod pods;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use steersman_client::live::LiveError;
use steersman_client::writes::StatusError;
use steersman_client::{ApiClient, ApiError};
use steersman_objects::conditions::{FALSE, TRUE};
use steersman_objects::{CompletionMode, Job, JobStatus, ObjectKey, ObjectReference, Pod};
use steersman_runtime::consistency::{Memory, TrackedCache};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner::ClaimError;
use steersman_runtime::pod_control::{Owner, PodControl, PodsError};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use tokio::time::Instant;

pub(super) use self::gang::{GangCaches, GangError};
pub(super) use self::status::Write;
use super::conditions::{self, SUSPENDED};
use super::end_state;
use super::gates::JobGates;
use super::manage::{self, Action};
use super::memory::JobMemory;
use super::metrics::{JobMetrics, SyncAction};
use super::pods::JobPod;
use super::snapshot::Snapshot;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A pod could not be adopted or released.
    #[error("claim pods: {0}")]
    Claim(#[source] ClaimError),
    /// The cache is in doubt, and the live read to confirm it failed. The same read is tried again later; no
    /// write precedes it.
    #[error("check the cache: {0}")]
    Check(#[source] LiveError),
    /// The objects that let pods be scheduled together are not there. Pods without their group could not join
    /// it later, so none is created.
    #[error("ensuring Workload and PodGroup: {0}")]
    Gang(#[source] GangError),
    /// Pods could not be created or deleted. The status is written all the same, since it reports the pods
    /// that exist.
    #[error("{0}")]
    Pods(#[source] PodsError),
    /// Finished pods could not be counted.
    #[error("tracking status: {0}")]
    Track(#[source] TrackError),
}

/// The step of counting that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrackError {
    /// The first write of the status.
    #[error("adding uncounted pods to status: {0}")]
    Add(#[source] StatusError),
    /// The patches of pods. Some pods may have lost the finalizer. The second write counts these.
    #[error("removing tracking finalizer: {0}")]
    Release(#[source] ApiError),
    /// The second write of the status. The finalizers are gone, and the list of UIDs remembers the pods.
    #[error("removing uncounted pods from status: {0}")]
    Remove(#[source] StatusError),
}

/// Syncs Jobs.
pub(super) struct JobSyncer {
    pub(super) gates: JobGates,
    pub(super) jobs: Store<Job>,
    pub(super) control: PodControl,
    pub(super) recorder: EventRecorder,
    pub(super) client: ApiClient,
    pub(super) queue: WorkQueue<ObjectKey>,
    /// The cache of Jobs. Own writes are status updates.
    pub(super) cache: TrackedCache,
    pub(super) memory: Arc<JobMemory>,
    pub(super) clock: Clock,
    pub(super) metrics: JobMetrics,
    /// Whether a suspended Job loses its start time: the gate
    /// `MutableSchedulingDirectivesForSuspendedJobs`.
    pub(super) clears_start_time: bool,
    /// The gate `WorkloadWithJob`.
    pub(super) gangs: Option<GangCaches>,
}

impl ObjectSyncer for JobSyncer {
    type Object = Job;
    type Error = SyncError;

    // The order is that of upstream's `syncJob`. The manager of a Job is checked first: its status is none of
    // this controller's business.
    async fn sync(&self, key: &ObjectKey, cached: Arc<Job>) -> Result<Requeue, SyncError> {
        if self.gates.external_manager(&cached).is_some() {
            return Ok(Requeue::Never);
        }
        // The end of a Job is final, so records about it only take memory.
        if cached.finished().is_some() {
            self.control.forget(key);
            self.memory.forget(key);
            return Ok(Requeue::Never);
        }
        // Newer than the cache: this process has written the end, and the event is on its way. Upstream:
        // `finishedJobExpectations`.
        let job = self.gates.apply(self.newest(key, cached));
        if job.finished().is_some() {
            return Ok(Requeue::Never);
        }
        // A mode of a later release: this controller cannot know its pods.
        if job.spec.completion_mode == CompletionMode::Unknown {
            let message = "Skipped Job sync because completion mode is unknown";
            self.event(&job, EventType::Warning, "UnknownCompletionMode", message);
            return Ok(Requeue::Never);
        }
        // Earlier returns are no syncs for the metrics.
        let began = Instant::now();
        let mut action = SyncAction::Reconciling;
        let result = self.sync_unfinished(key, &job, &mut action).await;
        self.metrics
            .synced(&job, result.is_ok(), action, began.elapsed());
        result
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            // The owner was deleted before the adoption, which the cache will show.
            SyncError::Claim(_) if request.is_some_and(ApiError::is_object_not_found) => {
                Retry::Quietly
            }
            // The usual causes are a quota, a webhook, or an overlapping selector. An operator has
            // to resolve them, so the error is logged.
            SyncError::Claim(_) | SyncError::Pods(_) => Retry::BackOff,
            SyncError::Check(_) | SyncError::Gang(_) | SyncError::Track(_) => {
                Retry::after_request(request)
            }
        }
    }
}

/// The pods of a Job as its status will report them. It starts with the snapshot, and follows the writes of
/// the sync.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// Active pods of the snapshot, with created and without deleted ones.
    active: usize,
    /// Active ones that are ready.
    ready: usize,
    /// With pods that this sync deletes.
    terminating: usize,
    /// Active pods that do not exist, because the namespace terminates and refused them. They count as
    /// active, as upstream, which ignores this refusal.
    refused: usize,
}

impl Counts {
    /// Counts deleted pods as terminating. Only deletions without a failure come here. Upstream also
    /// subtracts ready pods of failed ones.
    fn remove(&mut self, deleted: &[&JobPod]) {
        self.active -= deleted.len();
        self.ready -= deleted.iter().filter(|pod| pod.is_ready()).count();
        self.terminating += deleted.len();
    }
}

impl JobSyncer {
    /// `cached`, or the same Job with a newer status that this process wrote. A sync must not act on
    /// an older one: a pod that it counted would be missing, and would be created again.
    fn newest(&self, key: &ObjectKey, cached: Arc<Job>) -> Arc<Job> {
        let consistency = self.control.consistency();
        let newest = consistency.newest(key, vec![Arc::clone(&cached)]).pop();
        newest.unwrap_or(cached)
    }

    /// Syncs a Job that has not finished. Sets `label` to the action about its pods.
    async fn sync_unfinished(
        &self,
        key: &ObjectKey,
        job: &Job,
        label: &mut SyncAction,
    ) -> Result<Requeue, SyncError> {
        // Validation prevents it. A retry cannot mend it, and a change of the Job enqueues the key.
        let selector = match &job.spec.selector {
            Ok(selector) => selector,
            Err(error) => {
                tracing::error!(%error, "selector is malformed, nothing to sync until it changes");
                return Ok(Requeue::Never);
            }
        };
        let owner = Owner {
            key,
            object: job,
            selector,
        };
        let result = self.sync_pods(owner, label).await;
        // Another Job of this name may have come during the requests. Its first sync must not wait for
        // records of this one.
        if self.control.forget_if_replaced(owner, &self.jobs) {
            self.memory.forget(key);
        }
        result
    }

    async fn sync_pods(
        &self,
        owner: Owner<'_, Job>,
        label: &mut SyncAction,
    ) -> Result<Requeue, SyncError> {
        let Owner {
            key, object: job, ..
        } = owner;
        // Read before the pods, for the reason in `ConsistencyStore::satisfied`.
        let is_settled = self.control.consistency().satisfied(key);
        let candidates = self.control.candidates(owner);
        let claimed = self.control.claim(owner, candidates).await;
        let claimed = claimed.map_err(SyncError::Claim)?;
        let gang = self.gang(owner, claimed.len()).await;
        let Some(gang) = gang.map_err(SyncError::Gang)? else {
            return Ok(Requeue::Never);
        };
        let mut snapshot = Snapshot::new(job, self.job_pods(key, job, &claimed));

        let now = self.clock.now();
        let mut status = job.status.clone();
        // The field is always written, as upstream: its absence would mean a Job without tracking.
        status.uncounted_terminated_pods.get_or_insert_default();
        // A suspended Job has not started, so its deadline does not run.
        if status.start_time.is_none() && !job.spec.suspend {
            status.start_time = Some(self.clock.now_seconds());
        }
        let backoff = self.memory.backoffs.get(key);
        let backoff = backoff.after(&snapshot.new_successes, &snapshot.new_failures);
        let mut finish = end_state::evaluate(&snapshot, status.start_time, now);
        // A Job that terminates gets no further pods. Its pods are counted and released, so that it can go.
        let action = if finish.is_none() && is_settled && !job.meta.is_terminating() {
            Some(manage::decide(&snapshot, backoff.remaining(now), now))
        } else {
            None
        };
        // A sync that changes nothing needs no live reads, and most syncs are of this kind.
        let acts = action.as_ref().is_some_and(Action::writes);
        let ends = finish.is_some()
            || end_state::completions_reached(&snapshot, snapshot.active.len()).is_some();
        let is_current = !(acts || ends || snapshot.has_uncounted() || gang.is_incomplete())
            || self.caches_are_current(owner, &claimed).await?;
        if !is_current {
            return Ok(Requeue::Never);
        }
        // After the confirmation of the caches and before the pods, which name the group.
        let group = self.complete(owner, gang).await.map_err(SyncError::Gang)?;

        // The end comes by the clock, and no event tells of it.
        if finish.is_none()
            && let Some(left) = end_state::deadline_in(job, status.start_time, now)
        {
            self.queue.add_after(key.clone(), left);
        }
        let mut counts = Counts {
            active: snapshot.active.len(),
            ready: snapshot.ready,
            terminating: snapshot.terminating,
            refused: 0,
        };
        let mut failure = None;
        let mut suspension_changed = false;
        if finish.is_some() {
            failure = self
                .delete_active(owner, &snapshot.active, &mut counts)
                .await;
            // Some pods may still run, or may not be in the cache yet. The next sync finds the announced or
            // repeated end again.
            if counts.active > 0 || !is_settled {
                finish = None;
            }
        } else {
            let is_managed = action.is_some();
            if let Some(action) = action {
                *label = label_of(&action);
                let group = group.as_deref();
                failure = self.act(owner, &snapshot, group, action, &mut counts).await;
            }
            if counts.refused > 0 {
                snapshot.expect_no_replacements();
            }
            // Evaluated with the active pods after this sync's writes.
            finish = end_state::completions_reached(&snapshot, counts.active);
            if finish.is_none() && is_managed {
                suspension_changed = self.report_suspension(job, &mut status, now);
            }
        }
        // The end of leadership: a status of this process could overwrite that of the next leader.
        if let Some(failure) = failure.take_if(|failure| failure.is_fenced()) {
            return Err(SyncError::Pods(failure));
        }
        // A failed creation or deletion does not stop the count of ended pods, as upstream.
        let changed = self.set_counts(&mut status, counts) || suspension_changed;
        // Upstream: `trackTerminatingPods` and `enactJobFinished`.
        let terminating = if self.gates.delays_ends() {
            counts.terminating
        } else {
            0
        };
        let tracked = self.track(
            owner,
            &snapshot,
            Write {
                status,
                changed,
                finish,
                backoff,
                terminating,
            },
        );
        tracked.await.map_err(SyncError::Track)?;
        if let Some(failure) = failure {
            return Err(SyncError::Pods(failure));
        }
        // Expectations that are never met end by time; then the key must come back.
        let expires = self.control.consistency().expires_in(key);
        Ok(expires.map_or(Requeue::Never, Requeue::After))
    }

    /// The claimed pods with the state of their finalizers.
    ///
    /// Upstream: the end of `getPodsForJob`, and the conditions on finalizers in `getValidPodsWithFilter`.
    pub(super) fn job_pods(&self, key: &ObjectKey, job: &Job, claimed: &[Arc<Pod>]) -> Vec<JobPod> {
        let removals = self.memory.removals.expected(key);
        let pods = claimed.iter().map(|pod| {
            let is_adopted = !pod.meta.is_controlled_by(&job.meta.uid);
            let has_finalizer = pod.has_job_tracking || is_adopted;
            JobPod {
                pod: Arc::clone(pod),
                has_finalizer,
                is_tracked: has_finalizer && !removals.contains(&pod.meta.uid),
            }
        });
        pods.collect()
    }

    /// True if the caches are recent enough to create, delete or count pods, and to end the Job. If
    /// not, the missing event enqueues the key.
    ///
    /// A pod that the previous leader counted must not count again, and a Job with running pods must
    /// not be complete. The cache of pods may be older than the cache of Jobs, so a live list
    /// confirms it.
    async fn caches_are_current(
        &self,
        owner: Owner<'_, Job>,
        claimed: &[Arc<Pod>],
    ) -> Result<bool, SyncError> {
        let meta = &owner.object.meta;
        // A status of the former leader may be newer than the cached Job.
        let is_current = self.cache.age().shows::<Job>(&self.client, meta).await;
        if !is_current.map_err(SyncError::Check)? {
            return Ok(false);
        }
        let state = |pod: &Pod| {
            // A finished pod without the finalizer is counted, so it does not matter whether the cache has
            // it.
            let matters = pod.has_job_tracking || !pod.is_finished();
            let state = (pod.has_job_tracking, pod.phase, pod.meta.is_terminating());
            matters.then_some(state)
        };
        let agrees = self.control.cache_agrees(owner, claimed, state).await;
        agrees.map_err(SyncError::Check)
    }

    /// Sets the condition `Suspended` of a Job that is not complete. Returns whether it changes.
    ///
    /// Upstream: the calls of `ensureJobConditionStatus` in `syncJob`. The Event comes once per change,
    /// because the condition is compared.
    fn report_suspension(&self, job: &Job, status: &mut JobStatus, now: Timestamp) -> bool {
        let (is, event, reason, message) = if job.spec.suspend {
            (TRUE, "Suspended", "JobSuspended", "Job suspended")
        } else {
            (FALSE, "Resumed", "JobResumed", "Job resumed")
        };
        let condition = conditions::new(SUSPENDED, is, reason, message, now);
        let changed = conditions::ensure(&mut status.conditions, condition);
        if changed {
            self.event(job, EventType::Normal, event, message);
            if !job.spec.suspend {
                // The deadline counts the time since the resumption.
                status.start_time = Some(self.clock.now_seconds());
            } else if self.clears_start_time {
                status.start_time = None;
            }
        }
        changed
    }

    fn event(&self, job: &Job, kind: EventType, reason: &'static str, message: &str) {
        let about = ObjectReference::of(job);
        self.recorder.event(about, kind, reason, message.to_owned());
    }

    /// Sets the numbers of pods. Returns whether one changes. Without its gate, `terminating` stays absent,
    /// as upstream.
    fn set_counts(&self, status: &mut JobStatus, counts: Counts) -> bool {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let terminating = self.gates.replacement_policy.then_some(counts.terminating);
        let new = (
            number(counts.active),
            Some(number(counts.ready)),
            terminating.map(number),
        );
        let changed = new != (status.active, status.ready, status.terminating);
        (status.active, status.ready, status.terminating) = new;
        changed
    }
}

/// Upstream returns the label from `manageJob`. An end of the Job keeps `reconciling`.
fn label_of(action: &Action) -> SyncAction {
    match action {
        Action::Steady | Action::Track(_) => SyncAction::Tracking,
        Action::Delete(_) => SyncAction::PodsDeleted,
        Action::Create(_) | Action::Wait(_) => SyncAction::PodsCreated,
    }
}
