//! Changes of running pods: resizes in place, and new images.
//!
//! spec, status, refusal of the node -> [`step`] -> [`body`] of the status patch, Event
//!
//! A resize takes two steps, as with a kubelet: the node allocates the resources
//! (`PodResizeInProgress`), then the containers have them. A node that cannot allocate them says why
//! (`PodResizePending`): it has no room now (`Deferred`) or refuses for good (`Infeasible`). From 1.36 on, the API
//! server refuses requests beyond the whole node; kubelets before it found them infeasible. Upstream:
//! `pkg/kubelet/allocation` and `pkg/kubelet/events/resize.go`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_helpers::scheduling::amounts::{Amounts, requests};
use steersman_objects::{Object, PodSpec, QosClass, ResourceList, Resources};
use steersman_releases::Release;

use super::pod::{Container, IN_PROGRESS, PENDING, Pending, Reported, SimPod};
use super::register::SimNode;
use super::stages::Stage;
use super::status;

/// The resources that a resize can change.
pub(super) const RESIZABLE: [&str; 2] = ["cpu", "memory"];
/// The first release whose API server refuses requests beyond the whole node, and whose kubelets ask the
/// handlers of new pods about resizes.
const ADMITS_RESIZES: Release = Release::of_minor(36);
/// The first release whose kubelets write an Event about the end of a resize.
pub(super) const COMPLETION_EVENT: Release = Release::of_minor(34);
/// The first release whose kubelets write Events about all steps of a resize.
pub(super) const ALL_EVENTS: Release = Release::of_minor(35);

/// The next step of a changed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The node allocates the new resources.
    Allocate,
    /// The containers get the allocated resources.
    Actuate,
    /// The node cannot allocate them.
    Wait(Refusal),
    /// No resources change. Containers with a new image start again.
    Refresh,
}

/// The reason of a node that does not allocate the resources of a resize.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The resource that the node has too little of. `None` if it has refused for good.
    lacking: Option<&'static str>,
    message: String,
}

impl Refusal {
    pub(super) fn infeasible(message: impl Into<String>) -> Self {
        Self {
            lacking: None,
            message: message.into(),
        }
    }

    fn deferred(lacking: &'static str, message: String) -> Self {
        Self {
            lacking: Some(lacking),
            message,
        }
    }

    /// Whether the node will not try again.
    pub(super) fn is_infeasible(&self) -> bool {
        self.lacking.is_none()
    }

    /// The reason of the condition.
    fn reason(&self) -> &'static str {
        match self.lacking {
            None => "Infeasible",
            Some(_) => "Deferred",
        }
    }

    /// The reason in the message of the Event of a kubelet.
    pub(super) fn word(&self, release: Release) -> String {
        match self.lacking {
            Some(resource) if release >= ADMITS_RESIZES => format!("OutOf{resource}"),
            _ => self.reason().to_owned(),
        }
    }
}

impl SimPod {
    /// Whether its node has not acted on its spec yet. Statuses without generation and resources, which
    /// older servers and other programs write, say nothing about it.
    pub(super) fn is_changed(&self) -> bool {
        let observed = self.observed_generation;
        let is_new = observed != 0 && observed != self.meta().generation;
        is_new || self.is_resized() && !self.is_infeasible()
    }

    /// Whether its resources, those of containers or pod-level ones, differ from its spec.
    pub(super) fn is_resized(&self) -> bool {
        let mut running = self.running();
        running.any(|(container, _)| self.is_resized_at(container))
            || self.is_resized_at_pod_level()
    }

    /// Whether its containers do not have the resources yet that its node has allocated.
    pub(super) fn is_in_progress(&self) -> bool {
        let resizing = self.resizing.as_ref();
        resizing.is_some_and(|known| known.in_progress.is_some())
    }

