//! Runs that the next run replaces before they end, told from the Events about the CronJob.
//!
//! The controller reports each deletion as `SuccessfulDelete`, those of the history limits too. But a Job of
//! these has ended, so the last end of a run is later than its start. A replaced Job started after the last end.
//! Events of a busy CronJob are joined and dropped, so their number is a lower limit.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use steersman_objects::{ConcurrencyPolicy, CronJob};
use steersman_values::resource::JOBS;
use steersman_why::{COMBINED, Code, Doc, Reason, World, age, count, event_time};

use super::{NAME, start};

/// Runs in a row that tell a rule from an exception.
const MANY: i64 = 2;
/// Time between the deletion of a Job and the creation of its successor in one sync.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(5);

/// An Event about a Job of the CronJob.
struct Told {
    job: String,
    at: Timestamp,
    first: Timestamp,
    count: i64,
}

/// The reason if the last runs of `doc` were replaced, and none has ended since.
pub(super) fn reason(world: &World, doc: &Doc, cron_job: &CronJob) -> Option<Reason> {
    if cron_job.spec.concurrency_policy != ConcurrencyPolicy::Replace {
        return None;
    }
    let jobs = world.controlled(&JOBS, doc.namespace(), doc.uid())?;
    let events = world.events(doc);
    let ended = told(&events, "SawCompletedJob", "Saw completed job: ");
    let success = cron_job.status.last_successful_time;
    let ends = ended.iter().map(|end| end.at).chain(success);
    let last_end = ends.chain(jobs.iter().filter_map(end_of)).max();
    let created = told(&events, "SuccessfulCreate", "Created job ");
    let mut replaced = told(&events, "SuccessfulDelete", "Deleted job ");
    replaced.retain(|gone| {
        let start = started(&gone.job, &cron_job.meta.name);
        let is_ended = ended.iter().any(|end| end.job == gone.job);
        // Without a history of failures, a failed Job leaves no other trace.
        let keeps_failures = cron_job.spec.failed_jobs_history_limit != Some(0);
        let is_known = keeps_failures || created.iter().any(|next| follows(next, gone));
        let is_later = start.is_some_and(|at| last_end.is_none_or(|end| at >= end));
        is_later && !is_ended && is_known
    });
    let counts = replaced.iter().map(|gone| {
        let is_all_later = last_end.is_none_or(|end| gone.first >= end);
        if is_all_later { gone.count } else { 1 }
    });
    let number: i64 = counts.sum();
    let last = replaced.iter().max_by_key(|gone| gone.at)?;
    let start = started(&last.job, &cron_job.meta.name)?;
    if number < MANY && !has_earlier_run(cron_job, last_end, start) {
        return None;
    }
    let first = replaced.iter().map(|gone| gone.first).min();
    let success = match success {
        Some(at) => format!("no run has completed since {at}"),
        None => "no run has completed yet".to_owned(),
    };
    let active = cron_job.status.active.last();
    let now = active.map(|job| format!("; job {} runs now", job.name));
    let deletions = count(
        usize::try_from(number).unwrap_or(usize::MAX),
        "such deletion",
    );
    let message = format!(
        "concurrencyPolicy Replace: a run takes longer than the schedule {:?} allows, so the next run replaces it: job {} \
         was deleted after {} (Events SuccessfulDelete tell of at least {deletions}), and {success}{}",
        cron_job.spec.schedule,
        last.job,
        age(last.at.duration_since(start).as_secs()),
        now.unwrap_or_default()
    );
    let who = "owner of the CronJob (concurrencyPolicy Forbid or Allow, a longer schedule, or a faster program)";
    let reason = Reason::new(Code::RunsReplaced, NAME, message).who(who);
    let reason = reason.since(first).field("job", &*last.job);
    Some(reason.field("replaced", number))
}

/// Whether `next` tells of a creation in the sync of the deletion `gone`.
fn follows(next: &Told, gone: &Told) -> bool {
    let later = next.at.duration_since(gone.at);
    next.job != gone.job && later >= SignedDuration::ZERO && later <= AT_ONCE
}

