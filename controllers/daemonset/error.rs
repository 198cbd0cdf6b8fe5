//! Failures of the sync of a DaemonSet. The texts are upstream's where upstream has one.

use steersman_client::ApiError;
use steersman_client::live::LiveError;
use steersman_client::writes::StatusError;
use steersman_objects::{DecodeError, Uid};
use steersman_runtime::owner::ClaimError;
use steersman_runtime::pod_control::TemplateError;
use steersman_runtime::workers::Retry;

use super::limits::LimitError;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The current revision could not be found or created.
    #[error("failed to construct revisions of DaemonSet: {0}")]
    History(#[source] HistoryError),
    /// A pod could not be adopted or released.
    #[error("couldn't get node to daemon pod mapping for daemon set {name:?}: {source}")]
    Claim {
        /// Name of the DaemonSet.
        name: String,
        source: ClaimError,
    },
    /// The cache is in doubt, and the live read to confirm it failed.
    #[error("check caches: {0}")]
    Check(#[source] LiveError),
    /// The template is unusable.
    #[error(transparent)]
    Template(TemplateError),
    /// A limit of the rolling update is malformed.
    #[error(transparent)]
    Limit(LimitError),
    /// Pods could not be created or deleted.
    #[error("{0}")]
    Pods(#[source] ApiError),
    /// An old revision could not be deleted.
    #[error("failed to clean up revisions of DaemonSet: {0}")]
    CleanUp(#[source] ApiError),
    /// The status could not be written.
    #[error("error storing status for daemon set {name:?}: {source}")]
    Status {
        /// Name of the DaemonSet.
        name: String,
        source: StatusError,
    },
}

/// The operation on revisions that failed.
///
/// It is wrapped by [`SyncError::History`], whose text names the operation.
#[derive(Debug, thiserror::Error)]
pub(super) enum HistoryError {
    /// A revision or a pod could not be adopted or released.
    #[error("{0}")]
    Claim(#[source] ClaimError),
    /// A live read to confirm the caches failed.
    #[error("{0}")]
    Check(#[source] LiveError),
    /// A request failed.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The live DaemonSet could not be decoded.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The collision count could not be written.
    #[error("{0}")]
    Status(#[source] StatusError),
    /// Another DaemonSet has the name now.
    #[error("got uid {0}: another DaemonSet has the name now")]
    Replaced(Uid),
    /// The cached collision count is not that of the API server.
    #[error(
        "found a stale collision count ({cached:?}, expected {live:?}) of DaemonSet {name:?} while processing; will retry until it is updated"
    )]
    StaleCollisionCount {
        name: String,
        cached: Option<i32>,
        live: Option<i32>,
    },
}

impl SyncError {
    /// The retry after this error. `request` is the failed request, if there is one.
    ///
    /// A quiet retry is for races that the next watch event resolves. A lasting cause is logged and backs
    /// off.
    pub(super) fn retry(&self, request: Option<&ApiError>) -> Retry {
        match self {
            // The cache will show the new object or the new count.
            Self::Status {
                source: StatusError::Replaced(_),
                ..
            }
            | Self::History(HistoryError::Replaced(_) | HistoryError::StaleCollisionCount { .. }) => {
                Retry::Quietly
            }
            // The DaemonSet was deleted before the adoption, which the cache will show.
            Self::Claim { .. } | Self::History(HistoryError::Claim(_))
                if request.is_some_and(ApiError::is_object_not_found) =>
            {
                Retry::Quietly
            }
            // The usual causes are a quota, a webhook, or an overlapping selector. An operator has
            // to resolve them, so the error is logged.
            Self::Claim { .. } | Self::History(HistoryError::Claim(_)) | Self::Pods(_) => {
                Retry::BackOff
            }
            _ => Retry::after_request(request),
        }
    }

    /// Whether the write gate refused the request, so that all further writes would fail.
    pub(super) fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }
}
