//! The creations that let the pods of one sync be scheduled together.
//!
//! `gang/` decides; without the gate `WorkloadWithJob`, nothing here runs.

use std::sync::Arc;

use steersman_client::live::{self, LiveError};
use steersman_client::{ApiError, Target};
use steersman_objects::{DecodeError, Job, Object, ObjectKey, PodGroup, Workload};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::EventType;
use steersman_runtime::pod_control::Owner;
use steersman_runtime::workqueue::WorkQueue;

use super::JobSyncer;
use crate::job::gang::{self, Gang, Gangs, Template};

/// The Workload or the PodGroup of a Job could not be read or created. Pods are not created then: their gang
/// would be incomplete. Upstream wraps the errors of `ensureWorkloadAndPodGroup`.
#[derive(Debug, thiserror::Error)]
pub(in crate::job) enum GangError {
    /// The live read of the Workload failed. Only a new leader reads it.
    #[error("{0}")]
    Check(#[source] LiveError),
    /// The Workload or the PodGroup could not be created. With `AlreadyExists`, the cache still lacks the
    /// object; a retry finds it.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// The created object could not be decoded. Its version is unknown, so the cache cannot be awaited.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The caches of the feature gate `WorkloadWithJob`, and the own writes to them.
pub(in crate::job) struct GangCaches {
    pub(in crate::job) gangs: Gangs,
    pub(in crate::job) workloads_cache: TrackedCache,
    pub(in crate::job) groups_cache: TrackedCache,
}

impl GangCaches {
    /// Whether a cache lacks its first list, which it does while the API server lacks the type. Then
    /// the key returns to the queue with the list. Upstream waits at its start for both lists, and no Job
    /// runs without the API.
    fn await_lists(&self, key: &ObjectKey, queue: &WorkQueue<ObjectKey>) -> bool {
        let cache = match self.gangs.versions() {
            [0, _] => &self.workloads_cache,
            [_, 0] => &self.groups_cache,
            _ => return false,
        };
        cache.await_version(key, 1, queue);
        true
    }
}

impl JobSyncer {
    /// The gang of the Job, which has this number of pods. `None` if a cache may lack the answer:
    /// then the key returns to the queue with the next state of that cache.
    pub(super) async fn gang(
        &self,
        owner: Owner<'_, Job>,
        pods: usize,
    ) -> Result<Option<Gang>, GangError> {
        let Owner {
            key, object: job, ..
        } = owner;
        let caches = match &self.gangs {
            Some(caches) if caches.gangs.rules.concern(job) => caches,
            _ => return Ok(Some(Gang::Apart)),
        };
        if caches.await_lists(key, &self.queue) {
            return Ok(None);
        }
        let gang = caches.gangs.of(job, pods);
        if let Gang::Prevented(obstacle) = &gang {
            tracing::info!(%obstacle, "The pods are not scheduled together");
        }
        // Only this answer can be wrong: a cache without the Workload, and pods that have it.
        let is_doubtful = matches!(gang, Gang::TooLate) && caches.workloads_cache.predates_term();
        if !is_doubtful {
            return Ok(Some(gang));
        }
        // A Workload of the former leader may be missing in the cache, and its other pods have it.
        let name = gang::workload_name(job);
        let version = live::version::<Workload>(&self.client, &key.namespace, &name).await;
        let Some(version) = version.map_err(GangError::Check)? else {
            return Ok(Some(gang));
        };
        let cache = &caches.workloads_cache;
        cache.await_version(key, version, &self.queue);
        Ok(None)
    }

    /// Creates the missing objects of `gang`. Returns the PodGroup of new pods, if they have one. Both
    /// creations follow each other in one sync, as upstream.
    pub(super) async fn complete(
        &self,
        owner: Owner<'_, Job>,
        gang: Gang,
    ) -> Result<Option<Arc<PodGroup>>, GangError> {
        let Some(caches) = &self.gangs else {
            return Ok(None);
        };
        let Owner {
            key, object: job, ..
        } = owner;
        let rules = caches.gangs.rules;
        let template = match gang {
            Gang::Apart | Gang::Prevented(_) | Gang::TooLate => return Ok(None),
            Gang::Complete(group) => return Ok(Some(group)),
            Gang::NeedsGroup(template) => template,
            Gang::NeedsWorkload => {
                let body = gang::workload(job, rules);
                let created = self.make::<Workload>(key, &body, &caches.workloads_cache);
                let created = created.await;
                if let Err(error) = &created
                    && rules.tell_more()
                    && !ApiError::within(error).is_some_and(ApiError::is_fenced)
                {
                    let name = &job.meta.name;
                    let message = format!("Failed to create Workload for Job {name}: {error}");
                    self.event(job, EventType::Warning, "FailedWorkloadCreate", &message);
                }
                let created = created?;
                let name = &created.meta.name;
                let message = format!("Created Workload {name} for Job {}", job.meta.name);
                self.event(job, EventType::Normal, "WorkloadCreated", &message);
                Template::own(created)
            }
        };
        // A Workload without the template has been excluded by `Gangs::of`.
        let served = self.client.served(PodGroup::RESOURCE);
        let Some(body) = gang::pod_group(job, &template, &served.version) else {
            return Ok(None);
        };
        let created = self.make::<PodGroup>(key, &body, &caches.groups_cache);
        let created = created.await?;
        if rules.tell_more() {
            let name = &created.meta.name;
            let message = format!("Created PodGroup {name} for Job {}", job.meta.name);
            self.event(job, EventType::Normal, "PodGroupCreated", &message);
        }
        Ok(Some(created))
    }

    /// Creates an object of type `T`, and records its version as a write for the Job at `key`.
    ///
    /// The next sync waits until the cache shows it, so no object is created twice.
    async fn make<T: Object>(
        &self,
        key: &ObjectKey,
        body: &serde_json::Value,
        cache: &TrackedCache,
    ) -> Result<Arc<T>, GangError> {
        let target = Target::collection::<T>(&key.namespace);
        let answer = self.client.create(target, body).await;
        let object = T::decode(&answer.map_err(GangError::Create)?).map_err(GangError::Answer)?;
        cache.wrote_at(key, object.meta().resource_version);
        Ok(Arc::new(object))
    }
}
