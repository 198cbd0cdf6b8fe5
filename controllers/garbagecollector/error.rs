//! Failures of the sync of one object.

use steersman_client::live::PageError;
use steersman_client::{Aggregate, ApiError};

use super::coordinates::Coordinates;

/// The operation that failed. `Display` ends with the cause.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// Discovery has no resource for the kind, so a live read of its objects is impossible. Normal
    /// for types that were removed or do not exist yet.
    #[error("no resource serves kind {kind:?} of {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    /// The object exists, but informers have not shown it yet. Upstream requeues such a node too
    /// (kubernetes/kubernetes#56121): an object that is added and removed during a gap of the watch
    /// would stay in the graph for ever.
    #[error("{0} exists and was not observed yet")]
    NotObserved(Box<Coordinates>),
    /// The caches lack dependents of an owner whose finalizer is about to be removed.
    #[error("{0} has dependents that were not observed yet")]
    UnseenDependents(Box<Coordinates>),
    /// The search for such dependents failed.
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
    /// The answer to a live read could not be decoded.
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
    #[error(
        "failed to orphan dependents of owner {owner}, got errors: {}",
        joined(errors)
    )]
    Orphan {
        owner: Box<Coordinates>,
        #[source]
        errors: Aggregate<SyncError>,
    },
    /// Other clients changed the object during every attempt.
    #[error(
        "updateMaxRetries({tries}) has reached. The garbage collector will retry later for owner {owner}"
    )]
    MaxRetries {
        owner: Box<Coordinates>,
        tries: usize,
    },
}

fn joined(errors: &Aggregate<SyncError>) -> String {
    let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

impl SyncError {
    /// True for races and stale caches. A retry resolves them, so they are not logged as errors. A
    /// type without a resource may be served soon, so its retries are silent. Upstream:
    /// `restMappingError`.
    pub(super) fn is_expected(&self) -> bool {
        match self {
            Self::UnknownKind { .. } | Self::NotObserved(_) | Self::UnseenDependents(_) => true,
            Self::Delete { source, .. } | Self::Patch { source, .. } => source.is_conflict(),
            _ => false,
        }
    }
}
