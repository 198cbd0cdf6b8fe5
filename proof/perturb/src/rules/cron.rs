//! Rules of CronJobs and of finished Jobs.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{is_controlled_by, is_terminating};
use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// A CronJob starts no Job for a scheduled time that its status has recorded.
pub const ONE_RUN: Rule = Rule {
    name: "each scheduled time runs once",
    check: one_run,
};
/// With the policies Forbid and Replace, no Job of a CronJob starts while another one runs.
pub const ONE_AT_A_TIME: Rule = Rule {
    name: "Jobs of one CronJob do not overlap",
    check: one_at_a_time,
};
/// A Job is deleted after its end and its TTL.
pub const NOT_BEFORE_TTL: Rule = Rule {
    name: "no Job is deleted before its TTL has expired",
    check: not_before_ttl,
};

/// Annotation with the scheduled time of a Job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The CronJob that started the Job of `change`; `None` for any other change.
fn starter<'a>(state: &'a State, change: &Change) -> Option<&'a Value> {
    let is_start = &*change.plural == "jobs"
        && change.kind == ChangeKind::Created
        && change.is_by("cronjob-controller");
    let mut cron_jobs = state.all("cronjobs");
    cron_jobs.find(|cron_job| is_start && is_controlled_by(&change.object, cron_job))
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn one_run(state: &State, change: &Change) -> Result<(), String> {
    let Some(cron_job) = starter(state, change) else {
        return Ok(());
    };
    let scheduled = time(&change.object["metadata"]["annotations"][SCHEDULED]);
    let last = time(&cron_job["status"]["lastScheduleTime"]);
    match (scheduled, last) {
        (None, _) => Err(format!("{} has no scheduled time", change.key)),
        (Some(scheduled), Some(last)) if scheduled <= last => Err(format!(
            "{} was scheduled for {scheduled}, and {last} has run",
            change.key
        )),
        _ => Ok(()),
    }
}

fn one_at_a_time(state: &State, change: &Change) -> Result<(), String> {
    let Some(cron_job) = starter(state, change) else {
        return Ok(());
    };
    let policy = cron_job["spec"]["concurrencyPolicy"].as_str();
    if !matches!(policy, Some("Forbid" | "Replace")) {
        return Ok(());
    }
    let uid = &change.object["metadata"]["uid"];
    let mut others = state.all("jobs").filter(|job| {
        job["metadata"]["uid"] != *uid
            && is_controlled_by(job, cron_job)
            && !is_terminating(job)
            && end(job).is_none()
    });
    match others.next() {
        Some(other) => Err(format!("{} still runs", other["metadata"]["name"])),
        None => Ok(()),
    }
}

/// The first true condition `Complete` or `Failed`.
fn end(job: &Value) -> Option<&Value> {
    let mut conditions = job["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| {
        matches!(condition["type"].as_str(), Some("Complete" | "Failed"))
            && condition["status"] == "True"
    })
}

fn not_before_ttl(_state: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "jobs" && change.begins_deletion();
    if !is_deletion || !change.is_by("ttl-after-finished-controller") {
        return Ok(());
    }
    let Some(job) = change.before.as_deref() else {
        return Ok(());
    };
    let ttl = job["spec"]["ttlSecondsAfterFinished"].as_i64();
    let ended = end(job).and_then(|condition| time(&condition["lastTransitionTime"]));
    let missing = || format!("{} has no TTL or no end", change.key);
    let ttl = ttl.ok_or_else(missing)?;
    let ended = ended.ok_or_else(missing)?;
    let expires = ended + SignedDuration::from_secs(ttl);
    if change.at < expires {
        return Err(format!("{} expires at {expires}", change.key));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, owned, put, put_at, terminating, with};
    use super::*;

    const CRON: &str = "cronjob-controller";

    fn cron_job(policy: &str) -> Value {
        let cron_job = object("c", json!({ "concurrencyPolicy": policy }));
        with(
            cron_job,
            "/status",
            json!({"lastScheduleTime": "2026-01-01T10:00:00Z"}),
        )
    }

    fn job(name: &str, scheduled: &str) -> Value {
        let job = owned(object(name, json!({})), "CronJob", "c");
        with(
            job,
            "/metadata/annotations",
            json!({ SCHEDULED: scheduled }),
        )
    }

    fn ended(job: Value, second: i64) -> Value {
        let time = Timestamp::from_second(second).unwrap().to_string();
        let condition = json!({"type": "Failed", "status": "True", "lastTransitionTime": time});
        with(job, "/status", json!({ "conditions": [condition] }))
    }

    #[test]
    fn each_scheduled_time_runs_once() {
        let world = || vec![("cronjobs", cron_job("Allow"))];
        let created = ChangeKind::Created;
        let later = "2026-01-01T16:31:00+05:30";
        let same = "2026-01-01T15:30:00+05:30";
        let unstamped = owned(object("j", json!({})), "CronJob", "c");
        check(
            ONE_RUN,
            [
                (
                    "a later time",
                    world(),
                    CRON,
                    "jobs",
                    created,
                    job("j", later),
                    false,
                ),
                (
                    "the recorded time",
                    world(),
                    CRON,
                    "jobs",
                    created,
                    job("j", same),
                    true,
                ),
                ("no time", world(), CRON, "jobs", created, unstamped, true),
                (
                    "of a user",
                    world(),
                    "kubectl",
                    "jobs",
                    created,
                    job("j", same),
                    false,
                ),
            ],
        );
    }

    #[test]
    fn jobs_with_forbid_do_not_overlap() {
        let later = "2026-01-01T11:00:00Z";
        let world =
            |policy: &str, other: Value| vec![("cronjobs", cron_job(policy)), ("jobs", other)];
        let running = || job("other", later);
        let case = |why, world, breaks| {
            (
                why,
                world,
                CRON,
                "jobs",
                ChangeKind::Created,
                job("j", later),
                breaks,
            )
        };
        check(
            ONE_AT_A_TIME,
            [
                case("Allow", world("Allow", running()), false),
                case("Forbid", world("Forbid", running()), true),
                case("Replace", world("Replace", running()), true),
                case(
                    "the other ended",
                    world("Forbid", ended(running(), 0)),
                    false,
                ),
                case(
                    "the other is terminating",
                    world("Replace", terminating(running())),
                    false,
                ),
                case(
                    "another owner",
                    world("Forbid", object("other", json!({}))),
                    false,
                ),
            ],
        );
    }

    #[test]
    fn jobs_live_until_their_ttl() {
        let ttl = "ttl-after-finished-controller";
        let with_ttl = || object("j", json!({"ttlSecondsAfterFinished": 10}));
        // (why, Job, second of the deletion, client, whether it breaks the rule)
        let cases = [
            ("expired", ended(with_ttl(), 100), 110, ttl, false),
            ("early", ended(with_ttl(), 100), 109, ttl, true),
            ("running", with_ttl(), 110, ttl, true),
            (
                "without TTL",
                ended(object("j", json!({})), 100),
                110,
                ttl,
                true,
            ),
            ("by a user", with_ttl(), 0, "kubectl", false),
        ];
        for (why, job, second, by, breaks) in cases {
            let mut state = State::default();
            put(&mut state, "jobs", ChangeKind::Created, job.clone(), "");
            let kind = ChangeKind::Updated;
            let change = put_at(second, &mut state, "jobs", kind, terminating(job), by);
            assert_eq!(
                (NOT_BEFORE_TTL.check)(&state, &change).is_err(),
                breaks,
                "{why}"
            );
        }
    }
}
