//! Bodies of the status patches that the simulated kubelet and scheduler send.
//!
//! Field by field they equal those of upstream's kubelet (`pkg/kubelet/kubelet_pods.go` and
//! `pkg/kubelet/status`) and scheduler, because controllers read conditions, reasons and times.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_objects::{Object, ResourceList, Resources};

use super::ending::back_off;
use super::needs::Missing;
use super::pod::{Container, DISRUPTION, PREEMPTED, Reported, SimPod};
use super::restarts::{ALL_RESTARTING, REMOVED};
use super::stages::{Health, Stage};

/// Exit code of a container that a signal has ended: 128 and SIGTERM.
const TERMINATED: i32 = 143;
/// The condition of a pod whose sandbox exists.
const READY_TO_START: &str = "PodReadyToStartContainers";

/// The next state of a container.
#[derive(Debug, Clone, PartialEq)]
enum Next {
    /// Waiting to be created, with reason and message.
    Creating(&'static str, Option<String>),
    /// Running; `ready` if its readiness probe has passed.
    Running { ready: bool },
    /// An init container that has done its work.
    Initialized,
    /// Ended for good.
    Ended(i32),
    /// Ended by a signal.
    Killed,
    /// Ended before; the status stays.
    Kept,
    /// Ended, and running again at once.
    Restarted(i32),
    /// Ended; its restart waits.
    BackOff(i32),
    /// Removed with all other containers, to start again.
    Removed,
    /// Ended with an error, and never restarted. The restart counts nevertheless, because
    /// controllers rank pods by it.
    CrashLoop,
}

impl Next {
    /// Whether the status has `ready: true`.
    fn is_ready(&self) -> bool {
        matches!(self, Self::Running { ready: true } | Self::Initialized)
    }

    /// Whether an init container in this state keeps the pod from being initialized.
    fn is_incomplete(&self, pod: &SimPod, container: &Container) -> bool {
        let before = pod.reported_of(&container.name);
        match self {
            Self::Creating(..)
            | Self::Restarted(_)
            | Self::BackOff(_)
            | Self::Removed
            | Self::CrashLoop => true,
            Self::Running { ready } => !ready,
            Self::Initialized | Self::Killed => false,
            Self::Ended(_) | Self::Kept => !container.is_sidecar() && self.failed(before),
        }
    }

    /// The exit code of a container that has ended by itself.
    fn exit_code(&self, before: Option<&Reported>) -> Option<i32> {
        match self {
            Self::Ended(code) => Some(*code),
            Self::Initialized => Some(0),
            Self::Kept => before?.exit_code(),
            _ => None,
        }
    }

