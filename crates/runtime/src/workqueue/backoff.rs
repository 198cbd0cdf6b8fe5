//! The delay of a key after a failed sync: the longer one of the key's own back-off and the overall
//! rate limit.
//!
//! Upstream: `DefaultTypedControllerRateLimiter` in
//! `client-go/util/workqueue/default_rate_limiters.go`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use steersman_client::rate::TokenBucket;
use steersman_values::capacity::RemoveAndRelease;

/// The default back-off of a key after its first failure. Upstream: the first argument of
/// `NewTypedItemExponentialFailureRateLimiter`.
const FIRST: Duration = Duration::from_millis(5);
/// Rate-limited adds of all keys: per second, and the burst. It spreads the retries after an outage
/// of the API server.
const RATE: f64 = 10.0;
const BURST: u32 = 100;

/// The back-off of all keys of a queue.
pub(super) struct Backoff<K> {
    first: Duration,
    max: Duration,
    /// Failures of each key since it was last forgotten.
    failures: HashMap<K, u32>,
    /// The rate limit of all keys together; `None` means no limit. Upstream:
    /// `TypedBucketRateLimiter`.
    overall: Option<TokenBucket>,
}

impl<K: Clone + Eq + Hash> Backoff<K> {
    pub(super) fn new(max: Duration) -> Self {
        Self::between(FIRST, max)
    }

    /// A back-off of each key from `first` to `max`, with the overall rate limit.
    pub(super) fn between(first: Duration, max: Duration) -> Self {
        Self {
            overall: Some(TokenBucket::new(RATE, BURST)),
            ..Self::per_key(first, max)
        }
    }

    /// A back-off of each key from `first` to `max`, without an overall rate limit.
    pub(super) fn per_key(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            failures: HashMap::new(),
            overall: None,
        }
    }

    /// Counts a failure of `key` and returns its delay. As upstream, this takes a token of the
    /// overall rate even if the key's own back-off is longer.
    pub(super) fn next_delay(&mut self, key: &K) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let own = after(*failures, self.first, self.max);
        *failures = failures.saturating_add(1);
        let overall = self.overall.as_mut().map(TokenBucket::reserve);
        own.max(overall.unwrap_or_default())
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove_and_release(key);
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

/// `first` x 2^failures, at most `max`. A shift of more than 31 bits has the largest factor.
fn after(failures: u32, first: Duration, max: Duration) -> Duration {
    let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_of_one_key_doubles_up_to_the_limit() {
        let max = Duration::from_secs(1000);
        // (failures before, milliseconds)
        let cases = [
            (0, 5),
            (1, 10),
            (2, 20),
            (3, 40),
            (14, 81_920),
            (17, 655_360),
            (18, 1_000_000),
            (31, 1_000_000),
        ];
        for (failures, millis) in cases {
            assert_eq!(
                after(failures, FIRST, max),
                Duration::from_millis(millis),
                "{failures} failures"
            );
        }
        assert_eq!(after(u32::MAX, FIRST, max), max, "no overflow");
        assert_eq!(
            after(20, FIRST, Duration::from_secs(60)),
            Duration::from_secs(60),
            "the namespace controller's limit"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn forget_resets_only_its_key() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let millis = |backoff: &mut Backoff<_>, key| backoff.next_delay(&key).as_millis();
        for expected in [5, 10, 20, 40, 80] {
            assert_eq!(millis(&mut backoff, "one"), expected);
        }
        assert_eq!(millis(&mut backoff, "two"), 5);
        assert_eq!(millis(&mut backoff, "two"), 10);
        assert_eq!((backoff.failures(&"one"), backoff.failures(&"two")), (5, 2));
        backoff.forget(&"one");
        assert_eq!((backoff.failures(&"one"), backoff.failures(&"two")), (0, 2));
        assert_eq!(millis(&mut backoff, "one"), 5);
        assert_eq!(millis(&mut backoff, "two"), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_with_its_own_back_off_has_no_overall_limit() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::per_key(second, 60 * second);
        for key in 0..200 {
            assert_eq!(backoff.next_delay(&key), second, "key {key}");
        }
        let delays: Vec<u64> = (0..7).map(|_| backoff.next_delay(&0).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16, 32, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_delay_of_a_second_keeps_the_overall_limit() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::between(second, 4 * second);
        let delays: Vec<u64> = (0..4).map(|_| backoff.next_delay(&0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 4]);
        let last = (1..120).map(|key| backoff.next_delay(&key)).last();
        assert_eq!(last, Some(Duration::from_millis(2300)));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_beyond_the_burst_are_100_ms_apart() {
        let mut backoff = Backoff::new(Duration::from_secs(1000));
        for key in 0..100 {
            assert_eq!(backoff.next_delay(&key), FIRST, "key {key}");
        }
        for n in 1..=20 {
            assert_eq!(
                backoff.next_delay(&(100 + n)),
                Duration::from_millis(100) * n,
                "key {n} beyond the burst"
            );
        }
    }
}
