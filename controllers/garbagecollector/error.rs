//! Why a look at an object ended without a result.

use steersman_runtime::client::ApiError;
use steersman_runtime::live::PageError;

use super::coordinates::Coordinates;

/// See the variants; `Display` ends with the cause.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// Nothing serves the kind, so nothing can be said about its objects. Normal for types that are
    /// gone or not there yet.
    #[error("no resource serves kind {kind:?} of {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    /// The object exists and no informer has shown it yet.
    #[error("{0} exists and was not observed yet")]
    NotObserved(Box<Coordinates>),
    /// Our caches lack dependents of an owner that is to be let go.
    #[error("{0} has dependents that were not observed yet")]
    UnseenDependents(Box<Coordinates>),
    /// Whether they do could not be found out.
    #[error("look for dependents of {owner}: {source}")]
    Dependents {
        owner: Box<Coordinates>,
        source: PageError,
    },
    /// A live read failed.
    #[error("read {coordinates}: {source}")]
    Read {
        coordinates: Box<Coordinates>,
        source: ApiError,
    },
    /// A live read brought something that is no object.
    #[error("read {coordinates}: {source}")]
    Decode {
        coordinates: Box<Coordinates>,
        source: serde_json::Error,
    },
    /// A deletion failed.
    #[error("delete {coordinates}: {source}")]
    Delete {
        coordinates: Box<Coordinates>,
        source: ApiError,
    },
    /// A change of references or finalizers failed.
    #[error("patch {coordinates}: {source}")]
    Patch {
        coordinates: Box<Coordinates>,
        source: ApiError,
    },
    /// Some dependents could not be orphaned.
    #[error("failed to orphan dependents of owner {owner}, got errors: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Orphan {
        owner: Box<Coordinates>,
        errors: Vec<SyncError>,
    },
    /// Somebody else keeps changing the object.
    #[error(
        "updateMaxRetries({tries}) has reached. The garbage collector will retry later for owner {owner}"
    )]
    MaxRetries {
        owner: Box<Coordinates>,
        tries: usize,
    },
}

impl SyncError {
    /// A race or a gap that time closes, not worth an error in the log.
    pub(super) fn is_expected(&self) -> bool {
        match self {
            Self::UnknownKind { .. } | Self::NotObserved(_) | Self::UnseenDependents(_) => true,
            Self::Delete { source, .. } | Self::Patch { source, .. } => source.is_conflict(),
            _ => false,
        }
    }
}
