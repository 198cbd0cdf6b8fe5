//! A time of the API in the least memory.

use std::fmt;
use std::num::NonZero;

use jiff::Timestamp;

/// A time in whole seconds, as the API server serves those of metadata and of conditions.
///
/// An `Option` of it takes 8 bytes too, and one of a [`Timestamp`] 24. Each pod has four.
/// Upstream: `metav1.Time`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(
    /// Seconds since the earliest time, plus one.
    NonZero<i64>,
);

impl From<Timestamp> for Time {
    /// Drops fractions of a second.
    fn from(time: Timestamp) -> Self {
        let number = time.as_second() - Timestamp::MIN.as_second() + 1;
        Self(NonZero::new(number).unwrap_or(NonZero::<i64>::MIN))
    }
}

impl From<Time> for Timestamp {
    fn from(Time(number): Time) -> Self {
        let second = number.get() - 1 + Self::MIN.as_second();
        Self::from_second(second).unwrap_or(Self::MAX)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Timestamp::from(*self), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_keeps_whole_seconds_and_their_order() {
        let seconds = [
            Timestamp::MIN.as_second(),
            -1,
            0,
            1,
            1_700_000_000,
            Timestamp::MAX.as_second(),
        ];
        let times = seconds.map(|second| Time::from(Timestamp::from_second(second).unwrap()));
        assert!(times.is_sorted());
        assert_eq!(times.map(|time| Timestamp::from(time).as_second()), seconds);
        let exact: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let whole = Timestamp::from(Time::from(exact));
        assert_eq!(whole.to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(size_of::<Option<Time>>(), 8);
    }
}
