//! The search for the next run of five cron fields.
//!
//! The search goes from month to day, hour and minute. Each step moves the time to the start of the
//! next month, day, hour or minute that the field accepts. After the end of a year, month, day or
//! hour it starts again with the month.
//!
//! The rules for clock changes follow from two properties, which users of Kubernetes rely on:
//!
//! - Hours are steps of absolute time. An hour that occurs twice has two runs, and a skipped hour
//!   has none.
//! - Days are steps of the wall clock. If midnight is skipped, the search steps over the whole day.
//!
//! Upstream: `SpecSchedule.Next` in `spec.go`, and `time.Date` of Go.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::error::ScheduleError;
use super::field::{self, Set};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The search gives up after this number of years.
const YEARS: i16 = 5;

/// Five cron fields and the time zone of their wall clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    minute: Set,
    hour: Set,
    day_of_month: Set,
    month: Set,
    day_of_week: Set,
    zone: TimeZone,
}

impl Fields {
    /// Parses minute, hour, day of month, month and day of week. The first error counts.
    pub(super) fn parse(fields: [&str; 5], zone: TimeZone) -> Result<Self, ScheduleError> {
        let [minute, hour, day_of_month, month, day_of_week] = fields;
        Ok(Self {
            minute: Set::parse(minute, &field::MINUTES)?,
            hour: Set::parse(hour, &field::HOURS)?,
            day_of_month: Set::parse(day_of_month, &field::DAYS_OF_MONTH)?,
            month: Set::parse(month, &field::MONTHS)?,
            day_of_week: Set::parse(day_of_week, &field::DAYS_OF_WEEK)?,
            zone,
        })
    }

    /// The first run after `time`; `None` if there is none within five years.
    pub(super) fn next(&self, time: Timestamp) -> Option<Timestamp> {
        // `, * * * *` parses and never matches. The search would visit each minute of five years.
        if [self.minute, self.hour, self.month]
            .iter()
            .any(|set| set.is_empty())
        {
            return None;
        }
        let mut at = later(floor_to_second(time)?, 1)?;
        let last_year = self.local(at).year() + YEARS;
        // Smaller units start at zero once a larger one has moved.
        let mut moved = false;
        'wrap: loop {
            if self.local(at).year() > last_year {
                return None;
            }
            while !self.month.has(self.local(at).month()) {
                if !moved {
                    moved = true;
                    at = self.instant(self.local(at).date().first_of_month().into())?;
                }
                at = self.next_month(at)?;
                if self.local(at).month() == 1 {
                    continue 'wrap;
                }
            }
            while !self.has_day(self.local(at).date()) {
                if !moved {
                    moved = true;
                    at = self.instant(self.local(at).date().into())?;
                }
                at = self.next_day(at)?;
                if self.local(at).day() == 1 {
                    continue 'wrap;
                }
            }
            while !self.hour.has(self.local(at).hour()) {
                if !moved {
                    moved = true;
                    let local = self.local(at);
                    at = self.instant(local.date().at(local.hour(), 0, 0, 0))?;
                }
                at = later(at, HOUR)?;
                if self.local(at).hour() == 0 {
                    continue 'wrap;
                }
            }
            while !self.minute.has(self.local(at).minute()) {
                if !moved {
                    moved = true;
                    at = later(at, -at.as_second().rem_euclid(60))?;
                }
                at = later(at, 60)?;
                if self.local(at).minute() == 0 {
                    continue 'wrap;
                }
            }
            match i64::from(self.local(at).second()) {
                0 => return Some(at),
                second => {
                    moved = true;
                    at = later(at, 60 - second)?;
                }
            }
        }
    }

    /// Whether the fields for days accept `date`.
    ///
    /// With two restricted fields either one is enough: `0 0 13 * 5` runs on each 13th and on each
    /// Friday. Otherwise both must match.
    fn has_day(&self, date: Date) -> bool {
        let of_month = self.day_of_month.has(date.day());
        let of_week = self.day_of_week.has(date.weekday().to_sunday_zero_offset());
        if self.day_of_month.is_star || self.day_of_week.is_star {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }

    /// The same wall clock one month later. A day that this month lacks becomes one of the month
    /// after it.
    fn next_month(&self, at: Timestamp) -> Option<Timestamp> {
        let local = self.local(at);
        let first = local.date().last_of_month().tomorrow().ok()?;
        let days = SignedDuration::from_hours(24 * i64::from(local.day() - 1));
        self.instant(first.checked_add(days).ok()?.to_datetime(local.time()))
    }

    /// The start of the next day. If midnight is skipped, this is 23:00 of the same day, and the
    /// next call returns the start of the day after the next.
    fn next_day(&self, at: Timestamp) -> Option<Timestamp> {
        let local = self.local(at);
        let same_time = local.date().tomorrow().ok()?.to_datetime(local.time());
        let next = self.instant(same_time)?;
        let hour = i64::from(self.local(next).hour());
        let next = match hour {
            0 => next,
            13.. => later(next, (24 - hour) * HOUR)?,
            _ => later(next, -hour * HOUR)?,
        };
        // A zone that crossed the date line lacks a whole day, and `next` is `at` again. Upstream's
        // search never ends there.
        if next > at {
            Some(next)
        } else {
            later(at, DAY)
        }
    }

    fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(at)
    }

    /// The time at which the wall clock shows `local`, by the rule of Go's `time.Date`.
    ///
    /// The first lookup reads `local` as if it were UTC, and the second one corrects the offset of the
    /// first. This selects one of two times for a repeated `local`, and a later or earlier time for a
    /// skipped one.
    fn instant(&self, local: DateTime) -> Option<Timestamp> {
        let utc = Offset::UTC.to_timestamp(local).ok()?;
        let guess = i64::from(self.zone.to_offset(utc).seconds());
        if guess == 0 {
            return Some(utc);
        }
        let offset = self.zone.to_offset(later(utc, -guess)?);
        later(utc, -i64::from(offset.seconds()))
    }
}

/// `time` without its fraction of a second; before 1970 too, the second before it.
pub(super) fn floor_to_second(time: Timestamp) -> Option<Timestamp> {
    let nanos = i64::from(time.subsec_nanosecond()).rem_euclid(1_000_000_000);
    time.checked_sub(SignedDuration::from_nanos(nanos)).ok()
}

fn later(at: Timestamp, seconds: i64) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_secs(seconds)).ok()
}