    fn failed(&self, before: Option<&Reported>) -> bool {
        match self {
            Self::Ended(code) => *code != 0,
            Self::Killed => true,
            Self::Kept => before
                .and_then(Reported::ended)
                .is_some_and(|ended| ended["exitCode"] != 0),
            _ => false,
        }
    }
}

/// Body of a strategic merge patch of `pods/<name>/status` that reports `health`. The reason and
/// message of `stage` replace the default ones. Containers with `missing` configuration wait.
/// `assign` returns addresses for the pod.
///
/// A pod that starts first runs its init containers, one after the other. Each report is one step.
pub(super) fn report(
    pod: &SimPod,
    health: Health,
    stage: &Stage,
    missing: &Missing,
    assign: impl FnOnce() -> Vec<IpAddr>,
    now: Timestamp,
) -> Value {
    // A kubelet cannot create containers from a wrong configuration, and says so.
    let error = pod.ending.as_ref().err();
    let health = match error {
        Some(_) if health == Health::Unready => Health::Creating,
        None if health == Health::Unready && !missing.mounts.is_empty() => Health::Creating,
        _ => health,
    };
    let misconfigured = |why: &str| Next::Creating(MISCONFIGURED, Some(why.to_owned()));
    let start = match health {
        Health::Unready => initialize(pod, missing),
        _ => Start::Done(None),
    };
    let containers = pod.containers.iter().map(|container| {
        let has_ended = pod
            .reported_of(&container.name)
            .is_some_and(|status| status.ended().is_some());
        match health {
            Health::Creating => match error {
                Some(error) => misconfigured(error),
                None => Next::Creating(creating(pod), None),
            },
            Health::Unready | Health::Ready if has_ended => Next::Kept,
            Health::Unready if !start.is_done() => Next::Creating(INITIALIZING, None),
            Health::Unready => match missing.containers.get(container.name.as_str()) {
                Some(why) => misconfigured(why),
                None => Next::Running { ready: false },
            },
            Health::Ready => Next::Running { ready: true },
            Health::CrashLooping => Next::CrashLoop,
            Health::Failed => Next::Ended(1),
            Health::Succeeded => Next::Ended(0),
        }
    });
    let containers: Vec<Next> = containers.collect();
    let waits = |next: &Next| matches!(next, Next::Creating(..));
    let phase = match start {
        Start::Failed(_) => "Failed",
        _ if health == Health::Unready && containers.iter().any(waits) => "Pending",
        _ => phase(health),
    };
    let inits = start.into_states();
    let mut status = statuses(pod, phase, &containers, inits, stage, now);
    if matches!(health, Health::Creating | Health::Unready) && pod.pod.start_time.is_none() {
        status.insert("startTime".into(), json!(now));
        if let Some(node) = &pod.pod.node {
            status.insert("hostIP".into(), host_address(node).into());
            status.insert("hostIPs".into(), json!([{ "ip": host_address(node) }]));
        }
    }
    if health == Health::Unready && pod.pod.ips().next().is_none() {
        let addresses = match &pod.pod.node {
            Some(node) if pod.constraints.host_network => vec![host_address(node)],
            _ => assign().iter().map(IpAddr::to_string).collect(),
        };
        let all = addresses.iter().map(|address| json!({ "ip": address }));
        status.insert("podIPs".into(), all.collect());
        status.insert("podIP".into(), json!(addresses.first()));
    }
    body(pod, status)
}

/// Whether the pod shows all states of waiting containers in this patch already.
pub(super) fn is_reported(pod: &SimPod, patch: &Value) -> bool {
    let fields = ["initContainerStatuses", "containerStatuses"];
    let statuses = fields.map(|field| patch["status"][field].as_array());
    statuses.into_iter().flatten().flatten().all(|next| {
        let waiting = &next["state"]["waiting"];
        let text = |field: &str| waiting[field].as_str().unwrap_or_default();
        let before = pod.reported_of(next["name"].as_str().unwrap_or_default());
        match before.map(Reported::waiting) {
            None => false,
            Some(None) => waiting.is_null(),
            Some(Some(before)) => {
                *before.reason == *text("reason") && *before.message == *text("message")
            }
        }
    })
}

/// The reason of containers whose configuration is missing or wrong.
const MISCONFIGURED: &str = "CreateContainerConfigError";

/// The reason of containers that wait for init containers.
const INITIALIZING: &str = "PodInitializing";

/// The reason of containers that wait for volumes and images.
fn creating(pod: &SimPod) -> &'static str {
    if pod.init_containers.is_empty() {
        "ContainerCreating"
    } else {
        INITIALIZING
    }
}

/// The next step of the init containers, with their states. Without states, they stay as they are.
enum Start {
    Running(Vec<Next>),
    Done(Option<Vec<Next>>),
    Failed(Vec<Next>),
}

impl Start {
    fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    fn into_states(self) -> Option<Vec<Next>> {
        match self {
            Self::Running(states) | Self::Failed(states) => Some(states),
            Self::Done(states) => states,
        }
    }
}

