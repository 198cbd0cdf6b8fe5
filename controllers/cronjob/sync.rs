//! One sync of one CronJob: clean its history, take over the states of its Jobs, start a Job if one
//! is due, write the status.
//!
//! The status is written once, at the end, and also after a failure: the failed step may follow
//! others that succeeded. Upstream: `sync`, `syncCronJob` and `cleanupFinishedJobs`.
//!
//! Jobs are found by the UID of their controller reference. The status lists the running ones, and it alone
//! remembers the last scheduled time.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use steersman_client::writes::{Delete, OnFailure, Propagation, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{
    ActiveJob, ConcurrencyPolicy, CronJob, Identity, Job, Object, ObjectKey, ObjectReference, Uid,
};
use steersman_runtime::consistency::{Age, ConsistencyStore, TrackedCache, Unconfirmed, confirmed};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner::ByController;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use super::error::SyncError;
use super::metrics::CronJobMetrics;
use super::notice::Notice;
use super::start::{self, Action, Start};
use super::status::{self, Draft};
use super::{history, job};

/// Syncs CronJobs.
pub(super) struct CronJobController {
    /// The keys of CronJobs.
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) jobs: ByController<Job>,
    /// The cache of CronJobs. Own writes are status updates. The next sync waits until it shows them.
    pub(super) cron_jobs_cache: TrackedCache,
    /// The cache of Jobs. Own writes are creations. Without it, a sync could miss the Job that it has just
    /// created.
    pub(super) jobs_cache: TrackedCache,
    /// Expects the deletions of Jobs by the history limits. The answer to a deletion may lack a
    /// resource version.
    pub(super) consistency: ConsistencyStore,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    /// Time zone of schedules without a zone. It is that of the machine, as upstream.
    pub(super) local: TimeZone,
    pub(super) metrics: CronJobMetrics,
}

impl ObjectSyncer for CronJobController {
    type Object = CronJob;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, cached: Arc<CronJob>) -> Result<Requeue, SyncError> {
        let mut jobs = self.jobs.controlled_by::<CronJob>(&cached.meta);
        // Sorted, so that Events and deletions have the same order in each sync.
        jobs.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        let cron_job = self.newest(cached, &jobs).await?;
        let work = Work {
            controller: self,
            key,
            draft: Draft::of(&cron_job),
            cron_job,
            jobs,
            age: self.cron_jobs_cache.age(),
        };
        match work.run().await {
            // The caches cannot answer; a sync follows with their next state.
            Err(SyncError::Check(Unconfirmed::Stale)) => {
                // The event of another schedule enqueues the key for a later run only.
                if !self.cron_jobs_cache.revisit_in_term(key, &self.queue) {
                    self.queue.add(key.clone());
                }
                Ok(Requeue::Never)
            }
            outcome => outcome,
        }
    }

    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, _failures: u32) -> Retry {
        error.retry()
    }
}

impl CronJobController {
    /// `cached`, or the live CronJob if only that one lists a running Job of `jobs`.
    ///
    /// The cache of Jobs can be ahead of the cache of CronJobs. Upstream continues with the live
    /// object too, but then writes the cached one, which is a conflict.
    async fn newest(
        &self,
        cached: Arc<CronJob>,
        jobs: &[Arc<Job>],
    ) -> Result<Arc<CronJob>, SyncError> {
        let is_known = |job: &Arc<Job>, by: &CronJob| status::is_active(&by.status, &job.meta.uid);
        let unexpected = |job: &&Arc<Job>| job.finished().is_none() && !is_known(job, &cached);
        // The usual case needs no request.
        if !jobs.iter().any(|job| unexpected(&job)) {
            return Ok(cached);
        }
        let target = Target::of::<CronJob>(&cached.meta);
        let answer = self.client.get(target).await.map_err(SyncError::Live)?;
        let live = CronJob::decode(&answer).map_err(SyncError::Answer)?;
        if live.meta.uid != cached.meta.uid {
            return Err(SyncError::replaced());
        }
        // One Job that the live status lists is enough: that status is the newer one.
        if jobs
            .iter()
            .filter(unexpected)
            .any(|job| is_known(job, &live))
        {
            return Ok(Arc::new(live));
        }
        Ok(cached)
    }
}

/// The state of one sync.
struct Work<'a> {
    controller: &'a CronJobController,
    key: &'a ObjectKey,
    cron_job: Arc<CronJob>,
    /// The Jobs of the CronJob, by name.
    jobs: Vec<Arc<Job>>,
    /// The status with the changes so far.
    draft: Draft,
    /// Whether the CronJob may lack writes of the previous leader. It becomes `OfTerm` once a live read has
    /// confirmed the CronJob.
    age: Age,
}

