//! One sync of one quota: count, and write the status if it differs.

use std::sync::Arc;

use steersman_runtime::client::ApiClient;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::object::{DecodeError, Identity, ObjectKey, ResourceQuota};
use steersman_runtime::own_writes::WritesTo;
use steersman_runtime::workers::Requeue;
use steersman_runtime::writes::{OnFailure, StatusError, write_status};

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
    /// Some types could not be counted. The usage of the others was written.
    #[error("{0}")]
    Usage(#[source] UsageError),
}

/// Syncs quotas.
pub(super) struct Quotas {
    pub(super) usage: Usage,
    pub(super) client: ApiClient,
    pub(super) written: WritesTo,
}

impl ObjectSyncer for Quotas {
    type Object = ResourceQuota;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, quota: Arc<ResourceQuota>) -> Result<Requeue, SyncError> {
        let Counts { used, failure } = self.usage.count(&quota);
        if let Some(status) = status::change(&quota, &used) {
            let written = write_status::<ResourceQuota>(
                &self.client,
                &quota.meta,
                &quota.document,
                &status,
                OnFailure::Return,
            );
            let answer = written.await.map_err(SyncError::Status)?;
            let written = Identity::decode(&answer).map_err(SyncError::Answer)?;
            self.written.record(key, written.resource_version);
        }
        failure.map_or(Ok(Requeue::Never), |failure| Err(SyncError::Usage(failure)))
    }
}
