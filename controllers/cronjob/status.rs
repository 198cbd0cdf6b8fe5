//! The status of a CronJob: the running Jobs, and the times of the last Jobs.
//!
//! A sync collects all changes in a [`Draft`] and writes them once. Upstream: the loop over Jobs in
//! `syncCronJob`, and the helpers for the active list in `utils.go`.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{ActiveJob, CronJob, CronJobStatus, Job, Meta, Object, Uid};

use super::notice::Notice;

/// A status with the changes of one sync. It starts with the status of the newest known CronJob, and
/// decisions read it instead of that.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    status: CronJobStatus,
    // A sync without a change sends no request.
    is_changed: bool,
}

impl Draft {
    /// The status of `cron_job` without changes.
    pub(super) fn of(cron_job: &CronJob) -> Self {
        Self {
            status: cron_job.status.clone(),
            is_changed: false,
        }
    }

    /// The status to write; `None` if nothing changed.
    pub(super) fn changed(&self) -> Option<&CronJobStatus> {
        self.is_changed.then_some(&self.status)
    }

    /// The running Jobs. Jobs that this sync has seen end or has deleted are gone from it.
    pub(super) fn active(&self) -> &[ActiveJob] {
        &self.status.active
    }

    /// Scheduled time of the last Job.
    pub(super) fn last_schedule_time(&self) -> Option<Timestamp> {
        self.status.last_schedule_time
    }

    /// Whether the Job with this UID is in the list of running Jobs. Upstream: `inActiveList`.
    pub(super) fn has(&self, uid: &Uid) -> bool {
        is_active(&self.status, uid)
    }

    /// Whether a Job with this name is in the list of running Jobs. Upstream: `inActiveListByName`. The UID
    /// is unknown before the creation.
    pub(super) fn has_name(&self, namespace: &str, name: &str) -> bool {
        let is_it = |job: &ActiveJob| job.namespace == namespace && job.name == name;
        self.status.active.iter().any(is_it)
    }

    /// A Job is gone. Removes it from the list of running Jobs. Upstream: `deleteFromActiveList`.
    pub(super) fn remove(&mut self, uid: &Uid) {
        self.status.active.retain(|job| Uid::new(&job.uid) != *uid);
        self.is_changed = true;
    }

    /// The Job with the metadata `job` started for the scheduled time `at`. The fields are those of Go's
    /// `GetReference`.
    pub(super) fn started(&mut self, job: &Meta, at: Timestamp) {
        self.status.active.push(ActiveJob {
            kind: Job::RESOURCE.kind.to_string(),
            namespace: job.namespace.to_string(),
            name: job.name.to_string(),
            uid: job.uid.to_string(),
            api_version: Job::RESOURCE.api_version().into_owned(),
            resource_version: job.resource_version.to_string(),
            ..ActiveJob::default()
        });
        self.status.last_schedule_time = Some(at);
        self.is_changed = true;
    }

    /// Takes over the states of `jobs`, which are all cached Jobs of the CronJob.
    ///
    /// Upstream: the first loop of `syncCronJob`. Events follow the order of the names of Jobs, so they are
    /// the same in each sync.
    pub(super) fn observe(&mut self, jobs: &[Arc<Job>]) -> Vec<Notice> {
        let mut notices = Vec::new();
        for job in jobs {
            let name = &job.meta.name;
            let uid = &job.meta.uid;
            let Some(end) = job.finished() else {
                // The controller crashed after the creation of the Job, or a user created it.
                if !self.has(uid) {
                    notices.push(Notice::warning(
                        "UnexpectedJob",
                        format!("Saw a job that the controller did not create or forgot: {name}"),
                    ));
                }
                continue;
            };
            if self.has(uid) {
                self.remove(uid);
                let message = format!("Saw completed job: {name}, condition: {}", end.kind);
                notices.push(Notice::normal("SawCompletedJob", message));
            }
            // Also for a Job that is not in the list, for example after a restart.
            if job.is_complete() {
                self.succeeded(job.status.completion_time);
            }
        }
        notices
    }

    /// A Job succeeded at `time`. Ends may be seen in any order, so the latest counts.
    fn succeeded(&mut self, time: Option<Timestamp>) {
        // `None` is less than any time.
        if time > self.status.last_successful_time {
            self.status.last_successful_time = time;
            self.is_changed = true;
        }
    }