impl Work<'_> {
    async fn run(mut self) -> Result<Requeue, SyncError> {
        // History comes first, as upstream. Its deletions are in the status that is written at the end.
        self.clean_history().await?;
        let outcome = self.reconcile().await;
        match &outcome {
            Err(SyncError::Check(Unconfirmed::Stale)) => {}
            // Another leader writes now, so even a status of finished steps must not follow.
            Err(error) if error.is_fenced() => {}
            _ => self.write_status().await?,
        }
        outcome
    }

    /// Deletes finished Jobs beyond the history limits. A failure is an Event only.
    async fn clean_history(&mut self) -> Result<(), SyncError> {
        let mut surplus = history::surplus(&self.cron_job.spec, &self.jobs);
        let consistency = &self.controller.consistency;
        // While own deletions are not visible, the same Jobs would be deleted again.
        if surplus.is_empty() || !consistency.satisfied(self.key) {
            return Ok(());
        }
        self.check().await?;
        // A crash can follow the creation of a Job. Its scheduled time is then missing in the
        // status, and only the name of the Job prevents a second run for the same time. Upstream
        // deletes such a Job when it has finished.
        let now = self.controller.clock.now();
        let unrecorded = start::unrecorded(&self.cron_job, now, &self.controller.local);
        surplus.retain(|job| unrecorded.as_deref() != Some(&*job.meta.name));
        let deleted = surplus.iter().map(|job| job.key()).collect();
        consistency.expect_deletions(self.key, deleted);
        let mut outcome = Ok(());
        for job in surplus {
            if outcome.is_ok() {
                match self.delete(&job.key(), &job.meta.uid).await {
                    // A known version replaces the expectation.
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(source) if source.is_fenced() => {
                        outcome = Err(SyncError::Delete {
                            job: job.key(),
                            source,
                        });
                    }
                    Err(_reported) => {}
                }
            }
            // An unsent or failed deletion is not awaited.
            consistency.deletion_observed(self.key, &job.key());
        }
        outcome
    }

    /// Takes over the states of the Jobs, and starts a Job if one is due.
    async fn reconcile(&mut self) -> Result<Requeue, SyncError> {
        let now = self.controller.clock.now();
        for notice in self.draft.observe(&self.jobs) {
            self.notify(notice);
        }
        // Before the decision: a Job that is gone must not forbid the next run.
        self.remove_missing().await?;
        let decision = start::decide(&self.cron_job, &self.draft, now, &self.controller.local);
        for notice in decision.notices {
            self.notify(notice);
        }
        match decision.action {
            Action::Rest => Ok(Requeue::Never),
            Action::Wait(delay) => Ok(delay.map_or(Requeue::Never, Requeue::After)),
            Action::Start(start) => self.start(&start, now).await,
        }
    }

    /// Removes running Jobs that no longer exist from the status. The cache may lack a Job, so a
    /// live read decides.
    ///
    /// Upstream: the second loop of `syncCronJob`, which compares no UID.
    async fn remove_missing(&mut self) -> Result<(), SyncError> {
        for job in self.draft.unseen(&self.jobs) {
            if self.live(&job).await?.is_none() {
                self.missing(&job);
            }
        }
        Ok(())
    }

    fn missing(&mut self, job: &ActiveJob) {
        self.notify(Notice::normal(
            "MissingJob",
            format!("Active job went missing: {}", job.name),
        ));
        self.draft.remove(&Uid::new(&job.uid));
    }

    /// The Job that `job` refers to. `None` if it is gone, even if another Job has its name. A reference
    /// without a name can only be foreign, and no Job fits it.
    async fn live(&self, job: &ActiveJob) -> Result<Option<Identity>, SyncError> {
        if job.namespace.is_empty() || job.name.is_empty() {
            return Ok(None);
        }
        let key = ObjectKey::new(&job.namespace, &job.name);
        match self.controller.client.get(named(&key)).await {
            Ok(answer) => {
                let live = Identity::decode(&answer).map_err(SyncError::Answer)?;
                Ok(Some(live).filter(|live| live.uid == Uid::new(&job.uid)))
            }
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(source) => Err(SyncError::GetJob { job: key, source }),
        }
    }

    /// Creates the Job of `start`, and records it in the status.
    ///
    /// Upstream: the last part of `syncCronJob`. The order matters for a crash: Job, then status. The name
    /// prevents a second Job, and the next sync adds the existing one to the status.
    async fn start(&mut self, start: &Start, now: Timestamp) -> Result<Requeue, SyncError> {
        self.check().await?;
        // Before the creation: a failed deletion must prevent the new Job.
        if self.cron_job.spec.concurrency_policy == ConcurrencyPolicy::Replace {
            self.delete_active().await?;
        }
        let meta = &self.cron_job.meta;
        let key = ObjectKey::new(&meta.namespace, &job::name(&meta.name, start.at));
        let body = job::body(&self.cron_job, start.at, &start.zone).map_err(|source| {
            SyncError::Template {
                job: key.clone(),
                source,
            }
        })?;
        let target = Target::collection::<Job>(&meta.namespace);
        let job = match self.controller.client.create(target, &body).await {
            Ok(answer) => self.created(&answer, start.at)?,
            // An earlier sync has created it and could not write the status, or another client was faster.
            Err(error) if error.is_already_exists() => {
                let answer = self
                    .controller
                    .client
                    .get(named(&key))
                    .await
                    .map_err(|source| SyncError::GetJob {
                        job: key.clone(),
                        source,
                    })?;
                Job::decode(&answer).map_err(SyncError::Answer)?
            }
            Err(source) => {
                // In a terminating namespace every creation fails.
                if !source.is_fenced() && !source.has_cause("NamespaceTerminating") {
                    let message = format!("Error creating job: {source}");
                    self.notify(Notice::warning("FailedCreate", message));
                }
                return Err(SyncError::Create { job: key, source });
            }
        };
        // The next sync waits until the cache shows the Job.
        self.controller
            .jobs_cache
            .wrote_at(self.key, job.meta.resource_version);
        // The Job of another client takes the place of this run.
        if job.meta.is_controlled_by(&meta.uid) && !self.draft.has(&job.meta.uid) {
            self.draft.started(&job.meta, start.at);
        }
        let last = self.draft.last_schedule_time();
        let delay = start::delay(&self.cron_job, last, &start.schedule, now);
        Ok(delay.map_or(Requeue::Never, Requeue::After))
    }

    /// Counts and reports the creation of the Job in `answer`, which was scheduled for `at`. A skew is in
    /// seconds; a clock of the API server that is behind makes it negative.
    fn created(&self, answer: &[u8], at: Timestamp) -> Result<Job, SyncError> {
        let job = Job::decode(answer).map_err(SyncError::Answer)?;
        if let Some(created) = job.meta.created {
            let skew = Timestamp::from(created).duration_since(at).as_secs_f64();
            self.controller.metrics.creation_skew.observe(skew);
        }
        let message = format!("Created job {}", job.meta.name);
        self.notify(Notice::normal("SuccessfulCreate", message));
        Ok(job)
    }

    /// Deletes the running Jobs, for the policy `Replace`.
    ///
    /// Upstream fails for a Job that is gone here, and so does this function: the next sync removes it from
    /// the status.
    async fn delete_active(&mut self) -> Result<(), SyncError> {
        for job in self.draft.active().to_vec() {
            let key = ObjectKey::new(&job.namespace, &job.name);
            match self.controller.client.get(named(&key)).await {
                Ok(answer) => {
                    let live = Identity::decode(&answer).map_err(SyncError::Answer)?;
                    if live.uid != Uid::new(&job.uid) {
                        self.missing(&job);
                        continue;
                    }
                }
                Err(source) => {
                    let message = format!("Get job: {source}");
                    self.notify(Notice::warning("FailedGet", message));
                    return Err(SyncError::GetJob { job: key, source });
                }
            }
            let deleted = self.delete(&key, &Uid::new(&job.uid)).await;
            deleted.map_err(|source| SyncError::Replace { job: key, source })?;
        }
        Ok(())
    }

    /// Deletes a Job, and removes it from the status. The Event about the result is recorded. Returns whether the
    /// answer tells the version of the deletion, which is then recorded. Upstream: `deleteJob`. Pods follow by
    /// garbage collection in the background.
    async fn delete(&mut self, job: &ObjectKey, uid: &Uid) -> Result<bool, ApiError> {
        let options = Delete::uid(uid).propagation(Propagation::Background);
        let deleted = self.controller.client.delete(named(job), &options).await;
        match deleted {
            Ok(answer) => {
                self.draft.remove(uid);
                let message = format!("Deleted job {}", job.name);
                self.notify(Notice::normal("SuccessfulDelete", message));
                Ok(self.controller.jobs_cache.deleted(self.key, &answer))
            }
            Err(error) => {
                if !error.is_fenced() {
                    let message = format!("Deleted job: {error}");
                    self.notify(Notice::warning("FailedDelete", message));
                }
                Err(error)
            }
        }
    }

    /// Fails with [`SyncError::Check`] if the cached CronJob lacks writes of the previous leader.
    /// A new leader must not repeat a run that is finished and deleted.
    async fn check(&mut self) -> Result<(), SyncError> {
        let client = &self.controller.client;
        let is_current = self.age.shows::<CronJob>(client, &self.cron_job.meta).await;
        confirmed(is_current).map_err(SyncError::Check)?;
        self.age = Age::OfTerm;
        Ok(())
    }

    /// A conflict is a failure, and the key comes back. Nothing is lost, since the Jobs still exist.
    async fn write_status(&self) -> Result<(), SyncError> {
        let Some(status) = self.draft.changed() else {
            return Ok(());
        };
        let client = &self.controller.client;
        let CronJob { meta, document, .. } = &*self.cron_job;
        let written = write_status::<CronJob>(client, meta, document, status, OnFailure::Return);
        let answer = written.await.map_err(SyncError::Status)?;
        let recorded = self
            .controller
            .cron_jobs_cache
            .wrote_answer(self.key, &answer);
        recorded.map_err(|error| SyncError::Status(StatusError::Answer(error)))
    }

    fn notify(
        &self,
        Notice {
            kind,
            reason,
            message,
        }: Notice,
    ) {
        if kind == EventType::Warning {
            tracing::debug!(reason, message, "cronjob cannot proceed as its spec says");
        }
        self.controller
            .recorder
            .event(ObjectReference::of(&*self.cron_job), kind, reason, message);
    }
}

fn named(job: &ObjectKey) -> Target<'_> {
    Target::named::<Job>(&job.namespace, &job.name)
}
