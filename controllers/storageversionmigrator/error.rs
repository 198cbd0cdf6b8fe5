//! The failures of all three loops.
//!
//! All of them return the key to its queue with back-off. A failure that ends a migration is no error
//! here, but the condition `Failed`; see `Change::fail`.

use steersman_client::live::{LiveError, PageError};
use steersman_client::writes::StatusError;
use steersman_client::{ApiError, Decision};
use steersman_objects::DecodeError;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The served resources could not be read.
    #[error("{0}")]
    Discovery(#[source] ApiError),
    /// The resource is not served yet.
    ///
    /// A new CustomResourceDefinition may not be in discovery yet.
    #[error("resource does not exist in our rest mapper, requeuing to attempt again")]
    UnknownResource(#[source] Decision),
    /// The latest resource version could not be read.
    #[error("error getting latest resourceVersion for {gvr}: {source}")]
    LatestVersion {
        /// The resource.
        gvr: String,
        /// The failed request.
        source: ApiError,
    },
    /// The objects could not be listed.
    #[error("{0}")]
    List(#[source] PageError),
    /// A migration could not be read.
    #[error("{0}")]
    Live(#[source] LiveError),
    /// An object could not be rewritten.
    #[error("{0}")]
    Rewrite(#[source] ApiError),
    /// The CustomResourceDefinition could not be read.
    #[error("{0}")]
    Definition(#[source] ApiError),
    /// The status of the CustomResourceDefinition could not be written.
    #[error("{0}")]
    DefinitionStatus(#[source] ApiError),
    /// An answer of the API server is no JSON.
    #[error("{0}")]
    Malformed(#[source] serde_json::Error),
    /// The status of the migration could not be written.
    #[error("{0}")]
    Status(#[source] StatusError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}
