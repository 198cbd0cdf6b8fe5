//! The token bucket that client throttling, work queues and the event spam filter share.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket that starts full, refills at `rate` tokens per second up to `burst`, and can be
/// overdrawn by reservations, as golang.org/x/time/rate's limiter. Runs on Tokio's clock.
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

    /// As [`TokenBucket::new`], with the time given.
    pub fn new_at(rate: f64, burst: u32, now: Instant) -> Self {
        Self {
            rate,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled_at: now,
        }
    }

    /// Takes a token and says how long the caller must wait before acting on it.
    pub fn reserve(&mut self) -> Duration {
        self.refill(Instant::now());
        self.tokens -= 1.0;
        self.debt(self.tokens)
    }

    /// Puts a token back that was reserved and will not be used.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }

    /// Takes a token if there is one now.
    pub fn try_take(&mut self) -> bool {
        self.try_take_at(Instant::now())
    }

    /// As [`TokenBucket::try_take`], with the time given.
    pub fn try_take_at(&mut self, now: Instant) -> bool {
        self.refill(now);
        // Asked as a wait, not as `tokens >= 1`: a refill that is a rounding error short of a whole
        // token counts as whole.
        let free = self.debt(self.tokens - 1.0).is_zero();
        if free {
            self.tokens -= 1.0;
        }
        free
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled_at);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(self.burst);
        self.filled_at = self.filled_at.max(now);
    }

    /// The time until a balance of `tokens` is zero, cut to whole nanoseconds.
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
                "overdraft {n}"
            );
        }
        // 300 ms pay the debt back; only then do tokens grow again.
        tokio::time::advance(Duration::from_millis(350)).await;
        assert_eq!(bucket.reserve(), Duration::from_millis(50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_given_back_shortens_the_wait_of_the_next() {
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
            "never more than the burst"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_taken_only_when_there_is_one() {
        let mut bucket = TokenBucket::new(1.0 / 300.0, 2);
        assert!(bucket.try_take());
        assert!(bucket.try_take());
        assert!(!bucket.try_take());
        tokio::time::advance(Duration::from_secs(299)).await;
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
    async fn a_bucket_without_refill_never_pays_back() {
        let mut bucket = TokenBucket::new(0.0, 1);
        assert_eq!(bucket.reserve(), Duration::ZERO);
        assert_eq!(bucket.reserve(), Duration::from_nanos(u64::MAX));
    }
}