    /// Whether its node has refused its present resources for good.
    fn is_infeasible(&self) -> bool {
        let resizing = self.resizing.as_ref();
        let pending = resizing.and_then(|known| known.pending.as_ref());
        pending.is_some_and(|pending| {
            pending.is_infeasible && self.is_present(pending.observed_generation)
        })
    }

    /// Whether this is the present generation. API servers of 1.33 keep no observed generations.
    fn is_present(&self, observed: i64) -> bool {
        observed == 0 || observed == self.meta().generation
    }

    /// Its running containers and sidecars, each with its status.
    fn running(&self) -> impl Iterator<Item = (&Container, &Reported)> {
        let all = self.init_containers.iter().chain(&self.containers);
        all.filter_map(|container| {
            let status = self.reported_of(&container.name)?;
            status.running_since().map(|_| (container, status))
        })
    }

    /// Whether a running container has other resources than its spec.
    fn is_resized_at(&self, container: &Container) -> bool {
        RESIZABLE
            .iter()
            .any(|name| self.is_resized_in(container, name))
    }

    fn is_resized_in(&self, container: &Container, resource: &str) -> bool {
        let reported = self.reported_of(&container.name);
        let reported = reported.and_then(|status| status.resources.as_deref());
        let spec = self.resources_of(&container.name);
        let Some(reported) = reported else {
            return false;
        };
        let Some(spec) = spec else {
            return false;
        };
        // Most pods are never resized.
        if reported == spec {
            return false;
        }
        let of = |all: &Resources| -> [Option<i64>; 2] {
            [&all.requests, &all.limits].map(|list: &ResourceList| Amounts::of(list).get(resource))
        };
        of(reported) != of(spec)
    }

    /// Names of the containers that a resize or a new image restarts.
    fn restarted(&self, step: &Step) -> Vec<&str> {
        let restarts = |container: &Container, status: &Reported| match step {
            Step::Actuate => container
                .restarts_for
                .iter()
                .any(|name| self.is_resized_in(container, name)),
            Step::Refresh => !status.image.is_empty() && *status.image != *container.image,
            Step::Allocate | Step::Wait(_) => false,
        };
        self.running()
            .filter(|(container, status)| restarts(container, status))
            .map(|(container, _)| container.name.as_str())
            .collect()
    }
}

/// The next step of a changed pod. `refusal` says why its node cannot allocate the resources.
pub(super) fn step(pod: &SimPod, refusal: impl FnOnce() -> Option<Refusal>) -> Step {
    if !pod.is_resized() {
        return Step::Refresh;
    }
    let in_progress = pod.resizing.as_ref().and_then(|known| known.in_progress);
    if in_progress.is_some_and(|observed| pod.is_present(observed)) {
        return Step::Actuate;
    }
    refusal().map_or(Step::Allocate, Step::Wait)
}

/// The reason of `node` against a resize of `pod`, beside the pods `others`. A node without amounts takes any
/// pod.
pub(super) fn refusal<'a>(
    pod: &SimPod,
    node: &SimNode,
    others: impl Iterator<Item = &'a SimPod>,
) -> Option<Refusal> {
    let facts = node.facts()?;
    if node
        .node()
        .meta
        .labels
        .get("kubernetes.io/os")
        .is_some_and(|system| *system == *"windows")
    {
        return Some(Refusal::infeasible(
            "In-place pod resize is not supported on Windows",
        ));
    }
    if let Some(refusal) = exclusive(pod, node) {
        return Some(refusal);
    }
    let wanted = requests(&pod.pod.spec);
    if node.release() < ADMITS_RESIZES
        && let Some(message) = excess(&wanted, &facts.allocatable)
    {
        return Some(Refusal::infeasible(message));
    }
    let mut used = Amounts::default();
    others.for_each(|other| used.add(&held(other)));
    shortage(&wanted, &used, &facts.allocatable)
}

