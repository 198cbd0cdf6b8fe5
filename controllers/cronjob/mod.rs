//! Starts Jobs on the schedules of CronJobs.
//!
//! events, timers -> handlers -> queue of keys -> sync -> (history, status, start, due, job) ->
//! writes
//!
//! Guarantees:
//!
//! - One scheduled time leads to at most one Job. The name of the Job follows from its time, and a
//!   finished Job stays until the status has recorded its time.
//! - After a change of leader, a CronJob is compared with the live one before a Job starts.
//! - Deletions carry the UID of the Job, so that a new Job of the same name survives.
//!
//! Upstream: `pkg/controller/cronjob`. Differences, besides those of the decision files:
//!
//! - Jobs belong to a CronJob by kind and UID of their controller reference, not by name only.
//! - If the Job of another client has the name of a run, the CronJob continues with its next time.
//!   Upstream waits for the next event.
//!
//! Decisions: `due.rs` finds the time, `start.rs` decides about the run, `history.rs` about old Jobs, and
//! `status.rs` collects the status. `job.rs` builds the Job. The pods and the end of a Job are the business
//! of the Job controller.

mod due;
mod error;
pub(crate) mod explain;
mod handlers;
mod history;
mod job;
mod metrics;
mod notice;
mod replaced;
mod start;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use steersman_objects::{CronJob, Job};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::owner::ByController;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use steersman_helpers::cron::Schedule;

use self::handlers::Handlers;
use self::metrics::CronJobMetrics;
use self::sync::CronJobController;

/// The CronJob controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["cronjob"],
    enabled_by_default: true,
    summary: "Starts Jobs on the schedules of CronJobs",
    identity: NAME,
    reads: &[Read::of::<CronJob>(), Read::by_controller::<Job>()],
    rules: RULES,
    init,
};

const NAME: &str = "cronjob-controller";

const RULES: &[Rule] = &[
    // For live reads, while the cached copy is in doubt.
    Rule::new(&["batch"], &["cronjobs"], &["get"]),
    Rule::new(&["batch"], &["cronjobs/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&["batch"], &["cronjobs/finalizers"], &["update"]),
    // Jobs are read before deletions and for names that exist already.
    Rule::new(&["batch"], &["jobs"], &["create", "delete", "get"]),
    Rule::EVENTS,
];

/// The first run of `schedule` after `second`, both in seconds since the epoch. `None` for a text that
/// is no schedule, and for a schedule without a run in the next five years. The fuzzer
/// checks the parser by it.
pub fn first_run(schedule: &str, second: i64) -> Option<i64> {
    let schedule = Schedule::parse(schedule, &TimeZone::UTC).ok()?;
    let time = Timestamp::from_second(second).ok()?;
    Some(schedule.next(time)?.as_second())
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(CronJobMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let mut keyed = Keyed::<CronJob>::new(ctx, NAME, "cronjob");
    let cron_jobs = keyed.objects().clone();
    let jobs = ctx.informers.shared::<Job>();
    let client = ctx.client(NAME);
    let recorder = ctx.recorder(NAME, client.clone());
    // The zone of the machine is read once, at the start, as Go does.
    let local = TimeZone::system();
    let handlers = Handlers {
        cron_jobs: cron_jobs.store(),
        queue: keyed.queue(),
        consistency: keyed.consistency(),
        recorder: recorder.clone(),
        clock: ctx.clock.clone(),
        local: local.clone(),
    };
    handlers.register(&cron_jobs, &jobs);
    let syncer = CronJobController {
        queue: keyed.queue(),
        jobs: ByController::of(&jobs.store()),
        cron_jobs_cache: keyed.tracked(&cron_jobs),
        jobs_cache: keyed.tracked(&jobs),
        consistency: keyed.consistency(),
        client,
        recorder,
        clock: ctx.clock.clone(),
        local,
        metrics,
    };
    Ok(keyed.boxed(ctx.options.workers("concurrent-cron-job-syncs"), syncer))
}
