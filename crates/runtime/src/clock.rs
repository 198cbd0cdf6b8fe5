//! The one place that reads the time. Decisions take `now` as a parameter; everything else asks a
//! [`Clock`].

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    System,
    /// Wall time that moves with Tokio's clock, so that a paused runtime also pauses every
    /// timestamp we write.
    Runtime {
        base: Timestamp,
        started: Instant,
    },
}

impl Clock {
    /// The machine's wall clock.
    pub fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that starts at `base` and advances with Tokio's (possibly paused) time. Must be
    /// called inside a runtime.
    pub fn runtime(base: Timestamp) -> Self {
        Self(Kind::Runtime {
            base,
            started: Instant::now(),
        })
    }

    /// The current time, with the clock's full precision.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => Timestamp::now(),
            Kind::Runtime { base, started } => *base + started.elapsed(),
        }
    }

    /// The current time as the API stores it: whole seconds.
    pub fn now_seconds(&self) -> Timestamp {
        whole_seconds(self.now())
    }
}

/// `time` without its fraction, as the API server stores a `Time`.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("a timestamp's own second is in range")
}

/// `later - earlier`, or zero when the order is the other way round.
pub fn saturating_since(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}
