//! Cron schedules: text -> [`Schedule`] -> the next run after a time.
//!
//! Users of Kubernetes know the dialect of `robfig/cron`, and its texts of errors are in Events.
//! So this is an exact counterpart of that parser and of its search, daylight saving included. The
//! Rust crates `croner` and `cron` give other answers for a third of the cases in `testdata`.
//!
//! Upstream: `ParseStandard` of `github.com/robfig/cron/v3`, behind
//! `ParseCronScheduleWithPanicRecovery` of `pkg/util/parsers`. Difference: the search also ends for
//! a date that a time zone has skipped, where upstream's never returns.

mod error;
mod field;
mod next;
#[cfg(test)]
mod tests;
pub mod zone;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use steersman_options::duration::GoDuration;

pub use self::error::ScheduleError;
use self::next::{Fields, floor_to_second};

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Five cron fields in a time zone.
    Fields(Fields),
    /// A constant delay: whole seconds, at least one.
    Every(SignedDuration),
}

impl Schedule {
    /// Parses `text`. A schedule without a zone of its own runs in the zone `local`.
    pub fn parse(text: &str, local: &TimeZone) -> Result<Self, ScheduleError> {
        if text.is_empty() {
            return Err(ScheduleError::Empty);
        }
        let (zone, text) = match text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ=")) {
            None => (local.clone(), text),
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').ok_or(ScheduleError::NoFields)?;
                let bad = |source| ScheduleError::Zone {
                    name: name.to_owned(),
                    source,
                };
                (zone::load(name).map_err(bad)?, rest.trim())
            }
        };
        if text.starts_with('@') {
            return Self::descriptor(text, zone);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let Ok(fields) = <[&str; 5]>::try_from(parts.as_slice()) else {
            return Err(ScheduleError::Count {
                found: parts.len(),
                fields: parts.join(" "),
            });
        };
        Ok(Self::Fields(Fields::parse(fields, zone)?))
    }

    /// Parses a schedule such as `@daily` or `@every 1h30m`.
    fn descriptor(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let fields = match text {
            "@yearly" | "@annually" => ["0", "0", "1", "1", "*"],
            "@monthly" => ["0", "0", "1", "*", "*"],
            "@weekly" => ["0", "0", "*", "*", "0"],
            "@daily" | "@midnight" => ["0", "0", "*", "*", "*"],
            "@hourly" => ["0", "*", "*", "*", "*"],
            _ => return Self::every(text),
        };
        Ok(Self::Fields(Fields::parse(fields, zone)?))
    }

    fn every(text: &str) -> Result<Self, ScheduleError> {
        let Some(delay) = text.strip_prefix("@every ") else {
            return Err(ScheduleError::Descriptor(text.to_owned()));
        };
        let delay: GoDuration = delay.parse().map_err(|source| ScheduleError::Duration {
            text: text.to_owned(),
            source,
        })?;
        let seconds = delay.to_std().as_secs().max(1);
        Ok(Self::Every(SignedDuration::from_secs(
            i64::try_from(seconds).unwrap_or(i64::MAX),
        )))
    }

    /// The first run after `time`. `None` if there is no run within five years.
    pub fn next(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields(fields) => fields.next(time),
            Self::Every(delay) => floor_to_second(time)?.checked_add(*delay).ok(),
        }
    }
}
