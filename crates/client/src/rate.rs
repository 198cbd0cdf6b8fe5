//! The token bucket of client throttling, work queues and the Event spam filter.
//!
//! It gives the same waiting times as golang.org/x/time/rate, which upstream uses in
//! `client-go/util/flowcontrol` and `client-go/util/workqueue`.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket that starts full and refills at `rate` tokens per second up to `burst`.
///
/// Reservations may make the balance negative; each then waits longer than the one before. Runs on
/// Tokio's clock.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    /// `rate` in tokens per second, `burst` in tokens.
    pub fn new(rate: f64, burst: u32) -> Self {
        Self::new_at(rate, burst, Instant::now())
    }

    /// Like [`TokenBucket::new`], at the time `now`.
    pub fn new_at(rate: f64, burst: u32, now: Instant) -> Self {
        Self {
            rate,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled_at: now,
        }
    }

    /// Takes a token and returns the time that the caller must wait before it acts.
    pub fn reserve(&mut self) -> Duration {
        self.refill(Instant::now());
        self.tokens -= 1.0;
        self.debt(self.tokens)
    }

    /// Returns a reserved token that the caller will not use.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }

    /// Takes a token if one is available now. Returns whether it did.
    pub fn try_take(&mut self) -> bool {
        self.try_take_at(Instant::now())
    }

    /// Like [`TokenBucket::try_take`], at the time `now`.
    pub fn try_take_at(&mut self, now: Instant) -> bool {
        self.refill(now);
        // `tokens >= 1` would be wrong: because of rounding, a refill may miss a whole token by
        // less than one nanosecond's worth. Such a token counts as whole.
        let free = self.debt(self.tokens - 1.0).is_zero();
        if free {
            self.tokens -= 1.0;
        }
        free
    }

    /// The time from `now` until a token is available.
    pub fn next_at(&mut self, now: Instant) -> Duration {
        self.refill(now);
        self.debt(self.tokens - 1.0)
    }

    /// Adds the tokens of the time since the last refill. A `now` before it has no effect.
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled_at);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(self.burst);
        self.filled_at = self.filled_at.max(now);
    }

    /// The time in which a balance of `tokens` refills to zero, cut to whole nanoseconds.
    fn debt(&self, tokens: f64) -> Duration {
        if tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_nanos((-tokens / self.rate * 1e9) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reservations_beyond_the_burst_are_spaced_by_the_rate() {
        let mut bucket = TokenBucket::new(10.0, 100);
        for n in 0..100 {
            assert_eq!(bucket.reserve(), Duration::ZERO, "token {n}");
        }
        for n in 1..=3 {
            assert_eq!(
                bucket.reserve(),
                Duration::from_millis(100 * n),
                "reservation {n} beyond the burst"
            );
        }
        // The first 300 ms bring the balance back to zero, the next 50 ms yield half a token.
        tokio::time::advance(Duration::from_millis(350)).await;
        assert_eq!(bucket.reserve(), Duration::from_millis(50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_returned_token_shortens_the_next_wait() {
        let mut bucket = TokenBucket::new(10.0, 1);
        assert_eq!(bucket.reserve(), Duration::ZERO);
        assert_eq!(bucket.reserve(), Duration::from_millis(100));
        assert_eq!(bucket.reserve(), Duration::from_millis(200));
        bucket.give_back();
        bucket.give_back();
        assert_eq!(bucket.reserve(), Duration::from_millis(100));
        for _ in 0..10 {
            bucket.give_back();
        }
        assert_eq!(
            (0..5).filter(|_| bucket.try_take()).count(),
            1,
            "returned tokens do not exceed the burst"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn try_take_fails_until_a_whole_token_is_refilled() {
        let mut bucket = TokenBucket::new(1.0 / 300.0, 2);
        assert!(bucket.try_take());
        assert!(bucket.try_take());
        assert!(!bucket.try_take());
        let next = |bucket: &mut TokenBucket| bucket.next_at(Instant::now()).as_secs_f64();
        assert_eq!(next(&mut bucket), 300.0);
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!((next(&mut bucket) - 1.0).abs() < 1e-6);
        assert!(!bucket.try_take(), "one second early");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(bucket.try_take());
        assert!(!bucket.try_take());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_never_holds_more_than_its_burst() {
        let mut bucket = TokenBucket::new(100.0, 3);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..5).filter(|_| bucket.try_take()).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn reservations_wait_forever_in_a_bucket_without_refill() {
        let mut bucket = TokenBucket::new(0.0, 1);
        assert_eq!(bucket.reserve(), Duration::ZERO);
        assert_eq!(bucket.reserve(), Duration::from_nanos(u64::MAX));
    }
}
