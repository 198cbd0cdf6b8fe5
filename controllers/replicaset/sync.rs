//! One sync of one owner: claim its pods, create or delete pods, write the status.
//!
//! The status has the pods from before the scaling, and a later sync reports the new ones. So one
//! sync needs no second read of the cache. Upstream: `syncReplicaSet` and `manageReplicas`.

use std::sync::Arc;

use steersman_runtime::client::{ApiClient, ApiError};
use steersman_runtime::clock::Clock;
use steersman_runtime::features::{self, FeatureGates};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::labels::Selector;
use steersman_runtime::live::{self, LiveError};
use steersman_runtime::object::{Identity, ObjectKey, Pod, ReplicaSetStatus};
use steersman_runtime::own_writes::WritesTo;
use steersman_runtime::owner::{ByController, ClaimError};
use steersman_runtime::pod_control::{Owner, PodControl, TemplateError, from_template};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::writes::{OnFailure, StatusError, write_status};

use super::metrics::ReplicaSetMetrics;
use super::owner::PodOwner;
use super::ranking::{self, Costs};
use super::scale::{self, Scale};
use super::status;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A pod could not be adopted or released.
    #[error("claim pods: {0}")]
    Claim(#[source] ClaimError),
    /// The cache is in doubt, and the live read to confirm it failed.
    #[error("check pods: {0}")]
    Check(#[source] LiveError),
    /// Pods could not be created or deleted.
    #[error("scale: {0}")]
    Scale(#[source] ScaleError),
    /// The status could not be written.
    #[error("write status: {0}")]
    Status(#[source] StatusError),
}

/// A failed creation or deletion of pods. The texts are messages of the condition
/// `ReplicaFailure`.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("{0}")]
    Create(#[source] ApiError),
    #[error("{0}")]
    Template(#[source] TemplateError),
    #[error("unable to delete pods: {0}")]
    Delete(#[source] ApiError),
}

impl ScaleError {
    fn is_fenced(&self) -> bool {
        matches!(self, Self::Create(error) | Self::Delete(error) if error.is_fenced())
    }
}

/// Syncs the owners of kind `O`.
pub(super) struct ReplicaController<O> {
    pub(super) owners: Store<O>,
    pub(super) siblings: ByController<O>,
    pub(super) pods: Store<Pod>,
    pub(super) control: PodControl,
    /// Own writes of owners, which are status updates.
    pub(super) written: WritesTo,
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) metrics: ReplicaSetMetrics,
    pub(super) features: FeatureGates,
}

impl<O: PodOwner> ObjectSyncer for ReplicaController<O> {
    type Object = O;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, object: Arc<O>) -> Result<Requeue, SyncError> {
        let selector = match object.selector() {
            Ok(selector) => selector,
            Err(error) => {
                tracing::error!(%error, "selector is malformed, nothing to sync until it changes");
                return Ok(Requeue::Never);
            }
        };
        let owner = Owner {
            key,
            object: &*object,
            selector,
        };
        // Read before the pods, for the reason in `PodControl::expectations`.
        let is_settled = self.control.expectations().satisfied(key);
        let may_scale = is_settled && !object.meta().is_terminating();
        let mut candidates = self.control.candidates(owner);
        let terminating = owner.count_terminating(&candidates);
        candidates.retain(|pod| pod.is_active());
        let active = self
            .control
            .claim(owner, candidates)
            .await
            .map_err(SyncError::Claim)?;
        let failure = if may_scale && self.cache_is_current(owner, &active).await? {
            self.scale(owner, &active).await.err()
        } else {
            None
        };
        match failure {
            Some(failure) if failure.is_fenced() => Err(SyncError::Scale(failure)),
            failure => self.report(owner, &active, terminating, failure).await,
        }
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::Status(StatusError::Replaced(_)) => Retry::Quietly,
            // The owner was deleted before the adoption, which the cache will show.
            SyncError::Claim(_) if request.is_some_and(ApiError::is_object_not_found) => {
                Retry::Quietly
            }
            SyncError::Claim(_) => Retry::BackOff,
            // The usual causes are a quota, a webhook, or an overlapping selector. An operator has
            // to resolve them, so the error is logged.
            SyncError::Scale(_) => Retry::BackOff,
            _ => Retry::after_request(request),
        }
    }
}

impl<O: PodOwner> ReplicaController<O> {
    /// True if the caches are recent enough to create or delete pods. If not, the missing event
    /// enqueues the key.
    async fn cache_is_current(
        &self,
        owner: Owner<'_, O>,
        active: &[Arc<Pod>],
    ) -> Result<bool, SyncError> {
        if scale::decide(active.len(), owner.object.replicas()) == Scale::Steady {
            return Ok(true);
        }
        if self.written.predates_term()
            && !live::is_current::<O>(&self.client, owner.object.meta())
                .await
                .map_err(SyncError::Check)?
        {
            return Ok(false);
        }
        self.control
            .cache_is_current(owner, active)
            .await
            .map_err(SyncError::Check)
    }

    /// Creates or deletes pods. The caller reports a failure in the status.
    async fn scale(&self, owner: Owner<'_, O>, active: &[Arc<Pod>]) -> Result<(), ScaleError> {
        let (kind, need) = (&*O::RESOURCE.kind, owner.object.replicas());
        let scaled = match scale::decide(active.len(), need) {
            Scale::Steady => return Ok(()),
            Scale::Create(count) => {
                tracing::debug!(kind, need, creating = count, "Too few replicas");
                self.create_pods(owner, count).await
            }
            Scale::Delete(count) => {
                tracing::debug!(kind, need, deleting = count, "Too many replicas");
                let victims = self.victims(owner.object, active, count);
                let deleted = self.control.delete(owner, &victims).await;
                deleted.map_err(ScaleError::Delete)
            }
        };
        // The owner may have been deleted or recreated during the writes. Its expectations must not
        // delay a new owner of that name.
        let uid = &owner.object.meta().uid;
        if self
            .owners
            .get(owner.key)
            .is_none_or(|now| now.meta().uid != *uid)
        {
            self.control.forget(owner.key);
        }
        scaled
    }

    async fn create_pods(&self, owner: Owner<'_, O>, count: usize) -> Result<(), ScaleError> {
        let object = owner.object;
        let body = from_template::<O>(object.meta(), object.template_labels(), object.document())
            .map_err(ScaleError::Template)?;
        let created = self.control.create(owner, count, &body).await;
        created.map_err(ScaleError::Create)
    }

    /// The `count` pods of `active` to delete, by upstream's ranking.
    fn victims(&self, owner: &O, active: &[Arc<Pod>], count: usize) -> Vec<Arc<Pod>> {
        let costs = if self.features.is_on(features::POD_DELETION_COST) {
            Costs::Count
        } else {
            Costs::Ignored
        };
        let now = self.clock.now();
        if count == active.len() {
            return ranking::first_to_go(active, &[], count, costs, now);
        }
        let related = self.related_pods(owner);
        let victims = ranking::first_to_go(active, &related, count, costs, now);
        for ratio in ranking::age_ratios(active, &victims, now) {
            self.metrics.deletion_age_ratio.observe(ratio as f64);
        }
        victims
    }

    /// The pods of all owners with the same controller as `owner`, including its own pods. The
    /// selectors of these owners find the pods, and each pod is returned once.
    fn related_pods(&self, owner: &O) -> Vec<Arc<Pod>> {
        let Some(group) = owner.group() else {
            return Vec::new();
        };
        let siblings = self.siblings.controlled_by_uid(group);
        let selectors: Vec<&Selector> = siblings
            .iter()
            .filter(|sibling| sibling.meta().namespace == owner.meta().namespace)
            .filter_map(|sibling| sibling.selector().ok())
            .collect();
        let mut pods = self.pods.in_namespace(&owner.meta().namespace);
        pods.retain(|pod| {
            selectors
                .iter()
                .any(|selector| selector.matches(&pod.meta.labels))
        });
        pods
    }

    /// Writes the status, and returns the time of the next sync.
    ///
    /// The status counts the pods from before the creations and deletions. It is written even if
    /// these failed, since it reports the failure.
    async fn report(
        &self,
        owner: Owner<'_, O>,
        active: &[Arc<Pod>],
        terminating: usize,
        failure: Option<ScaleError>,
    ) -> Result<Requeue, SyncError> {
        let Owner { key, object, .. } = owner;
        let now = self.clock.now();
        let terminating = self
            .features
            .is_on(features::DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS)
            .then_some(terminating);
        let text = failure.as_ref().map(ToString::to_string);
        let status = status::compute(object, active, terminating, text.as_deref(), now);
        match self.write_status(key, object, status.clone()).await {
            // The owner was deleted. Its key returns when the cache shows the deletion.
            Err(SyncError::Status(error)) if error.is_object_not_found() => {
                return Ok(Requeue::Never);
            }
            written => written?,
        }
        if let Some(failure) = failure {
            return Err(SyncError::Scale(failure));
        }
        let seconds = object.min_ready_seconds();
        let available = status::next_check(&status, active, seconds, now, self.clock.now());
        let expires = self
            .control
            .expectations()
            .expires_in(key)
            .filter(|_| !object.meta().is_terminating());
        let next = available.into_iter().chain(expires).min();
        Ok(next.map_or(Requeue::Never, Requeue::After))
    }

    /// Writes `status` if it differs from the current one.
    async fn write_status(
        &self,
        key: &ObjectKey,
        owner: &O,
        mut status: ReplicaSetStatus,
    ) -> Result<(), SyncError> {
        let meta = owner.meta();
        if !status::needs_write(owner.status(), &status, meta.generation) {
            return Ok(());
        }
        // The generation that this sync acted on, even if the retry finds a newer one.
        status.observed_generation = meta.generation;
        tracing::trace!(
            replicas = status.replicas,
            need = owner.replicas(),
            readyReplicas = status.ready_replicas,
            availableReplicas = status.available_replicas,
            "Updating status"
        );
        let repeat = OnFailure::RepeatOnLiveObject;
        let answer = write_status::<O>(&self.client, meta, owner.document(), &status, repeat)
            .await
            .map_err(SyncError::Status)?;
        let written = Identity::decode(&answer)
            .map_err(|error| SyncError::Status(StatusError::Answer(error)))?;
        self.written.record(key, written.resource_version);
        Ok(())
    }
}
