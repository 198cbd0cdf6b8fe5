//! Gives the spare memory of collections back.
//!
//! The standard collections keep the capacity of their largest size. After a burst, that would stay
//! resident.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Collections up to this capacity keep their memory.
pub const KEPT: usize = 64;

/// The capacity to which a collection should shrink; `None` if it is not mostly empty.
///
/// A collection shrinks only below a quarter of its capacity, so the cost per removal is negligible.
pub fn spare(len: usize, capacity: usize) -> Option<usize> {
    (capacity > KEPT && len < capacity / 4).then_some(len * 2)
}

/// A collection that can give spare memory back.
pub trait ReleaseSpare {
    /// Halves the capacity at least if the collection uses less than a quarter of it. Cheap enough to
    /// follow each removal.
    fn release_spare(&mut self);
}

/// A map that can give spare memory back with each removal.
pub trait RemoveAndRelease<K, V> {
    /// Removes the value of `key`, and gives spare memory back.
    fn remove_and_release<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized;
}

impl<K: Eq + Hash, V, S: BuildHasher> RemoveAndRelease<K, V> for HashMap<K, V, S> {
    fn remove_and_release<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let removed = self.remove(key);
        self.release_spare();
        removed
    }
}

impl<T> ReleaseSpare for Vec<T> {
    fn release_spare(&mut self) {
        if let Some(capacity) = spare(self.len(), self.capacity()) {
            self.shrink_to(capacity);
        }
    }
}

impl<T> ReleaseSpare for VecDeque<T> {
    fn release_spare(&mut self) {
        if let Some(capacity) = spare(self.len(), self.capacity()) {
            self.shrink_to(capacity);
        }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> ReleaseSpare for HashMap<K, V, S> {
    fn release_spare(&mut self) {
        if let Some(capacity) = spare(self.len(), self.capacity()) {
            self.shrink_to(capacity);
        }
    }
}

impl<T: Eq + Hash, S: BuildHasher> ReleaseSpare for HashSet<T, S> {
    fn release_spare(&mut self) {
        if let Some(capacity) = spare(self.len(), self.capacity()) {
            self.shrink_to(capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mostly_empty_collection_shrinks() {
        let mut map: HashMap<usize, ()> = HashMap::with_capacity(1000);
        let full = map.capacity();
        map.extend((0..full / 3).map(|key| (key, ())));
        map.release_spare();
        assert_eq!(map.capacity(), full, "a third in use");
        let left = full / 8;
        map.retain(|key, ()| *key <= left);
        map.remove_and_release(&left);
        assert!((left..=full / 2).contains(&map.capacity()));
        assert_eq!(map.len(), left);
    }

    #[test]
    fn a_small_collection_keeps_its_capacity() {
        let mut queue: VecDeque<u32> = VecDeque::with_capacity(KEPT);
        let kept = queue.capacity();
        queue.release_spare();
        assert_eq!(queue.capacity(), kept);
    }
}
