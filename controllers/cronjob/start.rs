//! The decision whether a CronJob starts a Job now, and when it has to be looked at again.
//!
//! time zone -> suspended? -> schedule -> most recent time -> already started? -> policy
//!
//! Upstream: `syncCronJob` from the check of the time zone on, `formatSchedule`, and
//! `nextScheduleTime`. The Event `MissSchedule` is absent: upstream never reaches it, because its
//! search for the most recent time applies the deadline too.
//!
//! The order of the checks is visible to users: the first one that fails gives the Event. A suspended CronJob
//! with a wrong zone still gets `UnknownTimeZone`, since upstream checks the zone first.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use steersman_objects::{ConcurrencyPolicy, CronJob, CronJobSpec};

use steersman_helpers::cron::zone::{self, ZoneError};
use steersman_helpers::cron::{Schedule, ScheduleError};

use super::due::{Missed, Times};
use super::job;
use super::notice::Notice;
use super::status::Draft;

/// The decision about one CronJob.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// Events to record first. They are recorded even if no Job starts.
    pub(super) notices: Vec<Notice>,
    /// The action.
    pub(super) action: Action,
}

/// The action that the state of a CronJob asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// No Job starts before the CronJob changes. It is suspended, terminates, or has a spec that cannot start
    /// Jobs. No timer runs for it.
    Rest,
    /// No Job starts now; the next scheduled time is this far away. `None` if the schedule has no further
    /// time. Upstream computes a negative delay then.
    Wait(Option<Duration>),
    /// A Job starts. The sync may still find that the Job exists.
    Start(Start),
}

/// The Job to start. Its name follows from `at`; see `job.rs`.
#[derive(Debug, PartialEq)]
pub(super) struct Start {
    /// Its scheduled time.
    pub(super) at: Timestamp,
    /// The zone of `spec.timeZone`, UTC if unset. For the annotation of the Job. The schedule itself may run
    /// in another zone.
    pub(super) zone: TimeZone,
    /// The schedule, for the delay until the next Job.
    pub(super) schedule: Schedule,
}

/// Decides about `cron_job`, which has the status `draft` by now. Schedules without a zone run in
/// the zone `local`.
///
/// The status comes from `draft` rather than from the CronJob: Jobs that this sync saw end no longer count as
/// running.
pub(super) fn decide(
    cron_job: &CronJob,
    draft: &Draft,
    now: Timestamp,
    local: &TimeZone,
) -> Decision {
    let mut notices = Vec::new();
    let action = match action(cron_job, draft, now, local, &mut notices) {
        Ok(action) => action,
        Err(refusal) => {
            notices.push(refusal);
            Action::Rest
        }
    };
    Decision { notices, action }
}

/// The action, or the Event about a spec that cannot start Jobs.
fn action(
    cron_job: &CronJob,
    draft: &Draft,
    now: Timestamp,
    local: &TimeZone,
    notices: &mut Vec<Notice>,
) -> Result<Action, Notice> {
    let spec = &cron_job.spec;
    // A CronJob that terminates still takes over the ends of its Jobs, and starts none.
    if cron_job.meta.is_terminating() {
        return Ok(Action::Rest);
    }
    let zone = zone_of(spec).map_err(|error| {
        let name = spec.time_zone.as_deref().unwrap_or_default();
        Notice::warning(
            "UnknownTimeZone",
            format!("invalid timeZone: {name:?}: {error}"),
        )
    })?;
    if spec.suspend {
        return Ok(Action::Rest);
    }
    let text = &spec.schedule;
    // Only a warning: the schedule works with its own zone, and then `spec.timeZone` is ignored.
    if names_zone(text) {
        let message = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        notices.push(Notice::warning("UnsupportedSchedule", message));
    }
    let schedule = schedule(spec, local).map_err(|error| {
        let message = format!("unparseable schedule: {text:?} : {error}");
        Notice::warning("UnparseableSchedule", message)
    })?;
    let times = times(cron_job, draft.last_schedule_time());
    let recent = times.most_recent(&schedule, now).map_err(|error| {
        Notice::warning(
            "InvalidSchedule",
            format!("invalid schedule: {text} : {error}"),
        )
    })?;
    let wait = || Ok(Action::Wait(times.delay(&schedule, now)));
    // After a restart, or after an update of the CronJob, no run may be due.
    let Some(at) = recent.time else {
        return wait();
    };
    if recent.missed == Missed::Many {
        notices.push(Notice::warning(
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        ));
    }
    // Either trace is enough. The name also finds a run that the status has not timed yet.
    let name = job::name(&cron_job.meta.name, at);
    if draft.has_name(&cron_job.meta.namespace, &name) || draft.last_schedule_time() == Some(at) {
        tracing::debug!(
            schedule = %at,
            "Not starting job because the scheduled time is already processed"
        );
        return wait();
    }
    // The run is not lost at once: it starts later, if the Job ends before the next time and within the
    // deadline.
    if spec.concurrency_policy == ConcurrencyPolicy::Forbid && !draft.active().is_empty() {
        notices.push(Notice::normal(
            "JobAlreadyActive",
            "Not starting job because prior execution is running and concurrency policy is Forbid",
        ));
        return wait();
    }
    Ok(Action::Start(Start { at, zone, schedule }))
}

/// The time from `now` to the next scheduled time of a CronJob. `last` is the scheduled time of its
/// last Job. Upstream: `nextScheduleTimeDuration`.
pub(super) fn delay(
    cron_job: &CronJob,
    last: Option<Timestamp>,
    schedule: &Schedule,
    now: Timestamp,
) -> Option<Duration> {
    times(cron_job, last).delay(schedule, now)
}

/// The name of the Job that is due now, if the status has not recorded it. Upstream's order of
/// steps can delete this Job when it is finished.
///
/// It has no counterpart upstream. The name is enough, since a Job of another time has another name.
pub(super) fn unrecorded(cron_job: &CronJob, now: Timestamp, local: &TimeZone) -> Option<String> {
    let last = cron_job.status.last_schedule_time;
    let schedule = schedule(&cron_job.spec, local).ok()?;
    let recent = times(cron_job, last).most_recent(&schedule, now).ok()?;
    let at = recent.time.filter(|at| last != Some(*at))?;
    Some(job::name(&cron_job.meta.name, at))
}

/// Parses the schedule of `spec`, in its time zone. Upstream: `formatSchedule`. An unknown zone is left out
/// here, and `action` reports it before.
pub(super) fn schedule(spec: &CronJobSpec, local: &TimeZone) -> Result<Schedule, ScheduleError> {
    let text = match &spec.time_zone {
        Some(zone) if !names_zone(&spec.schedule) && zone::load(zone).is_ok() => {
            Cow::Owned(format!("TZ={zone} {}", spec.schedule))
        }
        _ => Cow::Borrowed(&*spec.schedule),
    };
    Schedule::parse(&text, local)
}

/// An unset zone is UTC, the zone of the annotation.
fn zone_of(spec: &CronJobSpec) -> Result<TimeZone, ZoneError> {
    zone::load(spec.time_zone.as_deref().unwrap_or_default())
}

/// Whether the schedule may name a time zone. Upstream searches for `TZ` anywhere in it.
fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

fn times(cron_job: &CronJob, last: Option<Timestamp>) -> Times {
    Times {
        // The API server sets the creation time of every object.
        created: cron_job
            .meta
            .created
            .map_or(Timestamp::UNIX_EPOCH, Timestamp::from),
        last,
        deadline: cron_job.spec.starting_deadline_seconds,
    }
}
