//! The creations and deletions of pods of one sync.
//!
//! `manage/` has decided. Writes go through `PodControl`, which records them for the next decision.

use futures::{StreamExt, stream};
use steersman_client::{ApiError, Target, Violation};
use steersman_objects::{Job, Object, ObjectKey, ObjectReference, PodGroup};
use steersman_runtime::pod_control::{Deleted, Deletions, Owner, PodsError};

use super::status::AT_ONCE;
use super::{Counts, JobSyncer};
use crate::job::finalizers::{FinalizerPatch, is_gone};
use crate::job::handlers::BATCH;
use crate::job::invariants;
use crate::job::manage::{Action, Pods};
use crate::job::per_index::Failures;
use crate::job::pods::JobPod;
use crate::job::snapshot::Snapshot;
use crate::job::template::Template;

impl JobSyncer {
    /// Creates or deletes pods, and keeps `counts` up to date. New pods belong to `group`. Returns
    /// the first failure.
    ///
    /// A refusal by an invariant is reported like a failed request, so that users see it in the log.
    pub(super) async fn act(
        &self,
        owner: Owner<'_, Job>,
        snapshot: &Snapshot<'_>,
        group: Option<&PodGroup>,
        action: Action,
        counts: &mut Counts,
    ) -> Option<PodsError> {
        match action {
            Action::Steady => None,
            Action::Wait(time) => {
                // Upstream: `enqueueSyncJobWithDelay`, which never waits for less than the batch of events.
                self.queue.add_after(owner.key.clone(), time.max(BATCH));
                None
            }
            _ if !action.writes() => None,
            Action::Delete(victims) => {
                tracing::debug!(deleting = victims.len(), "Too many pods running for job");
                let checked = invariants::deletes_surplus(snapshot, victims.len());
                if let Err(refused) = self.permit(owner, checked) {
                    return Some(PodsError::Delete(refused));
                }
                self.delete_surplus(owner, &victims, counts).await
            }
            Action::Track(pods) => self.track_again(owner.key, &pods).await,
            Action::Create(pods) => {
                tracing::debug!(creating = pods.len(), "Too few pods running");
                let checked = invariants::creates_missing(snapshot, pods.len());
                if let Err(refused) = self.permit(owner, checked) {
                    return Some(PodsError::Create(refused));
                }
                // A malformed template needs a change of the Job. The error keeps the key in the back-off.
                let template = match Template::of(owner.object) {
                    Ok(template) => template.in_group(group),
                    Err(error) => return Some(PodsError::Template(error)),
                };
                self.create(owner, snapshot, template, &pods, counts)
                    .await
                    .err()
            }
        }
    }

    fn permit(
        &self,
        owner: Owner<'_, Job>,
        checked: Result<(), Violation>,
    ) -> Result<(), ApiError> {
        let target = Target::of::<Job>(&owner.object.meta);
        self.client.permit(target, checked)
    }

    /// Pods that a terminating namespace refuses count as active, as upstream.
    async fn create(
        &self,
        owner: Owner<'_, Job>,
        snapshot: &Snapshot<'_>,
        template: Template,
        pods: &Pods,
        counts: &mut Counts,
    ) -> Result<(), PodsError> {
        let job = owner.object;
        let creations = match pods {
            Pods::Count(count) => {
                let body = template.body();
                self.control.create_each(owner, *count, |_| &*body).await
            }
            // The variable is in the shared template; index, name and annotations are per pod.
            Pods::Indexes(indexes) => {
                let template = template.indexed();
                let per_index = snapshot.indexed.as_ref().and_then(|i| i.per_index.as_ref());
                let body = |number: usize| {
                    let index = indexes[number];
                    let failures = per_index.map(|failures| {
                        let failed = failures.awaiting.get(&index);
                        Failures::before_replacement_of(failed, &job.spec)
                    });
                    template.body_of(index, failures)
                };
                self.control.create_each(owner, indexes.len(), body).await
            }
        };
        self.metrics.created(snapshot, &creations, self.gates);
        counts.active += creations.created + creations.refused;
        counts.refused = creations.refused;
        creations
            .failure
            .map_or(Ok(()), |error| Err(PodsError::Create(error)))
    }

    /// Deletes all active pods of a Job that ends. They keep the finalizer until they are counted. Upstream:
    /// `deleteActivePods`.
    pub(super) async fn delete_active(
        &self,
        owner: Owner<'_, Job>,
        pods: &[JobPod],
        counts: &mut Counts,
    ) -> Option<PodsError> {
        let key = owner.key;
        let about = ObjectReference::of(owner.object);
        let delete = |pod| self.delete(key, pod, &about);
        let Deletions { deleted, failure } = self.control.delete_each(key, pods, delete).await;
        counts.remove(&deleted);
        failure
    }

    /// Deletes pods that the Job does not want. They lose the finalizer first, so they are not
    /// counted as failed. Upstream: `deleteJobPods`. A crash between patch and deletion leaves a pod that
    /// `victims/` chooses first.
    async fn delete_surplus(
        &self,
        owner: Owner<'_, Job>,
        pods: &[JobPod],
        counts: &mut Counts,
    ) -> Option<PodsError> {
        let key = owner.key;
        let about = ObjectReference::of(owner.object);
        let expected = pods.iter().map(|pod| pod.key()).collect();
        // Before the requests, so that an early event is not missed.
        self.control.consistency().expect_deletions(key, expected);
        let delete = |pod| self.release_and_delete(key, pod, &about);
        let Deletions { deleted, failure } = self.control.delete_each(key, pods, delete).await;
        counts.remove(&deleted);
        failure
    }

    /// Gives `pods` their finalizer back. They were active and without it, so no status has counted them.
    async fn track_again(&self, key: &ObjectKey, pods: &[JobPod]) -> Option<PodsError> {
        let patches: Vec<_> = pods.iter().map(|pod| self.track_one(key, pod)).collect();
        let mut outcomes = stream::iter(patches).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some(outcome) = outcomes.next().await {
            failure = failure.or(outcome.err());
        }
        failure.map(PodsError::Track)
    }

    /// A pod that is gone needs no finalizer, so this counts as success.
    async fn track_one(&self, key: &ObjectKey, pod: &JobPod) -> Result<(), ApiError> {
        let patch = FinalizerPatch::add(&pod.meta.uid);
        match self.control.patch(key, &pod.meta, &patch).await {
            Err(error) if is_gone(&error) => Ok(()),
            patched => patched,
        }
    }

    async fn release_and_delete(
        &self,
        key: &ObjectKey,
        pod: &JobPod,
        about: &ObjectReference,
    ) -> Result<Deleted, PodsError> {
        // A pod that this sync has just adopted has the finalizer, although its cached copy lacks it.
        if pod.has_finalizer {
            let patch = FinalizerPatch::remove(&pod.meta.uid);
            match self.control.patch(key, &pod.meta, &patch).await {
                Err(error) if is_gone(&error) => return Ok(Deleted::Before),
                patched => patched.map_err(PodsError::Release)?,
            }
        }
        self.delete(key, pod, about).await
    }

    async fn delete(
        &self,
        key: &ObjectKey,
        pod: &JobPod,
        about: &ObjectReference,
    ) -> Result<Deleted, PodsError> {
        let deleted = self.control.delete_one(key, pod, about).await;
        deleted.map_err(PodsError::Delete)
    }
}
