//! Stories of upstream's integration tests (`test/integration/job`). The tests act as scheduler and
//! kubelet.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};
use steersman_devcluster::status::Status;
use steersman_objects::JOB_TRACKING;

use super::single_syncs::conditions;
use crate::job::DESCRIPTOR;
use crate::job::testing::merge;
use crate::testing::world::{World, condition_of};

/// Long enough for all work without a back-off.
pub(super) const A_WHILE: Duration = Duration::from_secs(8);

/// The Job `web` with these changes of its spec.
pub(super) fn web(spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}},
    });
    merge(&mut job["spec"], &spec);
    job
}

pub(super) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn index(pod: &Value) -> &str {
    let annotations = &pod["metadata"]["annotations"];
    annotations["batch.kubernetes.io/job-completion-index"]
        .as_str()
        .unwrap_or("none")
}

pub(super) fn has_finalizer(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|names| names.iter().any(|name| name == JOB_TRACKING))
}

fn is_active(pod: &Value) -> bool {
    let is_finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    pod["metadata"]["deletionTimestamp"].is_null() && !is_finished
}

impl World {
    /// The status of the Job `web`.
    pub(super) fn job(&self) -> Value {
        self.find("jobs", "web")
            .map(|mut job| job["status"].take())
            .unwrap_or_default()
    }

    /// The active pods, sorted by index and name.
    pub(super) fn active(&self) -> Vec<Value> {
        let mut pods = self.cluster.objects("pods");
        pods.retain(is_active);
        pods.sort_by_key(|pod| (index(pod).to_owned(), name(pod)));
        pods
    }

    /// Waits until the status of the Job has these fields; absent ones are 0.
    pub(super) async fn job_has(&self, expected: Value) {
        let fields = expected.as_object().unwrap().clone();
        let holds = || {
            let status = self.job();
            fields.iter().all(|(field, value)| {
                let found = &status[field];
                found == value || (found.is_null() && (*value == 0 || *value == ""))
            })
        };
        let wanted = format!("a Job with {expected}");
        self.until(&wanted, |_| holds()).await;
    }

    /// Waits until exactly `count` pods are active and the status says so.
    pub(super) async fn running_pods(&self, count: usize) -> Vec<Value> {
        self.until(&format!("{count} active pods"), |_| {
            self.active().len() == count
        })
        .await;
        self.job_has(json!({ "active": count })).await;
        self.active()
    }

