//! A map of limited size. A new entry replaces the least recently used one. Upstream uses
//! k8s.io/utils/lru.
//!
//! Its entries are in one array, and [`Fingerprints`] turns identities into keys without an
//! allocation. Small allocations that outlive a burst would keep its pages resident.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Holds at most `capacity` entries.
///
/// The entries are linked in the order of use. An entry needs little more memory than its key and
/// value.
pub struct Lru<K, V> {
    capacity: usize,
    nodes: Vec<Node<K, V>>,
    /// Positions in `nodes`, by key.
    table: HashTable<u32>,
    hasher: RandomState,
    newest: u32,
    oldest: u32,
}

struct Node<K, V> {
    key: K,
    value: V,
    newer: u32,
    older: u32,
}

/// Marks the end of the list in `newer` and `older`.
const NONE: u32 = u32::MAX;

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    /// # Panics
    /// If `capacity` is zero or does not fit into 32 bits.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && u32::try_from(capacity).is_ok_and(|capacity| capacity < NONE));
        Self {
            capacity,
            nodes: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// The value of `key`. Counts as a use.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let at = self.find(self.hasher.hash_one(key), key)?;
        Some(self.used(at))
    }

    /// The value of `key`, which is inserted if it is absent. Counts as a use.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let hash = self.hasher.hash_one(key);
        if let Some(at) = self.find(hash, key) {
            return self.used(at);
        }
        let at = self.insert(hash, key, make());
        self.link_newest(at);
        &mut self.nodes[at as usize].value
    }

    fn find(&self, hash: u64, key: K) -> Option<u32> {
        self.table
            .find(hash, |at| self.nodes[*at as usize].key == key)
            .copied()
    }

    /// The value at this position, which becomes the newest.
    fn used(&mut self, at: u32) -> &mut V {
        self.unlink(at);
        self.link_newest(at);
        &mut self.nodes[at as usize].value
    }

    /// Stores a new entry, which is not linked yet. A full map gives it the position of the least
    /// recently used entry.
    fn insert(&mut self, hash: u64, key: K, value: V) -> u32 {
        let node = Node {
            key,
            value,
            newer: NONE,
            older: NONE,
        };
        let at = if self.nodes.len() < self.capacity {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.oldest;
            self.unlink(at);
            let evicted = self.hasher.hash_one(self.nodes[at as usize].key);
            if let Ok(entry) = self.table.find_entry(evicted, |other| *other == at) {
                entry.remove();
            }
            self.nodes[at as usize] = node;
            at
        };
        let nodes = &self.nodes;
        let hasher = &self.hasher;
        self.table
            .insert_unique(hash, at, |at| hasher.hash_one(nodes[*at as usize].key));
        at
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let second = std::mem::replace(&mut self.newest, at);
        self.nodes[at as usize].newer = NONE;
        self.nodes[at as usize].older = second;
        match second {
            NONE => self.oldest = at,
            second => self.nodes[second as usize].newer = at,
        }
    }
}

/// 128-bit hashes with random keys, which stand for identities. Collisions do not occur in practice.
#[derive(Debug, Default)]
pub struct Fingerprints([RandomState; 2]);

impl Fingerprints {
    /// The hash of `value`. Another instance has other hashes.
    pub fn of(&self, value: &(impl Hash + ?Sized)) -> u128 {
        let [high, low] = self
            .0
            .each_ref()
            .map(|hasher| u128::from(hasher.hash_one(value)));
        (high << 64) | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let mut lru = Lru::new(3);
        for key in [1, 2, 3, 1, 4] {
            lru.get_or_insert_with(key, || key * 10);
        }
        // The insertion of 4 evicts 2. The next use of 2 inserts it again and evicts 3.
        for (key, expected) in [(1, 10), (4, 40), (2, 0), (1, 10), (4, 40), (3, 0)] {
            assert_eq!(*lru.get_or_insert_with(key, || 0), expected, "{key}");
        }
        assert_eq!((lru.nodes.len(), lru.table.len()), (3, 3));
    }

    #[test]
    fn a_look_up_counts_as_a_use_and_inserts_no_entry() {
        let mut lru = Lru::new(2);
        for key in [1, 2] {
            lru.get_or_insert_with(key, || key * 10);
        }
        for (key, expected) in [(1, Some(10)), (3, None)] {
            assert_eq!(lru.get(key).copied(), expected, "{key}");
            assert_eq!(lru.nodes.len(), 2);
        }
        lru.get_or_insert_with(3, || 30);
        for (key, expected) in [(1, Some(10)), (2, None)] {
            assert_eq!(lru.get(key).copied(), expected, "{key}");
        }
    }

    #[test]
    fn fingerprints_of_different_values_differ() {
        let fingerprints = Fingerprints::default();
        assert_eq!(fingerprints.of("a"), fingerprints.of("a"));
        assert_ne!(fingerprints.of("a"), fingerprints.of("b"));
        assert_ne!(fingerprints.of("a"), Fingerprints::default().of("a"));
    }

    /// The list of keys in the order of use is a slow but simple model of the map.
    #[test]
    fn the_map_behaves_like_a_list_in_the_order_of_use() {
        for capacity in [1, 2, 7, 64] {
            let mut lru = Lru::new(capacity);
            let mut list = Vec::<(u32, u32)>::new();
            let mut key = 1_u32;
            for now in 0..2_000 {
                key = key.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let requested = (key >> 16) % 96;
                let expected = match list.iter().position(|(known, _)| *known == requested) {
                    Some(at) => list.remove(at).1,
                    None => now,
                };
                list.push((requested, expected));
                if list.len() > capacity {
                    list.remove(0);
                }
                assert_eq!(
                    *lru.get_or_insert_with(requested, || now),
                    expected,
                    "{requested} at {now}, capacity {capacity}"
                );
            }
            assert_eq!(lru.table.len(), list.len());
        }
    }
}
