//! A world: a small cluster, the steps of a user, and the acts of the cluster's other parts.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_perturb::rules::is_terminating;
use steersman_perturb::{Scenario, State};

/// A small cluster to explore.
pub struct World {
    /// Controllers, objects, user steps and rules. Its simulated nodes are not used.
    pub scenario: Scenario,
    /// Acts of kubelets and other parts that are possible in a state.
    pub acts: fn(&State) -> Vec<Act>,
    /// Requests of living kubelets every five seconds while time passes; they get the time.
    pub pulse: fn(&State, Timestamp) -> Vec<Call>,
    /// Longest time that passes at once, in seconds.
    pub longest_wait: u64,
    /// Resources of which a new leader's cache may be old.
    pub lags: &'static [&'static str],
    /// Most crashes, hand-overs and lost answers on one way.
    pub faults: usize,
    /// Whether the events of a write may come before its answer.
    pub late_answers: bool,
    /// Whether nodes are alike, so that their names are folded.
    pub folds_nodes: bool,
    /// Whether all ways end in the same objects.
    pub same_end: bool,
}

/// A request of a part of the cluster outside the manager.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method.
    pub method: Method,
    /// Path.
    pub path: String,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Body.
    pub body: Value,
}

/// One act: its name, and its requests.
#[derive(Debug, Clone)]
pub struct Act {
    /// Verb and object, such as `start default/web`.
    pub name: String,
    /// Its requests, in order.
    pub calls: Vec<Call>,
}

impl Call {
    /// A merge patch.
    pub fn patch(path: impl Into<String>, body: Value) -> Self {
        Self {
            method: Method::PATCH,
            path: path.into(),
            content_type: "application/merge-patch+json",
            body,
        }
    }

    /// A POST.
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            content_type: "application/json",
            body,
        }
    }

    /// A DELETE with these options.
    pub fn delete(path: impl Into<String>, body: Value) -> Self {
        Self {
            method: Method::DELETE,
            path: path.into(),
            content_type: "application/json",
            body,
        }
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The path of a pod.
pub fn path_of_pod(pod: &Value) -> String {
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        text(pod, "namespace"),
        text(pod, "name")
    )
}

/// An address that belongs to one pod.
fn address_of(pod: &Value) -> String {
    let uid = text(pod, "uid").bytes();
    let [a, b] = uid
        .fold(7_u16, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        })
        .to_be_bytes();
    format!("10.1.{a}.{b}")
}

/// The status of a pod that runs, and its readiness.
pub fn running(pod: &Value, is_ready: bool) -> Value {
    let ip = address_of(pod);
    let condition = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" },
                           "lastTransitionTime": "2023-11-14T22:13:20Z"});
    json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}})
}

/// The acts of kubelets and the scheduler: they start pods that nothing has started, and remove
/// pods with a deletion timestamp.
pub fn kubelets(state: &State) -> Vec<Act> {
    let mut acts = Vec::new();
    for pod in state.all("pods") {
        let path = path_of_pod(pod);
        let name = steersman_perturb::key_of(pod);
        let phase = pod["status"]["phase"].as_str();
        let act = |verb: &str, calls| Act {
            name: format!("{verb} {name}"),
            calls,
        };
        if is_terminating(pod) {
            // The finalizer of a Job's pod outlives the containers.
            if pod["metadata"]["deletionGracePeriodSeconds"] != 0 {
                let options = json!({"gracePeriodSeconds": 0});
                acts.push(act("remove", vec![Call::delete(&path, options)]));
            }
            continue;
        }
        if matches!(phase, None | Some("Pending")) {
            let mut calls = Vec::new();
            if pod["spec"]["nodeName"].is_null() {
                calls.push(binding(pod, &path));
            }
            calls.push(Call::patch(path.clone() + "/status", running(pod, true)));
            acts.push(act("start", calls));
        }
    }
    acts
}

/// Binds a pod to the node of its affinity, or to the first node.
fn binding(pod: &Value, path: &str) -> Call {
    let wanted = pod.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
    );
    let node = wanted.and_then(Value::as_str).unwrap_or("node-a");
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": text(pod, "name")}, "target": target});
    Call::post(format!("{path}/binding"), binding)
}
