//! A map that forgets what was not used for the longest time.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// At most `capacity` entries.
pub(super) struct Lru<K, V> {
    capacity: usize,
    entries: HashMap<K, Entry<V>>,
    /// Keys by their last use.
    uses: BTreeMap<u64, K>,
    clock: u64,
}

struct Entry<V> {
    value: V,
    used: u64,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), uses: BTreeMap::new(), clock: 0 }
    }

    /// The value of `key`, made when there is none. Counts as a use.
    pub(super) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.clock += 1;
        let used = self.clock;
        match self.entries.get(&key) {
            Some(entry) => {
                self.uses.remove(&entry.used);
            }
            None if self.entries.len() >= self.capacity => {
                if let Some((_, oldest)) = self.uses.pop_first() {
                    self.entries.remove(&oldest);
                }
            }
            None => {}
        }
        self.uses.insert(used, key);
        let entry = self.entries.entry(key).or_insert_with(|| Entry { value: make(), used });
        entry.used = used;
        &mut entry.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_unused_for_longest_goes_first() {
        let mut lru = Lru::new(3);
        for key in [1, 2, 3, 1, 4] {
            lru.get_or_insert_with(key, || key * 10);
        }
        // 2 was the oldest when 4 came; asking for it again makes it anew and pushes 3 out.
        for (key, expected) in [(1, 10), (4, 40), (2, 0), (1, 10), (4, 40), (3, 0)] {
            assert_eq!(*lru.get_or_insert_with(key, || 0), expected, "{key}");
        }
        assert_eq!((lru.entries.len(), lru.uses.len()), (3, 3));
    }
}