/// Whether a run was due between the last end of a run and `start`. It has not ended either.
fn has_earlier_run(cron_job: &CronJob, last_end: Option<Timestamp>, start: Timestamp) -> bool {
    let created = cron_job.meta.created.map(Timestamp::from);
    let schedule = start::schedule(&cron_job.spec, &TimeZone::system()).ok();
    let due = schedule
        .zip(last_end.or(created))
        .and_then(|(schedule, after)| schedule.next(after));
    due.is_some_and(|due| due < start)
}

/// The end of `job`, if it has ended.
fn end_of(job: &Doc) -> Option<Timestamp> {
    let mut ends = ["Complete", "Failed"].into_iter();
    ends.find_map(|kind| {
        let condition = job.condition(kind)?;
        let is_true = condition.text("/status") == "True";
        condition.time("/lastTransitionTime").filter(|_| is_true)
    })
}

/// The Events with `reason` whose message starts with `start` and the name of a Job.
fn told(events: &[Doc], reason: &str, start: &str) -> Vec<Told> {
    let of_reason = events
        .iter()
        .filter(|event| event.text("/reason") == reason);
    let found = of_reason.filter_map(|event| {
        let message = event.text("/message");
        let message = message.strip_prefix(COMBINED).unwrap_or(message);
        let rest = message.strip_prefix(start)?;
        let at = event_time(event)?;
        Some(Told {
            job: rest.split([',', ' ']).next()?.to_owned(),
            at,
            first: event.time("/firstTimestamp").unwrap_or(at),
            count: event
                .number("/count")
                .max(event.number("/series/count"))
                .max(1),
        })
    });
    found.collect()
}

