use serde_json::{Value, json};

use super::*;
use crate::job::snapshot::Snapshot;
use crate::job::testing::{JobBuilder, job, pod_of_web};
use crate::testing::pods::PodBuilder;

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn web(completions: i32, limit: i32) -> JobBuilder {
    job("web")
        .indexed(completions)
        .spec("backoffLimitPerIndex", limit)
}

/// A failed pod of an index, after this number of failures.
fn failed(uid: &str, index: &str, failures: &str) -> PodBuilder {
    pod_of_web(uid)
        .uid(uid)
        .index(index)
        .index_failures(failures)
        .phase("Failed")
}

fn policy(action: &str, requirement: &str, value: Value) -> Value {
    let mut rule = json!({ "action": action });
    rule[requirement] = value;
    json!({ "rules": [rule] })
}

#[test]
fn is_index_failed() {
    let exit = json!([{"name": "c", "state": {"terminated": {"exitCode": 3}}}]);
    let fail_index = policy(
        "FailIndex",
        "onExitCodes",
        json!({"operator": "In", "values": [3]}),
    );
    // (upstream's case, limit, policy, pod)
    let cases = [
        (
            "failed pod exceeding backoffLimitPerIndex, when backoffLimitPerIndex=0",
            0,
            Value::Null,
            failed("a", "0", "0"),
        ),
        (
            "failed pod exceeding backoffLimitPerIndex, when backoffLimitPerIndex=1",
            1,
            Value::Null,
            failed("a", "1", "1"),
        ),
        (
            "matching FailIndex pod failure policy",
            1,
            fail_index,
            failed("a", "0", "0").status("containerStatuses", exit),
        ),
    ];
    for (why, limit, policy, pod) in cases {
        let spec = web(2, limit).spec("podFailurePolicy", policy).build().spec;
        assert!(fails_its_index(&spec, limit, &pod.of_job()), "{why}");
        assert!(
            !fails_its_index(&spec, limit, &pod_of_web("b").of_job()),
            "{why}: running"
        );
    }
    let spec = web(2, 2).build().spec;
    assert!(
        !fails_its_index(&spec, 2, &failed("a", "0", "1").of_job()),
        "one failure is left"
    );
}

#[test]
fn calculate_failed_indexes() {
    let untracked = |pod: PodBuilder| pod.metadata("finalizers", json!([]));
    // (upstream's case, limit, status, pods, failed indexes)
    let cases = [
        (
            "one new index failed",
            1,
            None,
            vec![failed("a", "0", "0"), failed("b", "1", "1")],
            "1",
        ),
        (
            "pod without finalizer is ignored",
            0,
            None,
            vec![untracked(failed("a", "0", "0"))],
            "",
        ),
        (
            "pod outside completions is ignored",
            0,
            None,
            vec![failed("a", "3", "0")],
            "",
        ),
        (
            "extend the failed indexes",
            0,
            Some("0"),
            vec![failed("a", "1", "0")],
            "0,1",
        ),
        (
            "prev failed indexes empty",
            0,
            Some(""),
            vec![failed("a", "1", "0")],
            "1",
        ),
        (
            "prev failed indexes outside the completions",
            0,
            Some("9"),
            vec![failed("a", "1", "0")],
            "1",
        ),
    ];
    for (why, limit, before, pods, expected) in cases {
        let pods: Vec<JobPod> = pods.into_iter().map(PodBuilder::of_job).collect();
        let spec = web(2, limit).build().spec;
        let found = failed_indexes(&spec, limit, 2, before, &pods);
        assert_eq!(found.to_string(), expected, "{why}");
    }
}