    /// The running Jobs that are not among `jobs`, the cached Jobs of the CronJob. Such a Job may be gone, or
    /// the cache does not show it yet. Only a live read can tell.
    pub(super) fn unseen(&self, jobs: &[Arc<Job>]) -> Vec<ActiveJob> {
        let seen: HashSet<&Uid> = jobs.iter().map(|job| &job.meta.uid).collect();
        let unseen = |job: &&ActiveJob| !seen.contains(&Uid::new(&job.uid));
        self.status.active.iter().filter(unseen).cloned().collect()
    }
}

/// Whether `status` lists the Job with this UID as running.
pub(super) fn is_active(status: &CronJobStatus, uid: &Uid) -> bool {
    status.active.iter().any(|job| Uid::new(&job.uid) == *uid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::batch::{cron_job, job};
    use crate::testing::{NAMESPACE, time};

    fn reference(name: &str) -> Value {
        json!({"kind": "Job", "namespace": NAMESPACE, "name": name, "uid": format!("uid-of-{name}"),
            "apiVersion": "batch/v1", "resourceVersion": "1"})
    }

    fn draft(active: &[&str]) -> Draft {
        let active: Vec<_> = active.iter().map(|name| reference(name)).collect();
        Draft::of(&cron_job("c").status("active", active).build())
    }

    #[test]
    fn finished_jobs_leave_the_list_of_running_jobs() {
        // (why, active, Jobs, events, active, last successful second, changed)
        let complete = |name: &str, second| job(name).finished("Complete", second);
        let unexpected = "Saw a job that the controller did not create or forgot: a";
        let completed = "Saw completed job: a, condition: Complete";
        let failed = "Saw completed job: a, condition: Failed";
        let cases: [(&str, &[&str], _, &[&str], &[&str], _, bool); 7] = [
            ("no Jobs", &["a"], vec![], &[], &["a"], None, false),
            ("running", &["a"], vec![job("a")], &[], &["a"], None, false),
            (
                "running, not listed",
                &[],
                vec![job("a")],
                &[unexpected],
                &[],
                None,
                false,
            ),
            (
                "complete",
                &["a", "b"],
                vec![complete("a", 5), job("b")],
                &[completed],
                &["b"],
                Some(5),
                true,
            ),
            (
                "failed",
                &["a"],
                vec![job("a").finished("Failed", 5)],
                &[failed],
                &[],
                None,
                true,
            ),
            (
                "complete, not listed",
                &[],
                vec![complete("a", 5)],
                &[],
                &[],
                Some(5),
                true,
            ),
            (
                "the latest completion counts",
                &[],
                vec![complete("a", 5), complete("b", 7), complete("c", 6)],
                &[],
                &[],
                Some(7),
                true,
            ),
        ];
        for (why, active, jobs, events, left, succeeded, changed) in cases {
            let mut draft = draft(active);
            let jobs: Vec<_> = jobs.into_iter().map(|job| Arc::new(job.build())).collect();
            let notices = draft.observe(&jobs);
            let messages: Vec<_> = notices.iter().map(|notice| &*notice.message).collect();
            assert_eq!(messages, events, "{why}");
            let names: Vec<_> = draft.active().iter().map(|job| &*job.name).collect();
            assert_eq!(names, left, "{why}");
            let last = draft
                .status
                .last_successful_time
                .map(|time| time.to_string());
            assert_eq!(last, succeeded.map(time), "{why}");
            assert_eq!(draft.changed().is_some(), changed, "{why}");
            draft.is_changed = false;
            draft.observe(&jobs);
            assert!(draft.changed().is_none(), "{why}: nothing new");
        }
    }

    #[test]
    fn running_jobs_without_a_cached_job_are_unseen() {
        let draft = draft(&["a", "b"]);
        let unseen = draft.unseen(&[Arc::new(job("a").build())]);
        assert_eq!(
            unseen.iter().map(|job| &*job.name).collect::<Vec<_>>(),
            ["b"]
        );
    }

    #[test]
    fn a_started_job_is_listed_as_upstream_refers_to_it() {
        let mut draft = draft(&[]);
        draft.started(&job("a").build().meta, Timestamp::UNIX_EPOCH);
        let expected = json!({"active": [reference("a")], "lastScheduleTime": time(0)});
        assert_eq!(serde_json::to_value(draft.changed()).unwrap(), expected);
        assert!(draft.has_name(NAMESPACE, "a") && !draft.has_name("other", "a"));
    }
}
