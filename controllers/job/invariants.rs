//! The invariants of creations and deletions of a Job that goes on.
//!
//! They repeat no decision of `manage/`, but its promise, and stand directly before the writes. A violation
//! stops the write, and a metric counts it. Ends of Jobs delete all pods and need no such check.

use steersman_client::Violation;
use steersman_objects::Job;

use super::snapshot::Snapshot;

const SURPLUS: &str = "surplus_pods";
const WANTED: &str = "wanted_pods";

/// The invariants of this file.
pub(super) const NAMES: &[&str] = &[SURPLUS, WANTED];

/// `surplus_pods`: a Job runs at most `spec.parallelism` pods, and no more than its missing completions.
/// Without a limit (`most` is `None`), no creation is allowed.
pub(super) fn creates_missing(snapshot: &Snapshot<'_>, count: usize) -> Result<(), Violation> {
    let pods = number(snapshot.active.len() + count);
    let most = most(snapshot);
    let holds = count == 0 || most.is_some_and(|most| pods <= most);
    let active = snapshot.active.len();
    Violation::unless(holds, SURPLUS, || {
        format!("create {count} pods beside {active}, of at most {most:?}")
    })
}

/// `wanted_pods`: a running Job deletes no pod that it still wants.
///
/// An Indexed Job also deletes surplus pods of one index, at any number of pods.
pub(super) fn deletes_surplus(snapshot: &Snapshot<'_>, count: usize) -> Result<(), Violation> {
    let active = snapshot.active.len();
    let most = most(snapshot);
    let is_free = count == 0 || snapshot.job.spec.suspend || snapshot.indexed.is_some();
    let holds = is_free || most.is_some_and(|most| number(count) + most <= number(active));
    Violation::unless(holds, WANTED, || {
        format!("delete {count} of {active} pods, of {most:?} wanted")
    })
}

/// The most pods that the Job wants. `None` for a work queue after its first success, which gets no
/// further pod and keeps its pods.
fn most(snapshot: &Snapshot<'_>) -> Option<i64> {
    let Job { spec, .. } = snapshot.job;
    let parallelism = i64::from(spec.parallelism.max(0));
    match spec.completions {
        // Lowered completions give a negative number.
        Some(completions) => {
            let missing = i64::from(completions) - snapshot.succeeded;
            Some(parallelism.min(missing.max(0)))
        }
        None if snapshot.succeeded > 0 => None,
        None => Some(parallelism),
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::{JobBuilder, job, pod_of_web};
    use crate::testing::pods::PodBuilder;

    /// `manage/tests.rs` also passes each decision of its tables through the checks.
    #[test]
    fn creations_and_deletions_end_at_the_wanted_number() {
        let web = |parallelism: i32, completions: Option<i32>| {
            job("web")
                .spec("parallelism", parallelism)
                .spec("completions", completions)
        };
        // (why, Job, running pods, succeeded pods, most creations, most deletions)
        let cases: [(&str, JobBuilder, usize, usize, usize, usize); 9] = [
            ("start", web(2, Some(5)), 0, 0, 2, 0),
            ("at size", web(2, Some(5)), 2, 0, 0, 0),
            ("the last completions", web(3, Some(5)), 1, 3, 1, 0),
            ("beyond the completions", web(3, Some(5)), 3, 4, 0, 2),
            ("complete", web(3, Some(2)), 1, 2, 0, 1),
            ("less parallelism", web(1, Some(5)), 4, 0, 0, 3),
            ("a work queue", web(3, None), 1, 0, 2, 0),
            ("a work queue after a success", web(3, None), 2, 1, 0, 0),
            (
                "suspended",
                web(1, Some(1)).spec("suspend", true),
                3,
                0,
                0,
                3,
            ),
        ];
        for (why, job, running, succeeded, creations, deletions) in cases {
            let job = job.build();
            let pods = |count: usize, phase: &str| vec![pod_of_web("p").phase(phase); count];
            let pods = [pods(running, "Running"), pods(succeeded, "Succeeded")].concat();
            let pods = pods.into_iter().map(PodBuilder::of_job).collect();
            let snapshot = Snapshot::new(&job, pods);
            let created = (0..9).rfind(|count| creates_missing(&snapshot, *count).is_ok());
            assert_eq!(created, Some(creations), "{why}");
            let deleted = (0..=running).rfind(|count| deletes_surplus(&snapshot, *count).is_ok());
            assert_eq!(deleted, Some(deletions), "{why}");
        }
    }
}
