//! The finished Jobs beyond the history limits of a CronJob.
//!
//! Upstream: `cleanupFinishedJobs`. Difference: a Job that is being deleted is not deleted again. `sync.rs`
//! keeps a Job whose scheduled time is not in the status yet.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_objects::{CronJobSpec, Job};

/// The Jobs to delete, in that order: completed ones, then failed ones, the oldest first.
///
/// Terminating Jobs count for the limits.
///
/// An unset limit keeps all Jobs, and 0 keeps none. Running Jobs are never among them.
pub(super) fn surplus(spec: &CronJobSpec, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    // Upstream's order: completed Jobs are deleted first. Events and requests come in this order.
    let limits = [
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit else { continue };
        let ended = |job: &&Arc<Job>| job.finished().is_some_and(|found| found.kind == end);
        let mut jobs: Vec<_> = jobs.iter().filter(ended).collect();
        jobs.sort_by(|a, b| by_start_time(a, b));
        // Validation excludes negative limits.
        let excess = jobs
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        let oldest = jobs.into_iter().take(excess);
        // A Job that terminates takes a place in the count, although its deletion is not repeated.
        surplus.extend(oldest.filter(|job| !job.meta.is_terminating()).cloned());
    }
    surplus
}

/// By start time, then by name. Jobs that never started come last. Upstream: `byJobStartTime`.
fn by_start_time(a: &Job, b: &Job) -> Ordering {
    let key = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
    key(a)
        .cmp(&key(b))
        .then_with(|| a.meta.name.cmp(&b.meta.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::batch::job;
    use crate::testing::time;

    fn spec(successful: Option<i32>, failed: Option<i32>) -> CronJobSpec {
        CronJobSpec {
            successful_jobs_history_limit: successful,
            failed_jobs_history_limit: failed,
            ..CronJobSpec::default()
        }
    }

    fn names(jobs: &[Arc<Job>]) -> Vec<&str> {
        jobs.iter().map(|job| &*job.meta.name).collect()
    }

    /// Upstream: `TestByJobStartTime`.
    #[test]
    fn by_job_start_time() {
        let set = |name: &str, second| job(name).status("startTime", time(second)).build();
        let nil = |name: &str| job(name).build();
        let now = 1_514_772_184;
        let later = 1_546_308_184;
        // (why, input, sorted by name and start time)
        let cases = [
            (
                "both have nil start times",
                [nil("b"), nil("a")],
                [nil("a"), nil("b")],
            ),
            (
                "only the first has a nil start time",
                [nil("a"), set("b", now)],
                [set("b", now), nil("a")],
            ),
            (
                "only the second has a nil start time",
                [set("a", now), nil("b")],
                [set("a", now), nil("b")],
            ),
            (
                "both have non-nil, equal start time",
                [set("b", now), set("a", now)],
                [set("a", now), set("b", now)],
            ),
            (
                "both have non-nil, different start time",
                [set("a", later), set("b", now)],
                [set("b", now), set("a", later)],
            ),
        ];
        for (why, mut input, expected) in cases {
            input.sort_by(by_start_time);
            let key = |job: &Job| (job.meta.name.to_string(), job.status.start_time);
            assert_eq!(
                input.each_ref().map(key),
                expected.each_ref().map(key),
                "{why}"
            );
        }
    }

    #[test]
    fn the_oldest_jobs_beyond_the_limits_are_deleted() {
        let complete = |name: &str, second| job(name).finished("Complete", second);
        let failed = |name: &str, second| job(name).finished("Failed", second);
        let jobs: Vec<_> = [
            complete("c2", 2),
            complete("c1", 1),
            complete("c3", 3).metadata("deletionTimestamp", time(9)),
            complete("c4", 4),
            failed("f1", 1),
            failed("f2", 2),
            job("active"),
        ]
        .map(|job| Arc::new(job.build()))
        .into();
        // (why, limit of completed Jobs, limit of failed Jobs, deleted)
        let cases: [(&str, _, _, &[&str]); 7] = [
            ("no limits", None, None, &[]),
            ("limits not reached", Some(4), Some(2), &[]),
            ("one over each limit", Some(3), Some(1), &["c1", "f1"]),
            (
                "only failed Jobs have a limit",
                None,
                Some(0),
                &["f1", "f2"],
            ),
            ("a terminating Job counts", Some(1), None, &["c1", "c2"]),
            ("limit 0", Some(0), Some(0), &["c1", "c2", "c4", "f1", "f2"]),
            ("a negative limit is 0", Some(-1), None, &["c1", "c2", "c4"]),
        ];
        for (why, successful, failed, expected) in cases {
            let found = surplus(&spec(successful, failed), &jobs);
            assert_eq!(names(&found), expected, "{why}");
        }
    }
}
