//! Answers that are good for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most answers that are kept. Whoever sends more different credentials than this only makes us
/// ask again.
const CAPACITY: usize = 4096;

/// A map whose entries expire.
pub(super) struct Expiring<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Expiring<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .get(key)
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= CAPACITY {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_live_as_long_as_they_should_and_are_bounded_in_number() {
        let cache = Expiring::default();
        cache.put(0, "a", Duration::from_secs(10));
        cache.put(1, "b", Duration::ZERO);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!((cache.get(&0), cache.get(&1)), (Some("a"), None));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&0), None);
        for key in 0..CAPACITY * 2 + 1 {
            cache.put(key, "c", Duration::from_secs(10));
        }
        assert!(cache.0.lock().unwrap().len() <= CAPACITY);
        assert_eq!(cache.get(&(CAPACITY * 2)), Some("c"), "the newest is there");
    }
}
