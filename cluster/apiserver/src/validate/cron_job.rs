//! CronJobs. The controller's own parser checks schedules and time zones.
//!
//! Upstream is `pkg/apis/batch/validation`.

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use steersman_helpers::cron::{Schedule, zone};

use super::errors::{Errors, at, text};
use super::{job, selector};

/// Most characters of a name. The controller appends 11 to the names of Jobs.
const MAX_NAME: usize = 52;

/// Checks a CronJob; an update passes the old one.
pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    schedule(object, old, errors);
    errors.non_negative(object, "spec.startingDeadlineSeconds");
    let zone = at(object, "spec.timeZone");
    if old.is_none_or(|old| at(old, "spec.timeZone") != zone)
        && let Some(zone) = zone.as_str()
    {
        time_zone(zone, errors);
    }
    match text(object, "spec.concurrencyPolicy") {
        "" => errors.required("spec.concurrencyPolicy", ""),
        other => errors.one_of(
            "spec.concurrencyPolicy",
            other,
            &["Allow", "Forbid", "Replace"],
        ),
    }
    template(object, errors);
    errors.non_negative(object, "spec.successfulJobsHistoryLimit");
    errors.non_negative(object, "spec.failedJobsHistoryLimit");
    let name = text(object, "metadata.name");
    if old.is_none() && name.len() > MAX_NAME {
        let why = format!("must be no more than {MAX_NAME} characters");
        errors.invalid("metadata.name", name, why);
    }
}

/// A zone within the schedule is an old form, which only CronJobs that have it may keep.
fn schedule(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    const FIELD: &str = "spec.schedule";
    let schedule = text(object, FIELD);
    if schedule.is_empty() {
        return errors.required(FIELD, "");
    }
    if let Err(error) = Schedule::parse(schedule, &TimeZone::UTC) {
        errors.invalid(FIELD, schedule, error.to_string());
    }
    let had_zone = old.is_some_and(|old| text(old, FIELD).contains("TZ"));
    if !schedule.contains("TZ") {
        return;
    }
    if !had_zone {
        errors.invalid(
            FIELD,
            schedule,
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        );
    } else if !at(object, "spec.timeZone").is_null() {
        errors.invalid(
            FIELD,
            schedule,
            "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        );
    }
}

fn time_zone(name: &str, errors: &mut Errors) {
    const FIELD: &str = "spec.timeZone";
    if name.is_empty() {
        errors.invalid(FIELD, name, "timeZone must be nil or non-empty string");
        return;
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && part.chars().all(is_allowed)
            && !part.starts_with('-')
            && !matches!(part, "." | "..")
    };
    if !name.split('/').all(is_part) {
        errors.invalid(FIELD, name, format!("unknown time zone {name}"));
        return;
    }
    if name.eq_ignore_ascii_case("local") {
        errors.invalid(
            FIELD,
            name,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if let Err(error) = zone::load(name) {
        errors.invalid(FIELD, name, error.to_string());
    }
}

fn template(object: &Value, errors: &mut Errors) {
    const SPEC: &str = "spec.jobTemplate.spec";
    job::spec(object, SPEC, errors);
    let selector = at(object, &format!("{SPEC}.selector"));
    if !selector.is_null() {
        errors.invalid(
            format!("{SPEC}.selector"),
            selector::shown(selector),
            "`selector` will be auto-generated",
        );
    }
    if at(object, &format!("{SPEC}.manualSelector")) == &Value::Bool(true) {
        errors.not_supported(
            format!("{SPEC}.manualSelector"),
            json!(true),
            &["nil", "false"],
        );
    }
}