/// The refusal of a node that gives cores or memory to guaranteed pods alone.
fn exclusive(pod: &SimPod, node: &SimNode) -> Option<Refusal> {
    if pod.pod.qos_class != Some(QosClass::Guaranteed) {
        return None;
    }
    let changes = |resource: &str| {
        pod.running().any(|(container, reported)| {
            let of = |list: &ResourceList| Amounts::of(list).get(resource);
            let wanted = pod.resources_of(&container.name);
            wanted.is_some_and(|wanted| of(&wanted.requests) != of(&reported.allocated_resources))
        })
    };
    let managers = [
        ("cpu", "CPU", "static", node.cpu_policy()),
        ("memory", "Memory", "Static", node.memory_policy()),
    ];
    managers.into_iter().find_map(|(resource, name, policy, own)| {
        let is_exclusive = own == Some(policy) && changes(resource);
        is_exclusive.then(|| {
            Refusal::infeasible(format!(
                "Resize is infeasible for Guaranteed Pods alongside {name} Manager policy \"{policy}\""
            ))
        })
    })
}

/// The amounts that are allocated to a pod: those of its spec, except for a resize that its node has not
/// allocated.
fn held(pod: &SimPod) -> Amounts {
    if !pod.is_resized() {
        return requests(&pod.pod.spec);
    }
    if let Some(pod_level) = &pod.pod_level {
        return Amounts::of(&pod_level.allocated);
    }
    let mut spec = PodSpec::clone(&pod.pod.spec);
    return_to_allocated(pod, &mut spec);
    requests(&spec)
}

/// Gives the containers of `spec` the resources that the node has allocated to those of the pod. Statuses tell no
/// allocated limits, so the limits are the actual ones.
pub(super) fn return_to_allocated(pod: &SimPod, spec: &mut PodSpec) {
    let inits = spec.init_containers.iter_mut();
    for container in inits.chain(&mut spec.containers) {
        let allocated = pod.reported_of(&container.name).and_then(allocated);
        if let Some(allocated) = allocated {
            container.resources = allocated;
        }
    }
}

/// The resources that the node has allocated to a container, if its status tells them.
fn allocated(reported: &Reported) -> Option<Resources> {
    let actual = reported.resources.as_ref()?;
    Some(Resources {
        requests: reported.allocated_resources.clone(),
        limits: actual.limits.clone(),
    })
}

/// The first resource of a pod that exceeds the whole node, in the words of a kubelet.
fn excess(wanted: &Amounts, allocatable: &Amounts) -> Option<String> {
    ["memory", "cpu"].into_iter().find_map(|name| {
        let wanted = wanted.get(name)?;
        let capacity = allocatable.get(name)?;
        (wanted > capacity).then(|| {
            format!(
                "Node didn't have enough capacity: {name}, requested: {}, capacity: {}",
                shown(name, wanted),
                shown(name, capacity)
            )
        })
    })
}

/// An amount in the unit of messages, from thousandths: thousandths of a core, or bytes.
fn shown(name: &str, amount: i64) -> i64 {
    if name == "cpu" { amount } else { amount / 1000 }
}

/// The first resource that a node has too little of, in the words of a kubelet.
fn shortage(wanted: &Amounts, used: &Amounts, allocatable: &Amounts) -> Option<Refusal> {
    RESIZABLE.into_iter().find_map(|name| {
        let of = |amounts: &Amounts| amounts.get(name).unwrap_or_default();
        let capacity = allocatable.get(name)?;
        if of(wanted) == 0 || of(wanted) + of(used) <= capacity {
            return None;
        }
        let message = format!(
            "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
            shown(name, of(wanted)),
            shown(name, of(used)),
            shown(name, capacity)
        );
        Some(Refusal::deferred(name, message))
    })
}