/// Takes one step of the init containers: the running one ends, and the next one starts. Sidecars
/// start without a step of their own. Upstream: `computeInitContainerActions`.
fn initialize(pod: &SimPod, missing: &Missing) -> Start {
    let mut is_open = true;
    let mut has_failed = false;
    let mut states = Vec::new();
    for container in &pod.init_containers {
        let before = pod.reported_of(&container.name);
        let restarts = before.map_or(0, |status| status.restart_count);
        let is_running = before.and_then(Reported::running_since).is_some();
        let next = if !is_open {
            Next::Creating(INITIALIZING, None)
        } else if before.is_some_and(|status| status.ended().is_some()) {
            has_failed = !before.is_some_and(Reported::has_succeeded);
            Next::Kept
        } else if let Some(why) = missing.containers.get(container.name.as_str()) {
            Next::Creating(MISCONFIGURED, Some(why.clone()))
        } else if container.is_sidecar() {
            Next::Running { ready: true }
        } else if is_running {
            let ending = pod.ending_of_inits();
            let code = ending.map_or(0, |ending| ending.init_code(&container.name, restarts));
            match (code, restarts) {
                (code, _) if container.restarts.are_of_all(code) => Next::Ended(code),
                (0, _) => Next::Initialized,
                (code, _) if !container.restarts.follow(code, &pod.restart_policy) => {
                    has_failed = true;
                    Next::Ended(code)
                }
                (code, 0) => Next::Restarted(code),
                (code, _) => Next::BackOff(code),
            }
        } else {
            Next::Running { ready: false }
        };
        is_open &=
            !has_failed && (next == Next::Initialized || next == Next::Kept || next.is_ready());
        states.push(next);
    }
    match (has_failed, is_open) {
        (true, _) => Start::Failed(states),
        (false, true) => Start::Done(Some(states)),
        (false, false) => Start::Running(states),
    }
}

/// Body that reports the exit of all running containers with their exit codes. Their rules and the restart
/// policies decide which of them start again, and thereby the phase.
pub(super) fn exit(pod: &SimPod, stage: &Stage, now: Timestamp) -> Value {
    let exits = pod.containers.iter().map(|container| {
        let before = pod.reported_of(&container.name);
        if before.is_some_and(|status| status.ended().is_some()) {
            return Next::Kept;
        }
        let restarts = before.map_or(0, |status| status.restart_count);
        let ending = pod.ending();
        Next::Ended(ending.map_or(0, |ending| ending.code(&container.name, restarts)))
    });
    let mut containers: Vec<Next> = exits.collect();
    if !restarts_all(pod, &pod.containers, &containers) {
        for (next, container) in containers.iter_mut().zip(&pod.containers) {
            let Next::Ended(code) = *next else { continue };
            let before = pod.reported_of(&container.name);
            *next = match before.map_or(0, |status| status.restart_count) {
                _ if !container.restarts.follow(code, &pod.restart_policy) => continue,
                0 => Next::Restarted(code),
                _ => Next::BackOff(code),
            };
        }
    }
    let phase = end_phase(pod, &containers);
    body(pod, statuses(pod, phase, &containers, None, stage, now))
}

/// Whether the exit of one of these containers restarts all of the pod.
fn restarts_all(pod: &SimPod, containers: &[Container], states: &[Next]) -> bool {
    let restarts = |(container, next): (&Container, &Next)| {
        let code = next.exit_code(pod.reported_of(&container.name));
        code.is_some_and(|code| container.restarts.are_of_all(code))
    };
    !pod.meta().is_terminating() && containers.iter().zip(states).any(restarts)
}

/// Body that reports that all containers have been removed, so that they start again.
pub(super) fn removed(pod: &SimPod, stage: &Stage, now: Timestamp) -> Value {
    let next = |container: &Container| match pod.reported_of(&container.name) {
        Some(before) if before.waiting().is_none() => Next::Removed,
        _ => Next::Creating(creating(pod), None),
    };
    let containers: Vec<Next> = pod.containers.iter().map(next).collect();
    let inits = pod.init_containers.iter().map(next).collect();
    let has_run = |container: &Container| {
        let before = pod.reported_of(&container.name);
        before.is_some_and(|before| before.waiting().is_none() || before.last_state.is_some())
    };
    let phase = if pod.containers.iter().all(has_run) {
        "Running"
    } else {
        "Pending"
    };
    body(
        pod,
        statuses(pod, phase, &containers, Some(inits), stage, now),
    )
}

