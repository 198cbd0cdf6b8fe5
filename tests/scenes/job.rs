//! Jobs: new indexes, suspension and replacement. Upstream: `test/integration/job/job_test.go`.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Scene, counts, is_controlled_by, is_terminating, name, now};

/// Upstream's interval for the first pods of a Job. The next request follows within it.
const AT_ONCE: Duration = Duration::from_millis(5);
/// Upstream's interval for all other waits.
const SECOND: Duration = Duration::from_secs(1);

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// A finalizer that keeps deleted pods until the scene ends them.
const KEEP: &str = "example.com/keep";

/// A Job whose pods have `finalizers`.
fn manifest(spec: Value, finalizers: &[&str]) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"template": {
            "metadata": {"finalizers": finalizers},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
        }},
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

fn index(pod: &Value) -> Option<u64> {
    let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
    index.as_str()?.parse().ok()
}

fn has_ended(pod: &Value) -> bool {
    let phase = &pod["status"]["phase"];
    phase == "Succeeded" || phase == "Failed"
}

fn has_finalizer(pod: &Value, finalizer: &str) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|names| names.iter().any(|name| name == finalizer))
}

/// A Job in a namespace of its own.
struct Work {
    scene: Scene,
    job: Value,
}

impl Work {
    async fn begin(namespace: &str, spec: Value, finalizers: &[&str]) -> Self {
        let scene = Scene::begin(namespace).await;
        let job = scene.create("jobs", &manifest(spec, finalizers)).await;
        Self { scene, job }
    }

    /// The Job, as soon as its status has these numbers and no other pods.
    async fn until(&self, interval: Duration, expected: Value) -> Value {
        let mut all =
            json!({"active": 0, "ready": 0, "succeeded": 0, "failed": 0, "terminating": 0});
        for (field, count) in expected.as_object().unwrap() {
            all[field] = count.clone();
        }
        let holds = |job: &Value| counts(job, &all);
        self.scene.until(("jobs", "work"), interval, holds).await
    }

    async fn set(&self, fields: Value) {
        let change = |job: &mut Value| {
            for (field, value) in fields.as_object().unwrap() {
                job["spec"][field] = value.clone();
            }
        };
        self.scene.update("jobs", "work", change).await;
    }

    async fn pods(&self) -> Vec<Value> {
        let mut pods = self.scene.list("pods").await;
        pods.retain(|pod| is_controlled_by(pod, &self.job));
        pods
    }

    /// Lets the pod of an index succeed. The Job must have it at this request.
    async fn succeed(&self, wanted: u64) {
        let pods = self.pods().await;
        let found = pods
            .iter()
            .find(|pod| index(pod) == Some(wanted) && !has_ended(pod));
        let Some(pod) = found else {
            panic!("no pod with index {wanted} at the next request: {pods:#?}");
        };
        self.end(pod, "Succeeded").await;
    }

