//! Times in the form that Go's `time.Parse` reads with the layout `time.RFC3339`.
//!
//! Users write such times into Secrets and annotations, where no API server checks them. Other
//! parsers accept other texts, such as a lower-case `t`.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// The time in `text`; `None` if Go refuses it. As in Go, the hour may have one digit, and a comma
/// may separate the fraction. Times after the last [`Timestamp`] become the last one.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.literal(b'-')?;
    let month = rest.number(2)?;
    rest.literal(b'-')?;
    let day = rest.number(2)?;
    rest.literal(b'T')?;
    let hour = rest.number(2).or_else(|| rest.number(1))?;
    rest.literal(b':')?;
    let minute = rest.number(2)?;
    rest.literal(b':')?;
    let second = rest.number(2)?;
    let nanosecond = rest.fraction();
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return None;
    }
    let byte = |number: u32| i8::try_from(number).ok();
    let date = Date::new(i16::try_from(year).ok()?, byte(month)?, byte(day)?).ok()?;
    let time = Time::new(byte(hour)?, byte(minute)?, byte(second)?, nanosecond).ok()?;
    let local = Offset::UTC.to_timestamp(date.to_datetime(time));
    let time = local.unwrap_or(Timestamp::MAX).checked_sub(offset);
    Some(time.unwrap_or(Timestamp::MAX))
}

/// The part of the text that is not parsed yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of exactly `digits` digits. Consumes nothing if there are fewer.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        if !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(
            number
                .iter()
                .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')),
        )
    }

    fn literal(&mut self, expected: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[expected])?;
        Some(())
    }

    /// An optional fraction of a second, in nanoseconds. Go drops further digits.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', digits @ ..] = self.0 else {
            return 0;
        };
        let count = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return 0;
        }
        self.0 = &digits[count..];
        let padded = digits[..count]
            .iter()
            .copied()
            .chain(std::iter::repeat(b'0'));
        padded
            .take(9)
            .fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'))
    }

    /// `Z`, or an offset such as `+01:00`.
    fn offset(&mut self) -> Option<SignedDuration> {
        let sign = match self.0.split_first()? {
            (b'Z', rest) => {
                self.0 = rest;
                return Some(SignedDuration::ZERO);
            }
            (b'+', rest) => {
                self.0 = rest;
                1
            }
            (b'-', rest) => {
                self.0 = rest;
                -1
            }
            _ => return None,
        };
        let hours = self.number(2).filter(|hours| *hours <= 24)?;
        self.literal(b':')?;
        let minutes = self.number(2).filter(|minutes| *minutes <= 60)?;
        Some(SignedDuration::from_mins(
            sign * i64::from(hours * 60 + minutes),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        // (text, its time as we print it)
        let cases = [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05+01:30", Some("2026-01-02T01:34:05Z")),
            ("2026-01-02T03:04:05-24:60", Some("2026-01-03T04:04:05Z")),
            ("2026-01-02T03:04:05.5Z", Some("2026-01-02T03:04:05.5Z")),
            (
                "2026-01-02T03:04:05,1234567899Z",
                Some("2026-01-02T03:04:05.123456789Z"),
            ),
            ("2026-01-02T3:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00Z")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
            (
                "9999-12-31T23:59:59Z",
                Some("9999-12-30T22:00:00.999999999Z"),
            ),
            ("2026-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-1-02T03:04:05Z", None),
            ("10000-01-02T03:04:05Z", None),
            ("2026-01-02T24:00:00Z", None),
            ("2026-01-02T03:60:00Z", None),
            ("2026-01-02T03:04:60Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02t03:04:05z", None),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05+0100", None),
            ("2026-01-02T03:04:05+25:00", None),
            ("2026-01-02T03:04:05Z[UTC]", None),
            (" 2026-01-02T03:04:05Z", None),
            ("1700000000", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = parse_rfc3339(text).map(|time| time.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
