//! Simulated values of metrics: a constant, or a sawtooth.
//!
//! - `250m`: always this quantity
//! - `100m..900m/60s`: rises from the first quantity to the second one in each minute
//!
//! A sawtooth follows the clock alone, so every reader sees the same value at the same time.

use jiff::{SignedDuration, Timestamp};
use steersman_values::quantity::Quantity;

/// The value that `text` describes at the time `now`; `None` for a malformed text.
pub(super) fn value_at(text: &str, now: Timestamp) -> Option<Quantity> {
    let Some((low, rest)) = text.split_once("..") else {
        return text.trim().parse().ok();
    };
    let (high, period) = rest.split_once('/')?;
    let low: Quantity = low.trim().parse().ok()?;
    let high: Quantity = high.trim().parse().ok()?;
    let period: SignedDuration = period.trim().parse().ok()?;
    let period = i64::try_from(period.as_millis())
        .ok()
        .filter(|ms| *ms > 0)?;
    let phase = now.as_millisecond().rem_euclid(period);
    let from = i128::from(low.milli_value());
    let to = i128::from(high.milli_value());
    let value = from + (to - from) * i128::from(phase) / i128::from(period);
    i64::try_from(value).ok().map(Quantity::milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sawtooth_rises_in_each_period() {
        // (text, second, value)
        let cases = [
            ("250m", 7, Some("250m")),
            ("120Mi", 7, Some("120Mi")),
            ("100m..900m/60s", 0, Some("100m")),
            ("100m..900m/60s", 30, Some("500m")),
            ("100m..900m/1m", 59, Some("886m")),
            ("100m..900m/60s", 60, Some("100m")),
            ("9..1/4s", 3, Some("3")),
            ("1..2", 0, None),
            ("1..2/0s", 0, None),
            ("1..2/soon", 0, None),
            ("much", 0, None),
            ("", 0, None),
        ];
        for (text, second, expected) in cases {
            let now = Timestamp::from_second(second).unwrap();
            let value = value_at(text, now).map(|value| value.canonical());
            assert_eq!(value.as_deref(), expected, "{text} at {second}");
        }
    }
}