    async fn end(&self, pod: &Value, phase: &str) {
        let mut ended = pod.clone();
        let state = json!({"terminated": {"exitCode": 0, "finishedAt": now()}});
        ended["status"]["phase"] = json!(phase);
        ended["status"]["containerStatuses"] = json!([{
            "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }]);
        let written = self.scene.update_status("pods", &ended).await;
        written.unwrap_or_else(|error| panic!("{phase} pod {}: {error}", name(pod)));
    }

    async fn until_complete(&self) -> Value {
        let is_complete = |job: &Value| {
            let conditions = job["status"]["conditions"].as_array();
            let is = |condition: &Value| {
                condition["type"] == "Complete" && condition["status"] == "True"
            };
            conditions.is_some_and(|conditions| conditions.iter().any(is))
        };
        self.scene
            .until(("jobs", "work"), SECOND, is_complete)
            .await
    }
}

fn elastic(indexes: u32) -> Value {
    json!({"completions": indexes, "parallelism": indexes})
}

fn indexed(indexes: u32) -> Value {
    let mut spec = elastic(indexes);
    spec["completionMode"] = json!("Indexed");
    spec
}

/// Case "scale up" of `TestElasticIndexedJob`.
#[tokio::test(flavor = "multi_thread")]
async fn a_larger_indexed_job_has_the_pods_of_its_new_indexes_at_once() {
    let work = Work::begin("elastic-up", indexed(3), &[]).await;
    work.until(AT_ONCE, json!({"active": 3})).await;
    work.set(elastic(4)).await;
    for index in 0..4 {
        work.succeed(index).await;
    }
    work.until(SECOND, json!({"succeeded": 4})).await;
    let job = work.until_complete().await;
    assert_eq!(job["status"]["completedIndexes"], "0-3");
}

/// Case "index finishes successfully, scale down, scale up" of `TestElasticIndexedJob`.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_comes_back_has_a_new_pod_at_once() {
    let work = Work::begin("elastic-down-up", indexed(3), &[]).await;
    work.until(AT_ONCE, json!({"active": 3})).await;
    work.succeed(2).await;
    work.until(SECOND, json!({"active": 2, "succeeded": 1}))
        .await;
    work.set(elastic(2)).await;
    work.until(SECOND, json!({"active": 2})).await;
    work.set(elastic(3)).await;
    for index in 0..3 {
        work.succeed(index).await;
    }
    let job = work.until_complete().await;
    assert_eq!(job["status"]["completedIndexes"], "0-2");
}

/// `TestMutablePodResourcesWithPodReplacementPolicyFailed`. The client deletes the pods right after
/// it suspended the Job. A pod that was deleted before the controller saw the suspension would keep
/// the tracking finalizer until it failed.
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_suspended_job_are_not_tracked_at_the_next_request() {
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let set_resources = |job: &mut Value, cpu: &str| {
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources(cpu);
    };
    let scene = Scene::begin("suspended").await;
    let spec = json!({"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"});
    let mut job = manifest(spec, &[KEEP]);
    set_resources(&mut job, "100m");
    let job = scene.create("jobs", &job).await;
    let work = Work { scene, job };
    work.until(AT_ONCE, json!({"active": 2})).await;

    work.set(json!({"suspend": true})).await;
    let job = work.scene.get("jobs", "work").await;
    assert_eq!(job["spec"]["suspend"], true);
    work.scene.delete_all("pods").await;
    work.until(SECOND, json!({"terminating": 2})).await;
    let mut expected = "100m";
    if work.scene.has("MutablePodResourcesForSuspendedJobs") {
        expected = "300m";
        let change = |job: &mut Value| set_resources(job, expected);
        work.scene.update("jobs", "work", change).await;
    }

    let pods = work.pods().await;
    assert_eq!(pods.len(), 2, "no pod is replaced while it terminates");
    for pod in &pods {
        assert!(is_terminating(pod) && has_finalizer(pod, KEEP), "{pod:#}");
        assert!(!has_finalizer(pod, TRACKING), "still tracked: {pod:#}");
        let without = |pod: &mut Value| pod["metadata"]["finalizers"] = json!([]);
        work.scene.update("pods", name(pod), without).await;
    }
    work.until(SECOND, json!({})).await;
    assert!(work.pods().await.is_empty());

    work.set(json!({"suspend": false})).await;
    work.until(AT_ONCE, json!({"active": 2})).await;
    let pods = work.pods().await;
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        let found = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(*found, resources(expected), "{pod:#}");
    }
}

/// Case "started then suspended job" of `TestUpdateJobPodResources`.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_starts_again_has_only_new_pods_when_its_status_counts_them() {
    let work = Work::begin("restarted", json!({}), &[]).await;
    work.until(AT_ONCE, json!({"active": 1})).await;
    let before = work.pods().await;
    work.set(json!({"suspend": true})).await;
    let is_idle = |job: &Value| counts(job, &json!({"active": 0}));
    work.scene.until(("jobs", "work"), AT_ONCE, is_idle).await;
    work.set(json!({"suspend": false})).await;
    let is_active = |job: &Value| counts(job, &json!({"active": 1}));
    work.scene.until(("jobs", "work"), AT_ONCE, is_active).await;
    let after = work.pods().await;
    assert_eq!(after.len(), 1, "{after:#?}");
    assert_ne!(name(&after[0]), name(&before[0]));
}

/// `TestJobPodReplacementPolicy`: the replacement comes when the pod terminates, or when it failed.
#[tokio::test(flavor = "multi_thread")]
async fn pods_are_replaced_when_the_policy_says_so() {
    for mode in ["Indexed", "NonIndexed"] {
        for (policy, deleted, failed) in [
            (
                "TerminatingOrFailed",
                json!({"active": 2, "failed": 2, "terminating": 2}),
                json!({"active": 2, "failed": 2}),
            ),
            (
                "Failed",
                json!({"terminating": 2}),
                json!({"active": 2, "failed": 2}),
            ),
        ] {
            let spec = json!({
                "parallelism": 2, "completions": 2, "completionMode": mode, "podReplacementPolicy": policy,
            });
            let namespace = format!("replaced-{mode}-{policy}").to_lowercase();
            let work = Work::begin(&namespace, spec, &[KEEP]).await;
            work.until(AT_ONCE, json!({"active": 2})).await;
            work.scene.delete_all("pods").await;
            work.until(SECOND, deleted).await;
            for pod in work.pods().await.iter().filter(|pod| is_terminating(pod)) {
                work.end(pod, "Failed").await;
            }
            work.until(SECOND, failed).await;
        }
    }
}
