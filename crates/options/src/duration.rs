//! Durations in Go's format, as flags accept and `/configz` prints them: `1h30m`, `12h0m0s`, `0s`.
//!
//! Port of `time.ParseDuration` and `Duration.String` of Go's standard library.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A signed duration in nanoseconds that parses and prints like Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(i64);

const NANOS: i64 = 1;
const MICROS: i64 = 1_000 * NANOS;
const MILLIS: i64 = 1_000 * MICROS;
const SECONDS: i64 = 1_000 * MILLIS;
const MINUTES: i64 = 60 * SECONDS;
const HOURS: i64 = 60 * MINUTES;

impl GoDuration {
    /// A duration of whole seconds; saturates at about 292 years.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECONDS))
    }

    /// The duration as a type of the standard library; a negative one becomes zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// A text that is no Go duration. The messages are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Not a number with a unit, or out of range.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A number with a unit that Go does not have.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The text in the place of the unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // The sum is unsigned, because the most negative duration has no positive counterpart.
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let end = after
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(ParseDurationError::MissingUnit(text.to_owned()));
            }
            let scale = scale_of(unit).ok_or_else(|| ParseDurationError::UnknownUnit {
                unit: unit.to_owned(),
                text: text.to_owned(),
            })?;
            let part = nanos(whole, fraction, scale).ok_or_else(invalid)?;
            total = total
                .checked_add(part)
                .filter(|t| *t <= 1 << 63)
                .ok_or_else(invalid)?;
            rest = after;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(nanos)) => Ok(Self(nanos)),
            (true, Ok(nanos)) => Ok(Self(-nanos)),
            (true, Err(_)) => Ok(Self(i64::MIN)),
            (false, Err(_)) => Err(invalid()),
        }
    }
}

/// Splits `text` after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

/// Nanoseconds per unit.
fn scale_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => NANOS,
        "us" | "µs" | "μs" => MICROS,
        "ms" => MILLIS,
        "s" => SECONDS,
        "m" => MINUTES,
        "h" => HOURS,
        _ => return None,
    })
}

/// `whole.fraction` times `scale`, in nanoseconds, rounded towards zero.
fn nanos(whole: &str, fraction: &str, scale: i64) -> Option<u64> {
    let scale = u64::try_from(scale).ok()?;
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // The longest unit has 3.6e12 ns, so digits after the eighteenth have no effect.
    let fraction = &fraction[..fraction.len().min(18)];
    let extra = match fraction.parse::<u128>() {
        Ok(value) => u64::try_from(
            value * u128::from(scale) / 10u128.pow(u32::try_from(fraction.len()).ok()?),
        )
        .ok()?,
        Err(_) => 0,
    };
    whole.checked_mul(scale)?.checked_add(extra)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => return write_seconds(f, nanos),
        };
        write!(f, "{}{name}", decimal(nanos, unit))
    }
}

/// Writes a duration of at least one second, with all units from the largest one down.
fn write_seconds(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    let minute = MINUTES.unsigned_abs();
    let minutes = nanos / minute;
    let seconds = nanos % minute;
    if minutes >= 60 {
        write!(f, "{}h{}m", minutes / 60, minutes % 60)?;
    } else if minutes > 0 {
        write!(f, "{minutes}m")?;
    }
    write!(f, "{}s", decimal(seconds, SECONDS.unsigned_abs()))
}

/// `value / unit` without trailing zeros; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let whole = value / unit;
    let fraction = value % unit;
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_printed_as_in_go() {
        // (typed, nanoseconds, printed)
        let cases = [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("+5s", 5 * SECONDS, "5s"),
            ("-1.5h", -90 * MINUTES, "-1h30m0s"),
            ("12h", 12 * HOURS, "12h0m0s"),
            ("8760h", 8760 * HOURS, "8760h0m0s"),
            (
                "1h15m30.918s",
                HOURS + 15 * MINUTES + 30_918 * MILLIS,
                "1h15m30.918s",
            ),
            ("90s", 90 * SECONDS, "1m30s"),
            ("100ms", 100 * MILLIS, "100ms"),
            ("1.5us", 1_500, "1.5µs"),
            ("2µs", 2_000, "2µs"),
            ("7ns", 7, "7ns"),
            (".5s", 500 * MILLIS, "500ms"),
            ("1.s", SECONDS, "1s"),
            (
                "0.3333333333333333333h",
                1_199_999_999_999,
                "19m59.999999999s",
            ),
            (
                "-9223372036854775808ns",
                i64::MIN,
                "-2562047h47m16.854775808s",
            ),
        ];
        for (typed, nanos, printed) in cases {
            let parsed: GoDuration = typed.parse().unwrap();
            assert_eq!(
                (parsed.0, parsed.to_string().as_str()),
                (nanos, printed),
                "{typed}"
            );
        }
    }

    #[test]
    fn invalid_durations_are_refused_with_gos_messages() {
        let cases = [
            ("", r#"time: invalid duration """#),
            ("abc", r#"time: invalid duration "abc""#),
            ("-", r#"time: invalid duration "-""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1h5", r#"time: missing unit in duration "1h5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("5 s", r#"time: unknown unit " s" in duration "5 s""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            ("3000000h", r#"time: invalid duration "3000000h""#),
        ];
        for (typed, message) in cases {
            assert_eq!(
                typed.parse::<GoDuration>().unwrap_err().to_string(),
                message
            );
        }
    }
}