/// Body that reports the end of all containers by a signal.
pub(super) fn stopped(pod: &SimPod, stage: &Stage, now: Timestamp) -> Value {
    let containers = pod.containers.iter().map(|container| {
        let before = pod.reported_of(&container.name);
        match before.and_then(Reported::ended) {
            Some(_) => Next::Kept,
            None => Next::Killed,
        }
    });
    let containers: Vec<Next> = containers.collect();
    let phase = end_phase(pod, &containers);
    body(pod, statuses(pod, phase, &containers, None, stage, now))
}

/// Body that reports all ephemeral containers as running. They have no probes, so they never become
/// ready.
pub(super) fn ephemeral(pod: &SimPod, stage: &Stage, now: Timestamp) -> Value {
    let next = Next::Running { ready: false };
    let containers: Vec<Value> = pod
        .ephemeral_containers
        .iter()
        .map(|container| container_status(pod, container, &next, stage, now))
        .collect();
    let status = json!({
        "observedGeneration": pod.meta().generation, "ephemeralContainerStatuses": containers,
    });
    body(pod, status.as_object().cloned().unwrap_or_default())
}

/// Body that reports a running pod as it is, except that the containers in `restarted` have been ended by
/// a signal and run again.
pub(super) fn refreshed(pod: &SimPod, restarted: &[&str], stage: &Stage, now: Timestamp) -> Value {
    let next = |container: &Container| {
        let before = pod.reported_of(&container.name);
        match before {
            Some(before) if before.ended().is_some() => Next::Kept,
            _ if restarted.contains(&container.name.as_str()) => Next::Restarted(TERMINATED),
            Some(before) => Next::Running {
                ready: before.ready,
            },
            None => Next::Running { ready: false },
        }
    };
    let containers: Vec<Next> = pod.containers.iter().map(next).collect();
    let inits = pod.init_containers.iter().map(next).collect();
    let phase = phase(Health::Ready);
    body(
        pod,
        statuses(pod, phase, &containers, Some(inits), stage, now),
    )
}

/// Body of the scheduler's report that the pod fits no node, and is nominated for this one.
pub(super) fn unschedulable(
    pod: &SimPod,
    message: &str,
    nominated: Option<&str>,
    now: Timestamp,
) -> Value {
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastProbeTime": null,
        "observedGeneration": pod.meta().generation,
    });
    if pod.unscheduled.is_none() {
        condition["lastTransitionTime"] = json!(now);
    }
    let mut status = json!({ "conditions": [condition] });
    if nominated != pod.nominated.as_deref() {
        status["nominatedNodeName"] = json!(nominated);
    }
    json!({ "metadata": { "uid": pod.meta().uid.to_string() }, "status": status })
}

/// Body of the scheduler's report that the pod is nominated no longer.
pub(super) fn outranked(pod: &SimPod) -> Value {
    json!({
        "metadata": { "uid": pod.meta().uid.to_string() },
        "status": { "nominatedNodeName": null },
    })
}

/// Body of the scheduler's report that the pod makes room for another one. Upstream: `PreemptPod` in
/// `pkg/scheduler/framework/preemption/executor.go`.
pub(super) fn preempted(pod: &SimPod, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": DISRUPTION, "status": "True", "reason": PREEMPTED,
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastProbeTime": null, "observedGeneration": pod.meta().generation,
    });
    if !pod.pod.conditions.is_true(DISRUPTION) {
        condition["lastTransitionTime"] = json!(now);
    }
    json!({
        "metadata": { "uid": pod.meta().uid.to_string() },
        "status": { "conditions": [condition] },
    })
}

/// The patch of a status. The UID makes it fail for a new pod of the same name.
fn body(pod: &SimPod, status: Map<String, Value>) -> Value {
    json!({ "metadata": { "uid": pod.meta().uid.to_string() }, "status": status })
}

fn phase(health: Health) -> &'static str {
    match health {
        Health::Creating => "Pending",
        Health::Unready | Health::Ready | Health::CrashLooping => "Running",
        Health::Failed => "Failed",
        Health::Succeeded => "Succeeded",
    }
}

