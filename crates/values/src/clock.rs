//! The only module that reads the wall clock. Decision functions take `now` as a parameter; all
//! other code asks a [`Clock`]. So tests choose the time, as with upstream's k8s.io/utils/clock.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// The machine's wall clock.
    System,
    /// Wall time that advances with Tokio's clock. A paused runtime then also pauses every
    /// timestamp that we write.
    Runtime { base: Timestamp, started: Instant },
}

impl Clock {
    /// The machine's wall clock.
    pub fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that starts at `base` and advances with Tokio's time, which tests may pause.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
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

/// `later - earlier`, or zero if `later` is before `earlier`.
pub fn saturating_since(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// `time` as a MicroTime of the API: UTC with exactly six decimals.
pub fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_micro_time_always_has_six_decimals() {
        // (time, expected)
        let cases = [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.600000Z"),
            (
                "2026-01-02T03:04:05.123456789Z",
                "2026-01-02T03:04:05.123456Z",
            ),
        ];
        for (time, expected) in cases {
            assert_eq!(micro_time(time.parse().unwrap()), expected);
        }
    }
}
