//! Delayed keys, sorted by their deadlines. A key has at most one deadline.
//!
//! Upstream: `client-go/util/workqueue/delaying_queue.go`.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use steersman_values::capacity::RemoveAndRelease;

/// Longer delays are cut to this, so that sums of instants do not overflow.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Deadline, and number of the insertion. Keys with equal deadlines keep the order of insertion.
type Slot = (Instant, u64);

/// The delayed keys of a queue, in two maps with the same entries.
pub(super) struct Delays<K> {
    /// Finds the deadline of a key. Upstream: `waitingEntryByData`.
    slots: HashMap<K, Slot>,
    /// Finds the next key. Upstream: `waitForPriorityQueue`, a heap.
    by_time: BTreeMap<Slot, K>,
    /// The number of insertions so far.
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
    /// Delays `key` by `delay`. An earlier deadline of the key stays. True if `key` now has the
    /// earliest deadline of all keys. Upstream: `insert` in `delaying_queue.go`.
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

    /// Removes and returns one due key.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let first = self.by_time.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let key = first.remove();
        self.slots.remove_and_release(&key);
        Some(key)
    }

    /// The deadline of `key`.
    pub(super) fn due(&self, key: &K) -> Option<Instant> {
        self.slots.get(key).map(|(due, _)| *due)
    }

    /// The delayed keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((due, _), _)| *due)
    }
}
