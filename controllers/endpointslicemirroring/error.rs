//! The failures of a sync. The texts are upstream's.

use steersman_client::ApiError;
use steersman_helpers::endpointslice::SliceWriteError;
use steersman_objects::ObjectKey;
use steersman_runtime::consistency::{RECHECK, Unconfirmed};
use steersman_runtime::workers::Retry;

/// Failures in a row after which a key is dropped until the next event. The last retries are 100 s
/// apart. Upstream: `maxRetries`.
const MAX_RETRIES: u32 = 15;

/// The operation that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A slice could not be written.
    #[error("{0}")]
    Write(#[from] SliceWriteError),
    /// Slices of Endpoints that are no longer mirrored. `source` is the first failure. All slices
    /// were tried. Upstream: `deleteEndpoints`.
    #[error(
        "error(s) deleting {failed}/{all} EndpointSlices for {key} Endpoints, including: {source}"
    )]
    CleanUp {
        key: ObjectKey,
        failed: usize,
        all: usize,
        #[source]
        source: ApiError,
    },
    /// The API server does not confirm the caches of a new leader. Nothing was written.
    #[error("compare the caches of Endpoints {key} with the API server: {source}")]
    Check {
        key: ObjectKey,
        #[source]
        source: Unconfirmed,
    },
}

impl SyncError {
    /// The treatment of the key. `failures` is the number of earlier failures in a row. A stale
    /// cache is no failure of the Endpoints, so its check comes before the count.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        if matches!(
            self,
            Self::Check {
                source: Unconfirmed::Stale,
                ..
            }
        ) {
            Retry::After(RECHECK)
        } else if failures >= MAX_RETRIES {
            Retry::Drop
        } else {
            Retry::after_request(ApiError::within(self))
        }
    }
}
