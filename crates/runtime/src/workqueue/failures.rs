//! The last failure of each failing key, for explanations.
//!
//! A success forgets the key, so a queue at rest keeps nothing.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::time::Instant;

use steersman_why::Failure;

/// Keys with a failure that a queue keeps. At more, the one that failed longest ago is dropped. The
/// search for it is linear, which only a queue with that many failures pays.
const KEYS: usize = 1000;
/// Bytes of an error that are kept. An answer of the API server can be much longer.
const TEXT: usize = 2000;

/// A failed sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The error.
    pub(crate) error: String,
    /// Its category.
    pub(crate) category: &'static str,
    /// Verb and path of the refused request.
    pub(crate) request: Option<String>,
    /// The key returns only after a change of its object.
    pub(crate) is_dropped: bool,
}

struct Record {
    failed: Failed,
    /// Failures in a row.
    count: u32,
    /// The first of them.
    first: Instant,
    last: Instant,
}

/// The failing keys of a queue.
pub(super) struct Failures<K>(HashMap<K, Record>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Failures<K> {
    /// Records a failure of `key`. The text is cut at the end of a character.
    pub(super) fn record(&mut self, key: &K, mut failed: Failed, now: Instant) {
        if failed.error.len() > TEXT {
            let is_end = |end: &usize| failed.error.is_char_boundary(*end);
            let end = (0..=TEXT).rev().find(is_end).unwrap_or_default();
            failed.error.truncate(end);
        }
        if let Some(record) = self.0.get_mut(key) {
            record.failed = failed;
            record.count = record.count.saturating_add(1);
            record.last = now;
            return;
        }
        if self.0.len() >= KEYS
            && let Some((oldest, _)) = self.0.iter().min_by_key(|(_, record)| record.last)
        {
            let oldest = oldest.clone();
            self.0.remove(&oldest);
        }
        let record = Record {
            failed,
            count: 1,
            first: now,
            last: now,
        };
        self.0.insert(key.clone(), record);
    }

    /// Drops the failure of `key`, after a success. An empty map gives its memory back.
    pub(super) fn forget(&mut self, key: &K) {
        if self.0.is_empty() {
            return;
        }
        self.0.remove(key);
        if self.0.is_empty() {
            self.0 = HashMap::new();
        }
    }

    /// All failing keys.
    pub(super) fn all(&self, now: Instant) -> impl Iterator<Item = (&K, Failure)> {
        self.0
            .iter()
            .map(move |(key, record)| (key, record.read(now)))
    }

    /// The failure of `key`.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<Failure> {
        self.0.get(key).map(|record| record.read(now))
    }
}

impl Record {
    fn read(&self, now: Instant) -> Failure {
        Failure {
            error: self.failed.error.clone(),
            category: self.failed.category,
            request: self.failed.request.clone(),
            count: self.count,
            first: now.saturating_duration_since(self.first),
            last: now.saturating_duration_since(self.last),
            is_dropped: self.failed.is_dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(error: &str) -> Failed {
        Failed {
            error: error.to_owned(),
            category: "test",
            request: None,
            is_dropped: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_are_counted_until_a_success() {
        let mut failures = Failures::default();
        let start = Instant::now();
        failures.record(&"a", failed("one"), start);
        failures.record(&"a", failed("two"), start + Duration::from_secs(3));
        let now = start + Duration::from_secs(5);
        let found = failures.get(&"a", now).unwrap();
        assert_eq!((found.error.as_str(), found.count), ("two", 2));
        assert_eq!((found.first.as_secs(), found.last.as_secs()), (5, 2));
        failures.forget(&"a");
        assert_eq!(failures.get(&"a", now), None);
        assert_eq!(failures.0.capacity(), 0, "no memory at rest");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_keys_and_the_length_of_an_error_are_limited() {
        let mut failures = Failures::default();
        let start = Instant::now();
        for n in 0..KEYS + 1 {
            let at = start + Duration::from_millis(u64::try_from(n).unwrap());
            failures.record(&n, failed(&"\u{e4}".repeat(TEXT)), at);
        }
        assert_eq!(failures.0.len(), KEYS);
        assert_eq!(failures.get(&0, start), None, "the oldest one is dropped");
        assert_eq!(failures.get(&KEYS, start).unwrap().error.len(), TEXT);
    }
}
