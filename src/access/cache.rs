//! A cache of authentication and authorization answers with a time to live.
//!
//! It is bounded, so that clients cannot fill the memory by sending many different credentials.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of entries. A client that sends more credentials than this only causes additional
/// reviews.
const CAPACITY: usize = 4096;

/// A map with an expiry time per entry.
pub(super) struct Expiring<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Expiring<K, V> {
    /// The value of `key`, unless it has expired.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock();
        entries
            .get(key)
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, value)| value.clone())
    }

    /// Stores `value` for `ttl`. A `ttl` of zero disables the cache.
    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut entries = self.0.lock();
        if entries.len() >= CAPACITY {
            entries.retain(|_, (until, _)| now < *until);
        }
        // All entries are still valid. Clearing them is simpler than an eviction order, and only
        // costs further reviews.
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
    async fn entries_expire_after_their_ttl_and_the_cache_is_bounded() {
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
        assert!(cache.0.lock().len() <= CAPACITY);
        assert_eq!(
            cache.get(&(CAPACITY * 2)),
            Some("c"),
            "the newest entry remains"
        );
    }
}
