//! One sync of one owner: claim its pods, create or delete pods, write the status.
//!
//! The status has the pods from before the scaling, and a later sync reports the new ones. So one
//! sync needs no second read of the cache. If the scaling succeeded and only `observedGeneration`
//! changes, the next sync tells of that too. Upstream: `syncReplicaSet` and `manageReplicas`.

use std::sync::Arc;

use steersman_client::live::LiveError;
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Target, Violation};
use steersman_objects::{Meta, ObjectKey, Pod, ReplicaSetStatus};
use steersman_options::features::{self, FeatureGates};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner::{ByController, ClaimError};
use steersman_runtime::pod_control::{Owner, PodControl, PodsError, from_template};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;

use super::invariants;
use super::metrics::ReplicaSetMetrics;
use super::owner::PodOwner;
use super::ranking::{self, Costs};
use super::related::SelectedPods;
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
    Scale(#[source] PodsError),
    /// The status could not be written.
    #[error("write status: {0}")]
    Status(#[source] StatusError),
}

/// The cached pods of an owner. Pods that ended are in neither list: they count for nothing and are left to
/// the garbage collector of pods.
struct Pods {
    active: Vec<Arc<Pod>>,
    terminating: Vec<Arc<Pod>>,
}

/// Syncs the owners of kind `O`.
pub(super) struct ReplicaController<O> {
    /// The cached owners of the kind.
    pub(super) owners: Store<O>,
    /// The owners by their controller, for the ranking.
    pub(super) siblings: ByController<O>,
    /// The pods by the selectors of owners, for the ranking.
    pub(super) selected: SelectedPods,
    /// Creates, deletes and claims pods, and tracks these writes.
    pub(super) control: PodControl,
    /// The cache of owners. Own writes are status updates.
    pub(super) cache: TrackedCache,
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
        // Read before the pods, for the reason in `ConsistencyStore::satisfied`.
        let is_settled = self.control.consistency().satisfied(key);
        let may_scale = is_settled && !object.meta().is_terminating();
        let (candidates, inactive) = self
            .control
            .candidates(owner)
            .into_iter()
            .partition(|pod| pod.is_active());
        let active = self.control.claim(owner, candidates).await;
        let pods = Pods {
            active: active.map_err(SyncError::Claim)?,
            terminating: owner.terminating(inactive),
        };
        let decision = scale::decide(pods.active.len(), object.replicas());
        if !may_scale || decision == Scale::Steady {
            return self.report(owner, &pods, None).await;
        }
        if !self.cache_is_current(owner, &pods).await? {
            return Ok(Requeue::Never);
        }
        match self.scale(owner, &pods.active, decision).await {
            Err(failure) if failure.is_fenced() => Err(SyncError::Scale(failure)),
            scaled => {
                let requeue = self.report(owner, &pods, Some(scaled)).await?;
                let is_part = scale::exceeds_burst(pods.active.len(), object.replicas());
                Ok(if is_part { Requeue::AtOnce } else { requeue })
            }
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
    /// True if the caches are recent enough for the first write of a sync. If not, the missing event
    /// enqueues the key.
    ///
    /// The status counts ready pods, so the pods must have the versions of the API server.
    async fn cache_is_current(&self, owner: Owner<'_, O>, pods: &Pods) -> Result<bool, SyncError> {
        let meta = owner.object.meta();
        let is_current = self.cache.age().shows::<O>(&self.client, meta).await;
        if !is_current.map_err(SyncError::Check)? {
            return Ok(false);
        }
        let version = |pod: &Pod| is_compared(meta, pod).then_some(pod.meta.resource_version);
        let cached = [&*pods.active, &*pods.terminating].concat();
        let agrees = self.control.cache_agrees(owner, &cached, version).await;
        agrees.map_err(SyncError::Check)
    }

    /// Creates or deletes pods. The caller reports a failure in the status.
    ///
    /// Upstream: `manageReplicas`. A violated invariant ends it before the first request.
    pub(super) async fn scale(
        &self,
        owner: Owner<'_, O>,
        active: &[Arc<Pod>],
        decision: Scale,
    ) -> Result<(), PodsError> {
        let kind = &*O::RESOURCE.kind;
        let need = owner.object.replicas();
        let scaled = match decision {
            Scale::Steady => return Ok(()),
            Scale::Create(count) => {
                tracing::debug!(kind, need, creating = count, "Too few replicas");
                self.permit(owner, invariants::creates_missing(active, need, count))
                    .map_err(PodsError::Create)?;
                self.create_pods(owner, count).await
            }
            Scale::Delete(count) => {
                tracing::debug!(kind, need, deleting = count, "Too many replicas");
                let victims = self.victims(owner.object, active, count);
                self.permit(owner, invariants::deletes_surplus(active, need, &victims))
                    .map_err(PodsError::Delete)?;
                let deleted = self.control.delete(owner, &victims).await;
                deleted.map_err(PodsError::Delete)
            }
        };
        self.control.forget_if_replaced(owner, &self.owners);
        scaled
    }

    /// Counts and logs a violated invariant, and turns it into the error of the refused write.
    fn permit(&self, owner: Owner<'_, O>, checked: Result<(), Violation>) -> Result<(), ApiError> {
        let target = Target::of::<O>(owner.object.meta());
        self.client.permit(target, checked)
    }

    /// All pods of one sync share one body. Names are generated by the API server from the owner's name.
    async fn create_pods(&self, owner: Owner<'_, O>, count: usize) -> Result<(), PodsError> {
        let object = owner.object;
        let body = from_template::<O>(object.meta(), object.template_labels(), object.document())
            .map_err(PodsError::Template)?;
        let created = self.control.create(owner, count, &body).await;
        created.map_err(PodsError::Create)
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

    /// The pods of all owners with the same controller as `owner`, including its own pods.
    ///
    /// Upstream: `getIndirectlyRelatedPods`. A sibling with a malformed selector has no pods. An owner
    /// without a controller has an empty list, so all its pods have rank 0.
    fn related_pods(&self, owner: &O) -> Vec<Arc<Pod>> {
        let Some(group) = owner.group() else {
            return Vec::new();
        };
        let namespace = &owner.meta().namespace;
        let siblings = self.siblings.controlled_by_uid(group);
        let selectors = siblings
            .iter()
            .filter(|sibling| sibling.meta().namespace == *namespace)
            .filter_map(|sibling| sibling.selector().ok());
        self.selected.of_any(namespace, selectors)
    }

    /// Writes the status, and returns the time of the next sync.
    ///
    /// The status counts the pods from before the creations and deletions, whose outcome is
    /// `scaled`. It is written even if these failed, since it reports the failure.
    async fn report(
        &self,
        owner: Owner<'_, O>,
        pods: &Pods,
        scaled: Option<Result<(), PodsError>>,
    ) -> Result<Requeue, SyncError> {
        let Owner { key, object, .. } = owner;
        let active = &*pods.active;
        // Before a scaling, the sync has checked the caches.
        let is_checked = scaled.is_some();
        let failure = scaled.and_then(Result::err);
        let now = self.clock.now();
        let terminating = self
            .features
            .is_on(features::DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS)
            .then_some(pods.terminating.len());
        let text = failure.as_ref().map(ToString::to_string);
        let status = status::compute(object, active, terminating, text.as_deref(), now);
        let written = self.write_status(owner, pods, status.clone(), is_checked);
        match written.await {
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
        let expires = self.control.consistency().expires_in(key);
        let expires = expires.filter(|_| !object.meta().is_terminating());
        let next = available.into_iter().chain(expires).min();
        Ok(next.map_or(Requeue::Never, Requeue::After))
    }

    /// Writes `status` if it differs from the current one, and the caches are recent enough.
    ///
    /// Upstream: `updateReplicaSetStatus`, with one repetition on the live object after a failure.
    async fn write_status(
        &self,
        owner: Owner<'_, O>,
        pods: &Pods,
        mut status: ReplicaSetStatus,
        is_checked: bool,
    ) -> Result<(), SyncError> {
        let Owner { key, object, .. } = owner;
        let meta = object.meta();
        if !status::needs_write(object.status(), &status, meta.generation) {
            return Ok(());
        }
        if !is_checked && !self.cache_is_current(owner, pods).await? {
            return Ok(());
        }
        // The generation that this sync acted on, even if the retry finds a newer one.
        status.observed_generation = meta.generation;
        tracing::trace!(
            replicas = status.replicas,
            need = object.replicas(),
            readyReplicas = status.ready_replicas,
            availableReplicas = status.available_replicas,
            "Updating status"
        );
        let repeat = OnFailure::RepeatOnLiveObject;
        let answer = write_status::<O>(&self.client, meta, object.document(), &status, repeat)
            .await
            .map_err(SyncError::Status)?;
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(|error| SyncError::Status(StatusError::Answer(error)))
    }
}

/// Whether the status of `owner` counts `pod`, or will count it after an adoption. Other orphans
/// never become pods of the owner, so waiting for them would not end.
fn is_compared(owner: &Meta, pod: &Pod) -> bool {
    let may_adopt = pod.is_active() && !owner.is_terminating();
    let is_counted = pod.is_active() || pod.is_terminating();
    is_counted && (may_adopt || pod.meta.is_controlled_by(&owner.uid))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::pod;
    use crate::testing::{replica_set, time};

    #[test]
    fn pods_of_the_status_and_orphans_to_adopt_are_compared() {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
        let own = || pod("a").metadata("ownerReferences", owners.clone());
        // (why, pod, compared, compared with a terminating owner)
        let cases = [
            ("own", own(), true, true),
            ("own, terminating", own().deleted(1), true, true),
            ("own, finished", own().phase("Failed"), false, false),
            ("an orphan", pod("a"), true, false),
            ("a terminating orphan", pod("a").deleted(1), false, false),
        ];
        let set = replica_set("web").metadata("uid", "u");
        let terminating = set.clone().metadata("deletionTimestamp", time(1)).build();
        let set = set.build();
        for (why, pod, running, ending) in cases {
            let pod = pod.build();
            let found = [&set, &terminating].map(|set| is_compared(&set.meta, &pod));
            assert_eq!(found, [running, ending], "{why}");
        }
    }
}
