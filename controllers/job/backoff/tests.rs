use serde_json::{Value, json};

use super::*;
use crate::job::testing::{job, pod_of_web, set_times};
use crate::job::{per_index, pods::JobPod};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn new_backoff_record() {
    // (upstream's case, failures before, milliseconds of successes and failures, failures, last)
    let cases: [(&str, u32, &[i64], &[i64], u32, Option<i64>); 8] = [
        (
            "Empty backoff store and one new failure",
            0,
            &[],
            &[0],
            1,
            Some(0),
        ),
        (
            "Empty backoff store and two new failures",
            0,
            &[],
            &[0, -1],
            2,
            Some(0),
        ),
        (
            "Empty backoff store, two failures followed by success",
            0,
            &[0],
            &[-2, -1],
            0,
            None,
        ),
        (
            "Empty backoff store, two failures, one success and two more failures",
            0,
            &[-2],
            &[0, -4, -3, -1],
            2,
            Some(0),
        ),
        (
            "Backoff store having failure count 2 and one new failure",
            2,
            &[],
            &[0],
            3,
            Some(0),
        ),
        (
            "Empty backoff store with success and failure at same timestamp",
            0,
            &[0],
            &[0],
            0,
            None,
        ),
        (
            "Empty backoff store with no success/failure",
            0,
            &[],
            &[],
            0,
            None,
        ),
        (
            "Empty backoff store with one success",
            0,
            &[0],
            &[],
            0,
            None,
        ),
    ];
    for (why, before, successes, failures, expected, last) in cases {
        let at = |millis: &i64| now() + jiff::SignedDuration::from_millis(*millis);
        let [successes, failures] =
            [successes, failures].map(|times| times.iter().map(at).collect::<Vec<_>>());
        let before = Backoff {
            failures: before,
            last_failure: None,
        };
        let expected = Backoff {
            failures: expected,
            last_failure: last.as_ref().map(at),
        };
        assert_eq!(before.after(&successes, &failures), expected, "{why}");
    }
    let before = Backoff::default().after(&[], &[now()]);
    assert_eq!(before.after(&[], &[]), before, "nothing new");
}

fn pod(mut changes: Value) -> JobPod {
    let mut pod = pod_of_web("p").not_created();
    set_times(&mut changes, now());
    crate::job::testing::merge(&mut pod.0, &changes);
    pod.of_job()
}

