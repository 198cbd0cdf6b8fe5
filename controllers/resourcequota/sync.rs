//! One sync of one quota: count, and write the status if it differs.

use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_objects::{DecodeError, ObjectKey, ResourceQuota};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use tokio::time::Instant;

use super::releases::Releases;
use super::status;
use super::usage::{Counts, Usage, UsageError};

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The status could not be written.
    #[error("{0}")]
    Status(#[source] StatusError),
    /// The answer to the write is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// Some types could not be counted. The usage of the others was written. The retry with
    /// back-off counts the late types.
    #[error("{0}")]
    Usage(#[source] UsageError),
}

/// Syncs quotas.
pub(super) struct Quotas {
    pub(super) usage: Usage,
    pub(super) client: ApiClient,
    pub(super) cache: TrackedCache,
    pub(super) releases: Arc<Releases>,
}

impl ObjectSyncer for Quotas {
    type Object = ResourceQuota;
    type Error = SyncError;

    /// Upstream: `syncResourceQuotaFromKey`.
    async fn sync(&self, key: &ObjectKey, quota: Arc<ResourceQuota>) -> Result<Requeue, SyncError> {
        let wait = self.releases.take(key);
        let may_lower = wait.is_some_and(|wait| wait.is_zero());
        if let Err(error) = self.recount(key, &quota, may_lower).await {
            if may_lower {
                self.releases.expect(key, Instant::now());
            }
            return Err(error);
        }
        Ok(wait
            .filter(|_| !may_lower)
            .map_or(Requeue::Never, Requeue::After))
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.releases.forget(key);
        Ok(Requeue::Never)
    }
}

impl Quotas {
    /// Counts the objects of a quota, and writes its status if that differs.
    async fn recount(
        &self,
        key: &ObjectKey,
        quota: &ResourceQuota,
        may_lower: bool,
    ) -> Result<(), SyncError> {
        let Counts { used, failure } = self.usage.count(quota);
        if let Some(status) = status::change(quota, &used, may_lower) {
            let written = write_status::<ResourceQuota>(
                &self.client,
                &quota.meta,
                &quota.document,
                &status,
                OnFailure::Return,
            );
            let answer = written.await.map_err(SyncError::Status)?;
            let recorded = self.cache.wrote_answer(key, &answer);
            recorded.map_err(SyncError::Answer)?;
        }
        failure.map_or(Ok(()), |failure| Err(SyncError::Usage(failure)))
    }
}