/// The scheduled time of `job`, whose name ends with its minute.
fn started(job: &str, cron_job: &str) -> Option<Timestamp> {
    let minute: i64 = job
        .strip_prefix(cron_job)?
        .strip_prefix('-')?
        .parse()
        .ok()?;
    Timestamp::from_second(minute.checked_mul(60)?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_values::resource::{EVENTS, ResourceType};
    use steersman_why::{Explanation, Loaded, Need};

    use super::*;

    /// The minute of 2026-01-01T00:00:00Z, which the names of Jobs have.
    const MIDNIGHT: u32 = 29_453_760;

    fn time(at: &str) -> String {
        format!("2026-01-01T00:{at}Z")
    }

    fn event(reason: &str, message: &str, at: &str) -> Value {
        json!({"reason": reason, "message": message, "count": 1, "firstTimestamp": time(at), "lastTimestamp": time(at)})
    }

    fn created(minute: u32, at: &str) -> Value {
        let message = format!("Created job export-{}", MIDNIGHT + minute);
        event("SuccessfulCreate", &message, at)
    }

    fn deleted(minute: u32, at: &str) -> Value {
        let message = format!("Deleted job export-{}", MIDNIGHT + minute);
        event("SuccessfulDelete", &message, at)
    }

    fn ended(minute: u32, at: &str) -> Value {
        let job = MIDNIGHT + minute;
        let message = format!("Saw completed job: export-{job}, condition: Complete");
        event("SawCompletedJob", &message, at)
    }

    /// A CronJob that runs each minute since midnight, with its Events and finished Jobs.
    struct Case {
        policy: &'static str,
        success: Value,
        failures: u32,
        events: Vec<Value>,
        jobs: Vec<Value>,
    }

    impl Case {
        fn of(events: Vec<Value>) -> Self {
            Self {
                policy: "Replace",
                success: Value::Null,
                failures: 1,
                events,
                jobs: Vec::new(),
            }
        }

        /// The message, if runs are replaced.
        fn message(self) -> Option<String> {
            let doc = Doc::new(json!({
                "metadata": {"name": "export", "namespace": "shop", "uid": "u", "creationTimestamp": time("00:30")},
                "spec": {"schedule": "* * * * *", "concurrencyPolicy": self.policy, "failedJobsHistoryLimit": self.failures},
                "status": {"lastSuccessfulTime": self.success},
            }));
            let none =
                |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
            let mut world = World::new(time("09:00").parse().unwrap(), None, none);
            let list = |of: &ResourceType, fields: &str| Need::List {
                of: of.clone(),
                namespace: "shop".to_owned(),
                fields: fields.to_owned(),
            };
            let docs =
                |values: Vec<Value>| Loaded::Objects(values.into_iter().map(Doc::new).collect());
            world.load(list(&EVENTS, "involvedObject.uid=u"), docs(self.events));
            world.load(list(&JOBS, ""), docs(self.jobs));
            let cron_job = doc.view::<CronJob>().unwrap();
            Some(reason(&world, &doc, &cron_job)?.message)
        }
    }

    fn runs() -> Vec<Value> {
        vec![
            created(1, "01:00"),
            deleted(1, "02:00"),
            created(2, "02:00"),
            deleted(2, "03:00"),
            created(3, "03:00"),
        ]
    }

    #[test]
    fn runs_in_a_row_that_never_end_are_told() {
        let told = Case::of(runs()).message().unwrap();
        assert!(told.contains("was deleted after 1m"), "{told}");
        assert!(told.contains("at least 2 such deletions"), "{told}");
        assert!(told.ends_with("no run has completed yet"), "{told}");
        let mut earlier = Case::of(runs());
        earlier.success = json!(time("00:45"));
        let told = earlier.message().unwrap();
        assert!(
            told.ends_with("no run has completed since 2026-01-01T00:00:45Z"),
            "{told}"
        );
        // Events are dropped, and the run before the deleted one was due.
        assert!(Case::of(vec![deleted(5, "06:00")]).message().is_some());
    }

    #[test]
    fn a_run_that_ended_is_no_replaced_one() {
        let mut forbidden = Case::of(runs());
        forbidden.policy = "Forbid";
        assert_eq!(forbidden.message(), None);
        // The first run of all.
        assert_eq!(Case::of(runs()[..3].to_vec()).message(), None);
        let mut one_ended = runs();
        one_ended.push(ended(2, "02:30"));
        assert_eq!(Case::of(one_ended).message(), None);
        let mut success = Case::of(runs());
        success.success = json!(time("03:30"));
        assert_eq!(success.message(), None);
        let mut failed = Case::of(runs());
        failed.jobs = vec![json!({
            "metadata": {"ownerReferences": [{"uid": "u", "controller": true}]},
            "status": {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": time("03:10")}]},
        })];
        assert_eq!(failed.message(), None);
        // Failures may leave no trace, and no run followed the deletions at once.
        let deletions = vec![deleted(4, "04:20"), deleted(5, "05:20")];
        assert!(Case::of(deletions.clone()).message().is_some());
        let mut without = Case::of(deletions);
        without.failures = 0;
        assert_eq!(without.message(), None);
    }

    #[test]
    fn one_event_can_stand_for_many_deletions() {
        let job = MIDNIGHT + 8;
        let combined = format!("(combined from similar events): Deleted job export-{job}");
        let mut many = event("SuccessfulDelete", &combined, "09:00");
        many["firstTimestamp"] = json!(time("02:00"));
        many["count"] = json!(7);
        let told = Case::of(vec![many]).message().unwrap();
        assert!(told.contains("at least 7 such deletions"), "{told}");
    }

    #[test]
    fn jobs_that_the_history_limits_delete_are_not_replaced() {
        let history = vec![
            created(4, "04:00"),
            ended(4, "04:20"),
            deleted(1, "04:20"),
            created(5, "05:00"),
            ended(5, "05:20"),
            deleted(2, "05:21"),
            deleted(3, "05:40"),
        ];
        assert_eq!(Case::of(history).message(), None);
        // The Events about their ends are dropped.
        let mut dropped = Case::of(vec![deleted(1, "04:20"), deleted(2, "05:21")]);
        dropped.success = json!(time("05:20"));
        assert_eq!(dropped.message(), None);
    }
}
