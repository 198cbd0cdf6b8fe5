//! Bodies of the status patches that the simulated kubelet sends.
//!
//! Field by field they equal those of upstream's kubelet (`pkg/kubelet/kubelet_pods.go` and
//! `pkg/kubelet/status`), because controllers read conditions, reasons and times.

use std::sync::atomic::{AtomicU32, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_runtime::object::Object;

use super::pod::{Container, Reported, SimPod};
use super::stages::{Health, Stage};

/// Assigns pod addresses from 10.244.0.0/16. Addresses repeat after 65,000 pods.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    next: AtomicU32,
}

impl Addresses {
    fn next(&self) -> String {
        let n = self.next.fetch_add(1, Ordering::Relaxed) % 65_000 + 1;
        format!("10.244.{}.{}", n / 256, n % 256)
    }
}

/// Body of a strategic merge patch of `pods/<name>/status` that reports `health`. The reason and
/// message of `stage` replace the default ones.
pub(super) fn report(
    pod: &SimPod,
    health: Health,
    stage: &Stage,
    addresses: &Addresses,
    now: Timestamp,
) -> Value {
    let meta = pod.meta();
    let started = health != Health::Creating;
    let mut status = Map::new();
    status.insert("observedGeneration".into(), meta.generation.into());
    status.insert("phase".into(), phase(health).into());
    status.insert("conditions".into(), conditions(pod, health, now));
    let containers: Vec<Value> = pod
        .containers
        .iter()
        .map(|c| container(c, health, pod.reported_of(&c.name), stage, now))
        .collect();
    status.insert("containerStatuses".into(), containers.into());
    if !pod.init_containers.is_empty() {
        let outcome = if started {
            Health::Succeeded
        } else {
            Health::Creating
        };
        let containers: Vec<Value> = pod
            .init_containers
            .iter()
            .map(|c| container(c, outcome, None, stage, now))
            .collect();
        status.insert("initContainerStatuses".into(), containers.into());
    }
    if matches!(health, Health::Creating | Health::Unready) {
        status.insert("startTime".into(), json!(now));
        if let Some(node) = &pod.pod.node {
            status.insert("hostIP".into(), host_address(node).into());
            status.insert("hostIPs".into(), json!([{ "ip": host_address(node) }]));
        }
    }
    if health == Health::Unready && pod.address.is_none() {
        let address = addresses.next();
        status.insert("podIPs".into(), json!([{ "ip": address }]));
        status.insert("podIP".into(), address.into());
    }
    // The UID makes the patch fail for a new pod of the same name.
    json!({ "metadata": { "uid": meta.uid.to_string() }, "status": status })
}

/// Body that reports all ephemeral containers as running. They have no probes, so they never become
/// ready.
pub(super) fn ephemeral(pod: &SimPod, stage: &Stage, now: Timestamp) -> Value {
    let containers = pod.ephemeral_containers.iter();
    let containers: Vec<Value> = containers
        .map(|c| container(c, Health::Unready, pod.reported_of(&c.name), stage, now))
        .collect();
    json!({ "metadata": { "uid": pod.meta().uid.to_string() }, "status": { "ephemeralContainerStatuses": containers } })
}

fn phase(health: Health) -> &'static str {
    match health {
        Health::Creating => "Pending",
        Health::Unready | Health::Ready | Health::CrashLooping => "Running",
        Health::Failed => "Failed",
        Health::Succeeded => "Succeeded",
    }
}

/// The conditions that change with `health`. The patch merges them by type, so all others stay.
fn conditions(pod: &SimPod, health: Health, now: Timestamp) -> Value {
    let not_ready = match health {
        Health::Succeeded => "PodCompleted",
        Health::Failed => "PodFailed",
        _ => "ContainersNotReady",
    };
    let names: Vec<&str> = pod.containers.iter().map(|c| c.name.as_str()).collect();
    let condition = |kind: &str, is_true: bool| {
        let mut fields = json!({
            "type": kind, "status": if is_true { "True" } else { "False" }, "lastTransitionTime": now, "lastProbeTime": null,
            "observedGeneration": pod.meta().generation
        });
        if !is_true {
            fields["reason"] = not_ready.into();
            if not_ready == "ContainersNotReady" {
                fields["message"] =
                    format!("containers with unready status: [{}]", names.join(" ")).into();
            }
        }
        fields
    };
    let ready = health == Health::Ready;
    if health == Health::Ready || health == Health::CrashLooping {
        // The other conditions were reported when the containers started. A second report would
        // move their transition times.
        return json!([
            condition("Ready", ready),
            condition("ContainersReady", ready)
        ]);
    }
    json!([
        condition("PodReadyToStartContainers", health != Health::Creating),
        condition("Initialized", health != Health::Creating),
        condition("Ready", ready),
        condition("ContainersReady", ready)
    ])
}

/// The status of a container. It keeps the start time and the restarts of the `before` status.
fn container(
    container: &Container,
    health: Health,
    before: Option<&Reported>,
    stage: &Stage,
    now: Timestamp,
) -> Value {
    let id = format!("simulated://{}", container.name);
    let or_default = |own: &Option<String>, usual: String| own.clone().unwrap_or(usual);
    let ended = |code: i32, reason: String| json!({ "terminated": { "exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now, "containerID": id } });
    let failed = || ended(1, or_default(&stage.reason, "Error".to_owned()));
    let state = match health {
        Health::Creating => {
            let mut waiting =
                json!({ "reason": or_default(&stage.reason, "ContainerCreating".to_owned()) });
            if let Some(message) = &stage.message {
                waiting["message"] = message.as_str().into();
            }
            json!({ "waiting": waiting })
        }
        Health::Unready | Health::Ready => match before.and_then(Reported::running_since) {
            Some(since) => json!({ "running": { "startedAt": since } }),
            None => json!({ "running": { "startedAt": now } }),
        },
        Health::CrashLooping => json!({ "waiting": {
            "reason": "CrashLoopBackOff",
            "message": or_default(&stage.message, format!("back-off 5m0s restarting failed container={}", container.name))
        }}),
        Health::Failed => failed(),
        Health::Succeeded => ended(0, or_default(&stage.reason, "Completed".to_owned())),
    };
    let crashed = health == Health::CrashLooping;
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": format!("simulated://{}", container.image),
        "containerID": if health == Health::Creating { "" } else { &id },
        "ready": health == Health::Ready,
        "started": matches!(health, Health::Unready | Health::Ready),
        "restartCount": before.map_or(0, |before| before.restart_count) + i32::from(crashed),
        "state": state,
        "lastState": if crashed { failed() } else { before.and_then(|before| before.last_state.clone()).unwrap_or_else(|| json!({})) }
    })
}

/// The address that [`super::register::node_address`] gave to the node of this name. Nodes with
/// other names get one of the same range.
fn host_address(node: &str) -> String {
    let digits: String = node
        .chars()
        .rev()
        .take_while(char::is_ascii_digit)
        .collect();
    let index: usize = digits
        .chars()
        .rev()
        .collect::<String>()
        .parse()
        .unwrap_or(0);
    super::register::node_address(index)
}
