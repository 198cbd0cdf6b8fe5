//! Upstream's tables of counting, as JSON files in `cases`.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_objects::Uid;
use steersman_runtime::pod_control::Owner;

use super::single_syncs::{conditions, objects};
use crate::job::backoff::Backoff;
use crate::job::end_state::Finish;
use crate::job::snapshot::Snapshot;
use crate::job::sync::Write;
use crate::job::testing::{OneSync, job, pod_of_web};
use crate::testing::world::begin;

/// One case of `TestTrackJobStatusAndRemoveFinalizers`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Case {
    name: String,
    job: Value,
    pods: Vec<Value>,
    /// UIDs of pods with a finalizer that was removed before.
    removals: Vec<String>,
    /// Type of the condition that ends the Job.
    finish: Option<String>,
    changed: bool,
    /// Whether patches of pods fail.
    fails: bool,
    /// Whether the status cannot be written.
    status_fails: bool,
    /// The statuses to write, in order.
    updates: Vec<Value>,
    patches: usize,
    /// Differences of the metric of finished pods.
    succeeded: i64,
    failed: i64,
}

/// The end of the Job. Upstream's types `Complete` and `Failed` stand for an announced end.
fn end(kind: &str) -> Finish {
    Finish {
        is_complete: matches!(kind, "Complete" | "SuccessCriteriaMet"),
        reason: String::new(),
        message: String::new(),
        is_announced: matches!(kind, "Complete" | "Failed"),
    }
}

/// Adds the start time and the interim condition of an announced end, because the API server refuses
/// a finished Job without them. Upstream's cases have no API server.
fn announce(case: &mut Case) {
    case.job["status"]["startTime"] = json!("@-60");
    let kind = match case.finish.as_deref() {
        Some("Complete") => "SuccessCriteriaMet",
        Some("Failed") => "FailureTarget",
        _ => return,
    };
    let interim = json!({"type": kind, "status": "True"});
    for status in case.updates.iter_mut().chain([&mut case.job["status"]]) {
        let known = status["conditions"].take();
        let known = known.as_array().cloned().unwrap_or_default();
        let others = known
            .into_iter()
            .filter(|condition| condition["type"] != kind);
        status["conditions"] = [interim.clone()].into_iter().chain(others).collect();
    }
}

async fn check(mut case: Case) {
    announce(&mut case);
    let why = &case.name;
    let (job, pods) = objects(&case.job, &case.pods, begin());
    let one = OneSync::of(job, pods).await;
    for (fails, verb, resource) in [
        (case.fails, "patch", "pods"),
        (case.status_fails, "update", "jobs/status"),
    ] {
        if fails {
            one.reject(verb, resource);
        }
    }
    let syncer = &one.parts.syncer;
    let key = &one.key;
    let removals = case.removals.iter().map(|uid| Uid::new(uid));
    syncer.memory.removals.expect(key, removals);
    let object = one.jobs.get(key).unwrap();
    let mut claimed = one.pods.list();
    claimed.sort_by_key(|pod| pod.meta.resource_version);
    let snapshot = Snapshot::new(&object, syncer.job_pods(key, &object, &claimed));
    let mut status = object.status.clone();
    status.uncounted_terminated_pods.get_or_insert_default();
    status.terminating = Some(i32::try_from(snapshot.terminating).unwrap());
    let owner = Owner {
        key,
        object: &*object,
        selector: object.spec.selector.as_ref().unwrap(),
    };
    let write = Write {
        status,
        changed: case.changed,
        finish: case.finish.as_deref().map(end),
        backoff: Backoff::default(),
        terminating: snapshot.terminating,
    };
    let result = syncer.track(owner, &snapshot, write).await;
    assert_eq!(
        result.is_err(),
        case.fails || case.status_fails,
        "{why}: {result:?}"
    );

    let expected: Vec<Value> = case.updates.iter().map(normal).collect();
    let written = one.sent("update", "jobs/status");
    let written: Vec<Value> = written.iter().map(|body| normal(&body["status"])).collect();
    assert_eq!(written, expected, "{why}");
    assert_eq!(one.sent("patch", "pods").len(), case.patches, "{why}");
    if result.is_ok() {
        let families = one.world_metrics();
        let mode = if case.job["spec"]["completionMode"] == "Indexed" {
            "Indexed"
        } else {
            "NonIndexed"
        };
        for (result, expected) in [("succeeded", case.succeeded), ("failed", case.failed)] {
            let found = families(&[("completion_mode", mode), ("result", result)]);
            assert_eq!(found, expected, "{why}: {result}");
        }
    }
}

