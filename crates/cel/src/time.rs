//! Texts of times and durations, as Go reads and writes them.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The largest year of a timestamp is 9999, as in Protocol Buffers.
pub(super) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    // RFC 3339 wants a `T` and an offset; jiff also accepts other forms.
    let is_rfc3339 = text.get(10..11) == Some("T")
        && (text.ends_with('Z')
            || text.len() > 6 && text[text.len() - 6..].starts_with(['+', '-']));
    is_rfc3339.then(|| text.parse().ok()).flatten()
}

/// The start of a day such as `2024-02-29`, in UTC.
pub(super) fn parse_date(text: &str) -> Option<Timestamp> {
    let date: Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Nanoseconds of a text such as `1h30m` or `-1.5s`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: f64 = 0.0;
    let mut exact: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let nanos: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        match number.parse::<i64>() {
            Ok(whole) => exact += i128::from(whole) * i128::from(nanos),
            Err(_) => total += number.parse::<f64>().ok()? * nanos as f64,
        }
        rest = next;
    }
    let nanos = i64::try_from(exact + total.round() as i128).ok()?;
    Some(if negative { -nanos } else { nanos })
}

/// The text of a duration in CEL: seconds, such as `90s` or `0.5s`.
pub(super) fn show_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let fraction = nanos % 1_000_000_000;
    let fraction = match fraction {
        0 => String::new(),
        _ => format!(".{fraction:09}").trim_end_matches('0').to_owned(),
    };
    format!("{sign}{}{fraction}s", nanos / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_gos_units() {
        let cases = [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("0", Some(0)),
            ("100ms", Some(100_000_000)),
            ("1d", None),
            ("", None),
            ("5", None),
            ("s", None),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        assert_eq!(show_duration(90_000_000_000), "90s");
        assert_eq!(show_duration(-500_000_000), "-0.5s");
    }
}
