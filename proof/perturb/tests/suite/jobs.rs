//! Scenarios of Jobs. The user acts as kubelet: the steps end pods by their status.

use serde_json::{Value, json};
use steersman_controllers::{garbagecollector, job};
use steersman_perturb::rules::{self, is_active};
use steersman_perturb::{Churn, Rule, Scenario, State, Step};

use crate::objects::{BLANK, count, delete, has_condition, is_gone, patch, path};

const RULES: &[Rule] = &[rules::JOB_PODS, rules::COUNTED_ONCE, rules::TRACKED];

const BASE: Scenario = Scenario {
    controller: "job",
    controllers: &[job::DESCRIPTOR],
    rules: RULES,
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "complete",
            steps: complete,
            ..BASE
        },
        Scenario {
            name: "failed",
            steps: failed,
            ..BASE
        },
        Scenario {
            name: "indexed",
            steps: indexed,
            ..BASE
        },
        Scenario {
            name: "index-limit",
            steps: index_limit,
            ..BASE
        },
        Scenario {
            name: "success-policy",
            steps: success_policy,
            ..BASE
        },
        Scenario {
            name: "suspend",
            steps: suspend,
            ..BASE
        },
        // The user changes the parallelism twice; a controller that sees the first change late
        // creates fewer pods.
        Scenario {
            name: "scale",
            churn: Churn::Within(&[("pods", -3..=0)]),
            steps: scale,
            ..BASE
        },
        Scenario {
            name: "adopt",
            steps: adopt,
            ..BASE
        },
        Scenario {
            name: "deleted",
            controllers: &[job::DESCRIPTOR, garbagecollector::DESCRIPTOR],
            steps: deleted,
            ..BASE
        },
    ]
}

fn create(spec: Value) -> Step {
    let container = json!({"name": "main", "image": "web:1"});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec});
    let spec = job["spec"]
        .as_object_mut()
        .expect("made as an object above");
    spec.entry("template").or_insert(template);
    Step::Create(job)
}

fn spec(changes: Value) -> Step {
    patch("jobs", "web", json!({ "spec": changes }))
}

fn web(state: &State) -> Value {
    state
        .get("jobs", "default/web")
        .cloned()
        .unwrap_or_default()
}

/// Waits until this many pods are active and the status says so.
fn running(pods: u64) -> Step {
    Step::until("running", move |state| {
        let active = state.all("pods").filter(|pod| is_active(pod)).count() as u64;
        active == pods && web(state)["status"]["active"].as_u64().unwrap_or(0) == pods
    })
}

/// Waits until the status has these numbers of succeeded and failed pods.
fn counted(succeeded: u64, failed: u64) -> Step {
    Step::until("counted", move |state| {
        let status = &web(state)["status"];
        let number = |field: &str| status[field].as_u64().unwrap_or(0);
        number("succeeded") == succeeded && number("failed") == failed
    })
}

fn finished(kind: &'static str) -> Step {
    Step::until("finished", move |state| {
        has_condition(&web(state), kind, "True", "")
    })
}

fn end(state: &State, phase: &str, is_chosen: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let index = |pod: &Value| {
        let annotations = &pod["metadata"]["annotations"];
        let index = annotations["batch.kubernetes.io/job-completion-index"].as_str();
        index.unwrap_or_default().to_owned()
    };
    let chosen = state
        .all("pods")
        .filter(|pod| is_active(pod) && is_chosen(&index(pod)));
    let status = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/status", path("pods", name));
        (path, json!({"status": {"phase": phase}}))
    };
    chosen.map(status).collect()
}

/// All active pods succeed.
const SUCCEED: Step = Step::PatchChosen(|state| end(state, "Succeeded", |_| true));
/// All active pods fail.
const FAIL: Step = Step::PatchChosen(|state| end(state, "Failed", |_| true));

fn complete() -> Vec<Step> {
    vec![
        create(json!({"parallelism": 2, "completions": 4})),
        running(2),
        SUCCEED,
        counted(2, 0),
        running(2),
        SUCCEED,
        counted(4, 0),
        finished("Complete"),
    ]
}

/// The first failure is replaced after its back-off, the second one is one too many.
fn failed() -> Vec<Step> {
    vec![
        create(json!({"backoffLimit": 1})),
        running(1),
        FAIL,
        counted(0, 1),
        running(1),
        FAIL,
        counted(0, 2),
        finished("Failed"),
    ]
}

fn indexed() -> Vec<Step> {
    vec![
        create(json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3})),
        running(3),
        Step::PatchChosen(|state| end(state, "Succeeded", |index| index == "1")),
        counted(1, 0),
        Step::PatchChosen(|state| end(state, "Failed", |index| index == "0")),
        counted(1, 1),
        running(2),
        SUCCEED,
        counted(3, 1),
        finished("Complete"),
    ]
}

/// Index 0 fails twice, which is once too often; index 1 succeeds.
fn index_limit() -> Vec<Step> {
    const FIRST: Step = Step::PatchChosen(|state| end(state, "Failed", |index| index == "0"));
    vec![
        create(json!({
            "completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1,
        })),
        running(2),
        FIRST,
        counted(0, 1),
        running(2),
        FIRST,
        counted(0, 2),
        SUCCEED,
        counted(1, 2),
        finished("Failed"),
    ]
}

/// With the other replacement policy, a new leader counts the deleted pods as failed while they
/// terminate, as upstream does. The final state would depend on the fault.
fn success_policy() -> Vec<Step> {
    vec![
        create(json!({
            "completionMode": "Indexed", "parallelism": 3, "completions": 3, "podReplacementPolicy": "Failed",
            "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
        })),
        running(3),
        Step::PatchChosen(|state| end(state, "Succeeded", |index| index == "1")),
        finished("Complete"),
    ]
}

fn suspend() -> Vec<Step> {
    vec![
        create(json!({"parallelism": 2, "completions": 2, "suspend": true})),
        Step::until("suspended", |state| {
            has_condition(&web(state), "Suspended", "True", "")
        }),
        spec(json!({"suspend": false})),
        running(2),
        spec(json!({"suspend": true})),
        running(0),
        spec(json!({"suspend": false})),
        running(2),
        SUCCEED,
        finished("Complete"),
    ]
}

fn scale() -> Vec<Step> {
    vec![
        create(json!({"parallelism": 1, "completions": 6})),
        running(1),
        spec(json!({"parallelism": 4})),
        running(4),
        spec(json!({"parallelism": 2})),
        running(2),
        SUCCEED,
        counted(2, 0),
        running(2),
        SUCCEED,
        counted(4, 0),
        running(2),
        SUCCEED,
        finished("Complete"),
    ]
}

/// The Job adopts a pod that ran before, and counts its end.
fn adopt() -> Vec<Step> {
    let container = json!({"name": "main", "image": "web:1"});
    let pod_spec = json!({"restartPolicy": "Never", "containers": [container]});
    let labels = json!({"app": "web"});
    vec![
        Step::Create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "early", "labels": labels}, "spec": pod_spec,
        })),
        create(json!({
            "parallelism": 2, "completions": 2, "manualSelector": true,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
        })),
        running(2),
        SUCCEED,
        counted(2, 0),
        finished("Complete"),
    ]
}

/// The user deletes a Job. The garbage collector deletes its pods, which lose the finalizer.
fn deleted() -> Vec<Step> {
    vec![
        create(json!({"parallelism": 2, "completions": 2})),
        running(2),
        delete("jobs", "web", json!({"propagationPolicy": "Background"})),
        is_gone("jobs", "default/web"),
        Step::until("pods gone", |state| count(state, "pods") == 0),
    ]
}
