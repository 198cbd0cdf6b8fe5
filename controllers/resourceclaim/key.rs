//! The keys of the queue. Pods and claims have separate keys, so that their syncs run side by side.

use std::fmt;

use steersman_objects::ObjectKey;

/// An object to sync.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A pod that may need a claim or a reservation.
    Pod(ObjectKey),
    /// A ResourceClaim that a pod may have left.
    Claim(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
        }
    }
}
