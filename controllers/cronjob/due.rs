//! The most recent scheduled time that has passed, and the delay until the next one.
//!
//! A CronJob starts one Job for its most recent time, however many times it missed before. The
//! number of missed times is an estimate from the first two of them, so that a long outage costs
//! no long search.
//!
//! Upstream: `mostRecentScheduleTime` and `nextScheduleTimeDuration` in `utils.go`. Difference: the
//! delay of a schedule is unset after its last time. Upstream's delay is negative then. All functions are
//! pure; `start.rs` combines them with the state of the CronJob.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_values::clock::saturating_since;

use steersman_helpers::cron::Schedule;

/// Delay after a scheduled time, so that small differences between clocks do not lead to an early
/// sync. Upstream: `nextScheduleDelta`.
const PADDING: SignedDuration = SignedDuration::from_millis(100);

/// More missed times than this lead to a warning. Upstream's bound, chosen there to exceed the hourly runs of
/// a long weekend.
const MANY: i64 = 100;

/// Scheduled times of which no Job is known. Only `Many` has a consequence, the Event `TooManyMissedTimes`.
/// The most recent run starts in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// At most one. Upstream: `noneMissed`.
    None,
    /// Up to 100. Upstream: `fewMissed`.
    Few,
    /// More. Upstream: `manyMissed`. A wrong clock is a usual cause.
    Many,
}

/// The answer of [`Times::most_recent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recent {
    /// The time after which the search began. Without a run since then, the next time follows from it.
    pub(super) earliest: Timestamp,
    /// The most recent scheduled time that is not after now. `None` means that no run is due.
    pub(super) time: Option<Timestamp>,
    /// The estimate of missed times.
    pub(super) missed: Missed,
}

/// The schedule has no two times within five years, such as 31 February. The text is upstream's, where the
/// difference of two absent times is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoTimes;

/// The times of a CronJob from which its next Job follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Creation of the CronJob. It stands for the last time of a CronJob that has never run.
    pub(super) created: Timestamp,
    /// `status.lastScheduleTime`. Runs until then need no Job any more.
    pub(super) last: Option<Timestamp>,
    /// `spec.startingDeadlineSeconds`. In seconds. A run that is older is given up.
    pub(super) deadline: Option<i64>,
}

