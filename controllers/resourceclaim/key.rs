//! The keys of the queue and of indexes. Pods, PodGroups and claims have separate keys, so that their
//! syncs run side by side.

use std::fmt;

use steersman_objects::{Meta, ObjectKey};
use steersman_runtime::informer::IndexKey;

/// An object to sync.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A pod that may need a claim or a reservation.
    Pod(ObjectKey),
    /// A PodGroup that may need a claim.
    Group(ObjectKey),
    /// A ResourceClaim that a pod may have left.
    Claim(ObjectKey),
}

/// Upstream: `podKeyPrefix`, `podGroupKeyPrefix` and `claimKeyPrefix`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Group(key) => write!(f, "podgroup:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
        }
    }
}

/// The index keys of `names` in the namespace of an object, each once.
///
/// A pod may use one claim by several names.
pub(super) fn index_keys<'a>(
    meta: &Meta,
    names: impl Iterator<Item = &'a IndexKey>,
) -> Vec<IndexKey> {
    let mut keys: Vec<IndexKey> = names.map(|name| index_key(&meta.namespace, name)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// `namespace/name`, the form of upstream's indexes.
pub(super) fn index_key(namespace: &str, name: &str) -> IndexKey {
    IndexKey::new(&format!("{namespace}/{name}"))
}