/// The phase after these states of the containers.
fn end_phase(pod: &SimPod, containers: &[Next]) -> &'static str {
    let goes_on = |next: &Next| matches!(next, Next::Restarted(_) | Next::BackOff(_));
    let failed =
        |(next, container): (&Next, &Container)| next.failed(pod.reported_of(&container.name));
    if containers.iter().any(goes_on) || restarts_all(pod, &pod.containers, containers) {
        "Running"
    } else if containers.iter().zip(&pod.containers).any(failed) {
        "Failed"
    } else {
        "Succeeded"
    }
}

/// Phase, conditions, and statuses of containers and init containers. Without `inits`, init
/// containers have ended, and sidecars follow the containers.
fn statuses(
    pod: &SimPod,
    phase: &str,
    containers: &[Next],
    inits: Option<Vec<Next>>,
    stage: &Stage,
    now: Timestamp,
) -> Map<String, Value> {
    let inits = inits.unwrap_or_else(|| {
        let inits = pod.init_containers.iter();
        inits
            .map(|container| init_state(pod, container, phase, containers))
            .collect()
    });
    let listed = |list: &[Container], states: &[Next]| -> Value {
        list.iter()
            .zip(states)
            .map(|(container, next)| container_status(pod, container, next, stage, now))
            .collect::<Vec<_>>()
            .into()
    };
    let mut status = Map::new();
    status.insert("observedGeneration".into(), pod.meta().generation.into());
    status.insert("phase".into(), phase.into());
    status.insert(
        "conditions".into(),
        conditions(pod, phase, containers, &inits, now),
    );
    status.insert(
        "containerStatuses".into(),
        listed(&pod.containers, containers),
    );
    if !inits.is_empty() {
        status.insert(
            "initContainerStatuses".into(),
            listed(&pod.init_containers, &inits),
        );
    }
    status
}

/// The state of an init container. Sidecars run as long as containers do, and end after them.
fn init_state(pod: &SimPod, container: &Container, phase: &str, containers: &[Next]) -> Next {
    let before = pod.reported_of(&container.name);
    let creating = containers
        .iter()
        .find(|next| matches!(next, Next::Creating(..)));
    match creating {
        Some(creating) => creating.clone(),
        None if before.is_some_and(|status| status.ended().is_some()) => Next::Kept,
        None if !container.is_sidecar() => Next::Initialized,
        None if matches!(phase, "Succeeded" | "Failed") => Next::Ended(0),
        None => Next::Running { ready: true },
    }
}