/// The body of the status patch of a step; `None` if the status tells the same already.
pub(super) fn body(pod: &SimPod, step: &Step, stage: &Stage, now: Timestamp) -> Option<Value> {
    if let Step::Wait(refusal) = step
        && pod.is_present(pod.observed_generation)
        && is_told(pod, refusal)
        && pending_message(pod) == Some(&*refusal.message)
    {
        return None;
    }
    let mut body = status::refreshed(pod, &pod.restarted(step), stage, now);
    let status = body["status"].as_object_mut()?;
    for list in ["initContainerStatuses", "containerStatuses"] {
        let statuses = status.get_mut(list).and_then(Value::as_array_mut);
        statuses
            .into_iter()
            .flatten()
            .for_each(|status| put_resources(pod, step, status));
    }
    put_conditions(pod, step, status, now);
    Some(body)
}

/// Whether a condition tells the reason of this refusal, for the present generation. A kubelet then writes no
/// further Event.
pub(super) fn is_told(pod: &SimPod, refusal: &Refusal) -> bool {
    let resizing = pod.resizing.as_ref();
    let pending = resizing.and_then(|known| known.pending.as_ref());
    pending.is_some_and(|pending| {
        pending.is_infeasible == refusal.is_infeasible()
            && pod.is_present(pending.observed_generation)
    })
}

fn pending_message(pod: &SimPod) -> Option<&str> {
    let pending = pod.resizing.as_ref()?.pending.as_ref()?;
    Some(&pending.message)
}

/// Sets the resources of a container's status after `step`.
fn put_resources(pod: &SimPod, step: &Step, status: &mut Value) {
    let name = status["name"].as_str().unwrap_or_default();
    let Some(reported) = pod.reported_of(name) else {
        return;
    };
    let Some(spec) = pod.resources_of(name) else {
        return;
    };
    if reported.running_since().is_none() {
        return;
    }
    match step {
        Step::Allocate => {
            let resources = reported.resources.as_deref();
            status::put_resources(status, resources, Some(&spec.requests));
        }
        Step::Actuate => status::put_resources(status, Some(spec), Some(&spec.requests)),
        // An earlier resize ends in the allocated resources.
        Step::Wait(_) if pod.is_in_progress() => {
            let Some(allocated) = allocated(reported) else {
                return;
            };
            status::put_resources(status, Some(&allocated), Some(&allocated.requests));
        }
        Step::Wait(_) | Step::Refresh => {}
    }
}

/// Adds the conditions of a resize to a status, and deletes the earlier ones.
fn put_conditions(pod: &SimPod, step: &Step, status: &mut Map<String, Value>, now: Timestamp) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": pod.meta().generation,
            "lastProbeTime": now, "lastTransitionTime": now,
        })
    };
    let known = pod.resizing.as_deref();
    let pending = known.and_then(|known| known.pending.as_ref());
    let gone = |kind: &str| json!({"$patch": "delete", "type": kind});
    match (step, pending) {
        (Step::Wait(refusal), known) => {
            let mut pending = condition(PENDING);
            pending["reason"] = refusal.reason().into();
            pending["message"] = refusal.message.as_str().into();
            let is_same = |known: &Pending| known.is_infeasible == refusal.is_infeasible();
            if known.is_some_and(is_same)
                && let Some(fields) = pending.as_object_mut()
            {
                fields.shift_remove("lastTransitionTime");
            }
            conditions.push(pending);
        }
        (_, Some(_)) => conditions.push(gone(PENDING)),
        (_, None) => {}
    }
    match step {
        Step::Allocate => conditions.push(condition(IN_PROGRESS)),
        _ if pod.is_in_progress() => conditions.push(gone(IN_PROGRESS)),
        _ => {}
    }
}

