//! Owners proven not to exist, so that one question answers for all their dependents.

use std::collections::{BTreeMap, HashMap};

use super::coordinates::Coordinates;

/// Entries kept.
const CAPACITY: usize = 500;

/// The coordinates least recently asked for go first. An entry becomes wrong only when the server's
/// history goes back, as after the restore of a backup; then all of them are forgotten.
#[derive(Debug, Default)]
pub(super) struct AbsentOwners {
    used: HashMap<Coordinates, u64>,
    by_use: BTreeMap<u64, Coordinates>,
    clock: u64,
}

impl AbsentOwners {
    pub(super) fn insert(&mut self, coordinates: Coordinates) {
        self.touch(coordinates);
        if self.used.len() > CAPACITY
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
    }

    pub(super) fn contains(&mut self, coordinates: &Coordinates) -> bool {
        let known = self.used.contains_key(coordinates);
        if known {
            self.touch(coordinates.clone());
        }
        known
    }

    /// Withdraws what was proven: the object is there.
    pub(super) fn remove(&mut self, coordinates: &Coordinates) {
        if let Some(used) = self.used.remove(coordinates) {
            self.by_use.remove(&used);
        }
    }

    pub(super) fn clear(&mut self) {
        self.used.clear();
        self.by_use.clear();
    }

    fn touch(&mut self, coordinates: Coordinates) {
        self.clock += 1;
        if let Some(before) = self.used.insert(coordinates.clone(), self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, coordinates);
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
    fn what_was_asked_for_least_recently_is_forgotten_first() {
        let mut absent = AbsentOwners::default();
        (0..CAPACITY).for_each(|number| absent.insert(owner(number)));
        assert!(absent.contains(&owner(0)));
        absent.insert(owner(CAPACITY));
        assert!(
            absent.contains(&owner(0)) && !absent.contains(&owner(1)) && absent.contains(&owner(2))
        );
        assert_eq!(
            (absent.used.len(), absent.by_use.len()),
            (CAPACITY, CAPACITY)
        );
        let elsewhere = Coordinates {
            namespace: "b".into(),
            ..owner(2)
        };
        assert!(!absent.contains(&elsewhere));
        absent.remove(&owner(2));
        assert!(!absent.contains(&owner(2)) && absent.contains(&owner(3)));
        assert_eq!(
            (absent.used.len(), absent.by_use.len()),
            (CAPACITY - 1, CAPACITY - 1)
        );
        absent.clear();
        assert!(!absent.contains(&owner(3)) && absent.by_use.is_empty());
    }
}