    /// Ends a pod now, as its kubelet does.
    async fn finish(&self, pod: &Value, phase: &str, exit_code: i32) {
        let at = self.clock.now_seconds().to_string();
        let state = json!({"terminated": {"exitCode": exit_code, "finishedAt": at}});
        let container = json!({"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let status = json!({"phase": phase, "containerStatuses": [container]});
        self.pod_status(&name(pod), status).await;
    }

    pub(super) async fn succeed(&self, pod: &Value) {
        self.finish(pod, "Succeeded", 0).await;
    }

    pub(super) async fn fail(&self, pod: &Value) {
        self.finish(pod, "Failed", 1).await;
    }

    /// Waits for the final condition, and returns its reason.
    pub(super) async fn ended(&self, kind: &str) -> String {
        let reason = || {
            let job = self.find("jobs", "web")?;
            condition_of(&job, kind)
                .filter(|(status, _)| *status == "True")
                .map(|(_, r)| r.to_owned())
        };
        self.until(&format!("the condition {kind}"), |_| reason().is_some())
            .await;
        let tracked: Vec<Value> = self
            .cluster
            .objects("pods")
            .into_iter()
            .filter(has_finalizer)
            .collect();
        assert!(
            tracked.is_empty(),
            "pods of a finished Job without finalizer: {tracked:#?}"
        );
        reason().unwrap()
    }

    /// Reasons of the Events about the Job, in order, without repetitions.
    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self
            .state()
            .events_about("web")
            .into_iter()
            .map(|(reason, _)| reason)
            .collect();
        reasons.dedup();
        reasons
    }

    /// Deletes the Job. The default policy orphans its pods; the garbage collector does not run here.
    pub(super) async fn remove_job(&self) {
        self.delete("jobs", "web").await;
        let metadata = json!({"metadata": {"finalizers": null}});
        self.patch("jobs", "web", metadata).await;
        assert!(self.find("jobs", "web").is_none());
    }

    async fn set_spec(&self, spec: Value) {
        self.patch("jobs", "web", json!({ "spec": spec })).await;
    }
}

/// A cluster with the controller and the Job `web`.
pub(super) async fn world_with(spec: Value) -> World {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world.create(web(spec)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_until_the_job_is_complete() {
    let mut world = world_with(json!({})).await;
    let pods = world.running_pods(1).await;
    assert!(has_finalizer(&pods[0]));
    assert_eq!(
        pods[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"],
        "web"
    );
    world.fail(&pods[0]).await;
    world
        .job_has(json!({"failed": 1, "active": 0, "terminating": 0}))
        .await;
    world.restart(&[DESCRIPTOR]).await;
    let pods = world.running_pods(1).await;
    world.succeed(&pods[0]).await;
    assert_eq!(world.ended("Complete").await, "CompletionsReached");
    let status = world.job();
    assert_eq!(
        (&status["succeeded"], &status["failed"]),
        (&json!(1), &json!(1))
    );
    assert!(!status["completionTime"].is_null());
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert_eq!(world.reasons(), ["SuccessfulCreate", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn parallelism_and_completions_limit_the_pods() {
    let world = world_with(json!({"parallelism": 4, "completions": 6})).await;
    let pods = world.running_pods(4).await;
    world.set_spec(json!({"parallelism": 2})).await;
    world.running_pods(2).await;
    assert_eq!(
        world.job()["failed"],
        Value::Null,
        "deleted pods do not count as failed"
    );
    world.set_spec(json!({"parallelism": 4})).await;
    world.running_pods(4).await;
    for ended in 1..=6 {
        let pods = world.running_pods((7 - ended).min(4)).await;
        world.succeed(&pods[0]).await;
        world.job_has(json!({"succeeded": ended})).await;
    }
    world.ended("Complete").await;
    assert_eq!(pods.len(), 4);
    assert_eq!(world.job()["active"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn without_completions_the_first_success_ends_the_job() {
    let world = world_with(json!({"parallelism": 3})).await;
    let pods = world.running_pods(3).await;
    world.succeed(&pods[0]).await;
    world.running_pods(2).await;
    world.fail(&pods[1]).await;
    world
        .job_has(json!({"active": 1, "failed": 1, "succeeded": 1}))
        .await;
    world.succeed(&pods[2]).await;
    world.ended("Complete").await;
    assert_eq!(world.job()["succeeded"], 2);
}

#[tokio::test(start_paused = true)]
async fn replacements_are_created_with_exponential_back_off() {
    let world = world_with(json!({"backoffLimit": 10})).await;
    for delay in [10, 20, 40, 80] {
        let pods = world.running_pods(1).await;
        world.fail(&pods[0]).await;
        let failed = world.clock.now_seconds();
        world.running_pods(0).await;
        world
            .until("a replacement", |_| world.active().len() == 1)
            .await;
        let waited = world.clock.now_seconds().duration_since(failed).as_secs();
        assert!(
            (delay..=delay + 1).contains(&waited),
            "{waited} s, not {delay} s"
        );
    }
    let pods = world.running_pods(1).await;
    world.succeed(&pods[0]).await;
    world.ended("Complete").await;
}

/// kubernetes/kubernetes#139428.
#[tokio::test(start_paused = true)]
async fn a_job_in_back_off_reports_its_other_pods_as_active() {
    let world = world_with(json!({"parallelism": 2, "completions": 4})).await;
    let pods = world.running_pods(2).await;
    world.make_ready(&name(&pods[0])).await;
    world.job_has(json!({"ready": 1})).await;
    world.fail(&pods[1]).await;
    world.job_has(json!({"failed": 1})).await;
    let status = world.job();
    assert_eq!(
        (&status["active"], &status["ready"]),
        (&json!(1), &json!(1))
    );
    world.running_pods(2).await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_runs_one_pod_per_index() {
    let world =
        world_with(json!({"completionMode": "Indexed", "parallelism": 3, "completions": 4})).await;
    let pods = world.running_pods(3).await;
    assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), ["0", "1", "2"]);
    for pod in &pods {
        let host = format!("web-{}", index(pod));
        assert_eq!(pod["spec"]["hostname"], host);
        assert!(name(pod).starts_with(&format!("{host}-")));
    }
    world.succeed(&pods[1]).await;
    world
        .job_has(json!({"completedIndexes": "1", "succeeded": 1, "active": 3}))
        .await;
    world.fail(&pods[0]).await;
    world.job_has(json!({"failed": 1})).await;
    let pods = world.running_pods(3).await;
    assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), ["0", "2", "3"]);
    for pod in &pods {
        world.succeed(pod).await;
    }
    world.ended("Complete").await;
    let status = world.job();
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"]),
        (&json!("0-3"), &json!(4))
    );
}

#[tokio::test(start_paused = true)]
async fn an_elastic_indexed_job_follows_its_completions() {
    let both = |n: i32| json!({"parallelism": n, "completions": n});
    let mut spec = both(3);
    spec["completionMode"] = json!("Indexed");
    let world = world_with(spec).await;
    let pods = world.running_pods(3).await;
    world.succeed(&pods[0]).await;
    world.succeed(&pods[2]).await;
    world
        .job_has(json!({"completedIndexes": "0,2", "succeeded": 2, "active": 1}))
        .await;
    world.set_spec(both(2)).await;
    world
        .job_has(json!({"completedIndexes": "0", "succeeded": 1, "active": 1}))
        .await;
    world.set_spec(both(4)).await;
    world
        .job_has(json!({"completedIndexes": "0", "succeeded": 1, "active": 3}))
        .await;
    world.set_spec(both(1)).await;
    world.ended("Complete").await;
    assert_eq!(world.job()["succeeded"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_starts_again() {
    let mut world = world_with(json!({"parallelism": 2, "completions": 2, "suspend": true})).await;
    world.job_has(json!({"active": 0, "terminating": 0})).await;
    tokio::time::sleep(A_WHILE).await;
    let job = || world.find("jobs", "web").unwrap();
    assert_eq!(
        condition_of(&job(), "Suspended"),
        Some(("True", "JobSuspended"))
    );
    assert!(world.job()["startTime"].is_null());
    assert_eq!(world.active().len(), 0);

    world.set_spec(json!({"suspend": false})).await;
    world.running_pods(2).await;
    assert_eq!(
        condition_of(&job(), "Suspended"),
        Some(("False", "JobResumed"))
    );
    assert!(!world.job()["startTime"].is_null());

    world.set_spec(json!({"suspend": true})).await;
    world.running_pods(0).await;
    assert!(world.job()["startTime"].is_null());
    assert_eq!(world.job()["failed"], Value::Null);
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.active().len(), 0);
    let reasons: BTreeSet<String> = world.reasons().into_iter().collect();
    assert!(
        reasons.contains("Suspended") && reasons.contains("Resumed"),
        "{reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_without_completions_to_reach_is_complete() {
    let world = world_with(json!({"parallelism": 1, "completions": 0, "suspend": true})).await;
    world.ended("Complete").await;
    let kinds: Vec<Value> = conditions(&world.job())
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].clone())
        .collect();
    assert_eq!(kinds, ["SuccessCriteriaMet", "Complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_replaced_as_the_policy_says() {
    // (policy, whether the pod is replaced and counted while it terminates)
    for (policy, at_once) in [("TerminatingOrFailed", true), ("Failed", false)] {
        let world = world_with(json!({"podReplacementPolicy": policy})).await;
        let pods = world.running_pods(1).await;
        world.bind(&name(&pods[0]), "n").await;
        world.delete("pods", &name(&pods[0])).await;
        world.job_has(json!({"terminating": 1})).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let status = world.job();
        assert_eq!(world.active().len(), usize::from(at_once), "{policy}");
        assert_eq!(
            status["failed"].as_i64().unwrap_or(0),
            i64::from(at_once),
            "{policy}"
        );
        assert_eq!(status["terminating"], 1, "{policy}");
        world.fail(&pods[0]).await;
        world.job_has(json!({"failed": 1, "terminating": 0})).await;
        world.running_pods(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_final_condition_waits_for_terminating_pods() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let policy = json!({"rules": [rule]});
    // (spec, condition and reason; the first pod fails with exit code 42)
    let cases = [
        (json!({"backoffLimit": 0}), "BackoffLimitExceeded"),
        (json!({"podFailurePolicy": policy}), "PodFailurePolicy"),
    ];
    for (mut spec, reason) in cases {
        merge(&mut spec, &json!({"parallelism": 2, "completions": 2}));
        let world = world_with(spec).await;
        let pods = world.running_pods(2).await;
        for pod in &pods {
            world.bind(&name(pod), "n").await;
        }
        world.finish(&pods[0], "Failed", 42).await;
        world.job_has(json!({"terminating": 1, "failed": 2})).await;
        tokio::time::sleep(A_WHILE).await;
        let job = world.find("jobs", "web").unwrap();
        assert_eq!(condition_of(&job, "FailureTarget"), Some(("True", reason)));
        assert_eq!(condition_of(&job, "Failed"), None, "{reason}");
        world.kill(&name(&pods[1])).await;
        assert_eq!(world.ended("Failed").await, reason);
        assert_eq!(world.job()["failed"], 2, "{reason}");
        assert!(world.reasons().contains(&reason.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn ignored_failures_do_not_count() {
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}});
    let world = world_with(json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}})).await;
    let pods = world.running_pods(1).await;
    world.finish(&pods[0], "Failed", 7).await;
    world.job_has(json!({"active": 0})).await;
    let pods = world.running_pods(1).await;
    assert_eq!(world.job()["failed"], Value::Null);
    world.succeed(&pods[0]).await;
    world.ended("Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_the_job_early() {
    let policy = json!({"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]});
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3, "successPolicy": policy});
    let world = world_with(spec).await;
    let pods = world.running_pods(3).await;
    world.succeed(&pods[1]).await;
    assert_eq!(world.ended("Complete").await, "SuccessPolicy");
    let status = world.job();
    assert_eq!(
        (&status["succeeded"], &status["failed"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(
        status["conditions"][0]["message"],
        "Matched rules at index 0"
    );
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_back_off_limit() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1});
    let mut world = world_with(spec).await;
    let pods = world.running_pods(2).await;
    world.fail(&pods[0]).await;
    world
        .job_has(json!({"active": 1, "failed": 0, "failedIndexes": ""}))
        .await;
    // The failed pod keeps its finalizer until its replacement has its number of failures.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(has_finalizer(&world.find("pods", &name(&pods[0])).unwrap()));
    world.restart(&[DESCRIPTOR]).await;
    world.job_has(json!({"active": 2, "failed": 1})).await;
    let pods = world.running_pods(2).await;
    let failures = "batch.kubernetes.io/job-index-failure-count";
    assert_eq!(pods[0]["metadata"]["annotations"][failures], "1");
    assert_eq!(pods[1]["metadata"]["annotations"][failures], "0");
    world.fail(&pods[0]).await;
    world
        .job_has(json!({"failed": 2, "failedIndexes": "0", "active": 1}))
        .await;
    world.succeed(&pods[1]).await;
    assert_eq!(world.ended("Failed").await, "FailedIndexes");
    assert_eq!(world.job()["completedIndexes"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_is_left_alone() {
    // (manager, whether this controller acts)
    for (manager, acts) in [
        ("example.com/queue", false),
        ("kubernetes.io/job-controller", true),
    ] {
        let world = world_with(json!({ "managedBy": manager })).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.active().len(), usize::from(acts), "{manager}");
        assert_eq!(
            world.writes().is_empty(),
            !acts,
            "{manager}: {:?}",
            world.writes()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let mut world = world_with(json!({"parallelism": 2, "completions": 2})).await;
    let pods = world.running_pods(2).await;
    world.succeed(&pods[0]).await;
    world.restart(&[]).await;
    world.remove_job().await;
    world.restart(&[DESCRIPTOR]).await;
    for pod in &pods {
        world
            .patch(
                "pods",
                &name(pod),
                json!({"metadata": {"ownerReferences": null}}),
            )
            .await;
    }
    world
        .until("no pod has the finalizer", |_| {
            !world.cluster.objects("pods").iter().any(has_finalizer)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_removal_from_an_orphan_is_retried() {
    let world = world_with(json!({})).await;
    let pods = world.running_pods(1).await;
    let faults = world.cluster.faults();
    let rule = faults.reject(
        Matcher::new("patch", "pods"),
        faults::internal_error(),
        Some(12),
    );
    world.remove_job().await;
    world
        .until("the pod lost its finalizer", |_| {
            !has_finalizer(&world.find("pods", &name(&pods[0])).unwrap())
        })
        .await;
    assert!(faults.hits(rule) > 0);
}

/// A deletion fails after its pod has lost the finalizer, and the user wants the pod again.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_not_deleted_counts_when_it_succeeds() {
    let world = world_with(json!({"parallelism": 2, "completions": 2})).await;
    let pods = world.running_pods(2).await;
    let faults = world.cluster.faults();
    let refusal = Matcher::new("delete", "pods");
    let rule = faults.reject(refusal, faults::internal_error(), None);
    let with = |parallelism: i32| json!({"spec": {"parallelism": parallelism}});
    world.patch("jobs", "web", with(1)).await;
    world
        .until("a pod lost its finalizer", |_| {
            !world.cluster.objects("pods").iter().all(has_finalizer)
        })
        .await;
    world.patch("jobs", "web", with(2)).await;
    faults.remove(rule);
    world
        .until("all pods have the finalizer", |_| {
            world.cluster.objects("pods").iter().all(has_finalizer)
        })
        .await;
    for pod in &pods {
        world.succeed(pod).await;
    }
    world.ended("Complete").await;
    assert_eq!(world.job()["succeeded"], 2);
    assert_eq!(world.cluster.objects("pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_counts_no_running_pod() {
    let world = world_with(json!({})).await;
    world.running_pods(1).await;
    let foreground = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    world.patch("jobs", "web", foreground).await;
    let job = world.cluster.path("jobs", "default", "web");
    world.cluster.delete(&job).await.unwrap();
    world
        .until("the pod lost its finalizer", |_| {
            !world.cluster.objects("pods").iter().any(has_finalizer)
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.job()["failed"], Value::Null);
    assert_eq!(
        world.active().len(),
        1,
        "no replacement, and only the collector deletes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails() {
    let world = world_with(json!({"activeDeadlineSeconds": 30, "parallelism": 2})).await;
    world.running_pods(2).await;
    let started = world.clock.now_seconds();
    assert_eq!(world.ended("Failed").await, "DeadlineExceeded");
    let lasted = world.clock.now_seconds().duration_since(started).as_secs();
    assert!((28..=32).contains(&lasted), "{lasted} s");
    assert_eq!(world.job()["failed"], 2);
    assert_eq!(world.active().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_job_of_the_same_name_starts_at_once() {
    let world = world_with(json!({})).await;
    let pods = world.running_pods(1).await;
    world.succeed(&pods[0]).await;
    world.ended("Complete").await;
    let uid = world.find("jobs", "web").unwrap()["metadata"]["uid"].clone();
    world.remove_job().await;
    world.create(web(json!({}))).await;
    let began = tokio::time::Instant::now();
    let pods = world.running_pods(1).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_ne!(pods[0]["metadata"]["ownerReferences"][0]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_with_their_finalizer() {
    let spec = json!({"manualSelector": true, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}}});
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    let loose = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
    });
    world.create(loose).await;
    world.create(web(spec)).await;
    let pods = world.running_pods(1).await;
    assert_eq!(name(&pods[0]), "loose");
    assert!(has_finalizer(&pods[0]));
    world
        .patch(
            "pods",
            "loose",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    world
        .until("the Job has a pod of its own", |_| {
            world.active().len() == 2
        })
        .await;
    let loose = world.find("pods", "loose").unwrap();
    assert!(!has_finalizer(&loose));
    assert!(loose["metadata"]["ownerReferences"].is_null());
}

/// The case "limited pods" of `TestControllerSyncJob`, and the retries after it.
#[tokio::test(start_paused = true)]
async fn refused_creations_are_retried_with_back_off() {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    let quota = Status::new(
        403,
        "Forbidden",
        "pods \"web-\" is forbidden: exceeded quota: q",
    );
    let faults = world.cluster.faults();
    let rule = faults.reject(Matcher::new("create", "pods"), quota, None);
    world
        .create(web(json!({"parallelism": 20, "completions": 20})))
        .await;
    let seconds = [0, 1, 3, 7, 15, 31];
    let begin = tokio::time::Instant::now();
    for (attempt, at) in seconds.into_iter().enumerate() {
        tokio::time::sleep_until(begin + Duration::from_millis(at * 1000 + 500)).await;
        assert_eq!(faults.hits(rule), attempt + 1, "after {at} s");
    }
    faults.remove(rule);
    world.running_pods(20).await;
    assert!(world.reasons().contains(&"FailedCreate".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_status_update_is_retried() {
    // (why, failure, seconds until the status is written)
    let cases = [
        ("no error", None, 0),
        ("generic error", Some(faults::internal_error()), 1),
        ("conflict error", Some(faults::conflict()), 1),
    ];
    for (why, failure, seconds) in cases {
        let mut world = World::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        if let Some(failure) = failure {
            let update = Matcher::new("update", "jobs").subresource("status");
            world.cluster.faults().reject(update, failure, Some(1));
        }
        let began = tokio::time::Instant::now();
        world.create(web(json!({}))).await;
        world.running_pods(1).await;
        let waited = began.elapsed().as_secs();
        assert_eq!(waited, seconds, "{why}");
        assert_eq!(world.cluster.objects("pods").len(), 1, "{why}");
    }
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_only_a_proxy_has_removed_is_removed_again() {
    let world = world_with(json!({"parallelism": 1, "completions": 2})).await;
    let pod = &world.running_pods(1).await[0];
    let proxy = Status::new(404, "NotFound", "default backend - 404");
    let patch = Matcher::new("patch", "pods");
    world.cluster.faults().reject(patch, proxy, Some(4));
    world.succeed(pod).await;
    let is_released = |_: &_| !has_finalizer(&world.find("pods", &name(pod)).unwrap());
    world.until("the removal", is_released).await;
    assert_eq!(world.job()["succeeded"], 1);
}

/// Every crash between two writes: each pod is counted exactly once.
#[tokio::test(start_paused = true)]
async fn no_crash_loses_a_pod_or_counts_it_twice() {
    let specs = [
        json!({"parallelism": 3, "completions": 3, "backoffLimit": 5}),
        json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3, "backoffLimit": 5}),
    ];
    for spec in specs {
        let mut crashes = 0;
        loop {
            let mut world = World::bare().await;
            world.create(web(spec.clone())).await;
            world.restart(&[DESCRIPTOR]).await;
            let pods = world.running_pods(3).await;
            let gate = world.restart_fenced(&[DESCRIPTOR]).await;
            gate.close_after(crashes);
            world.succeed(&pods[0]).await;
            world.fail(&pods[1]).await;
            tokio::time::sleep(A_WHILE).await;
            let was_cut = gate.refused() > 0;
            world.restart(&[DESCRIPTOR]).await;
            world.job_has(json!({"failed": 1, "succeeded": 1})).await;
            for pod in world.running_pods(2).await {
                world.succeed(&pod).await;
            }
            world.ended("Complete").await;
            let status = world.job();
            assert_eq!(
                (&status["succeeded"], &status["failed"]),
                (&json!(3), &json!(1)),
                "{crashes} writes: {status:#}"
            );
            if !was_cut {
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 3, "{crashes}");
    }
}

/// A stalled watch must not lead to second counts or second pods.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_counts_no_pod_twice() {
    for plural in ["pods", "jobs"] {
        let world = world_with(json!({"parallelism": 2, "completions": 2})).await;
        let pods = world.running_pods(2).await;
        world.succeed(&pods[0]).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        world.cluster.faults().stall_watches(plural);
        tokio::time::sleep(Duration::from_secs(30)).await;
        world.cluster.faults().resume_watches(plural);
        world.job_has(json!({"succeeded": 1, "active": 1})).await;
        world.succeed(&pods[1]).await;
        world.ended("Complete").await;
        assert_eq!(world.job()["succeeded"], 2, "{plural}");
        assert_eq!(world.cluster.objects("pods").len(), 2, "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_stays_finished_while_its_cache_lags() {
    let world = world_with(json!({})).await;
    let pods = world.running_pods(1).await;
    world.cluster.faults().stall_watches("jobs");
    world.succeed(&pods[0]).await;
    world.ended("Complete").await;
    let writes = world.writes().len();
    world
        .patch(
            "pods",
            &name(&pods[0]),
            json!({"metadata": {"annotations": {"touched": "yes"}}}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.writes().len(), writes, "{:#?}", world.writes());
    world.cluster.faults().resume_watches("jobs");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.writes().len(), writes, "{:#?}", world.writes());
}

/// Pods of a deleted namespace keep their finalizer until a replacement exists, which the namespace
/// refuses. Upstream leaves the namespace terminating for ever.
#[tokio::test(start_paused = true)]
async fn a_namespace_with_a_job_that_counts_failures_by_index_goes() {
    let controllers = [
        DESCRIPTOR,
        crate::namespace::DESCRIPTOR,
        crate::garbagecollector::DESCRIPTOR,
    ];
    let world = World::with(&controllers).await;
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    world.create(shop).await;
    let mut job = web(json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    }));
    job["metadata"]["namespace"] = json!("shop");
    let running = json!({"simulate.steersman.dev/run-time": "300s"});
    job["spec"]["template"]["metadata"]["annotations"] = running;
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    world.create(job).await;
    world
        .until("both pods are ready", |_| world.job()["ready"] == 2)
        .await;
    let path = "/api/v1/namespaces/shop";
    world.cluster.delete(path).await.unwrap();
    let deleted = tokio::time::Instant::now();
    world
        .until("the namespace is gone", |_| {
            world.find("namespaces", "shop").is_none()
        })
        .await;
    // The back-off of an index comes before the refused replacement.
    let waited = deleted.elapsed();
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}
