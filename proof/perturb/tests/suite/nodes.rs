//! Scenarios of the node lifecycle controller, together with taint eviction: kubelets that fall
//! silent and return, lost zones, and lost clusters.
//!
//! A simulated kubelet without a Lease is silent. So the user stops it by the deletion of the
//! Lease, and starts it by a new Lease and a status.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{nodelifecycle, tainteviction};
use steersman_perturb::rules::{DISRUPTION, READY_NODE, TAINT_RATE, TOLERATED};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, count, pod_on, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "nodelifecycle",
    controllers: &[nodelifecycle::DESCRIPTOR, tainteviction::DESCRIPTOR],
    nodes: 3,
    rules: &[TOLERATED, TAINT_RATE, DISRUPTION, READY_NODE],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "lost",
            steps: lost,
            ..BASE
        },
        Scenario {
            name: "returns",
            steps: returns,
            ..BASE
        },
        Scenario {
            name: "zone-lost",
            nodes: 5,
            steps: zone_lost,
            ..BASE
        },
        Scenario {
            name: "zone-mostly-lost",
            nodes: 5,
            steps: zone_mostly_lost,
            ..BASE
        },
        Scenario {
            name: "all-lost",
            nodes: 2,
            steps: all_lost,
            ..BASE
        },
        Scenario {
            name: "reports-not-ready",
            steps: reports_not_ready,
            ..BASE
        },
        Scenario {
            name: "cordoned",
            steps: cordoned,
            ..BASE
        },
    ]
}

pub(crate) fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn lease_path(name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
}

/// Stops the kubelet of a node.
fn kill(node: &str) -> Step {
    Step::Delete(lease_path(node), json!({}))
}

/// Starts the kubelet of a node: a Lease, and a status with another heartbeat.
fn start(node: &str) -> Vec<Step> {
    let lease = Step::Create(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": node, "renewTime": "2023-11-14T22:13:20.000000Z"},
    }));
    vec![lease, post(node, "True")]
}

/// Posts the status of a node.
fn post(node: &str, ready: &str) -> Step {
    let time = "2023-11-14T22:30:00Z";
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time});
    let conditions = json!([
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", ready),
    ]);
    let status = json!({"status": {"conditions": conditions}});
    Step::Patch(node_path(node) + "/status", status)
}

/// A pod on a node, with these tolerations besides the defaults.
pub(crate) fn pod(name: &str, node: &str, tolerations: Value) -> Step {
    let mut pod = pod_on(name, node);
    pod["spec"]["tolerations"] = tolerations;
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    Step::Create(pod)
}

pub(crate) fn forever() -> Value {
    json!([{"operator": "Exists"}])
}

/// A toleration of every NoExecute taint for this time.
pub(crate) fn seconds(seconds: i64) -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

/// Keys and effects of the taints of a node, sorted.
fn taints(state: &State, node: &str) -> Vec<String> {
    let node = state.get("nodes", node);
    let taints = node.and_then(|node| node["spec"]["taints"].as_array());
    let text = |taint: &Value| {
        let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let key = text("key");
        format!(
            "{}:{}",
            key.trim_start_matches("node.kubernetes.io/"),
            text("effect")
        )
    };
    let mut taints: Vec<String> = taints.into_iter().flatten().map(text).collect();
    taints.sort();
    taints
}

