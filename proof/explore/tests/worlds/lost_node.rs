//! One of two nodes falls silent and returns.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_controllers::{nodelifecycle, tainteviction};
use steersman_explore::{Act, Call, World, kubelets};
use steersman_perturb::{FinalRule, Scenario, State, Step, rules};

use crate::{BLANK, blank};

/// The annotation of a node whose kubelet is silent.
const SILENT: &str = "silent";
const NODES: [&str; 2] = ["node-a", "node-b"];

fn conditions(ready: &str, time: &str) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time});
    json!([
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", ready),
    ])
}

const BEGIN: &str = "2023-11-14T22:13:20Z";

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {}},
        "spec": {}, "status": {"conditions": conditions("True", BEGIN)},
    })
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "uid": format!("lease-of-{name}")},
        "spec": {"holderIdentity": name, "renewTime": "2023-11-14T22:13:20.000000Z"},
    })
}

/// A pod that tolerates every NoExecute taint for five seconds.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            "containers": [{"name": "main", "image": "web:1"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn is_silent(node: &Value) -> bool {
    node["metadata"]["annotations"][SILENT] == "yes"
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_ready))
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Living kubelets report a node that the manager took for lost.
fn acts(state: &State) -> Vec<Act> {
    let mut acts = kubelets(state);
    for node in state
        .all("nodes")
        .filter(|node| !is_silent(node) && !is_ready(node))
    {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let status = json!({"status": {"conditions": conditions("True", "2023-11-14T22:30:00Z")}});
        acts.push(Act {
            name: format!("report {name}"),
            calls: vec![Call::patch(node_path(name) + "/status", status)],
        });
    }
    acts
}

/// Living kubelets renew their Leases.
fn pulse(state: &State, now: Timestamp) -> Vec<Call> {
    let living = NODES.iter().filter(|name| {
        state
            .get("nodes", name)
            .is_some_and(|node| !is_silent(node))
    });
    let renewal = |name: &&str| {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        Call::patch(path, json!({"spec": {"renewTime": format!("{now:.6}")}}))
    };
    living.map(renewal).collect()
}

/// In the end the node is ready and has no taints, and the pods of the other node are there.
const RECOVERED: FinalRule = FinalRule {
    name: "the node has recovered",
    check: recovered,
};

fn recovered(state: &State) -> Result<(), String> {
    for node in state.all("nodes") {
        let has_taints = node["spec"]["taints"]
            .as_array()
            .is_some_and(|taints| !taints.is_empty());
        if !is_ready(node) || has_taints {
            return Err(format!(
                "{}: {} {}",
                node["metadata"]["name"], node["spec"], node["status"]
            ));
        }
    }
    match state.get("pods", "default/stays") {
        Some(_) => Ok(()),
        None => Err("a pod of the living node is gone".to_owned()),
    }
}

pub(super) fn lost_node() -> World {
    let scenario = Scenario {
        controller: "nodelifecycle",
        name: "returns",
        controllers: &[nodelifecycle::DESCRIPTOR, tainteviction::DESCRIPTOR],
        before: || {
            let nodes = NODES.iter().flat_map(|name| [node(name), lease(name)]);
            nodes
                .chain([pod("stays", "node-a"), pod("leaves", "node-b")])
                .collect()
        },
        steps: || {
            let silent = |is_silent: &str| {
                let annotations = json!({"metadata": {"annotations": {SILENT: is_silent}}});
                Step::Patch(node_path("node-b"), annotations)
            };
            vec![silent("yes"), silent("no")]
        },
        rules: &[
            rules::TOLERATED,
            rules::TAINT_RATE,
            rules::DISRUPTION,
            rules::READY_NODE,
        ],
        final_rules: &[RECOVERED],
        ..BLANK
    };
    World {
        acts,
        pulse,
        longest_wait: 70,
        lags: &["nodes", "pods"],
        same_end: false,
        ..blank(scenario)
    }
}