#[test]
fn get_pods_with_delayed_deletion_per_index() {
    let running = |uid: &str, index, phase| failed(uid, index, "1").phase(phase);
    let ended = |uid: &str, seconds: i64| failed(uid, "0", "1").deleted(NOW + seconds);
    // (upstream's case, completions, limit, pods, UIDs of pods that wait)
    let cases: [(&str, _, _, _, &[&str]); 8] = [
        (
            "failed pods are kept corresponding to non-failed indexes are kept",
            3,
            1,
            vec![
                failed("a", "0", "0"),
                failed("b", "1", "1"),
                failed("c", "2", "0"),
            ],
            &["a", "c"],
        ),
        (
            "failed pod without finalizer; the pod's deletion is not delayed as it already started",
            2,
            0,
            vec![failed("a", "0", "0").metadata("finalizers", json!([]))],
            &[],
        ),
        (
            "failed pod with expected finalizer removal; the pod's deletion is not delayed as it already started",
            2,
            0,
            vec![failed("removed", "0", "0")],
            &[],
        ),
        (
            "failed pod with index outside of completions; the pod's deletion is not delayed",
            2,
            0,
            vec![failed("a", "4", "0")],
            &[],
        ),
        (
            "failed pod for active index; the pod's deletion is not delayed as it is already replaced",
            2,
            1,
            vec![failed("a1", "0", "0"), running("a2", "0", "Running")],
            &[],
        ),
        (
            "failed pod for succeeded index; the pod's deletion is not delayed as it is already replaced",
            2,
            1,
            vec![failed("a1", "0", "0"), running("a2", "0", "Succeeded")],
            &[],
        ),
        (
            "multiple failed pods for index with different failure count; only the pod with highest failure count is kept",
            2,
            4,
            vec![
                failed("a1", "0", "0"),
                failed("a3", "0", "2"),
                failed("a2", "0", "1"),
            ],
            &["a3"],
        ),
        (
            "multiple failed pods for index with different finish times; only the last failed pod is kept",
            2,
            4,
            vec![ended("a1", -1), ended("a3", 0), ended("a2", -2)],
            &["a3"],
        ),
    ];
    for (why, completions, limit, pods, expected) in cases {
        let mut pods: Vec<JobPod> = pods.into_iter().map(PodBuilder::of_job).collect();
        for pod in &mut pods {
            pod.is_tracked &= &*pod.pod.meta.name != "removed";
        }
        let job = web(completions, limit).build();
        let snapshot = Snapshot::new(&job, pods);
        let waiting = snapshot.indexed.unwrap().per_index.unwrap().awaiting;
        let found: Vec<String> = waiting
            .values()
            .map(|pod| pod.meta.uid.to_string())
            .collect();
        assert_eq!(found, expected, "{why}");
    }
}

#[test]
fn get_new_index_failure_count_value() {
    let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let ignore = policy("Ignore", "onPodConditions", disrupted.clone());
    // (upstream's case, policy, replaced pod, counted, ignored)
    let cases = [
        ("first pod created", Value::Null, None, 0, 0),
        (
            "failed pod being replaced with 0 index failure count",
            Value::Null,
            Some(failed("a", "0", "0")),
            1,
            0,
        ),
        (
            "failed pod being replaced with >0 index failure count",
            Value::Null,
            Some(failed("a", "0", "3")),
            4,
            0,
        ),
        (
            "failed pod being replaced, matching the ignore rule",
            ignore,
            Some(failed("a", "3", "3").status("conditions", disrupted)),
            3,
            1,
        ),
    ];
    for (why, policy, replaced, counted, ignored) in cases {
        let spec = web(4, 1).spec("podFailurePolicy", policy).build().spec;
        let replaced = replaced.map(PodBuilder::of_job);
        let found = Failures::before_replacement_of(replaced.as_ref(), &spec);
        assert_eq!(found, Failures { counted, ignored }, "{why}");
    }
}

#[test]
fn get_index_failure_count() {
    // (upstream's case, annotation, failures)
    let cases = [
        ("no annotation", None, 0),
        ("valid value", Some("2"), 2),
        ("valid maxint32 value", Some("2147483647"), i32::MAX),
        ("too large value", Some("2147483648"), 0),
        ("negative value", Some("-1"), 0),
        ("invalid int value", Some("xyz"), 0),
    ];
    for (why, annotation, expected) in cases {
        let pod = pod_of_web("p");
        let pod = match annotation {
            Some(failures) => pod.index_failures(failures),
            None => pod,
        };
        assert_eq!(Failures::before(&pod.build()).counted, expected, "{why}");
    }
}

#[test]
fn get_pod_creation_info_for_independent_indexes() {
    let pod = |index: i64, failures: &str, seconds: i64| {
        let pod = failed("a", &index.to_string(), failures).deleted(NOW + seconds);
        (index, pod.of_job())
    };
    let wait = |seconds| Err(Duration::from_secs(seconds));
    // (upstream's case, indexes, failed pods, expected)
    let cases = [
        ("simple index creation", vec![1, 3], vec![], Ok(vec![1, 3])),
        (
            "subset of indexes can be recreated now",
            vec![1, 3],
            vec![pod(1, "0", 0)],
            Ok(vec![3]),
        ),
        (
            "subset of indexes can be recreated now as the pods failed long time ago",
            vec![1, 3],
            vec![pod(1, "0", 0), pod(3, "0", -10)],
            Ok(vec![3]),
        ),
        (
            "no indexes can be recreated now, need to wait default pod failure backoff",
            vec![1, 2, 3],
            vec![pod(1, "1", 0), pod(2, "0", 0), pod(3, "2", 0)],
            wait(10),
        ),
        (
            "no indexes can be recreated now, need to wait but 1s already passed",
            vec![1, 2, 3],
            vec![pod(1, "1", -1), pod(2, "0", -1), pod(3, "2", -1)],
            wait(9),
        ),
        ("nothing is missing", vec![], vec![], Ok(vec![])),
    ];
    for (why, indexes, failed, expected) in cases {
        let failed = failed.into_iter().collect();
        assert_eq!(ready_indexes(indexes, &failed, at(NOW)), expected, "{why}");
    }
}