/// The resources of a pod, as the Events about its resize show them. Kubelets before 1.35 omit the generation.
pub(super) fn summary(pod: &SimPod, step: &Step, release: Release) -> String {
    let list = |containers: &[Container]| -> Value {
        let one = |container: &Container| {
            let mut shown = json!({});
            status::put_resources(&mut shown, pod.resources_of(&container.name), None);
            json!({"name": container.name, "resources": shown["resources"]})
        };
        containers.iter().map(one).collect()
    };
    let mut summary = json!({});
    if !pod.init_containers.is_empty() {
        summary["initContainers"] = list(&pod.init_containers);
    }
    summary["containers"] = list(&pod.containers);
    if release >= ALL_EVENTS {
        summary["generation"] = pod.meta().generation.into();
    }
    if let Step::Wait(refusal) = step {
        summary["error"] = refusal.message.as_str().into();
    }
    summary.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::pod::PodLevel;
    use super::*;

    /// A running pod that wants `wanted` and has `had`, with further fields of its status.
    fn pod(wanted: &Value, had: &Value, extra: &Value) -> SimPod {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let mut json = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "generation": 2},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": wanted}]},
            "status": {
                "phase": "Running", "observedGeneration": 2,
                "containerStatuses": [{"name": "c", "image": "i", "ready": true, "state": running, "resources": had}]
            }
        });
        json_patch::merge(&mut json["status"], extra);
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_is_allocated_then_actuated_or_deferred() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let in_progress = |generation: i64| json!({"conditions": [{"type": IN_PROGRESS, "status": "True", "observedGeneration": generation}]});
        let pending = |reason: &str, generation: i64| json!({"conditions": [{"type": PENDING, "status": "True", "reason": reason, "observedGeneration": generation}]});
        let none = json!({});
        let full = || Refusal::deferred("cpu", "full".to_owned());
        // (why, wanted, had, status, shortage, step of a changed pod)
        let cases = [
            ("same", cpu("1"), cpu("1000m"), none.clone(), None, None),
            (
                "larger",
                cpu("2"),
                cpu("1"),
                none.clone(),
                None,
                Some(Step::Allocate),
            ),
            (
                "full",
                cpu("2"),
                cpu("1"),
                none.clone(),
                Some(full()),
                Some(Step::Wait(full())),
            ),
            (
                "allocated",
                cpu("2"),
                cpu("1"),
                in_progress(2),
                Some(full()),
                Some(Step::Actuate),
            ),
            (
                "changed again",
                cpu("2"),
                cpu("1"),
                in_progress(1),
                None,
                Some(Step::Allocate),
            ),
            (
                "new generation",
                cpu("1"),
                cpu("1"),
                json!({"observedGeneration": 1}),
                None,
                Some(Step::Refresh),
            ),
            (
                "old server",
                cpu("1"),
                cpu("1"),
                json!({"observedGeneration": null}),
                None,
                None,
            ),
            ("without resources", cpu("2"), Value::Null, none, None, None),
            (
                "deferred",
                cpu("2"),
                cpu("1"),
                pending("Deferred", 2),
                None,
                Some(Step::Allocate),
            ),
            (
                "infeasible",
                cpu("2"),
                cpu("1"),
                pending("Infeasible", 2),
                None,
                None,
            ),
            (
                "infeasible before a change",
                cpu("2"),
                cpu("1"),
                pending("Infeasible", 1),
                None,
                Some(Step::Allocate),
            ),
        ];
        for (why, wanted, had, status, refusal, expected) in cases {
            let pod = pod(&wanted, &had, &status);
            let found = pod.is_changed().then(|| step(&pod, || refusal));
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn a_shortage_counts_other_pods_and_names_one_resource() {
        let amounts = |cpu: &str, memory: &str| {
            let list = [("cpu".into(), cpu.into()), ("memory".into(), memory.into())];
            Amounts::of(&list.into_iter().collect())
        };
        let node = amounts("2", "4Gi");
        // (wanted, used, shortage)
        let cases = [
            (amounts("1", "1Gi"), amounts("1", "3Gi"), None),
            (
                amounts("1500m", "1Gi"),
                amounts("700m", "1Gi"),
                Some("cpu, requested: 1500, used: 700, capacity: 2000"),
            ),
            (
                amounts("1", "2Gi"),
                amounts("1", "3Gi"),
                Some("memory, requested: 2147483648, used: 3221225472, capacity: 4294967296"),
            ),
            (amounts("0", "0"), amounts("9", "9Gi"), None),
        ];
        for (wanted, used, expected) in cases {
            let expected = expected.map(|end| format!("Node didn't have enough resource: {end}"));
            let found = shortage(&wanted, &used, &node);
            assert_eq!(found.map(|refusal| refusal.message), expected);
        }
    }

    /// A node with this allocatable CPU, and these further fields.
    fn node(cpu: &str, extra: &Value) -> SimNode {
        let mut json = json!({
            "metadata": {"name": "n", "uid": "n"},
            "status": {"allocatable": {"cpu": cpu}, "nodeInfo": {"kubeletVersion": "v1.36.2"}}
        });
        json_patch::merge(&mut json, extra);
        SimNode::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_release_and_the_policies_of_a_node_decide_what_is_infeasible() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}, "limits": {"cpu": amount}});
        let policy = |name: &str, value: &str| json!({"metadata": {"annotations": {format!("simulate.steersman.dev/{name}-manager-policy"): value}}});
        let version = |version: &str| json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
        let windows = json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}});
        let guaranteed = || json!({"qosClass": "Guaranteed"});
        let beyond = "Node didn't have enough capacity: cpu, requested: 2000, capacity: 1000";
        let full =
            "Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1000";
        let exclusive =
            "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"";
        let on_windows = "In-place pod resize is not supported on Windows";
        // (why, fields of the node, its CPU, status of the pod, whether infeasible and message)
        let cases = [
            ("room", json!({}), "2", guaranteed(), None),
            (
                "no room since 1.36",
                json!({}),
                "1",
                guaranteed(),
                Some((false, full)),
            ),
            (
                "no room before",
                version("v1.35.5"),
                "1",
                guaranteed(),
                Some((true, beyond)),
            ),
            (
                "Windows",
                windows,
                "2",
                guaranteed(),
                Some((true, on_windows)),
            ),
            (
                "own cores",
                policy("cpu", "static"),
                "2",
                guaranteed(),
                Some((true, exclusive)),
            ),
            (
                "own cores, burstable",
                policy("cpu", "static"),
                "2",
                json!({}),
                None,
            ),
            (
                "shared cores",
                policy("cpu", "none"),
                "2",
                guaranteed(),
                None,
            ),
            (
                "own memory, same amount",
                policy("memory", "Static"),
                "2",
                guaranteed(),
                None,
            ),
        ];
        for (why, fields, amount, status, expected) in cases {
            let pod = pod(&cpu("2"), &cpu("1"), &status);
            let found = refusal(&pod, &node(amount, &fields), [].into_iter());
            let found = found.as_ref().map(|it| (it.is_infeasible(), &*it.message));
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn other_pods_hold_what_is_allocated_to_them() {
        let list = |cpu: &str| -> ResourceList { [("cpu".into(), cpu.into())].into() };
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let waiting = |allocated: &str| {
            let mut pod = pod(&cpu("3"), &cpu("1"), &json!({}));
            pod.reported[0].allocated_resources = list(allocated);
            pod
        };
        let mut pod_level = waiting("1");
        pod_level.pod_level = Some(Box::new(PodLevel {
            resources: Resources::default(),
            allocated: list("2"),
        }));
        let settled = pod(&cpu("1"), &cpu("1"), &json!({}));
        let resized = pod(&cpu("2"), &cpu("1"), &json!({}));
        // (other pod, used CPU in the refusal of a node with three cores)
        let cases = [
            (&settled, None),
            (&waiting("1"), None),
            (&waiting("2"), Some("used: 2000")),
            (&pod_level, Some("used: 2000")),
        ];
        for (other, expected) in cases {
            let found = refusal(&resized, &node("3", &json!({})), [other].into_iter());
            let found = found.map(|refusal| refusal.message);
            match expected {
                None => assert_eq!(found, None),
                Some(used) => assert!(found.unwrap().contains(used)),
            }
        }
    }
}
