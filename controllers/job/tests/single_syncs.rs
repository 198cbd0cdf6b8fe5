//! Upstream's tables of single syncs, as JSON files in `cases`.
//!
//! Each case is one line: the Job, its pods, and the expected status and requests. Times such as
//! `@-10` are seconds relative to the test. Feature gates that 1.36 locks are on, so a status has
//! `terminating` and the interim conditions also where upstream's case turns the gates off.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_objects::JOB_TRACKING;

use crate::job::backoff::Backoff;
use crate::job::testing::{OneSync, job, merge, pod_of_web, set_times};
use crate::testing::world::begin;

/// One case of upstream's tables.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Case {
    name: String,
    job: Value,
    pods: Vec<Value>,
    /// Failures in the back-off record, the last one now.
    failures: Option<usize>,
    /// Unfulfilled creations if positive, deletions if negative.
    expectation: i32,
    /// Whether all requests about pods fail.
    fails: bool,
    /// The expected fields of the status.
    status: Value,
    creations: Option<usize>,
    deletions: Option<usize>,
    patches: Option<usize>,
    indexes: Option<Vec<i64>>,
}

fn cases(file: &str) -> Vec<Case> {
    serde_json::from_str(file).unwrap()
}

/// The Job `web` and its pods with these changes, as an API server would store them.
pub(super) fn objects(
    job_changes: &Value,
    pod_changes: &[Value],
    now: jiff::Timestamp,
) -> (Value, Vec<Value>) {
    let mut job = job("web").0;
    merge(&mut job, job_changes);
    // The field is beside the spec in the case, because it belongs to the template.
    if let Some(policy) = job_changes.get("restartPolicy") {
        job["spec"]["template"]["spec"]["restartPolicy"] = policy.clone();
    }
    if job_changes["spec"].get("completions").is_none() {
        job["spec"].as_object_mut().unwrap().remove("completions");
    }
    let mut pods: Vec<Value> = Vec::new();
    for (position, changes) in pod_changes.iter().enumerate() {
        let mut pod = pod_of_web(&format!("mypod-{position}")).0;
        pod["metadata"]["uid"] = json!(format!("uid-{position}"));
        pod["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("finalizers");
        merge(&mut pod, changes);
        // Upstream's containers have no names in some cases; the API requires them.
        for list in ["containerStatuses", "initContainerStatuses"] {
            let statuses = pod["status"].get_mut(list).and_then(Value::as_array_mut);
            for status in statuses.into_iter().flatten() {
                if status["name"].is_null() {
                    status["name"] = json!("main");
                }
            }
        }
        pods.push(pod);
    }
    set_times(&mut job, now);
    pods.iter_mut().for_each(|pod| set_times(pod, now));
    (job, pods)
}

/// The conditions without times.
pub(super) fn conditions(status: &Value) -> Value {
    let mut conditions = status["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        for field in ["lastProbeTime", "lastTransitionTime"] {
            condition.as_object_mut().unwrap().remove(field);
        }
    }
    conditions
}

async fn check(case: Case) {
    let why = &case.name;
    let (job, pods) = objects(&case.job, &case.pods, begin());
    let one = OneSync::of(job, pods).await;
    let syncer = &one.parts.syncer;
    let key = &one.key;
    let now = one.world.clock.now();
    if let Some(failures) = case.failures {
        let record = Backoff::default().after(&[], &vec![now; failures]);
        syncer.memory.backoffs.set(key, record);
    }
    let count = usize::try_from(case.expectation.abs()).unwrap();
    match case.expectation {
        0 => {}
        1.. => syncer.control.consistency().expect_creations(key, count),
        _ => {
            let gone = (0..count).map(|i| steersman_objects::ObjectKey::new("x", &i.to_string()));
            syncer
                .control
                .consistency()
                .expect_deletions(key, gone.collect());
        }
    }
    if case.fails {
        for verb in ["create", "patch", "delete"] {
            one.reject(verb, "pods");
        }
    }
    let result = one.sync().await;
    assert_eq!(result.is_err(), case.fails, "{why}: {result:?}");

    let creations = one.sent("create", "pods");
    let sent = |verb| Some(one.sent(verb, "pods").len());
    for (what, expected, found) in [
        ("creations", case.creations, Some(creations.len())),
        ("deletions", case.deletions, sent("delete")),
        ("patches", case.patches, sent("patch")),
    ] {
        assert!(
            expected.is_none() || expected == found,
            "{why}: {found:?} {what}, not {expected:?}"
        );
    }
    for pod in &creations {
        let meta = &pod["metadata"];
        assert_eq!(meta["finalizers"], json!([JOB_TRACKING]), "{why}");
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "uid-of-web",
            "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(meta["ownerReferences"], owner, "{why}");
    }
    if let Some(indexes) = &case.indexes {
        let of = |pod: &Value| {
            let labels = &pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"];
            labels.as_str().unwrap().parse::<i64>().unwrap()
        };
        let mut found: Vec<i64> = creations.iter().map(of).collect();
        found.sort_unstable();
        assert_eq!(found, *indexes, "{why}");
    }

    let status = one.status();
    let default = |field: &str| match field {
        "completedIndexes" => json!(""),
        "conditions" => json!([]),
        _ => json!(0),
    };
    for (field, expected) in case.status.as_object().unwrap() {
        let mut found = if field == "conditions" {
            conditions(&status)
        } else {
            status[field].clone()
        };
        let mut expected = expected.clone();
        for value in [&mut found, &mut expected] {
            if value.is_null() {
                *value = default(field);
            }
        }
        assert_eq!(found, expected, "{why}: {field} of {status:#}");
    }
    let is_suspended = case.job["spec"]["suspend"] == true;
    let is_finished = status["conditions"].to_string().contains("Complete");
    assert!(
        status["startTime"].is_null() == is_suspended || status.is_null() || is_finished,
        "{why}: start time of {status:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn controller_sync_job() {
    for case in cases(include_str!("cases/sync.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn job_backoff_for_on_failure() {
    for case in cases(include_str!("cases/restarts.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn job_backoff_on_restart_policy_never() {
    for case in cases(include_str!("cases/backoff_limit.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sync_job_past_deadline() {
    for case in cases(include_str!("cases/deadline.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sync_job_with_pod_failure_policy() {
    for case in cases(include_str!("cases/pod_failure_policy.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sync_job_with_success_policy() {
    for case in cases(include_str!("cases/success_policy.json")) {
        check(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sync_job_with_backoff_limit_per_index() {
    for case in cases(include_str!("cases/per_index.json")) {
        check(case).await;
    }
}
