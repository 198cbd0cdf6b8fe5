//! Owner references: which objects belong to a controller, and taking (adopt) or letting go (release) those that should.
//!
//! Upstream: `controller_ref_manager.go`.

use std::sync::Arc;

use crate::client::{ApiClient, ApiError};
use crate::labels::Selector;
use crate::object::{Meta, Object};

/// What to do with one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Already ours, or somebody else's business: no call.
    Keep {
        /// Whether it is ours.
        ours: bool,
    },
    /// An orphan that matches: ours once it carries our reference.
    Adopt,
    /// It has our reference and no longer matches: not ours, and the reference goes.
    Release,
}

/// The claim table of upstream's `ClaimObject`, for one candidate from the cache.
pub fn decide(_owner: &Meta, _selector: &Selector, _candidate: &Meta) -> Claim {
    todo!("helper: replicaset")
}

/// Candidates that belong to the owner.
#[derive(Debug)]
pub struct Claimed<T> {
    /// Cached copies, without a reference added just now.
    pub objects: Vec<Arc<T>>,
    /// Versions that our adoption patches produced.
    pub written: Vec<u64>,
}

/// A candidate could not be adopted or released; see upstream's texts in the message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// The text upstream logs.
    pub message: String,
    /// The request that failed, where one did.
    #[source]
    pub source: Option<ApiError>,
}

/// Claims `candidates` for `owner`: adopts and releases as [`decide`] says, with one live check of the owner before the first
/// adoption. All candidates are visited; the first failure is returned afterwards.
pub async fn claim<O: Object, T: Object>(
    _client: &ApiClient,
    _owner: &O,
    _selector: &Selector,
    _candidates: Vec<Arc<T>>,
) -> Result<Claimed<T>, ClaimError> {
    todo!("helper: replicaset")
}
