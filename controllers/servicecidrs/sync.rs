//! One sync of one ServiceCIDR: set its finalizer and its condition, or let it go.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::live::{self, LiveError};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{DecodeError, IpAddress, Object, ObjectKey, ObjectReference, ServiceCidr};
use steersman_runtime::consistency::{RECHECK, TrackedCache};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::{Clock, saturating_since};
use steersman_values::labels::{Labels, Selector};

use super::condition::Ready;
use super::{NAME, ranges};

/// Keeps a deleted ServiceCIDR until its addresses are gone.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Time from the deletion to the removal of the finalizer. Within it, all API servers stop
/// allocating from the ServiceCIDR. Upstream: `deletionGracePeriod`.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Retries in a row before a key is dropped. Upstream: `maxRetries`.
const MAX_RETRIES: u32 = 15;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The finalizer could not be set or removed.
    #[error("{0}")]
    Finalizer(#[source] ApiError),
    /// The condition could not be written.
    #[error("{0}")]
    Condition(#[source] ApiError),
    /// The caches of a new leader are older than its term, and the API server was not asked.
    #[error("{0}")]
    Check(#[source] LiveError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Syncs ServiceCIDRs.
pub(super) struct ServiceCidrs {
    pub(super) cidrs: Store<ServiceCidr>,
    pub(super) ips: Store<IpAddress>,
    pub(super) cidrs_cache: TrackedCache,
    /// This controller writes no IP addresses. The record knows the age of their cache.
    pub(super) ips_cache: TrackedCache,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
}

impl ObjectSyncer for ServiceCidrs {
    type Object = ServiceCidr;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, cidr: Arc<ServiceCidr>) -> Result<Requeue, SyncError> {
        if let Some(deleted) = cidr.meta.deleted {
            let age = saturating_since(self.clock.now(), deleted.into());
            return self.let_go(key, &cidr, age).await;
        }
        if !cidr.has_finalizer(FINALIZER) {
            let patch = json!({"finalizers": [FINALIZER]});
            self.patch_finalizers(key, &cidr, patch).await?;
        }
        let ready = self.set_condition(key, &cidr, Ready::YES).await;
        if matches!(&ready, Err(SyncError::Condition(error)) if !error.is_fenced()) {
            self.recorder.event(
                ObjectReference::of(&*cidr),
                EventType::Warning,
                "KubernetesServiceCIDRError",
                "The ServiceCIDR Status can not be set to Ready=True".to_owned(),
            );
        }
        ready?;
        Ok(Requeue::Never)
    }

    fn retry(&self, _error: &SyncError, request: Option<&ApiError>, failures: u32) -> Retry {
        if failures >= MAX_RETRIES {
            Retry::Drop
        } else {
            Retry::after_request(request)
        }
    }
}

impl ServiceCidrs {
    /// Removes the finalizer of a ServiceCIDR that was deleted `age` ago, if it may go.
    async fn let_go(
        &self,
        key: &ObjectKey,
        cidr: &ServiceCidr,
        age: Duration,
    ) -> Result<Requeue, SyncError> {
        if !ranges::may_go(&self.cidrs.list(), &self.ips.list(), cidr) {
            self.set_condition(key, cidr, Ready::TERMINATING).await?;
            return Ok(Requeue::Never);
        }
        if age < GRACE_PERIOD {
            return Ok(Requeue::After(GRACE_PERIOD - age));
        }
        if !self.may_still_go(cidr).await? {
            return Ok(Requeue::After(RECHECK));
        }
        if cidr.has_finalizer(FINALIZER) {
            let patch = json!({"$deleteFromPrimitiveList/finalizers": [FINALIZER]});
            self.patch_finalizers(key, cidr, patch).await?;
        }
        Ok(Requeue::Never)
    }

    /// Whether the API server agrees that `cidr` may go. Only the caches of a new leader are
    /// compared with it. They may lack an address that was allocated before the deletion, and they
    /// may stay older than the term until the next bookmark.
    async fn may_still_go(&self, cidr: &ServiceCidr) -> Result<bool, SyncError> {
        if !self.cidrs_cache.predates_term() && !self.ips_cache.predates_term() {
            return Ok(true);
        }
        let everything = Selector::of_labels(&Labels::default());
        let cidrs = self.live(&everything).await?;
        let ips = self.live(&ranges::of_allocator()).await?;
        Ok(ranges::may_go(&cidrs, &ips, cidr))
    }

    /// The objects of type `T` that `selector` matches, as the API server has them.
    async fn live<T: Object>(&self, selector: &Selector) -> Result<Vec<Arc<T>>, SyncError> {
        let live = live::matching::<T>(&self.client, "", selector).await;
        let objects = live.map_err(SyncError::Check)?.objects;
        Ok(objects.into_iter().map(Arc::new).collect())
    }

    async fn patch_finalizers(
        &self,
        key: &ObjectKey,
        cidr: &ServiceCidr,
        mut metadata: Value,
    ) -> Result<(), SyncError> {
        metadata["uid"] = json!(cidr.meta.uid);
        let patch = json!({ "metadata": metadata });
        let target = Target::of::<ServiceCidr>(&cidr.meta);
        match self
            .client
            .patch(target, PatchKind::Strategic, &patch)
            .await
        {
            Ok(answer) => self.record(key, &answer),
            Err(error) if error.is_object_not_found() => Ok(()),
            Err(error) => Err(SyncError::Finalizer(error)),
        }
    }

    async fn set_condition(
        &self,
        key: &ObjectKey,
        cidr: &ServiceCidr,
        ready: Ready,
    ) -> Result<(), SyncError> {
        if ready.is_set(cidr) {
            return Ok(());
        }
        let target = Target::of::<ServiceCidr>(&cidr.meta).status();
        let configuration = ready.configuration(cidr, self.clock.now());
        let answer = self.client.apply(target, NAME, &configuration).await;
        self.record(key, &answer.map_err(SyncError::Condition)?)
    }

    fn record(&self, key: &ObjectKey, answer: &[u8]) -> Result<(), SyncError> {
        let recorded = self.cidrs_cache.wrote_answer(key, answer);
        recorded.map_err(SyncError::Answer)
    }
}
