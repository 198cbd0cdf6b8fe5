//! Changes of running pods: resizes in place, and new images.
//!
//! spec, status, room of the node -> [`step`] -> [`body`] of the status patch, Event
//!
//! A resize takes two steps, as with a kubelet: the node allocates the resources
//! (`PodResizeInProgress`), then the containers have them. A node without room defers it
//! (`PodResizePending`). The API server refuses requests beyond the whole node. Upstream:
//! `pkg/kubelet/allocation` and `pkg/kubelet/events/resize.go`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_helpers::scheduling::amounts::Amounts;
use steersman_objects::{Object, ResourceList, Resources};

use super::pod::{Container, IN_PROGRESS, PENDING, Reported, SimPod};
use super::stages::Stage;
use super::status;

/// The resources that a resize can change.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// The next step of a changed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The node allocates the new resources.
    Allocate,
    /// The containers get the allocated resources.
    Actuate,
    /// The node has no room, for this reason.
    Defer(String),
    /// No resources change. Containers with a new image start again.
    Refresh,
}

impl SimPod {
    /// Whether its node has not acted on its spec yet. Statuses without generation and resources, which
    /// older servers and other programs write, say nothing about it.
    pub(super) fn is_changed(&self) -> bool {
        let observed = self.observed_generation;
        let is_new = observed != 0 && observed != self.meta().generation;
        is_new
            || self
                .running()
                .any(|(container, _)| self.is_resized(container))
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
    fn is_resized(&self, container: &Container) -> bool {
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
            Step::Allocate | Step::Defer(_) => false,
        };
        self.running()
            .filter(|(container, status)| restarts(container, status))
            .map(|(container, _)| container.name.as_str())
            .collect()
    }
}

/// The next step of a changed pod. `shortage` says why its node has no room.
pub(super) fn step(pod: &SimPod, shortage: impl FnOnce() -> Option<String>) -> Step {
    if !pod
        .running()
        .any(|(container, _)| pod.is_resized(container))
    {
        return Step::Refresh;
    }
    let in_progress = pod.resizing.as_ref().and_then(|known| known.in_progress);
    if in_progress == Some(pod.meta().generation) {
        return Step::Actuate;
    }
    shortage().map_or(Step::Allocate, Step::Defer)
}

/// The first resource that a node has too little of, in the words of a kubelet. A node without
/// amounts takes any pod.
pub(super) fn shortage(wanted: &Amounts, used: &Amounts, allocatable: &Amounts) -> Option<String> {
    RESIZABLE.iter().find_map(|name| {
        let of = |amounts: &Amounts| amounts.get(name).unwrap_or_default();
        let capacity = allocatable.get(name)?;
        if of(wanted) == 0 || of(wanted) + of(used) <= capacity {
            return None;
        }
        // Amounts are thousandths; memory is shown in bytes.
        let shown = |amount: i64| {
            if *name == "cpu" {
                amount
            } else {
                amount / 1000
            }
        };
        Some(format!(
            "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
            shown(of(wanted)),
            shown(of(used)),
            shown(capacity)
        ))
    })
}

/// The body of the status patch of a step; `None` if the status tells the same already.
pub(super) fn body(pod: &SimPod, step: &Step, stage: &Stage, now: Timestamp) -> Option<Value> {
    let generation = pod.meta().generation;
    let pending = pod
        .resizing
        .as_ref()
        .and_then(|known| known.pending.as_ref());
    let is_told = |why: &str| {
        pending.is_some_and(|pending| {
            *pending.message == *why && pending.observed_generation == generation
        })
    };
    if let Step::Defer(why) = step
        && is_told(why)
        && pod.observed_generation == generation
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

/// Sets the resources of a container's status after `step`.
fn put_resources(pod: &SimPod, step: &Step, status: &mut Value) {
    let name = status["name"].as_str().unwrap_or_default();
    let Some(reported) = pod.reported_of(name) else {
        return;
    };
    let Some(spec) = pod.resources_of(name) else {
        return;
    };
    let resources = match step {
        Step::Allocate => reported.resources.as_deref(),
        Step::Actuate => Some(spec),
        Step::Defer(_) | Step::Refresh => return,
    };
    if reported.running_since().is_some() {
        status::put_resources(status, resources, Some(&spec.requests));
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
    let is_pending = known.is_some_and(|known| known.pending.is_some());
    let is_in_progress = known.is_some_and(|known| known.in_progress.is_some());
    let gone = |kind: &str| json!({"$patch": "delete", "type": kind});
    match step {
        Step::Defer(why) => {
            let mut pending = condition(PENDING);
            pending["reason"] = "Deferred".into();
            pending["message"] = why.as_str().into();
            conditions.push(pending);
        }
        _ if is_pending => conditions.push(gone(PENDING)),
        _ => {}
    }
    match step {
        Step::Allocate => conditions.push(condition(IN_PROGRESS)),
        Step::Actuate | Step::Refresh if is_in_progress => conditions.push(gone(IN_PROGRESS)),
        _ => {}
    }
}

/// The resources of a pod, as the Events about its resize show them.
pub(super) fn summary(pod: &SimPod, step: &Step) -> String {
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
    summary["generation"] = pod.meta().generation.into();
    if let Step::Defer(why) = step {
        summary["error"] = why.as_str().into();
    }
    summary.to_string()
}

#[cfg(test)]
mod tests {
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
        let none = json!({});
        let defer = Step::Defer("full".to_owned());
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
                Some("full"),
                Some(defer),
            ),
            (
                "allocated",
                cpu("2"),
                cpu("1"),
                in_progress(2),
                Some("full"),
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
        ];
        for (why, wanted, had, status, shortage, expected) in cases {
            let pod = pod(&wanted, &had, &status);
            let found = pod
                .is_changed()
                .then(|| step(&pod, || shortage.map(str::to_owned)));
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
            assert_eq!(shortage(&wanted, &used, &node), expected);
        }
    }
}
