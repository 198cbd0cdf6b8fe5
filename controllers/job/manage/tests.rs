use serde_json::json;

use super::*;
use crate::job::invariants;
use crate::job::testing::{job, pod_of_web};
use crate::testing::pods::PodBuilder;

const NOW: i64 = 1_800_000_000;

/// The decision in short form: `create 2`, `create [1]`, `delete 1`, `track 1`, `wait 10`, `steady`.
fn decided(job: &steersman_objects::Job, pods: Vec<PodBuilder>, backoff: u64) -> String {
    let pods = pods.into_iter().map(PodBuilder::of_job).collect();
    let snapshot = Snapshot::new(job, pods);
    let now = Timestamp::from_second(NOW).unwrap();
    let action = decide(&snapshot, Duration::from_secs(backoff), now);
    let checked = match &action {
        Action::Delete(victims) => invariants::deletes_surplus(&snapshot, victims.len()),
        Action::Create(pods) => invariants::creates_missing(&snapshot, pods.len()),
        Action::Steady | Action::Track(_) | Action::Wait(_) => Ok(()),
    };
    assert_eq!(checked, Ok(()));
    match action {
        Action::Steady => "steady".to_owned(),
        Action::Delete(victims) => format!("delete {}", victims.len()),
        Action::Track(pods) => format!("track {}", pods.len()),
        Action::Create(Pods::Count(count)) => format!("create {count}"),
        Action::Create(Pods::Indexes(indexes)) => format!("create {indexes:?}"),
        Action::Wait(time) => format!("wait {}", time.as_secs()),
    }
}

#[test]
fn only_actions_with_pods_write() {
    let pod = || pod_of_web("p").of_job();
    let cases = [
        (Action::Steady, false),
        (Action::Wait(Duration::ZERO), false),
        (Action::Delete(vec![]), false),
        (Action::Delete(vec![pod()]), true),
        (Action::Track(vec![pod()]), true),
        (Action::Create(Pods::Indexes(vec![])), false),
        (Action::Create(Pods::Indexes(vec![3])), true),
        (Action::Create(Pods::Count(1)), true),
    ];
    for (action, writes) in cases {
        assert_eq!(action.writes(), writes, "{action:?}");
    }
}

#[test]
fn pods_are_created_up_to_parallelism_and_completions() {
    let pods = |count: usize, phase: &str| vec![pod_of_web("p").phase(phase); count];
    let untracked = || pod_of_web("p").metadata("finalizers", json!([]));
    let web = |parallelism: i32, completions: Option<i32>| {
        job("web")
            .spec("parallelism", parallelism)
            .spec("completions", completions)
    };
    // (why, Job, pods, back-off in seconds, decision)
    let cases = [
        ("start", web(2, Some(5)), vec![], 0, "create 2"),
        (
            "pods lost the finalizer, and are wanted again",
            web(3, Some(5)),
            vec![untracked(), untracked()],
            10,
            "track 2",
        ),
        (
            "pods lost the finalizer, and one is not wanted",
            web(1, Some(5)),
            vec![untracked(), untracked()],
            0,
            "delete 1",
        ),
        ("the last ones", web(3, Some(2)), vec![], 0, "create 2"),
        (
            "all completions have a pod",
            web(3, Some(2)),
            pods(2, "Running"),
            0,
            "steady",
        ),
        (
            "parallelism 0",
            web(0, Some(2)),
            pods(1, "Running"),
            0,
            "delete 1",
        ),
        (
            "without completions",
            web(2, None),
            pods(1, "Running"),
            0,
            "create 1",
        ),
        (
            "without completions, after a success",
            web(3, None),
            [pods(1, "Running"), pods(1, "Succeeded")].concat(),
            0,
            "steady",
        ),
        ("back-off", web(2, Some(5)), pods(1, "Running"), 7, "wait 7"),
        (
            "deletions ignore the back-off",
            web(1, Some(5)),
            pods(3, "Running"),
            7,
            "delete 2",
        ),
        (
            "one sync creates at most 500",
            web(1200, Some(2000)),
            vec![],
            0,
            "create 500",
        ),
        (
            "one sync deletes at most 500",
            web(0, Some(2000)),
            pods(600, "Running"),
            0,
            "delete 500",
        ),
        (
            "a suspended Job deletes all",
            web(0, Some(2000)).spec("suspend", true),
            pods(600, "Running"),
            7,
            "delete 600",
        ),
        (
            "a suspended Job without pods",
            web(1, Some(1)).spec("suspend", true),
            vec![],
            0,
            "delete 0",
        ),
        (
            "a terminating pod is replaced",
            web(1, Some(1)),
            vec![pod_of_web("p").deleted(NOW)],
            0,
            "create 1",
        ),
        (
            "a terminating pod keeps its place",
            web(1, Some(1)).spec("podReplacementPolicy", "Failed"),
            vec![pod_of_web("p").deleted(NOW)],
            0,
            "steady",
        ),
        (
            "a terminating pod keeps its place with a failure policy",
            web(1, Some(1)).spec("podFailurePolicy", json!({"rules": []})),
            vec![pod_of_web("p").deleted(NOW)],
            0,
            "steady",
        ),
    ];
    for (why, job, pods, backoff, expected) in cases {
        assert_eq!(decided(&job.build(), pods, backoff), expected, "{why}");
    }
}

#[test]
fn the_lowest_free_indexes_get_pods() {
    let pod = |index: &str, phase: &str| pod_of_web("p").index(index).phase(phase);
    let web = || job("web").indexed(5).spec("parallelism", 3);
    let per_index = || web().spec("backoffLimitPerIndex", 1);
    let failed =
        |index: &str, failures: &str| pod(index, "Failed").index_failures(failures).created(NOW);
    // (why, Job, pods, back-off in seconds, decision)
    let cases = [
        ("start", web(), vec![], 0, "create [0, 1, 2]"),
        (
            "succeeded and active ones are taken",
            web().status("completedIndexes", "0"),
            vec![pod("1", "Running"), pod("3", "Succeeded")],
            0,
            "create [2, 4]",
        ),
        (
            "duplicates are deleted first",
            web(),
            vec![pod("1", "Running"), pod("1", "Running")],
            0,
            "delete 1",
        ),
        (
            "terminating ones are taken if only failed pods are replaced",
            web().spec("podReplacementPolicy", "Failed"),
            vec![pod("0", "Running").deleted(NOW)],
            0,
            "create [1, 2]",
        ),
        ("the Job's back-off", web(), vec![], 7, "wait 7"),
        (
            "not with a limit per index",
            per_index(),
            vec![],
            7,
            "create [0, 1, 2]",
        ),
        (
            "failed indexes are taken",
            per_index().status("failedIndexes", "0,1"),
            vec![],
            0,
            "create [2, 3, 4]",
        ),
        (
            "failed indexes leave none",
            per_index()
                .status("completedIndexes", "0")
                .status("failedIndexes", "1-4"),
            vec![],
            0,
            "create []",
        ),
        (
            "an index in back-off is left out",
            per_index(),
            vec![failed("1", "0")],
            0,
            "create [0, 2]",
        ),
        (
            "all wait",
            per_index().spec("parallelism", 2),
            vec![failed("0", "0"), failed("1", "0")],
            0,
            "wait 10",
        ),
    ];
    for (why, job, pods, backoff, expected) in cases {
        assert_eq!(decided(&job.build(), pods, backoff), expected, "{why}");
    }
}
