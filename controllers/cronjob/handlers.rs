//! Maps changes of CronJobs and Jobs to keys of CronJobs.
//!
//! A change of the schedule enqueues the CronJob for its next time; every other change enqueues it
//! at once. Upstream: `updateCronJob`, `addJob`, `updateJob` and `deleteJob`.
//!
//! The timer of the next run is set by the sync itself; the handlers only shorten the way to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use steersman_objects::{CronJob, Job, Meta, Object, ObjectKey, ObjectReference};
use steersman_runtime::consistency::ConsistencyStore;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::owner::owner_of;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use steersman_helpers::cron::ScheduleError;

use super::start;

/// The parts that handlers need. They decide without requests.
pub(super) struct Handlers {
    pub(super) cron_jobs: Store<CronJob>,
    pub(super) queue: WorkQueue<ObjectKey>,
    /// Counts the deletions of Jobs down.
    pub(super) consistency: ConsistencyStore,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    /// Time zone of schedules without a zone.
    pub(super) local: TimeZone,
}

impl Handlers {
    /// Registers the handlers of both types.
    pub(super) fn register(self, cron_jobs: &SharedInformer<CronJob>, jobs: &SharedInformer<Job>) {
        let handlers = Arc::new(self);
        cron_jobs.add_handler({
            let handlers = Arc::clone(&handlers);
            move |change| handlers.cron_job_changed(&change)
        });
        jobs.add_handler(move |change| handlers.job_changed(&change));
    }

    // An unparsable schedule enqueues nothing: only another change of the spec can mend it.
    fn cron_job_changed(&self, change: &Change<'_, CronJob>) {
        let Change::Updated { old, new } = change else {
            return self.queue.add(change.object().key());
        };
        match delay(old, new, self.clock.now(), &self.local) {
            Ok(delay) => self.queue.add_after(new.key(), delay),
            Err(error) => {
                let schedule = &new.spec.schedule;
                tracing::debug!(cronjob = %new.key(), schedule, %error, "Unparseable schedule for cronjob");
                self.recorder.event(
                    ObjectReference::of(&***new),
                    EventType::Warning,
                    "UnParseableCronJobSchedule",
                    format!("unparseable schedule for cronjob: {schedule}"),
                );
            }
        }
    }

    /// Upstream: `addJob`, `updateJob` and `deleteJob`. A Job whose controller changes concerns both
    /// CronJobs.
    fn job_changed(&self, change: &Change<'_, Job>) {
        // Before the key is enqueued, so that the sync does not wait for this deletion.
        if let Some((owner, gone)) = deletion(change) {
            self.consistency.deletion_observed(&owner, &gone);
        }
        match change {
            // A resync repeats a state that handlers saw before.
            Change::Updated { old, new }
                if old.meta.resource_version == new.meta.resource_version => {}
            Change::Updated { old, new } => {
                if old.meta.controller() != new.meta.controller() {
                    self.wake_owner(&old.meta);
                }
                self.wake_owner(&new.meta);
            }
            Change::Added { object, .. } | Change::Deleted { object, .. } => {
                self.wake_owner(&object.meta);
            }
        }
    }

    /// Upstream: `resolveControllerRef`. A CronJob of another UID is not woken.
    fn wake_owner(&self, job: &Meta) {
        if let Some(owner) = owner_of(&self.cron_jobs, job) {
            self.queue.add(owner.key());
        }
    }
}

/// The time after which the update from `old` to `new` enqueues the CronJob: its next scheduled time
/// if the schedule changed, else zero.
///
/// An earlier entry stays in the queue, and its sync finds no Job to start. Upstream: `updateCronJob`.
fn delay(
    old: &CronJob,
    new: &CronJob,
    now: Timestamp,
    local: &TimeZone,
) -> Result<Duration, ScheduleError> {
    if old.spec.schedule == new.spec.schedule && old.spec.time_zone == new.spec.time_zone {
        return Ok(Duration::ZERO);
    }
    let schedule = start::schedule(&new.spec, local)?;
    let delay = start::delay(new, new.status.last_schedule_time, &schedule, now);
    // Without a next time the sync reports the schedule.
    Ok(delay.unwrap_or_default())
}

