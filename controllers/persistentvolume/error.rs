//! The failures of syncs. The texts are upstream's.
//!
//! A conflict among them is a race, and quiet in the log. All of them return the key with back-off,
//! `Stale` of `Check` after a fixed pause.

use steersman_client::live::LiveError;
use steersman_runtime::consistency::Unconfirmed;

use super::claim::{DecideError, Misbinding};
use super::edits::NoCapacity;
use super::writes::WriteError;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The annotations of a claim could not be corrected.
    #[error("persistent Volume Controller can't anneal migration annotations: {0}")]
    AnnealClaim(#[source] WriteError),
    /// Annotations or finalizers of a volume could not be corrected.
    #[error("persistent Volume Controller can't anneal migration annotations or finalizer: {0}")]
    AnnealVolume(#[source] WriteError),
    /// The default class could not be assigned.
    #[error("can't update PersistentVolumeClaim[{claim:?}]: {source}")]
    Classify {
        claim: String,
        #[source]
        source: WriteError,
    },
    /// The step of a claim is unknown.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// A claim contradicts its volume.
    ///
    /// A user has to mend it, so the error repeats.
    #[error(transparent)]
    Misbinding(#[from] Misbinding),
    /// A claim got no capacity from its volume.
    ///
    /// The API server demands a capacity, so only an old object lacks it.
    #[error(transparent)]
    NoCapacity(#[from] NoCapacity),
    /// A volume names a claim that cannot exist.
    ///
    /// No live read can confirm that this claim is gone, so the volume stays.
    #[error("invalid resource name {0:?}")]
    ClaimName(String),
    /// The API server does not confirm the caches of a new leader. Nothing was written.
    ///
    /// A new leader only.
    #[error("{0}")]
    Check(#[from] Unconfirmed),
    /// A claim or volume could not be read.
    #[error("{0}")]
    Read(#[from] LiveError),
    /// A claim or volume could not be written.
    #[error("{0}")]
    Write(#[from] WriteError),
}
