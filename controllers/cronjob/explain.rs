//! Why a CronJob starts no Job, by the decision of its sync.
//!
//! The decision comes from the same functions as in the sync, so the reasons agree with it.

use jiff::tz::TimeZone;
use steersman_objects::{ConcurrencyPolicy, CronJob};
use steersman_values::resource::JOBS;
use steersman_why::{Code, Doc, Explanation, Reason, World, refusal, warning};

use super::NAME;
use super::due::NoTimes;
use super::replaced;
use super::start::{self, Action};
use super::status::Draft;

/// Adds the reasons about `doc`, and the answers about its running Jobs.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(cron_job) = doc.view::<CronJob>() else {
        return;
    };
    let last = cron_job.status.last_schedule_time;
    answer.state = match last {
        Some(at) => format!("ran last at {at}"),
        None => "has not run yet".to_owned(),
    };
    // A suspension hides all other reasons, as in `start::decide`.
    if cron_job.spec.suspend {
        let message = "spec.suspend is true, so no Job starts";
        answer.add(Reason::new(Code::Suspended, NAME, message).who("owner of the CronJob"));
        return;
    }
    let draft = Draft::of(&cron_job);
    // The schedule of a remote manager without a zone follows the zone of that machine.
    let decision = start::decide(&cron_job, &draft, world.now, &TimeZone::system());
    for notice in &decision.notices {
        let code = match notice.reason {
            "UnknownTimeZone" | "UnparseableSchedule" | "InvalidSchedule" => Code::ScheduleInvalid,
            "TooManyMissedTimes" => Code::TooManyMissedRuns,
            "JobAlreadyActive" => Code::RunForbidden,
            // Other notices concern no run, for example `UnsupportedSchedule`.
            _ => continue,
        };
        let mut message = notice.message.to_string();
        if code == Code::RunForbidden {
            let names: Vec<&str> = draft.active().iter().map(|job| &*job.name).collect();
            message = format!(
                "concurrencyPolicy Forbid: no run while {} is active",
                names.join(", ")
            );
        }
        // The text of upstream is about seconds, and users look for their mistake elsewhere.
        if message.contains(&NoTimes.to_string()) {
            message = format!(
                "no date of the next five years fits the schedule {:?}: a day or month excludes the other (the Event says {:?})",
                cron_job.spec.schedule,
                NoTimes.to_string()
            );
        }
        let who = match code {
            Code::RunForbidden => "owner of the CronJob (concurrencyPolicy), or of the Job",
            Code::ScheduleInvalid => "owner of the CronJob (spec.schedule, spec.timeZone)",
            _ => "owner of the CronJob",
        };
        answer.add(Reason::new(code, NAME, message).who(who).since(last));
    }
    match decision.action {
        Action::Rest => {}
        // The next run is forbidden too, as long as the Job is active.
        Action::Wait(_) if answer.has(Code::RunForbidden) => {}
        Action::Wait(delay) => {
            let next = delay.and_then(|delay| world.now.checked_add(delay).ok());
            let message = match next {
                Some(at) => format!(
                    "the next run is at {}",
                    steersman_values::clock::whole_seconds(at)
                ),
                None => "the schedule has no further time".to_owned(),
            };
            answer.add(Reason::new(Code::NextRun, NAME, message).next(next));
            missed(&cron_job, world, answer);
        }
        Action::Start(run) if !answer.knows_cause() => match warning(world, doc, &["FailedCreate"])
        {
            Some(event) => {
                let text = event
                    .message
                    .strip_prefix("Error creating job: ")
                    .unwrap_or(&event.message);
                let mut reason = refusal(text, doc.namespace(), NAME).since(event.first);
                reason.last_try = event.at;
                reason.attempts = event.count;
                answer.add(reason);
            }
            None => {
                let message = format!("the run of {} is due", run.at);
                // The sync comes at the time itself, so a minute without a Job is a fault.
                let late = world.now.duration_since(run.at).as_secs() > 60;
                let (code, who) = if late {
                    (
                        Code::NotObserved,
                        "operator of the controller manager: it does not run, lacks rights, or is behind",
                    )
                } else {
                    (Code::SyncQueued, "")
                };
                answer.add(
                    Reason::new(code, NAME, message)
                        .who(who)
                        .since(Some(run.at)),
                );
            }
        },
        Action::Start(_) => {}
    }
    follow(world, doc, &cron_job, &draft, answer);
    // A run that cannot work is the cause itself. Its replacement changes nothing.
    if !answer.is_stuck() {
        answer
            .reasons
            .extend(replaced::reason(world, doc, &cron_job));
    }
}

/// Follows the running Jobs that explain why no further run starts or ends, and the last one if it has failed.
fn follow(world: &World, doc: &Doc, cron_job: &CronJob, draft: &Draft, answer: &mut Explanation) {
    // Under `Forbid`, the running Job is the reason even if it is well.
    let is_forbidden = cron_job.spec.concurrency_policy == ConcurrencyPolicy::Forbid;
    for job in draft.active() {
        let found = world.get(&JOBS, doc.namespace(), &job.name).found();
        let about = found.map(|job| world.explain(&JOBS, &job));
        let shown = about.filter(|about| is_forbidden || about.is_stuck());
        answer.waits_for.extend(shown);
    }
    failed(world, doc, answer);
}

/// Follows the newest Job, if it has failed.
fn failed(world: &World, doc: &Doc, answer: &mut Explanation) {
    let jobs = world.within(&JOBS, doc.namespace()).unwrap_or_default();
    let own = jobs.into_iter();
    let own = own.filter(|job| job.is_controlled_by(doc.uid()));
    let newest = own.max_by_key(|job| job.time("/metadata/creationTimestamp"));
    let is_failed = |job: &&Doc| {
        let failed = job.condition("Failed");
        failed.is_some_and(|failed| failed.text("/status") == "True")
    };
    if let Some(job) = newest.filter(is_failed) {
        answer.state = format!("{}, and Job {} of it has failed", answer.state, job.name());
        answer.follow(world.explain(&JOBS, job));
    }
}

/// A run that was due and whose starting deadline has passed.
///
/// A decision without the deadline would start it. So the deadline alone is the reason.
fn missed(cron_job: &CronJob, world: &World, answer: &mut Explanation) {
    let Some(deadline) = cron_job.spec.starting_deadline_seconds else {
        return;
    };
    let mut without = CronJob::clone(cron_job);
    without.spec.starting_deadline_seconds = None;
    let decision = start::decide(
        &without,
        &Draft::of(&without),
        world.now,
        &TimeZone::system(),
    );
    if let Action::Start(run) = decision.action {
        let message = format!(
            "the run of {} was missed: its startingDeadlineSeconds of {deadline} have passed",
            run.at
        );
        let who = "owner of the CronJob (a longer deadline), or operator of the controller manager";
        answer.add(
            Reason::new(Code::StartDeadlineMissed, NAME, message)
                .who(who)
                .since(Some(run.at)),
        );
    }
}