/// The conditions of the kubelet. The patch merges them by type, so all others stay, and so does
/// the time of a condition with the same status.
fn conditions(
    pod: &SimPod,
    phase: &str,
    containers: &[Next],
    inits: &[Next],
    now: Timestamp,
) -> Value {
    let sidecars = pod.init_containers.iter().zip(inits);
    let unready: Vec<&str> = sidecars
        .filter(|(container, _)| container.is_sidecar())
        .chain(pod.containers.iter().zip(containers))
        .filter(|(_, next)| !next.is_ready())
        .map(|(container, _)| container.name.as_str())
        .collect();
    // The sandbox exists as soon as one container has been created.
    let waits = |next: &Next| matches!(next, Next::Creating(reason, _) if *reason != MISCONFIGURED);
    let has_started =
        !containers.iter().chain(inits).all(waits) || pod.pod.conditions.is_true(READY_TO_START);
    let incomplete: Vec<&str> = pod
        .init_containers
        .iter()
        .zip(inits)
        .filter(|(container, next)| next.is_incomplete(pod, container))
        .map(|(container, _)| container.name.as_str())
        .collect();
    let has_ended = matches!(phase, "Succeeded" | "Failed");
    let (reason, message) = match phase {
        "Succeeded" => (Some("PodCompleted"), None),
        "Failed" => (Some("PodFailed"), None),
        _ if unready.is_empty() => (None, None),
        _ => (
            Some("ContainersNotReady"),
            Some(format!(
                "containers with unready status: [{}]",
                unready.join(" ")
            )),
        ),
    };
    let known = &pod.pod.conditions;
    let condition = |kind: &str, is_true: bool| {
        let mut fields = json!({
            "type": kind, "status": if is_true { "True" } else { "False" }, "lastProbeTime": null,
            "observedGeneration": pod.meta().generation
        });
        let is_known = known.iter().any(|state| state.kind == *kind);
        if !is_known || known.is_true(kind) != is_true {
            fields["lastTransitionTime"] = json!(now);
        }
        fields
    };
    let readiness = |kind: &str, reason: Option<&str>, message: Option<&String>| {
        let mut fields = condition(kind, reason.is_none());
        fields["reason"] = json!(reason);
        fields["message"] = json!(message);
        fields
    };
    let unfulfilled = match reason {
        None => pod.unfulfilled_gates(),
        Some(_) => None,
    };
    let ready = match &unfulfilled {
        Some(gates) => readiness("Ready", Some("ReadinessGatesNotReady"), Some(gates)),
        None => readiness("Ready", reason, message.as_ref()),
    };
    // Pods without init containers are initialized from the start. A restart of all containers leaves the pod
    // initialized.
    let is_initialized = incomplete.is_empty() || known.is_true("Initialized");
    let mut initialized = condition("Initialized", is_initialized);
    if !is_initialized {
        initialized["reason"] = "ContainersNotInitialized".into();
        initialized["message"] = format!(
            "containers with incomplete status: [{}]",
            incomplete.join(" ")
        )
        .into();
    } else {
        let is_completed = phase == "Succeeded";
        initialized["reason"] = json!(is_completed.then_some("PodCompleted"));
        initialized["message"] = Value::Null;
    }
    let mut all = vec![
        condition(READY_TO_START, has_started && !has_ended),
        initialized,
        ready,
        readiness("ContainersReady", reason, message.as_ref()),
    ];
    if pod.can_restart_all() {
        let is_restarting = !has_ended
            && (restarts_all(pod, &pod.containers, containers)
                || restarts_all(pod, &pod.init_containers, inits));
        let mut restarting = condition(ALL_RESTARTING, is_restarting);
        // Upstream sets no generation here.
        restarting["observedGeneration"] = Value::Null;
        let words = match phase {
            _ if is_restarting => (
                Some("RestartAllContainersStarted"),
                Some("container exited with restart policy rule"),
            ),
            "Succeeded" => (Some("PodCompleted"), None),
            "Failed" => (Some("PodFailed"), None),
            _ => (None, None),
        };
        restarting["reason"] = json!(words.0);
        restarting["message"] = json!(words.1);
        all.push(restarting);
    }
    all.into()
}

