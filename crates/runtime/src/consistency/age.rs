//! Live checks: whether the API server still has the objects that a sync read from an old cache.
//!
//! The caches of a new leader may lack writes of the previous one. A sync then compares the objects
//! that it read with the API server, before its first write.

use std::sync::Arc;
use std::time::Duration;

use steersman_client::ApiClient;
use steersman_client::live::{self, LiveError};
use steersman_objects::{Meta, Object, ObjectKey};
use steersman_values::labels::Labels;

/// Time after which a sync on stale caches is repeated, if no event announces the missing change.
pub const RECHECK: Duration = Duration::from_secs(1);

/// The age of a cache when a sync read it. The cache may catch up while the sync waits for an
/// answer, and the objects that the sync has stay old.
///
/// All checks succeed without a request if the cache was not older than the leadership term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Older than the leadership term.
    BeforeTerm,
    /// As new as the leadership term, or confirmed by a live read.
    OfTerm,
}

impl Age {
    /// True if the cache may lack writes of the previous leader.
    pub fn predates_term(self) -> bool {
        self == Self::BeforeTerm
    }

    /// True if the API server has the cached object of type `T` with this metadata. Compared is the
    /// resource version, which another object of the name does not have.
    pub async fn shows<T: Object>(
        self,
        client: &ApiClient,
        cached: &Meta,
    ) -> Result<bool, LiveError> {
        Ok(!self.predates_term() || live::is_current::<T>(client, cached).await?)
    }

    /// True if the API server has the object with this key as `cached`, or has none if `cached` is
    /// unset. A sync that creates the object asks this, because the previous leader may have
    /// created it.
    pub async fn shows_or_lacks<T: Object>(
        self,
        client: &ApiClient,
        key: &ObjectKey,
        cached: Option<&T>,
    ) -> Result<bool, LiveError> {
        Ok(!self.predates_term() || live::is_as_cached(client, key, cached).await?)
    }

    /// True if the API server has exactly the objects `cached` with these labels. An empty
    /// `namespace` means all namespaces, or none. A list by labels also finds objects that the
    /// cache does not have yet.
    pub async fn shows_all<T: Object>(
        self,
        client: &ApiClient,
        namespace: &str,
        labels: &Labels,
        cached: &[Arc<T>],
    ) -> Result<bool, LiveError> {
        Ok(!self.predates_term() || live::are_current(client, namespace, labels, cached).await?)
    }
}

/// The end of a sync before its first write: the caches are not confirmed.
#[derive(Debug, thiserror::Error)]
pub enum Unconfirmed {
    /// The caches lack changes from before this leadership term. The sync ends without a write and
    /// comes back after [`RECHECK`], or by the event that was missing.
    #[error("the caches are behind the API server")]
    Stale,
    /// The API server could not be asked.
    #[error("{0}")]
    Read(#[source] LiveError),
}

/// An error unless `is_current`, the answer of a live check, is true. A failed read is an error
/// too: without an answer, a write could repeat that of the previous leader.
pub fn confirmed(is_current: Result<bool, LiveError>) -> Result<(), Unconfirmed> {
    match is_current {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unconfirmed::Stale),
        Err(error) => Err(Unconfirmed::Read(error)),
    }
}
