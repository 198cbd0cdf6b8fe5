//! The sync of a request without an answer. Upstream: `syncRequest`.

use std::sync::Arc;

use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError};
use steersman_objects::{
    DecodeError, DeviceTaintRule, ObjectKey, PoolSlice, ResourceClaim, ResourcePoolStatusRequest,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;
use tokio::time::Instant;

use super::metrics::RequestMetrics;
use super::pools::{Accounting, IncompletePool, answer};

/// Number of retries, after which a request waits for its next change. Upstream: `maxRetries`.
///
/// The back-off of five retries ends within a second, so a driver that publishes slowly gets no answer
/// to a request. Its user has to make another one.
const MAX_RETRIES: u32 = 5;

/// Answers requests from the caches.
pub(super) struct PoolReporter {
    pub(super) client: ApiClient,
    /// All slices of the cluster. Requests are rare, so no index by driver exists.
    pub(super) slices: Store<PoolSlice>,
    pub(super) claims: Store<ResourceClaim>,
    /// Whether devices are counted by the rules of 1.37.
    pub(super) counts_devices: bool,
    /// With the feature gate `DRADeviceTaintRules`, since 1.37.
    pub(super) rules: Option<Store<DeviceTaintRule>>,
    /// The cache of requests. After an answer, the next sync of the request waits until the answer is
    /// visible.
    pub(super) cache: TrackedCache,
    pub(super) clock: Clock,
    pub(super) metrics: RequestMetrics,
}

/// The failure of a sync.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// There is no answer yet.
    ///
    /// The text has the pool, where upstream's error names none.
    #[error("{0}")]
    Incomplete(#[source] IncompletePool),
    /// The answer could not be written.
    #[error("failed to update status for request {request}: {source}")]
    Status {
        /// The request.
        request: ObjectKey,
        /// The cause.
        source: StatusError,
    },
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

impl ObjectSyncer for PoolReporter {
    type Object = ResourcePoolStatusRequest;
    type Error = SyncError;

    /// The status is checked first: the request may have been answered since its event.
    async fn sync(
        &self,
        key: &ObjectKey,
        request: Arc<ResourcePoolStatusRequest>,
    ) -> Result<Requeue, SyncError> {
        if request.status.is_some() {
            return Ok(Requeue::Never);
        }
        let began = Instant::now();
        let slices = self.slices.list();
        let claims = self.claims.list();
        let rules: Vec<_> = self.rules.iter().flat_map(Store::list).collect();
        let accounting = if self.counts_devices {
            Accounting::Devices(&rules)
        } else {
            Accounting::Results
        };
        let now = self.clock.now_seconds();
        let status = answer(&request.spec, &slices, &claims, accounting, now);
        let status = status.map_err(SyncError::Incomplete)?;
        let written = write_status::<ResourcePoolStatusRequest>(
            &self.client,
            &request.meta,
            &request.document,
            &status,
            OnFailure::Return,
        )
        .await;
        self.metrics
            .processed(&request.spec.driver, written.is_ok(), began.elapsed());
        let written = written.map_err(|source| SyncError::Status {
            request: key.clone(),
            source,
        })?;
        let recorded = self.cache.wrote_answer(key, &written);
        recorded.map_err(SyncError::Answer)?;
        Ok(Requeue::Never)
    }

    fn retry(&self, _error: &SyncError, request: Option<&ApiError>, failures: u32) -> Retry {
        if failures < MAX_RETRIES {
            Retry::after_request(request)
        } else {
            Retry::Drop
        }
    }
}
