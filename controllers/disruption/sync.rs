//! One sync of one budget: list its pods, count, review evictions, write the status.
//!
//! A failed attempt writes a status that allows no evictions. Only a conflict does not: the API
//! server has accepted an eviction, and the next sync starts from the newer budget.
//!
//! Upstream: `sync`, `trySync` and `failSafe`.

use std::sync::Arc;

use steersman_client::live::{self, Live, LiveError};
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Category};
use steersman_objects::{
    Object, ObjectKey, PercentError, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::{Clock, saturating_since};
use steersman_values::labels::SelectorError;

use super::disrupted;
use super::events::{self, AboutBudget};
use super::expected::{self, Basis};
use super::scales::{Counted, ScaleError, Scales};
use super::status::{self, Numbers};

/// The operation of a sync that failed.
///
/// The text becomes the message of the condition `DisruptionAllowed`.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The selector is malformed.
    #[error("{0}")]
    Selector(#[source] SelectorError),
    /// The size of a workload is unknown.
    #[error("{0}")]
    Scale(#[source] ScaleError),
    /// A limit is a text that is no percentage.
    #[error("{0}")]
    Limit(#[source] PercentError),
    /// The cache of pods is in doubt, and the live read to confirm it failed.
    #[error("check caches: {0}")]
    Check(#[source] LiveError),
    /// The status could not be written.
    #[error("{0}")]
    Status(#[source] StatusError),
    /// The status is written, but the cache lacked a workload.
    #[error("a workload is not in the cache yet")]
    CacheIsBehind,
    /// A request failed, and the status of a failed sync is written. It shows the reason already.
    #[error("{0}")]
    Reported(#[source] Box<Self>),
}

impl SyncError {
    /// True if the status must not become the one of a failed sync.
    ///
    /// After a conflict the budget has changed, and after the end of leadership no write may follow.
    fn is_final(&self) -> bool {
        let request = ApiError::within(self);
        matches!(self, Self::CacheIsBehind)
            || request.is_some_and(|error| error.is_conflict() || error.is_fenced())
    }

    /// True if the same sync may succeed later without a change of the cluster.
    ///
    /// Other causes need a change of the cluster, whose event enqueues the budget.
    fn is_failed_request(&self) -> bool {
        match self {
            Self::Scale(error) => error.is_failed_request(),
            Self::Check(_) | Self::Status(_) => true,
            Self::Selector(_) | Self::Limit(_) | Self::CacheIsBehind | Self::Reported(_) => false,
        }
    }
}

/// Syncs budgets.
///
/// Two caches are tracked: the budgets that it writes, and the pods that it counts.
pub(super) struct Budgets {
    pub(super) pods: Store<Pod>,
    pub(super) scales: Scales,
    /// Keys of budgets with pending evictions.
    pub(super) recheck: WorkQueue<ObjectKey>,
    pub(super) cache: TrackedCache,
    /// Live reads of pods that the cache has to show.
    pub(super) pods_cache: TrackedCache,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
}

impl ObjectSyncer for Budgets {
    type Object = PodDisruptionBudget;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        budget: Arc<PodDisruptionBudget>,
    ) -> Result<Requeue, SyncError> {
        let error = match self.attempt(key, &budget).await {
            Ok(()) => return Ok(Requeue::Never),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => error,
        };
        let category = Category::of(&error).as_str();
        tracing::warn!(category, %error, "Failed to sync PDB");
        let failed = status::failed(&budget, &error.to_string(), self.clock.now());
        self.write(key, &budget, &failed).await?;
        // A request may succeed later. For other errors the condition tells the cause, and an event brings
        // the key back.
        if error.is_failed_request() {
            return Err(SyncError::Reported(Box::new(error)));
        }
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::CacheIsBehind | SyncError::Reported(_) => Retry::Quietly,
            _ => Retry::after_request(request),
        }
    }
}

impl Budgets {
    /// One attempt without the status of a failure. Upstream: `trySync`.
    async fn attempt(
        &self,
        key: &ObjectKey,
        budget: &PodDisruptionBudget,
    ) -> Result<(), SyncError> {
        let pods = self.pods_of(budget)?;
        // No error: without expected pods the status allows no eviction.
        if pods.is_empty() {
            AboutBudget::NoPods.record(&self.recorder, budget);
        }
        let counted = self.count(budget, &pods).await;
        let (counted, desired_healthy) = counted.inspect_err(|error| {
            AboutBudget::NotCounted(error).record(&self.recorder, budget);
        })?;
        if counted.has_unmanaged {
            AboutBudget::UnmanagedPods.record(&self.recorder, budget);
        }
        // One time for the whole attempt, so that both looks at the evictions agree.
        let now = self.clock.now();
        let review = disrupted::review(&budget.status.disrupted_pods, &pods, now);
        for pod in &review.overdue {
            tracing::info!(pod = %pod.meta.name, "pod was expected to be deleted but it wasn't, updating PDB");
            events::not_deleted(&self.recorder, pod, budget);
        }
        let numbers = Numbers {
            expected: counted.expected,
            desired_healthy,
            healthy: disrupted::healthy(&pods, &review.pending, now),
        };
        if let Some(new) = status::computed(budget, numbers, &review.pending, now) {
            // Fewer evictions are always safe, so only more of them need the live pods.
            let allows_more = new.disruptions_allowed > budget.status.disruptions_allowed;
            if allows_more && !self.has_current_pods(key, budget, &pods).await? {
                return Ok(());
            }
            self.write(key, budget, &new).await?;
        }
        // The queue keeps the earliest time per budget, as upstream's does.
        if let Some(time) = review.recheck {
            self.recheck
                .add_after(key.clone(), saturating_since(time, now));
        }
        // The status was computed with live sizes. The repetition finds out whether the cache has them.
        if counted.cache_is_behind {
            return Err(SyncError::CacheIsBehind);
        }
        Ok(())
    }

    /// The pods that `budget` selects, by name. The order keeps the text of an error equal from one
    /// sync to the next; a changed text would be one more write.
    ///
    /// Upstream: `getPodsForPdb`.
    fn pods_of(&self, budget: &PodDisruptionBudget) -> Result<Vec<Arc<Pod>>, SyncError> {
        let selector = budget.spec.selector.as_ref().map_err(|error| {
            AboutBudget::NoSelector(error).record(&self.recorder, budget);
            SyncError::Selector(error.clone())
        })?;
        let mut pods = self.pods.in_namespace(&budget.meta.namespace);
        pods.retain(|pod| selector.matches(&pod.meta.labels));
        pods.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        Ok(pods)
    }

    /// True if `pods` are the pods of the budget as the API server has them. A new leader with an
    /// old cache of pods would allow evictions that the previous leader has already counted.
    ///
    /// One list request, and only for a cache from before this term.
    async fn has_current_pods(
        &self,
        key: &ObjectKey,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<bool, SyncError> {
        let Ok(selector) = &budget.spec.selector else {
            return Ok(true);
        };
        if !self.pods_cache.predates_term() {
            return Ok(true);
        }
        let live = live::matching::<Pod>(&self.client, &budget.meta.namespace, selector).await;
        let Live { objects, .. } = live.map_err(SyncError::Check)?;
        let live = objects.iter().map(Object::meta);
        let cached = pods.iter().map(|pod| pod.meta());
        Ok(self.pods_cache.agrees(key, &self.queue, live, cached))
    }

    /// The expected pods of `budget`, and the number of them that must stay healthy.
    ///
    /// Upstream: `getExpectedPodCount`. A budget without limits expects 0 pods and allows no eviction.
    async fn count(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<(Counted, i32), SyncError> {
        let counted = match expected::basis(&budget.spec) {
            Basis::Scales => self.scales.count(pods).await.map_err(SyncError::Scale)?,
            Basis::Pods => Counted {
                expected: i32::try_from(pods.len()).unwrap_or(i32::MAX),
                ..Counted::default()
            },
            Basis::Nothing => Counted::default(),
        };
        let desired = expected::desired_healthy(&budget.spec, counted.expected);
        Ok((counted, desired.map_err(SyncError::Limit)?))
    }

    /// PUTs the status, if the budget still has its cached resource version.
    ///
    /// Upstream: `writePdbStatus`. A repetition on the live budget would overwrite the entry of an eviction.
    async fn write(
        &self,
        key: &ObjectKey,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
    ) -> Result<(), SyncError> {
        let once = OnFailure::Return;
        let answer = write_status::<PodDisruptionBudget>(
            &self.client,
            &budget.meta,
            &budget.document,
            status,
            once,
        );
        let answer = answer.await.map_err(SyncError::Status)?;
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(|error| SyncError::Status(StatusError::Answer(error)))
    }
}