/// The status of a container. It keeps the start time and the restarts of its status before.
fn container_status(
    pod: &SimPod,
    container: &Container,
    next: &Next,
    stage: &Stage,
    now: Timestamp,
) -> Value {
    let before = pod.reported_of(&container.name);
    let id = format!("simulated://{}", container.name);
    let or_default = |own: &Option<String>, usual: &str| own.clone().unwrap_or(usual.to_owned());
    let running_since = before.and_then(Reported::running_since);
    let ended = |code: i32, usual: &str| {
        json!({ "terminated": {
            "exitCode": code,
            "reason": or_default(&stage.reason, usual),
            "startedAt": running_since.map_or_else(|| json!(now), |since| json!(since)),
            "finishedAt": now,
            "containerID": id
        }})
    };
    let exited = |code: i32| ended(code, if code == 0 { "Completed" } else { "Error" });
    let restarts = before.map_or(0, |before| before.restart_count);
    let crash_loop = |wait: &str| {
        let meta = pod.meta();
        let usual = format!(
            "back-off {wait} restarting failed container={} pod={}_{}({})",
            container.name, meta.name, meta.namespace, meta.uid
        );
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": or_default(&stage.message, &usual) } })
    };
    let kept = before
        .and_then(|before| before.last_state.clone())
        .unwrap_or_else(|| json!({}));
    let (state, last, restarts) = match next {
        Next::Creating(reason, message) => {
            let mut waiting = json!({ "reason": or_default(&stage.reason, reason) });
            if let Some(message) = stage.message.as_ref().or(message.as_ref()) {
                waiting["message"] = message.as_str().into();
            }
            (json!({ "waiting": waiting }), kept, restarts)
        }
        Next::Running { .. } => {
            let since = running_since.map_or_else(|| json!(now), |since| json!(since));
            // A container without an end of its own has counted its restart at the crash.
            let is_restart =
                pod.ending_of_inits().is_some() && before.is_some_and(Reported::waits_for_restart);
            let running = json!({ "running": { "startedAt": since } });
            (running, kept, restarts + i32::from(is_restart))
        }
        Next::Initialized => (exited(0), kept, restarts),
        Next::Ended(code) => (exited(*code), kept, restarts),
        Next::Killed => (
            match running_since {
                Some(_) => exited(TERMINATED),
                None => ended(137, "ContainerStatusUnknown"),
            },
            kept,
            restarts,
        ),
        Next::Kept => {
            let state = before.and_then(Reported::ended).cloned();
            (json!({ "terminated": state }), kept, restarts)
        }
        Next::Restarted(code) => (
            json!({ "running": { "startedAt": now } }),
            exited(*code),
            restarts + 1,
        ),
        Next::BackOff(code) => {
            let wait = go_duration(back_off(restarts));
            (crash_loop(&wait), exited(*code), restarts)
        }
        Next::Removed => {
            let message = "The container is removed because RestartAllContainers in place";
            let state = json!({ "waiting": { "reason": REMOVED, "message": message } });
            let last =
                json!({ "terminated": { "reason": REMOVED, "message": message, "exitCode": 137 } });
            (state, last, restarts + 1)
        }
        Next::CrashLoop => (crash_loop("5m0s"), exited(1), restarts + 1),
    };
    let is_created = !matches!(next, Next::Creating(..) | Next::Removed);
    let mut status = json!({
        "name": container.name,
        "image": container.image,
        "imageID": format!("simulated://{}", container.image),
        "containerID": if is_created { &id } else { "" },
        "ready": match next {
            Next::Kept => before.is_some_and(|before| before.ready),
            _ => next.is_ready(),
        },
        "started": matches!(next, Next::Running { .. } | Next::Restarted(_)),
        "restartCount": restarts,
        "state": state,
        "lastState": last
    });
    if let Ok(mounts) = serde_json::from_str::<Value>(&container.volume_mounts) {
        status["volumeMounts"] = mounts;
    }
    if is_created {
        // A resize changes them in steps of its own.
        let reported = before.and_then(|before| before.resources.as_deref());
        let allocated = reported
            .and(before)
            .map(|before| &before.allocated_resources);
        let spec = pod.resources_of(&container.name);
        let requests = spec.map(|spec| &spec.requests);
        put_resources(&mut status, reported.or(spec), allocated.or(requests));
    }
    status
}

/// Sets the resources of a container's status. Upstream: `convertContainerStatusResources`.
pub(super) fn put_resources(
    status: &mut Value,
    resources: Option<&Resources>,
    allocated: Option<&ResourceList>,
) {
    let list = |amounts: &ResourceList| -> Value {
        let amounts = amounts.iter();
        amounts
            .map(|(name, amount)| (name.to_string(), Value::from(amount.as_str())))
            .collect()
    };
    let mut own = json!({});
    if let Some(resources) = resources {
        let sides = [
            ("limits", &resources.limits),
            ("requests", &resources.requests),
        ];
        for (side, amounts) in sides.into_iter().filter(|(_, list)| !list.is_empty()) {
            own[side] = list(amounts);
        }
    }
    status["resources"] = own;
    if let Some(allocated) = allocated.filter(|amounts| !amounts.is_empty()) {
        status["allocatedResources"] = list(allocated);
    }
}

/// Whole seconds as Go writes them: `40s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
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
