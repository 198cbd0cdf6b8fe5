//! The token bucket that client throttling, work queues and the event spam filter share.

/// A bucket that starts full, refills at `rate` tokens per second up to `burst`, and can be overdrawn by reservations, as
/// golang.org/x/time/rate's limiter. Runs on Tokio's clock.
#[derive(Debug)]
pub struct TokenBucket {}

impl TokenBucket {
    /// `rate` in tokens per second, `burst` in tokens.
    pub fn new(_rate: f64, _burst: u32) -> Self {
        todo!("helper: queue")
    }

    /// Takes a token and says how long the caller must wait before acting on it.
    pub fn reserve(&mut self) -> std::time::Duration {
        todo!("helper: queue")
    }

    /// Takes a token if there is one now.
    pub fn try_take(&mut self) -> bool {
        todo!("helper: queue")
    }
}