fn until_tainted(node: &'static str, expected: &'static [&'static str]) -> Step {
    Step::until("the node has its taints", move |state| {
        taints(state, node) == expected
    })
}

const UNREACHABLE: &[&str] = &["unreachable:NoExecute", "unreachable:NoSchedule"];
const NOT_READY: &[&str] = &["not-ready:NoExecute", "not-ready:NoSchedule"];

pub(crate) fn left(pods: usize) -> Step {
    Step::until("the other pods are gone", move |state| {
        count(state, "pods") == pods
    })
}

/// Waits until all pods run, so that later steps see ready pods.
pub(crate) fn until_ready(pods: usize) -> Step {
    Step::until("the pods are ready", move |state| {
        let ready = state
            .all("pods")
            .filter(|pod| steersman_perturb::rules::is_ready(pod));
        ready.count() == pods
    })
}

pub(crate) fn concat(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

/// A silent node loses the pods that tolerate its taint for a limited time.
fn lost() -> Vec<Step> {
    vec![
        pod("default", "node-0", json!([])),
        pod("forever", "node-0", forever()),
        pod("other", "node-1", json!([])),
        until_ready(3),
        kill("node-0"),
        until_tainted("node-0", UNREACHABLE),
        left(2),
    ]
}

/// A node is back before its pods are evicted.
fn returns() -> Vec<Step> {
    concat([
        vec![
            pod("a", "node-0", json!([])),
            pod("b", "node-0", seconds(600)),
            until_ready(2),
            kill("node-0"),
            until_tainted("node-0", UNREACHABLE),
            until_caches_are_current(),
        ],
        start("node-0"),
        vec![
            until_tainted("node-0", &[]),
            Step::Sleep(Duration::from_secs(700)),
            left(2),
        ],
    ])
}

/// A zone of three nodes is lost; its nodes are tainted at the rate of 0.1/s.
fn zone_lost() -> Vec<Step> {
    let zone = |node: &str, zone: &str| {
        let labels = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        Step::Patch(node_path(node), labels)
    };
    vec![
        zone("node-0", "a"),
        zone("node-1", "a"),
        zone("node-2", "a"),
        zone("node-3", "b"),
        zone("node-4", "b"),
        pod("p", "node-2", json!([])),
        until_ready(1),
        until_caches_are_current(),
        kill("node-0"),
        kill("node-1"),
        kill("node-2"),
        until_tainted("node-0", UNREACHABLE),
        until_tainted("node-1", UNREACHABLE),
        until_tainted("node-2", UNREACHABLE),
        left(0),
    ]
}

/// Three of the five nodes of a small zone are lost. Its rate is zero.
fn zone_mostly_lost() -> Vec<Step> {
    let lost = ["node-0", "node-1", "node-2"];
    let has_no_schedule = |state: &State, node: &str| {
        let taints = taints(state, node);
        taints.iter().any(|taint| taint == UNREACHABLE[1])
    };
    // A process that begins between two writes of statuses knows of one lost node at first, so that
    // node may get its taint. Its pod stays anyway.
    concat([
        vec![
            pod("a", "node-0", forever()),
            pod("b", "node-3", json!([])),
            until_ready(2),
            until_caches_are_current(),
        ],
        lost.map(kill).to_vec(),
        vec![
            Step::until("the lost nodes get no new pods", move |state| {
                lost.iter().all(|node| has_no_schedule(state, node))
            }),
            Step::Sleep(Duration::from_secs(400)),
            left(2),
        ],
    ])
}

/// All nodes are lost, so no pod is evicted. Kubelets renew their Leases at different times, so the
/// nodes become `Unknown` some seconds apart. The first one has a NoExecute taint until the second
/// one is lost, and its pod tolerates that.
fn all_lost() -> Vec<Step> {
    vec![
        pod("a", "node-0", seconds(60)),
        pod("b", "node-1", seconds(60)),
        until_ready(2),
        until_caches_are_current(),
        kill("node-0"),
        kill("node-1"),
        until_tainted("node-0", &["unreachable:NoSchedule"]),
        until_tainted("node-1", &["unreachable:NoSchedule"]),
        Step::Sleep(Duration::from_secs(600)),
        left(2),
    ]
}

/// The kubelet reports that its node is not ready, and falls silent later.
fn reports_not_ready() -> Vec<Step> {
    vec![
        pod("a", "node-0", seconds(120)),
        pod("forever", "node-0", forever()),
        until_ready(2),
        // Otherwise the simulated kubelet posts that it is ready.
        Step::Patch(
            node_path("node-0"),
            json!({"metadata": {"annotations": {"simulate.steersman.dev/behaviour": "no-status"}}}),
        ),
        until_caches_are_current(),
        post("node-0", "False"),
        until_tainted("node-0", NOT_READY),
        kill("node-0"),
        until_tainted("node-0", UNREACHABLE),
        left(1),
    ]
}

/// Conditions and `kubectl cordon` become NoSchedule taints, which evict no pod.
fn cordoned() -> Vec<Step> {
    let cordon = |is_cordoned: bool| {
        Step::Patch(
            node_path("node-0"),
            json!({"spec": {"unschedulable": is_cordoned}}),
        )
    };
    vec![
        pod("p", "node-0", json!([])),
        until_ready(1),
        cordon(true),
        until_tainted("node-0", &["unschedulable:NoSchedule"]),
        cordon(false),
        until_tainted("node-0", &[]),
        left(1),
    ]
}