/// The key of the controller of a deleted or terminating Job, and the key of the Job. A Job that terminates
/// counts as deleted, because the cache then shows the request of the controller.
fn deletion(change: &Change<'_, Job>) -> Option<(ObjectKey, ObjectKey)> {
    let job = change.object();
    let is_going = job.meta.is_terminating() || matches!(change, Change::Deleted { .. });
    let owner = job.meta.controller().filter(|_| is_going)?;
    Some((ObjectKey::new(&job.meta.namespace, &owner.name), job.key()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::batch::{CronJobBuilder, cron_job, job_spec};

    /// Upstream: `TestControllerV2UpdateCronJob`.
    #[test]
    fn update_cron_job() {
        let now: Timestamp = "2016-05-19T09:59:59Z".parse().unwrap();
        let base = cron_job("c").spec("schedule", "");
        let scheduled = |schedule: &str| {
            let last = "2016-05-19T09:59:00Z";
            base.clone()
                .spec("schedule", schedule)
                .status("lastScheduleTime", last)
        };
        let template = |label: &str, base: CronJobBuilder| {
            let metadata = json!({"labels": {"a": label}, "annotations": {"x": "y"}});
            base.spec(
                "jobTemplate",
                json!({"metadata": metadata, "spec": job_spec()}),
            )
        };
        let new_york = || base.clone().spec("timeZone", "America/New_York");
        let empty = "empty spec string".to_owned();
        // (case, old, new, milliseconds)
        let cases = [
            ("spec.template changed", base.clone(), base.clone(), Ok(0)),
            (
                "spec.schedule changed",
                scheduled("30 * * * *"),
                scheduled("*/1 * * * *"),
                Ok(1_100),
            ),
            (
                "spec.schedule with @every changed - cadence decrease",
                scheduled("@every 1m"),
                scheduled("@every 3m"),
                Ok(121_100),
            ),
            (
                "spec.schedule with @every changed - cadence increase",
                scheduled("@every 3m"),
                scheduled("@every 1m"),
                Ok(1_100),
            ),
            ("spec.timeZone not changed", new_york(), new_york(), Ok(0)),
            (
                "spec.timeZone changed",
                new_york(),
                base.clone(),
                Err(empty),
            ),
            (
                "an impossible date",
                scheduled("@hourly"),
                scheduled("59 23 31 2 *"),
                Ok(0),
            ),
        ];
        for (case, old, new, expected) in cases {
            let old = template("b", old).build();
            let new = template("foo", new).build();
            let found = delay(&old, &new, now, &TimeZone::UTC);
            let found = found
                .map(|delay| delay.as_millis())
                .map_err(|error| error.to_string());
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn a_deleted_or_terminating_job_settles_its_deletion() {
        let owned = |deleted: Value| {
            let job = crate::testing::batch::job("j").of_cron_job("c");
            Arc::new(job.metadata("deletionTimestamp", deleted).build())
        };
        let alive = owned(Value::Null);
        let going = owned(json!("2016-05-19T10:00:00Z"));
        let orphan = Arc::new(crate::testing::batch::job("j").build());
        let removed = |object| Change::Deleted {
            object,
            final_state_unknown: false,
        };
        // (why, change, whether it settles)
        let cases = [
            (
                "added",
                Change::Added {
                    object: &alive,
                    initial: false,
                },
                false,
            ),
            (
                "added while terminating",
                Change::Added {
                    object: &going,
                    initial: true,
                },
                true,
            ),
            (
                "updated",
                Change::Updated {
                    old: &alive,
                    new: &alive,
                },
                false,
            ),
            (
                "terminating",
                Change::Updated {
                    old: &alive,
                    new: &going,
                },
                true,
            ),
            ("removed", removed(&alive), true),
            ("removed orphan", removed(&orphan), false),
        ];
        for (why, change, settles) in cases {
            let keys = deletion(&change).map(|(owner, job)| format!("{owner} {job}"));
            let expected = settles.then(|| "default/c default/j".to_owned());
            assert_eq!(keys, expected, "{why}");
        }
    }
}
