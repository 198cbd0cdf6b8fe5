//! Scenarios of the taint eviction controller: taints of users, and pods that tolerate them for some
//! time, for ever, or not at all.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::tainteviction;
use steersman_perturb::rules::TOLERATED;
use steersman_perturb::{Scenario, State, Step};

use crate::nodes::{forever, left, node_path, pod, seconds, until_ready};
use crate::objects::{BLANK, is_gone, patch, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "tainteviction",
    controllers: &[tainteviction::DESCRIPTOR],
    nodes: 2,
    rules: &[TOLERATED],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "tainted-by-user",
            steps: tainted_by_user,
            ..BASE
        },
        Scenario {
            name: "taint-removed",
            steps: taint_removed,
            ..BASE
        },
        Scenario {
            name: "second-taint",
            steps: second_taint,
            ..BASE
        },
        Scenario {
            name: "bound-later",
            steps: bound_later,
            ..BASE
        },
        Scenario {
            name: "tolerates-later",
            steps: tolerates_later,
            ..BASE
        },
        Scenario {
            name: "namesake",
            steps: namesake,
            ..BASE
        },
        Scenario {
            name: "held",
            steps: held,
            ..BASE
        },
    ]
}

fn taint(node: &str, taints: Value) -> Step {
    Step::Patch(node_path(node), json!({"spec": {"taints": taints}}))
}

/// The taint of a user evicts pods at once, after their time, or never.
fn tainted_by_user() -> Vec<Step> {
    vec![
        pod("at-once", "node-0", json!([])),
        pod("later", "node-0", seconds(60)),
        pod("never", "node-0", forever()),
        pod("elsewhere", "node-1", json!([])),
        until_ready(4),
        taint(
            "node-0",
            json!([{"key": "k", "value": "v", "effect": "NoExecute"}]),
        ),
        left(2),
    ]
}

/// A taint that is removed in time evicts no pod; the next one does.
fn taint_removed() -> Vec<Step> {
    let tainted = || taint("node-0", json!([{"key": "k", "effect": "NoExecute"}]));
    vec![
        pod("p", "node-0", seconds(300)),
        until_ready(1),
        tainted(),
        until_caches_are_current(),
        taint("node-0", json!(null)),
        Step::Sleep(Duration::from_secs(600)),
        left(1),
        tainted(),
        left(0),
    ]
}

/// A pod waits for the end of its toleration, until another taint comes that it does not tolerate.
fn second_taint() -> Vec<Step> {
    let key = |key: &str| json!({"key": key, "effect": "NoExecute"});
    let tolerates = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    vec![
        pod("first", "node-0", json!([tolerates("a", json!(3600))])),
        pod(
            "both",
            "node-0",
            json!([tolerates("a", json!(null)), tolerates("b", json!(null))]),
        ),
        until_ready(2),
        taint("node-0", json!([key("a")])),
        until_caches_are_current(),
        left(2),
        taint("node-0", json!([key("a"), key("b")])),
        left(1),
    ]
}

/// Pods that are bound to a node with a taint.
fn bound_later() -> Vec<Step> {
    vec![
        taint("node-0", json!([{"key": "k", "effect": "NoExecute"}])),
        until_caches_are_current(),
        pod("never", "node-0", forever()),
        pod("later", "node-0", seconds(30)),
        pod("at-once", "node-0", json!([])),
        is_gone("pods", "default/at-once"),
        is_gone("pods", "default/later"),
        Step::Sleep(Duration::from_secs(120)),
        left(1),
    ]
}

/// The user extends the toleration of a pod that waits for its end.
fn tolerates_later() -> Vec<Step> {
    vec![
        pod("p", "node-0", seconds(300)),
        pod("other", "node-0", seconds(300)),
        until_ready(2),
        taint("node-0", json!([{"key": "k", "effect": "NoExecute"}])),
        until_caches_are_current(),
        patch(
            "pods",
            "p",
            json!({"spec": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}}),
        ),
        is_gone("pods", "default/other"),
        Step::Sleep(Duration::from_secs(600)),
        left(1),
    ]
}

/// After the eviction of a pod, another one gets its name. It tolerates the taint.
fn namesake() -> Vec<Step> {
    vec![
        pod("p", "node-0", json!([])),
        until_ready(1),
        taint("node-0", json!([{"key": "k", "effect": "NoExecute"}])),
        left(0),
        pod("p", "node-0", forever()),
        until_ready(1),
        Step::Sleep(Duration::from_secs(120)),
        left(1),
    ]
}

/// A finalizer holds an evicted pod. The controller evicts it once.
fn held() -> Vec<Step> {
    let held = |mut step: Step| {
        if let Step::Create(pod) = &mut step {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        step
    };
    let is_terminating = |state: &State| {
        let pod = state.get("pods", "default/p");
        pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    };
    vec![
        held(pod("p", "node-0", json!([]))),
        until_ready(1),
        taint("node-0", json!([{"key": "k", "effect": "NoExecute"}])),
        Step::until("the pod terminates", is_terminating),
        Step::Sleep(Duration::from_secs(120)),
        patch("pods", "p", json!({"metadata": {"finalizers": null}})),
        left(0),
    ]
}