/// A status with zero values left out, and without times.
fn normal(status: &Value) -> Value {
    let mut normal = status.clone();
    normal["conditions"] = conditions(status);
    for condition in normal["conditions"].as_array_mut().into_iter().flatten() {
        let fields = condition.as_object_mut().unwrap();
        fields.retain(|_, value| value != "");
    }
    let fields = normal.as_object_mut().unwrap();
    for times in ["completionTime", "startTime", "terminating"] {
        fields.remove(times);
    }
    fields.retain(|_, value| !value.is_null() && *value != 0);
    if fields
        .get("completedIndexes")
        .is_some_and(|text| text == "")
    {
        fields.remove("completedIndexes");
    }
    normal
}

impl OneSync {
    /// Reads the metric of finished pods by its labels.
    fn world_metrics(&self) -> impl Fn(&[(&str, &str)]) -> i64 {
        let families = self.registry().gather();
        move |labels| {
            let family = families
                .iter()
                .find(|f| f.name() == "job_controller_job_pods_finished_total");
            let metrics = family.map_or(&[][..], |family| family.get_metric());
            let found = metrics.iter().find(|metric| {
                labels.iter().all(|(name, value)| {
                    metric
                        .get_label()
                        .iter()
                        .any(|l| l.name() == *name && l.value() == *value)
                })
            });
            found.map_or(0, |metric| metric.get_counter().get_value() as i64)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn track_job_status_and_remove_finalizers() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases/tracking.json")).unwrap();
    assert_eq!(cases.len(), 26);
    for case in cases {
        check(case).await;
    }
}

/// The cases "too many finished" and "too many indexed finished". A real sync knows all succeeded
/// indexes before it stops, so the status has the last one too; upstream's case leaves them out.
#[tokio::test(start_paused = true)]
async fn one_sync_counts_at_most_500_pods() {
    let pods = |count: usize| {
        (0..count).map(|i| {
            let finalizer = json!(["batch.kubernetes.io/job-tracking"]);
            json!({
                "metadata": {"uid": format!("p{i}"), "finalizers": finalizer,
                    "annotations": {"batch.kubernetes.io/job-completion-index": i.to_string()}},
                "status": {"phase": "Succeeded"},
            })
        })
    };
    let listed: Vec<String> = (0..499).map(|i| format!("p{i}")).collect();
    let failed = json!({"metadata": {"uid": "b", "finalizers": ["batch.kubernetes.io/job-tracking"]}, "status": {"phase": "Failed"}});
    check(Case {
        name: "too many finished".to_owned(),
        job: json!({"spec": {"completions": 600}, "status": {"uncountedTerminatedPods": {"failed": ["a", "b"]}}}),
        pods: pods(500).chain([failed]).collect(),
        updates: vec![
            json!({"uncountedTerminatedPods": {"failed": ["b"], "succeeded": listed}, "failed": 1}),
            json!({"uncountedTerminatedPods": {"failed": ["b"]}, "succeeded": 499, "failed": 1}),
        ],
        patches: 499,
        succeeded: 499,
        failed: 1,
        ..Case::default()
    })
    .await;
    check(Case {
        name: "too many indexed finished".to_owned(),
        job: json!({"spec": {"completionMode": "Indexed", "completions": 501}}),
        pods: pods(501).collect(),
        updates: vec![
            json!({"uncountedTerminatedPods": {}, "completedIndexes": "0-500", "succeeded": 501}),
        ],
        patches: 500,
        succeeded: 501,
        ..Case::default()
    })
    .await;
}

#[test]
fn get_new_finished_pods() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases/new_finished.json")).unwrap();
    for case in cases {
        let mut builder = job("web");
        builder.0["status"] = case["status"].clone();
        let job = builder.build();
        let removals: Vec<String> = serde_json::from_value(case["removals"].clone()).unwrap();
        let pods = case["pods"].as_array().unwrap();
        let (_, pods) = objects(&json!({"spec": {}}), pods, begin());
        let pods = pods.into_iter().map(|changes| {
            let mut pod = pod_of_web("p");
            pod.0 = changes;
            let mut pod = pod.of_job();
            pod.is_tracked &= !removals.contains(&pod.pod.meta.uid.to_string());
            pod
        });
        let snapshot = Snapshot::new(&job, pods.collect());
        assert_eq!(
            json!([snapshot.succeeded, snapshot.failed]),
            json!([case["succeeded"], case["failed"]]),
            "{case}"
        );
    }
}