impl Times {
    /// The most recent time of `schedule` that is within the deadline.
    ///
    /// Upstream: `mostRecentScheduleTime`. A run at exactly the deadline is too late: the search begins after
    /// it.
    pub(super) fn most_recent(
        &self,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<Recent, NoTimes> {
        let mut earliest = self.last.unwrap_or(self.created);
        if let Some(deadline) = self.deadline {
            // A deadline before the beginning of time is none.
            let cut = now.checked_sub(SignedDuration::from_secs(deadline));
            earliest = cut.map_or(earliest, |cut| cut.max(earliest));
        }
        let recent = |time, missed| Recent {
            earliest,
            time,
            missed,
        };
        let first = schedule.next(earliest).ok_or(NoTimes)?;
        // A run at exactly `now` is due.
        if now < first {
            return Ok(recent(None, Missed::None));
        }
        // With one missed time, no estimate is needed. Most syncs end here.
        let second = schedule.next(first).ok_or(NoTimes)?;
        if now < second {
            return Ok(recent(Some(first), Missed::None));
        }
        let gap = second.as_second() - first.as_second();
        // Upstream rounds the difference; schedules have whole seconds, so nothing is lost here.
        if gap < 1 {
            return Err(NoTimes);
        }
        let missed = now.duration_since(first).as_secs() / gap + 1;
        // One gap further back than the estimate, since gaps may differ: `30 6-16/4 * * 1-5` has
        // gaps of four hours, of 16 hours and of a weekend. A multiple of the gap keeps the phase
        // of `@every`.
        let back = SignedDuration::from_secs((missed - 2) * gap);
        let mut from = first.checked_add(back).unwrap_or(first);
        // A gap that was longer than the estimate leaves no time, and then no run is due.
        let mut time = None;
        while let Some(next) = schedule.next(from).filter(|next| *next <= now) {
            from = next;
            time = Some(next);
        }
        let missed = if missed > MANY {
            Missed::Many
        } else {
            Missed::Few
        };
        Ok(recent(time, missed))
    }

    /// The time until the next sync: just after the next scheduled time. `None` if there is no such
    /// time. The deadline has no influence.
    ///
    /// Upstream: `nextScheduleTimeDuration`. The base is a time of the schedule where possible, since the
    /// times of `@every` follow from it.
    pub(super) fn delay(&self, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
        let without_deadline = Self {
            deadline: None,
            ..*self
        };
        let base = match without_deadline.most_recent(schedule, now) {
            Ok(Recent {
                time: Some(time), ..
            }) => time,
            Ok(Recent {
                earliest,
                missed: Missed::None,
                ..
            }) => earliest,
            // Missed times without a most recent one, and schedules without times: the search begins now.
            Ok(_) | Err(NoTimes) => now,
        };
        let next = schedule.next(base)?.checked_add(PADDING).ok()?;
        Some(saturating_since(next, now))
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde::Deserialize;
    use steersman_options::duration::GoDuration;

    use steersman_helpers::cron::zone;

    use super::*;
    use crate::cronjob::job;

    fn schedule(text: &str) -> Schedule {
        Schedule::parse(text, &TimeZone::UTC).unwrap()
    }

    /// 2016-05-19T10:00:00Z, a Thursday, plus seconds.
    fn at(seconds: i64) -> Timestamp {
        let top_of_the_hour: Timestamp = "2016-05-19T10:00:00Z".parse().unwrap();
        top_of_the_hour + SignedDuration::from_secs(seconds)
    }

    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    #[derive(Deserialize)]
    struct Data {
        scheduling: Vec<Case>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Case {
        id: String,
        schedule: String,
        time_zone: Option<String>,
        creation_timestamp: Timestamp,
        last_schedule_time: Option<Timestamp>,
        starting_deadline_seconds: Option<i64>,
        now: Timestamp,
        earliest_time: Timestamp,
        most_recent_time: Option<Timestamp>,
        missed: String,
        error: Option<String>,
        requeue_after: GoText,
        job_name: Option<String>,
        scheduled_timestamp_annotation: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(try_from = "String")]
    struct GoText(Duration);

    impl TryFrom<String> for GoText {
        type Error = steersman_options::duration::ParseDurationError;
        fn try_from(text: String) -> Result<Self, Self::Error> {
            Ok(Self(text.parse::<GoDuration>()?.to_std()))
        }
    }

    #[test]
    fn every_case_that_upstream_computed() {
        let text = include_str!("../../crates/helpers/src/cron/testdata/cron-schedules.json");
        let cases = serde_json::from_str::<Data>(text).unwrap().scheduling;
        assert_eq!(cases.len(), 32);
        for case in cases {
            let id = &case.id;
            let zone = zone::load(case.time_zone.as_deref().unwrap_or_default()).unwrap();
            let text = match &case.time_zone {
                Some(zone) => format!("TZ={zone} {}", case.schedule),
                None => case.schedule.clone(),
            };
            let schedule = schedule(&text);
            let times = Times {
                created: case.creation_timestamp,
                last: case.last_schedule_time,
                deadline: case.starting_deadline_seconds,
            };
            let found = times.most_recent(&schedule, case.now);
            let error = found.err().map(|error| error.to_string());
            assert_eq!(error, case.error, "{id}");
            if let Ok(found) = found {
                let missed = format!("{:?}", found.missed).to_lowercase();
                let expected = (case.earliest_time, case.most_recent_time, case.missed);
                assert_eq!((found.earliest, found.time, missed), expected, "{id}");
            }
            // Upstream's delay is negative where there is no next time.
            let delay = times.delay(&schedule, case.now).unwrap_or_default();
            assert_eq!(delay, case.requeue_after.0, "{id}");
            let time = case.most_recent_time;
            let name = time.map(|time| job::name("backup", time));
            assert_eq!(name, case.job_name, "{id}");
            let annotation = time.map(|time| job::rfc3339(time, &zone));
            assert_eq!(annotation, case.scheduled_timestamp_annotation, "{id}");
        }
    }

    /// Upstream: `TestMostRecentScheduleTime`.
    #[test]
    fn most_recent_schedule_time() {
        let weekdays = "30 6-16/4 * * 1-5";
        let error = Err(NoTimes);
        use Missed::{Few, Many, None as NoneMissed};
        // (why, schedule, created, last, deadline, now, earliest, time, missed)
        let cases = [
            (
                "now before next schedule",
                "0 * * * *",
                0,
                None,
                None,
                30,
                Ok((0, None, NoneMissed)),
            ),
            (
                "now just after next schedule",
                "0 * * * *",
                0,
                None,
                None,
                61 * MINUTE,
                Ok((0, Some(HOUR), NoneMissed)),
            ),
            (
                "missed 5 schedules",
                "0 * * * *",
                10,
                None,
                None,
                301 * MINUTE,
                Ok((10, Some(5 * HOUR), Few)),
            ),
            (
                "complex schedule",
                weekdays,
                0,
                Some(30 * MINUTE),
                None,
                DAY + 31 * MINUTE,
                Ok((30 * MINUTE, Some(DAY + 30 * MINUTE), Few)),
            ),
            (
                "another complex schedule",
                "30 10,11,12 * * 1-5",
                0,
                Some(30 * MINUTE),
                None,
                30 * HOUR + 30 * MINUTE,
                Ok((30 * MINUTE, None, Few)),
            ),
            (
                "complex schedule with longer diff between executions",
                weekdays,
                0,
                Some(30 * MINUTE),
                None,
                4 * DAY + 31 * MINUTE,
                Ok((30 * MINUTE, Some(4 * DAY + 30 * MINUTE), Few)),
            ),
            (
                "complex schedule with shorter diff between executions",
                weekdays,
                0,
                None,
                None,
                DAY + 31 * MINUTE,
                Ok((0, Some(DAY + 30 * MINUTE), Few)),
            ),
            (
                "@every schedule",
                "@every 1h",
                -59 * MINUTE,
                Some(MINUTE),
                None,
                7 * DAY,
                Ok((MINUTE, Some(6 * DAY + 23 * HOUR + MINUTE), Many)),
            ),
            ("rogue cronjob", "59 23 31 2 *", 10, None, None, HOUR, error),
            (
                "earliestTime being CreationTimestamp and LastScheduleTime",
                "0 * * * *",
                0,
                Some(0),
                None,
                30,
                Ok((0, None, NoneMissed)),
            ),
            (
                "earliestTime being LastScheduleTime",
                "*/5 * * * *",
                0,
                Some(30 * MINUTE),
                None,
                31 * MINUTE,
                Ok((30 * MINUTE, None, NoneMissed)),
            ),
            (
                "earliestTime being LastScheduleTime (within StartingDeadlineSeconds)",
                "*/5 * * * *",
                0,
                Some(30 * MINUTE),
                Some(60),
                31 * MINUTE,
                Ok((30 * MINUTE, None, NoneMissed)),
            ),
            (
                "earliestTime being LastScheduleTime (outside StartingDeadlineSeconds)",
                "*/5 * * * *",
                0,
                Some(30 * MINUTE),
                Some(60),
                32 * MINUTE,
                Ok((31 * MINUTE, None, NoneMissed)),
            ),
        ];
        for (why, text, created, last, deadline, now, expected) in cases {
            let times = Times {
                created: at(created),
                last: last.map(at),
                deadline,
            };
            let found = times.most_recent(&schedule(text), at(now));
            let expected = expected.map(|(earliest, time, missed)| Recent {
                earliest: at(earliest),
                time: time.map(at),
                missed,
            });
            assert_eq!(found, expected, "{why}");
        }
    }

    /// Upstream: `TestNextScheduleTime`, with its numbers of cases.
    #[test]
    fn next_schedule_time() {
        let first = 0;
        let second = HOUR;
        let deadline = Some(2 * HOUR);
        // (case, created, last, deadline, now, time)
        let cases = [
            (1, first - 10 * MINUTE, None, None, first - 7 * MINUTE, None),
            (2, first - 10 * MINUTE, None, None, first + 2, Some(first)),
            (
                3,
                first - 10 * MINUTE,
                Some(first),
                None,
                first + 2 * MINUTE,
                None,
            ),
            (
                4,
                first - 10 * MINUTE,
                Some(first),
                None,
                second + 5 * MINUTE,
                Some(second),
            ),
            (
                5,
                first - 2 * HOUR,
                Some(-HOUR),
                None,
                second + 5 * MINUTE,
                Some(second),
            ),
            (
                6,
                first - 2 * HOUR,
                Some(-HOUR),
                None,
                second + 10 * DAY,
                Some(second + 10 * DAY),
            ),
            (
                7,
                first - 2 * HOUR,
                Some(-HOUR),
                deadline,
                second + 10 * DAY,
                Some(second + 10 * DAY),
            ),
        ];
        for (case, created, last, deadline, now, time) in cases {
            let times = Times {
                created: at(created),
                last: last.map(at),
                deadline,
            };
            let found = times.most_recent(&schedule("0 * * * ?"), at(now)).unwrap();
            assert_eq!(found.time, time.map(at), "case {case}");
        }
        let times = Times {
            created: at(10),
            last: None,
            deadline,
        };
        let found = times.most_recent(&schedule("59 23 31 2 *"), at(HOUR));
        assert_eq!(found, Err(NoTimes), "case 8");
    }

    /// Upstream: `TestNextScheduleTimeDuration`.
    #[test]
    fn next_schedule_time_duration() {
        let half_past = Some(30 * MINUTE);
        // (why, schedule, last, now, delay without the padding)
        let cases = [
            (
                "complex schedule skipping weekend",
                "30 6-16/4 * * 1-5",
                half_past,
                DAY + 31 * MINUTE,
                3 * HOUR + 59 * MINUTE,
            ),
            (
                "another complex schedule skipping weekend",
                "30 10,11,12 * * 1-5",
                half_past,
                30 * HOUR + 30 * MINUTE,
                66 * HOUR,
            ),
            (
                "once a week cronjob, missed two runs",
                "0 12 * * 4",
                Some(2 * HOUR),
                19 * DAY + HOUR + 30 * MINUTE,
                48 * HOUR + 30 * MINUTE,
            ),
            (
                "no previous run of a cronjob",
                "0 12 * * 5",
                None,
                6 * HOUR,
                20 * HOUR,
            ),
        ];
        for (why, text, last, now, delay) in cases {
            let times = Times {
                created: at(0),
                last: last.map(at),
                deadline: None,
            };
            let expected =
                Duration::from_secs(u64::try_from(delay).unwrap()) + Duration::from_millis(100);
            assert_eq!(
                times.delay(&schedule(text), at(now)),
                Some(expected),
                "{why}"
            );
        }
    }

    #[test]
    fn absurd_times_are_no_error() {
        // (why, schedule, created, last, deadline, time)
        let now = at(30);
        let late = Timestamp::MAX;
        let early = Timestamp::MIN;
        let cases = [
            (
                "a deadline of ages",
                "* * * * *",
                at(-90),
                None,
                Some(i64::MAX),
                Ok(Some(at(0))),
            ),
            (
                "a negative deadline",
                "* * * * *",
                at(-90),
                None,
                Some(i64::MIN),
                Ok(Some(at(0))),
            ),
            (
                "a last time after the year 9999",
                "* * * * *",
                at(0),
                Some(late),
                None,
                Err(NoTimes),
            ),
            (
                "a creation long ago",
                "@every 1h",
                early,
                None,
                None,
                Ok(Some(at(-1))),
            ),
        ];
        for (why, text, created, last, deadline, time) in cases {
            let times = Times {
                created,
                last,
                deadline,
            };
            let found = times
                .most_recent(&schedule(text), now)
                .map(|recent| recent.time);
            assert_eq!(found, time, "{why}");
        }
    }
}
