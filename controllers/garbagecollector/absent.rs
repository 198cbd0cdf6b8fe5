//! A cache of owners that do not exist. One live read of an absent owner then serves all its
//! dependents.
//!
//! Upstream: `ReferenceCache` in `uid_cache.go`, with the same capacity.

use steersman_values::lru::{Fingerprints, Lru};

use super::coordinates::Coordinates;

/// The maximum number of entries. An owner beyond it costs one more live read, and nothing else.
const CAPACITY: usize = 500;

/// An LRU set of coordinates of absent owners.
///
/// A UID is never used again, so an entry stays correct. The exception is a rewind of the API
/// server, for example after an etcd restore: it clears the set.
pub(super) struct AbsentOwners {
    /// A fingerprint in place of the coordinates takes 16 bytes per entry.
    fingerprints: Fingerprints,
    /// False for coordinates that were removed.
    absent: Lru<u128, bool>,
}

impl Default for AbsentOwners {
    fn default() -> Self {
        Self {
            fingerprints: Fingerprints::default(),
            absent: Lru::new(CAPACITY),
        }
    }
}

impl AbsentOwners {
    /// Only an answer of the API server or the deletion in an informer is a reason to call it.
    pub(super) fn insert(&mut self, coordinates: &Coordinates) {
        let key = self.fingerprints.of(coordinates);
        *self.absent.get_or_insert_with(key, || true) = true;
    }

    pub(super) fn contains(&mut self, coordinates: &Coordinates) -> bool {
        let found = self.absent.get(self.fingerprints.of(coordinates));
        found.is_some_and(|absent| *absent)
    }

    /// Removes an entry, because the object was observed.
    pub(super) fn remove(&mut self, coordinates: &Coordinates) {
        if let Some(absent) = self.absent.get(self.fingerprints.of(coordinates)) {
            *absent = false;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Uid;

    use super::*;

    fn owner(number: usize) -> Coordinates {
        let kind = "Pod".into();
        let api_version = "v1".into();
        Coordinates {
            kind,
            api_version,
            namespace: "a".into(),
            name: "n".into(),
            uid: Uid::new(&number.to_string()),
        }
    }

    #[test]
    fn least_recently_used_owner_is_forgotten_first() {
        let mut absent = AbsentOwners::default();
        (0..CAPACITY).for_each(|number| absent.insert(&owner(number)));
        assert!(absent.contains(&owner(0)));
        absent.insert(&owner(CAPACITY));
        assert!(
            absent.contains(&owner(0)) && !absent.contains(&owner(1)) && absent.contains(&owner(2))
        );
        let elsewhere = Coordinates {
            namespace: "b".into(),
            ..owner(2)
        };
        assert!(!absent.contains(&elsewhere));
        absent.remove(&owner(2));
        assert!(!absent.contains(&owner(2)) && absent.contains(&owner(3)));
        absent.insert(&owner(2));
        assert!(absent.contains(&owner(2)));
        absent.clear();
        assert!(!absent.contains(&owner(3)));
    }
}