#[test]
fn get_finished_time() {
    let ended = |at: &str| json!({"name": "c", "state": {"terminated": {"finishedAt": at}}});
    let running = json!({"name": "c", "state": {"running": {}}});
    let unknown_end = json!({"name": "c", "state": {"terminated": {"exitCode": 1}}});
    let condition = |status: &str, at: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": at}]);
    let sidecar = json!({"name": "sidecar", "state": {"terminated": {"finishedAt": "@0"}}});
    // (upstream's case, pod, seconds)
    let cases = [
        (
            "Pod with multiple containers and all containers terminated",
            json!({"status": {"containerStatuses": [ended("@-1"), ended("@0"), ended("@-2")]}}),
            0,
        ),
        (
            "Pod with multiple containers; two containers in terminated state and one in running state; fallback to deletionTimestamp",
            json!({"metadata": {"deletionTimestamp": "@0"}, "status": {"containerStatuses": [ended("@-1"), running, ended("@-2")]}}),
            0,
        ),
        (
            "fallback to deletionTimestamp",
            json!({"metadata": {"deletionTimestamp": "@0"}, "status": {"containerStatuses": [running]}}),
            0,
        ),
        (
            "fallback to deletionTimestamp, decremented by grace period",
            json!({"metadata": {"deletionTimestamp": "@0", "deletionGracePeriodSeconds": 30}, "status": {"containerStatuses": [running]}}),
            -30,
        ),
        (
            "fallback to PodReady.LastTransitionTime when status of the condition is False",
            json!({"status": {"containerStatuses": [unknown_end], "conditions": condition("False", "@0")}}),
            0,
        ),
        (
            "skip fallback to PodReady.LastTransitionTime when status of the condition is True",
            json!({"metadata": {"deletionTimestamp": "@0"}, "status": {"containerStatuses": [unknown_end], "conditions": condition("True", "@-30")}}),
            0,
        ),
        (
            "fallback to creationTimestamp",
            json!({"metadata": {"creationTimestamp": "@0"}, "status": {"containerStatuses": [unknown_end]}}),
            0,
        ),
        (
            "Pod with sidecar container and all containers terminated",
            json!({
                "spec": {"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]},
                "status": {"containerStatuses": [ended("@-1")], "initContainerStatuses": [sidecar]},
            }),
            0,
        ),
        (
            "only the sidecar has ended",
            json!({
                "spec": {"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]},
                "status": {"containerStatuses": [running], "initContainerStatuses": [sidecar]},
            }),
            0,
        ),
    ];
    for (why, changes, expected) in cases {
        let expected = now() + jiff::SignedDuration::from_secs(expected);
        assert_eq!(finished_at(&pod(changes)), expected, "{why}");
    }
}

/// Upstream's cases have delays of 5 s to 700 s as parameters; here they are those of the
/// controller.
#[test]
fn get_remaining_backoff_time() {
    // (upstream's case, failures, seconds since the last one, seconds left)
    let cases = [
        ("no failures", 0, 0, 0),
        (
            "one failure; current time and failure time are same",
            1,
            0,
            10,
        ),
        (
            "one failure; current time == 1 second + failure time",
            1,
            1,
            9,
        ),
        (
            "one failure; current time == expected backoff time",
            1,
            10,
            0,
        ),
        (
            "one failure; current time == expected backoff time + 1 Second",
            1,
            11,
            0,
        ),
        (
            "three failures; current time and failure time are same",
            3,
            0,
            40,
        ),
        ("backoff not exceeding maxBackoff", 6, 0, 320),
        ("backoff exceeding maxBackoff", 7, 0, 600),
        ("very many failures", 1000, 0, 600),
        ("the clock went back", 1, -5, 15),
    ];
    for (why, failures, since, left) in cases {
        let record = Backoff::default().after(&[], &vec![now(); failures]);
        let later = now() + jiff::SignedDuration::from_secs(since);
        assert_eq!(record.remaining(later), seconds(left), "{why}");
    }
}

#[test]
fn get_remaining_backoff_time_per_index() {
    let failed = |count: &str| {
        let ended = json!({"name": "c", "state": {"terminated": {"finishedAt": "@0"}}});
        let annotations = json!({"batch.kubernetes.io/job-completion-index": "0", "batch.kubernetes.io/job-index-failure-count": count});
        pod(
            json!({"metadata": {"annotations": annotations}, "status": {"phase": "Failed", "containerStatuses": [ended]}}),
        )
    };
    // (upstream's case, failed pod, seconds left)
    let cases = [
        ("no failed pod", None, 0),
        ("1 failure", Some(failed("0")), 10),
        ("3 failures", Some(failed("2")), 40),
    ];
    for (why, failed, left) in cases {
        let awaiting = failed.into_iter().map(|pod| (0, pod)).collect();
        let ready = per_index::ready_indexes(vec![0], &awaiting, now());
        let expected = if left == 0 {
            Ok(vec![0])
        } else {
            Err(seconds(left))
        };
        assert_eq!(ready, expected, "{why}");
    }
}

#[test]
fn the_longest_wait_counts_all_failures() {
    let failed = |at: &str| {
        let ended = json!({"name": "c", "state": {"terminated": {"finishedAt": at}}});
        pod(json!({"status": {"phase": "Failed", "containerStatuses": [ended]}}))
    };
    let running = pod(json!({"status": {"phase": "Running"}}));
    // (case, failures in the status, pods, seconds after now)
    let cases = [
        ("no failed pod", 0, vec![running.clone()], None),
        ("the failed pods are gone", 2, vec![running], None),
        ("not counted yet", 0, vec![failed("@-3")], Some(7)),
        ("one pod of three is left", 3, vec![failed("@-3")], Some(37)),
        (
            "the last end counts",
            2,
            vec![failed("@-3"), failed("@-1")],
            Some(19),
        ),
    ];
    for (why, count, pods, expected) in cases {
        let expected = expected.map(|after| now() + jiff::SignedDuration::from_secs(after));
        let pods = pods.iter().map(|pod| &*pod.pod);
        assert_eq!(back_off_ends(count, pods), expected, "{why}");
    }
}

#[test]
fn records_without_failures_take_no_memory() {
    let records = Backoffs::default();
    let key = ObjectKey::new("default", &job("web").build().meta.name);
    records.set(&key, Backoff::default().after(&[], &[now()]));
    assert_eq!(records.get(&key).failures, 1);
    records.set(&key, Backoff::default());
    assert!(records.all().is_empty());
}
