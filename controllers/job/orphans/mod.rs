//! Removes the tracking finalizer from pods that no Job counts any more.
//!
//! A pod with the finalizer cannot be deleted. So the pods of deleted and finished Jobs have to lose
//! it. They come by name, when a change shows them without an owner, and by the UID and selector of a
//! Job that ended. Upstream: `syncOrphanPod`, which ignores failures for selectors
//! (kubernetes/kubernetes#141346); here they are retried.

use std::fmt;
use std::sync::Arc;

use steersman_client::live::LiveError;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Job, Object, ObjectKey, OwnerReference, Pod, Uid};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_runtime::owner::{ByController, owner_of};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_values::intern::Sym;
use steersman_values::labels::Selector;

use super::finalizers::{FinalizerPatch, is_gone};
use super::gates::JobGates;

/// Pods to check. Equal keys join in the queue: a Job that is deleted twice is looked at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum OrphanKey {
    /// The pod with this name. Pods come here one by one as events show them, even if their Job is unknown.
    Named(ObjectKey),
    /// The pods of a finished or deleted Job, and the orphans that its selector matches. The events of a
    /// deleted Job show no pods, so its pods are found by UID.
    Selected {
        /// Namespace of the Job.
        namespace: Sym,
        /// UID of the Job.
        uid: Uid,
        /// Selector of the Job.
        selector: Selector,
    },
}

impl fmt::Display for OrphanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(pod) => write!(f, "{pod}"),
            Self::Selected {
                namespace,
                selector,
                ..
            } => write!(f, "{namespace}/{selector}"),
        }
    }
}

/// A finalizer could not be removed. Each failure is retried, since a forgotten finalizer keeps its pod, and
/// the namespace, for ever.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrphanError {
    /// The live read of the owner failed.
    #[error("check the owner of pod {pod}: {source}")]
    Check {
        /// The pod.
        pod: ObjectKey,
        /// The failed read.
        #[source]
        source: LiveError,
    },
    /// The patch failed.
    #[error("remove the tracking finalizer of pod {pod}: {source}")]
    Remove {
        /// The pod.
        pod: ObjectKey,
        /// The failed request.
        #[source]
        source: ApiError,
    },
}

/// Syncs the queue of orphans.
pub(super) struct OrphanSyncer {
    // Pods of Jobs with another manager keep their finalizers, since that manager counts them.
    pub(super) gates: JobGates,
    pub(super) jobs: Store<Job>,
    pub(super) pods: ByController<Pod>,
    /// Tells whether the cache of Jobs is older than this term.
    pub(super) jobs_cache: TrackedCache,
    pub(super) client: ApiClient,
}

// One failure must not stop the others: each pod is released on its own.
impl Syncer<OrphanKey> for OrphanSyncer {
    type Error = OrphanError;

    async fn sync(&self, key: &OrphanKey) -> Result<Requeue, OrphanError> {
        let mut failure = None;
        for pod in self.candidates(key) {
            match self.release(&pod).await {
                // Leadership is over, so no further patch may be sent.
                Err(error) if ApiError::within(&error).is_some_and(ApiError::is_fenced) => {
                    return Err(error);
                }
                Err(error) => failure = failure.or(Some(error)),
                Ok(()) => {}
            }
        }
        failure.map_or(Ok(Requeue::Never), Err)
    }

    fn retry(&self, error: &OrphanError, _failures: u32) -> Retry {
        Retry::after_request(ApiError::within(error))
    }
}

impl OrphanSyncer {
    /// The cached pods of `key` that have the finalizer. For a selector, pods of other controllers are left
    /// out, in contrast to upstream.
    fn candidates(&self, key: &OrphanKey) -> Vec<Arc<Pod>> {
        let mut pods = match key {
            OrphanKey::Named(name) => self.pods.store().get(name).into_iter().collect(),
            OrphanKey::Selected {
                namespace,
                uid,
                selector,
            } => {
                let mut pods = self.pods.controlled_by_uid(uid);
                pods.extend(self.pods.orphans(namespace));
                pods.retain(|pod| {
                    pod.meta.namespace == *namespace && selector.matches(&pod.meta.labels)
                });
                pods
            }
        };
        pods.retain(|pod| pod.has_job_tracking);
        pods
    }

    /// Removes the finalizer from `pod`, if no Job counts it.
    async fn release(&self, pod: &Pod) -> Result<(), OrphanError> {
        if !self.is_orphan(pod).await? {
            return Ok(());
        }
        let patch = FinalizerPatch::remove(&pod.meta.uid);
        let target = Target::of::<Pod>(&pod.meta);
        match self
            .client
            .patch(target, PatchKind::Strategic, &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if is_gone(&error) => Ok(()),
            Err(source) => Err(OrphanError::Remove {
                pod: pod.key(),
                source,
            }),
        }
    }

    /// Whether `pod` is left to no Job: its Job is finished or gone, or its controller is missing.
    ///
    /// Upstream: `handleSingleOrphanPod`. Only batch/v1 Jobs are known: another controller may use the same
    /// finalizer for its pods.
    async fn is_orphan(&self, pod: &Pod) -> Result<bool, OrphanError> {
        // Garbage collection with `orphan` removes the reference and leaves the finalizer.
        let Some(reference) = pod.meta.controller() else {
            return Ok(true);
        };
        if reference.kind != *Job::RESOURCE.kind || reference.api_version != *"batch/v1" {
            return Ok(false);
        }
        if let Some(job) = owner_of(&self.jobs, &pod.meta) {
            return Ok(!self.counts_pods_of(&job, reference));
        }
        // With a cache of this term, an absent Job is gone.
        if !self.jobs_cache.predates_term() {
            return Ok(true);
        }
        // The cache may be older than the Job, so only the API server knows whether it is gone.
        let live = self.live_job(&pod.meta.namespace, &reference.name).await;
        let live = live.map_err(|source| OrphanError::Check {
            pod: pod.key(),
            source,
        })?;
        Ok(live.is_none_or(|job| !self.counts_pods_of(&job, reference)))
    }

    /// The Job `name` as the API server has it now. `None` only if the answer is about this object. A missing
    /// API is a failure.
    async fn live_job(&self, namespace: &str, name: &str) -> Result<Option<Job>, LiveError> {
        let target = Target {
            resource: Job::RESOURCE,
            namespace: Some(namespace),
            name: Some(name),
            subresource: None,
        };
        match self.client.get(target).await {
            Ok(answer) => Job::decode(&answer).map(Some).map_err(LiveError::Object),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(LiveError::Request(error)),
        }
    }

    /// Whether `job` is the owner in `reference`, and its pods keep the finalizer: it is unfinished,
    /// or another controller manages it. Another Job of the same name does not count pods of this
    /// one.
    fn counts_pods_of(&self, job: &Job, reference: &OwnerReference) -> bool {
        let keeps = job.finished().is_none() || self.gates.external_manager(job).is_some();
        job.meta.uid == reference.uid && keeps
    }
}

#[cfg(test)]
mod tests;
