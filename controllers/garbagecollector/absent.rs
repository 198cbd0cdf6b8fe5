//! A cache of owners that do not exist. One live read of an absent owner then serves all its
//! dependents.
//!
//! Upstream: `ReferenceCache` in `uid_cache.go`, with the same capacity.

use std::num::NonZero;

use lru::LruCache;

use super::coordinates::Coordinates;

/// The maximum number of entries.
const CAPACITY: NonZero<usize> = NonZero::new(500).expect("500 is not zero");

/// An LRU set of coordinates of absent owners.
///
/// A UID is never used again, so an entry stays correct. The exception is a rewind of the API
/// server, for example after an etcd restore: it clears the set.
#[derive(Debug)]
pub(super) struct AbsentOwners(LruCache<Coordinates, ()>);

impl Default for AbsentOwners {
    fn default() -> Self {
        Self(LruCache::new(CAPACITY))
    }
}

impl AbsentOwners {
    pub(super) fn insert(&mut self, coordinates: Coordinates) {
        self.0.put(coordinates, ());
    }

    pub(super) fn contains(&mut self, coordinates: &Coordinates) -> bool {
        self.0.get(coordinates).is_some()
    }

    /// Removes an entry, because the object was observed.
    pub(super) fn remove(&mut self, coordinates: &Coordinates) {
        self.0.pop(coordinates);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use steersman_runtime::object::Uid;

    use super::*;

    fn owner(number: usize) -> Coordinates {
        let (kind, api_version) = ("Pod".into(), "v1".into());
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
        (0..CAPACITY.get()).for_each(|number| absent.insert(owner(number)));
        assert!(absent.contains(&owner(0)));
        absent.insert(owner(CAPACITY.get()));
        assert!(
            absent.contains(&owner(0)) && !absent.contains(&owner(1)) && absent.contains(&owner(2))
        );
        assert_eq!(absent.0.len(), CAPACITY.get());
        let elsewhere = Coordinates {
            namespace: "b".into(),
            ..owner(2)
        };
        assert!(!absent.contains(&elsewhere));
        absent.remove(&owner(2));
        assert!(!absent.contains(&owner(2)) && absent.contains(&owner(3)));
        assert_eq!(absent.0.len(), CAPACITY.get() - 1);
        absent.clear();
        assert!(!absent.contains(&owner(3)) && absent.0.is_empty());
    }
}
