//! Parts of timestamps and durations.
//!
//! Upstream: `common/types/timestamp.go` and `duration.go` of cel-go.

use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

/// The rows of one part of a timestamp, in UTC or in a named zone.
macro_rules! part {
    ($name:literal, $part:expr) => {
        [
            (concat!(".", $name, "(timestamp) int"), $part),
            (concat!(".", $name, "(timestamp, string) int"), $part),
        ]
    };
}

const YEAR: [Row; 2] = part!("getFullYear", |args| of(args, |at| at.year().into()));
const MONTH: [Row; 2] = part!("getMonth", |args| of(args, |at| i64::from(at.month()) - 1));
const YEAR_DAY: [Row; 2] = part!("getDayOfYear", |args| of(args, |at| i64::from(
    at.day_of_year()
) - 1));
const MONTH_DAY: [Row; 2] = part!("getDayOfMonth", |args| of(args, |at| i64::from(at.day())
    - 1));
const DATE: [Row; 2] = part!("getDate", |args| of(args, |at| at.day().into()));
const WEEK_DAY: [Row; 2] = part!("getDayOfWeek", |args| of(args, |at| at
    .weekday()
    .to_sunday_zero_offset()
    .into()));
const HOURS: [Row; 2] = part!("getHours", |args| of(args, |at| at.hour().into()));
const MINUTES: [Row; 2] = part!("getMinutes", |args| of(args, |at| at.minute().into()));
const SECONDS: [Row; 2] = part!("getSeconds", |args| of(args, |at| at.second().into()));
const MILLIS: [Row; 2] = part!("getMilliseconds", |args| of(args, |at| at
    .millisecond()
    .into()));

pub(super) const ROWS: &[Row] = &[
    YEAR[0],
    YEAR[1],
    MONTH[0],
    MONTH[1],
    YEAR_DAY[0],
    YEAR_DAY[1],
    MONTH_DAY[0],
    MONTH_DAY[1],
    DATE[0],
    DATE[1],
    WEEK_DAY[0],
    WEEK_DAY[1],
    HOURS[0],
    HOURS[1],
    MINUTES[0],
    MINUTES[1],
    SECONDS[0],
    SECONDS[1],
    MILLIS[0],
    MILLIS[1],
    (".getHours(duration) int", |args| {
        whole(args, 3_600_000_000_000)
    }),
    (".getMinutes(duration) int", |args| {
        whole(args, 60_000_000_000)
    }),
    (".getSeconds(duration) int", |args| {
        whole(args, 1_000_000_000)
    }),
    (".getMilliseconds(duration) int", |args| {
        whole(args, 1_000_000)
    }),
];

fn whole(args: &[Val], unit: i64) -> Result<Val, Fail> {
    match &args[0] {
        Val::Duration(nanos) => Ok(Val::Int(nanos / unit)),
        _ => Err(Fail::no_overload()),
    }
}

fn of(args: &[Val], part: fn(&Zoned) -> i64) -> Result<Val, Fail> {
    let Val::Timestamp(at) = &args[0] else {
        return Err(Fail::no_overload());
    };
    let zone = match args.get(1) {
        Some(Val::Text(name)) => zone(name)?,
        _ => TimeZone::UTC,
    };
    Ok(Val::Int(part(&at.to_zoned(zone))))
}

/// A zone of the time zone database, or an offset such as `-08:00`.
fn zone(name: &str) -> Result<TimeZone, Fail> {
    let unknown = || Fail::new(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let negative = hours.starts_with('-');
    let hours: i32 = hours.parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    let minutes = if negative { -minutes } else { minutes };
    let offset = Offset::from_seconds(hours * 3600 + minutes * 60).map_err(|_| unknown())?;
    Ok(TimeZone::fixed(offset))
}
