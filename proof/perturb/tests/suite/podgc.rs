//! Scenarios of podgc: pods without a node, finished pods above the threshold, pods on nodes out of
//! service, and unscheduled pods in deletion.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::podgc;
use steersman_controllers::replicaset;
use steersman_perturb::rules;
use steersman_perturb::{AllowedError, Scenario, Step};
use steersman_runtime::controller::ControllerContext;

use crate::objects::{
    BLANK, count, delete, is_gone, patch, path, pod_on, template, until_caches_are_current,
};

const BASE: Scenario = Scenario {
    controller: "podgc",
    controllers: &[podgc::DESCRIPTOR],
    configure: with_threshold,
    rules: &[rules::LIVE_NODE],
    ..BLANK
};

/// The user removes the last finalizer of the pod. If podgc misses that event, it deletes the pod
/// again and logs this error, as upstream does. An event is at most 40 s late, and podgc runs every
/// 20 s.
const REMOVED_BY_USER: AllowedError =
    AllowedError::of(Category::NotFound, 3).from(podgc::DESCRIPTOR.name);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "orphaned",
            steps: orphaned,
            ..BASE
        },
        Scenario {
            name: "node-lost",
            steps: node_lost,
            ..BASE
        },
        Scenario {
            name: "replaced",
            controllers: &[podgc::DESCRIPTOR, replicaset::DESCRIPTOR],
            nodes: 1,
            rules: &[rules::LIVE_NODE, rules::NO_SURPLUS, rules::NO_SHORTAGE],
            steps: replaced,
            ..BASE
        },
        Scenario {
            name: "node-returns",
            steps: node_returns,
            ..BASE
        },
        Scenario {
            name: "terminated",
            nodes: 2,
            steps: terminated,
            ..BASE
        },
        Scenario {
            name: "out-of-service",
            steps: out_of_service,
            ..BASE
        },
        Scenario {
            name: "unscheduled",
            steps: unscheduled,
            errors: &[REMOVED_BY_USER],
            ..BASE
        },
        Scenario {
            name: "held",
            steps: held,
            errors: &[REMOVED_BY_USER],
            ..BASE
        },
    ]
}

fn with_threshold(context: ControllerContext) -> ControllerContext {
    context.with_flag("terminated-pod-gc-threshold", "3")
}

fn node(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
}

fn pods_on(node: &str, names: &[&str]) -> Vec<Step> {
    names
        .iter()
        .map(|name| Step::Create(pod_on(name, node)))
        .collect()
}

fn concat(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

fn left(pods: usize) -> Step {
    Step::until("only the other pods left", move |state| {
        count(state, "pods") == pods
    })
}

/// Pods on a node that never existed are deleted; pods on an existing node stay.
fn orphaned() -> Vec<Step> {
    concat([
        vec![node("here")],
        pods_on("here", &["a", "b"]),
        pods_on("nowhere", &["c", "d", "e"]),
        vec![left(2)],
    ])
}

/// A node is deleted while its pods run; only these pods are deleted.
fn node_lost() -> Vec<Step> {
    let lost = Step::Delete("/api/v1/nodes/one".to_owned(), json!({}));
    let wait = Step::Sleep(Duration::from_secs(30));
    let begin = vec![node("one"), node("two")];
    concat([
        begin,
        pods_on("one", &["a", "b", "c"]),
        pods_on("two", &["d"]),
        vec![wait, lost, left(1)],
    ])
}

/// A node disappears with two of the three pods of a ReplicaSet, which then creates two others.
fn replaced() -> Vec<Step> {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    });
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let run = ["a", "b"].map(|name| Step::Patch(path("pods", name) + "/status", ready.clone()));
    let three_run = |name| {
        Step::until(name, |state| {
            let ready = state
                .get("replicasets", "default/web")
                .map(|web| web["status"]["readyReplicas"].clone());
            ready.is_some_and(|ready| ready == 3)
                && state.all("pods").filter(|pod| rules::is_ready(pod)).count() == 3
        })
    };
    let lost = Step::Delete("/api/v1/nodes/one".to_owned(), json!({}));
    let removed = Step::until("lost pods removed", |state| {
        ["default/a", "default/b"]
            .iter()
            .all(|key| state.get("pods", key).is_none())
    });
    let begin = [
        vec![node("one")],
        pods_on("one", &["a", "b"]),
        run.to_vec(),
        vec![Step::Create(web), three_run("running")],
    ];
    concat(begin.into_iter().chain([vec![
        until_caches_are_current(),
        lost,
        removed,
        three_run("replaced"),
    ]]))
}

/// A node appears within the quarantine of 40 s, so its pods stay. Later podgc deletes the pod of
/// an unknown node.
fn node_returns() -> Vec<Step> {
    let soon = Step::Sleep(Duration::from_secs(15));
    let later = Step::Sleep(Duration::from_secs(120));
    concat([
        pods_on("late", &["a", "b"]),
        vec![soon, node("late"), later],
        pods_on("nowhere", &["c"]),
        vec![left(2)],
    ])
}

/// Six pods finish, and the threshold keeps three.
fn terminated() -> Vec<Step> {
    let complete = |name: &str| {
        let mut pod = pod_on(name, "node-0");
        pod["metadata"]["annotations"] = json!({"simulate.steersman.dev/behaviour": "complete"});
        Step::Create(pod)
    };
    // podgc deletes the oldest pods first. Creation timestamps are in seconds, so pods need a
    // distance of more than one.
    let pods = ["a", "b", "c", "d", "e", "f"]
        .map(|name| vec![complete(name), Step::Sleep(Duration::from_secs(2))]);
    concat(pods.into_iter().chain([vec![left(3)]]))
}

/// A node is unready and has the taint out-of-service: its two terminating pods are removed, and
/// the third pod stays.
fn out_of_service() -> Vec<Step> {
    let condition = json!([{"type": "Ready", "status": "False"}]);
    let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    let fail = Step::Patch(
        "/api/v1/nodes/bad/status".to_owned(),
        json!({"status": {"conditions": condition}}),
    );
    let mark = Step::Patch(
        "/api/v1/nodes/bad".to_owned(),
        json!({"spec": {"taints": taint}}),
    );
    let deletions = ["a", "b"].map(|name| delete("pods", name, json!({"gracePeriodSeconds": 30})));
    concat([
        vec![node("bad")],
        pods_on("bad", &["a", "b", "c"]),
        deletions.to_vec(),
        vec![fail, mark, left(1)],
    ])
}

fn hold(mut pod: Value) -> Step {
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    Step::Create(pod)
}

/// A pod without a node is deleted, and a finalizer holds it until the user removes the finalizer.
fn unscheduled() -> Vec<Step> {
    let mut pod = pod_on("a", "");
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
    let release = patch("pods", "a", json!({"metadata": {"finalizers": null}}));
    vec![
        hold(pod),
        delete("pods", "a", json!({})),
        Step::Sleep(Duration::from_secs(60)),
        release,
        is_gone("pods", "default/a"),
    ]
}

/// A finalizer holds an orphaned pod after podgc has failed and deleted it.
fn held() -> Vec<Step> {
    let failed = Step::until("failed and terminating", |state| {
        let pod = state.get("pods", "default/a");
        pod.is_some_and(|pod| {
            pod["status"]["phase"] == "Failed" && !pod["metadata"]["deletionTimestamp"].is_null()
        })
    });
    let release = patch("pods", "a", json!({"metadata": {"finalizers": null}}));
    vec![
        hold(pod_on("a", "nowhere")),
        Step::Create(pod_on("b", "nowhere")),
        failed,
        release,
        left(0),
    ]
}
