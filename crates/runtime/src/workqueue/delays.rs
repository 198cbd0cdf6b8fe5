//! Keys that wait for their time, the earliest first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::shrink_map;

/// Stands for any delay beyond it; keeps the arithmetic of instants in range.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// When, and (to keep the order of insertion) the how-manieth.
type Slot = (Instant, u64);

pub(super) struct Delays<K> {
    slots: HashMap<K, Slot>,
    by_time: BTreeMap<Slot, K>,
    inserted: u64,
}

impl<K> Default for Delays<K> {
    fn default() -> Self {
        Self {
            slots: HashMap::new(),
            by_time: BTreeMap::new(),
            inserted: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Delays<K> {
    /// Lets `key` wait for `delay`, unless it is due before that anyway. True if it is now the
    /// first in line.
    pub(super) fn insert(&mut self, key: K, now: Instant, delay: Duration) -> bool {
        let due = now + delay.min(FOREVER);
        if let Some(slot) = self.slots.get(&key) {
            if slot.0 <= due {
                return false;
            }
            self.by_time.remove(slot);
        }
        self.inserted += 1;
        let slot = (due, self.inserted);
        self.slots.insert(key.clone(), slot);
        self.by_time.insert(slot, key);
        self.by_time
            .first_key_value()
            .is_some_and(|(first, _)| *first == slot)
    }

    /// Takes out one key whose time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let first = self.by_time.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let key = first.remove();
        self.slots.remove(&key);
        shrink_map(&mut self.slots);
        Some(key)
    }

    /// When the first key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((due, _), _)| *due)
    }
}
