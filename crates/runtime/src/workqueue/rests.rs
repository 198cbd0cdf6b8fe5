//! The rests of keys: after its processing a key is not processed again for as long as that took, or
//! for a multiple of it.
//!
//! A sync takes long because of its requests. At a fast API server the rests are shorter than a
//! user can see. At a slow one they gather events, so that the server gets fewer writes.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::capacity::ReleaseSpare;

/// The longest rest, unless the owner of the queue sets another. Some syncs take minutes, because they
/// wait.
const LONGEST: Duration = Duration::from_millis(500);

/// A shorter processing sent no request, and gets no rest.
const SHORTEST: Duration = Duration::from_millis(1);

/// The keys that rest, or have rested a moment ago.
pub(super) struct Rests<K> {
    /// How many times as long as its processing a key rests.
    pub(super) times: u32,
    /// The longest rest.
    pub(super) longest: Duration,
    ends: HashMap<K, Instant>,
    /// The entries of `ends` and former ones, by the beginning of the rest.
    begun: VecDeque<(Instant, K)>,
}

impl<K> Default for Rests<K> {
    fn default() -> Self {
        Self {
            times: 1,
            longest: LONGEST,
            ends: HashMap::new(),
            begun: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Rests<K> {
    /// Begins the rest of a key after a processing that `took` this time.
    pub(super) fn begin(&mut self, key: &K, now: Instant, took: Duration) {
        self.forget_before(now);
        if took < SHORTEST {
            return;
        }
        let end = now + took.saturating_mul(self.times).min(self.longest);
        self.ends.insert(key.clone(), end);
        self.begun.push_back((end, key.clone()));
    }

    /// Ends the rest of a key.
    pub(super) fn end(&mut self, key: &K) {
        self.ends.remove(key);
    }

    /// The time until the end of the key's rest; `None` for a key that does not rest.
    pub(super) fn left(&self, key: &K, now: Instant) -> Option<Duration> {
        let left = self.ends.get(key)?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Forgets rests that are over. One that began after a longer one waits for that.
    fn forget_before(&mut self, now: Instant) {
        while self.begun.front().is_some_and(|(end, _)| *end <= now)
            && let Some((_, key)) = self.begun.pop_front()
        {
            if self.left(&key, now).is_none() {
                self.ends.remove(&key);
            }
        }
        self.begun.release_spare();
        self.ends.release_spare();
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.ends.len().max(self.begun.len())
    }
}
