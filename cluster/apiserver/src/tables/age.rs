//! Ages in the short form of kubectl.
//!
//! Upstream is `HumanDuration` in `apimachinery/pkg/util/duration`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The age of `time` (an RFC 3339 text); `<unknown>` without a time.
pub fn age_since(time: Option<&Value>, now: Timestamp) -> String {
    match time
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok())
    {
        Some(time) => human_age(now.duration_since(time)),
        None => "<unknown>".to_owned(),
    }
}

/// A duration with two or three significant digits: `119s`, `5m30s`, `3h12m`, `2d4h`, `8d`, `2y1d`.
pub fn human_age(duration: SignedDuration) -> String {
    // Clocks differ by up to a second. A time further in the future is wrong.
    let seconds = match duration.as_secs() {
        ..-1 => return "<invalid>".to_owned(),
        seconds => seconds.max(0),
    };
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_an_age_grows_with_the_age() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (48 * HOUR - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 5 * HOUR, "2d5h"),
            (8 * DAY + 5 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY + DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(
                human_age(SignedDuration::from_secs(seconds)),
                expected,
                "{seconds}"
            );
        }
    }

    #[test]
    fn a_missing_time_has_an_unknown_age() {
        assert_eq!(age_since(None, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(
            age_since(Some(&Value::Null), Timestamp::UNIX_EPOCH),
            "<unknown>"
        );
    }
}
