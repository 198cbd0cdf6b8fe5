//! Pod-level resources in the status of a pod.
//!
//! A kubelet reports them for all pods: what it has allocated to the pod, and what its cgroup has. A resize
//! changes them in steps of its own. Upstream: `convertToAPIPodLevelResourcesStatus` in
//! `pkg/kubelet/kubelet_pods.go`.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use steersman_helpers::quota::{Amounts, Side, amounts_of_containers};
use steersman_objects::{Phase, PodSpec, ResourceList, Resources};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::pod::SimPod;
use super::resize::{RESIZABLE, Step, return_to_allocated};

/// The gate of kubelets that report these resources.
pub(super) const GATE: &str = "InPlacePodLevelResourcesVerticalScaling";

/// The least CPU request of a cgroup, in thousandths of a core. Requests up to it do not show.
const LEAST_REQUEST: i64 = 2;
/// Likewise the least CPU limit.
const LEAST_LIMIT: i64 = 10;

/// Requests and limits.
#[derive(Debug, PartialEq, Eq)]
struct Both {
    requests: Amounts,
    limits: Amounts,
}

impl Both {
    /// The amounts that a pod in this phase reports.
    fn of(spec: &PodSpec, phase: &str) -> Self {
        match phase {
            "Running" => Self::in_effect(spec),
            _ => Self::wanted(spec),
        }
    }

    /// All amounts of a pod, for pods that do not run.
    fn wanted(spec: &PodSpec) -> Self {
        Self {
            requests: amounts_of_containers(spec, Side::Requests),
            limits: amounts_of_containers(spec, Side::Limits),
        }
    }

    /// The amounts that the cgroup of a running pod has.
    fn in_effect(spec: &PodSpec) -> Self {
        let wanted = Self::wanted(spec);
        let own = &spec.resources;
        let mut shown = Self {
            requests: Amounts::of(&own.requests),
            limits: Amounts::of(&own.limits),
        };
        let is_more = |amounts: &Amounts, least: i64| {
            let amount = amounts.get("cpu");
            amount.is_some_and(|amount| amount.milli_value() > least)
        };
        let requests = wanted.requests.only(|name| match name {
            "cpu" => is_more(&wanted.requests, LEAST_REQUEST),
            // A cgroup has no memory request.
            "memory" => !own.requests.contains_key(name),
            _ => false,
        });
        shown.requests.replace(&requests);
        let is_limited = |name: &str| {
            let has = |resources: &Resources| {
                let limit = Amounts::of(&resources.limits).get(name);
                limit.is_some_and(|limit| !limit.is_zero())
            };
            let mut containers = spec.containers.iter().chain(&spec.init_containers);
            has(own) || containers.all(|container| has(&container.resources))
        };
        let limits = wanted.limits.only(|name| match name {
            "cpu" => is_limited(name) && is_more(&wanted.limits, LEAST_LIMIT),
            "memory" => is_limited(name),
            _ => false,
        });
        shown.limits.replace(&limits);
        shown
    }

    /// The value of the field `resources`. It replaces an earlier one, of which a merge would keep amounts.
    /// Without an earlier one, API servers drop a value with a directive.
    fn patch(&self, is_reported: bool) -> Value {
        let mut patch = json!({"requests": {}});
        if is_reported {
            patch["$patch"] = "replace".into();
        }
        for (side, amounts) in [("requests", &self.requests), ("limits", &self.limits)] {
            if !amounts.is_empty() {
                patch[side] = list(amounts);
            }
        }
        patch
    }
}

fn list(amounts: &Amounts) -> Value {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.to_string(), Value::from(amount.canonical())))
        .collect()
}

/// The spec of a pod before a resize that its node refuses, and after an earlier one that it has allocated.
fn allocated_spec(pod: &SimPod) -> PodSpec {
    let mut spec = PodSpec::clone(&pod.pod.spec);
    return_to_allocated(pod, &mut spec);
    if let Some(pod_level) = &pod.pod_level {
        // The amounts of the status have the overhead, those of the spec have not.
        let overhead = Amounts::of(&spec.overhead);
        let requests = Amounts::of(&pod_level.allocated).beyond(&overhead);
        let limits = Amounts::of(&pod_level.resources.limits).beyond(&overhead);
        spec.resources = Resources {
            requests: of_names(&spec.resources.requests, &requests),
            limits: of_names(&spec.resources.limits, &limits),
        };
    }
    spec
}

/// The amounts of the resources that `names` has.
fn of_names(names: &ResourceList, amounts: &Amounts) -> ResourceList {
    let amounts = amounts.only(|name| names.contains_key(name));
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.clone(), Sym::new(&amount.canonical())))
        .collect()
}

impl SimPod {
    /// Whether its pod-level resources differ from its spec.
    pub(super) fn is_resized_at_pod_level(&self) -> bool {
        let Some(pod_level) = self.pod_level.as_deref() else {
            return false;
        };
        let reported = &pod_level.resources;
        let wanted = Both::of(&self.pod.spec, name(self.pod.phase));
        let is_other = |wanted: &Amounts, reported: &Amounts| {
            let milli =
                |amounts: &Amounts, name: &str| amounts.get(name).map(Quantity::milli_value);
            let mut names = RESIZABLE.iter();
            names.any(|name| milli(wanted, name) != milli(reported, name))
        };
        is_other(&wanted.requests, &Amounts::of(&reported.requests))
            || is_other(&wanted.limits, &Amounts::of(&reported.limits))
    }
}

/// Adds the resources to a patch of the status, if it changes them: the first one, one with another phase, or
/// `step` of a resize.
pub(super) fn put(pod: &SimPod, status: &mut Map<String, Value>, step: Option<&Step>) {
    let Some(phase) = status.get("phase").and_then(Value::as_str) else {
        return;
    };
    let is_new = !pod.reports_pod_level || phase != name(pod.pod.phase);
    let (is_allocated, is_actuated) = match step {
        Some(Step::Allocate) => (true, false),
        Some(Step::Actuate) => (true, true),
        // An earlier resize ends in the allocated resources.
        Some(Step::Wait(_)) => (false, pod.is_in_progress()),
        Some(Step::Refresh) | None => {
            let is_settled = is_new && !pod.is_resized();
            (is_settled, is_settled)
        }
    };
    if is_actuated {
        let spec: Cow<'_, PodSpec> = match step {
            Some(Step::Wait(_)) => Cow::Owned(allocated_spec(pod)),
            _ => Cow::Borrowed(&pod.pod.spec),
        };
        let resources = Both::of(&spec, phase).patch(pod.reports_pod_level);
        status.insert("resources".into(), resources);
    }
    if is_allocated {
        let allocated = amounts_of_containers(&pod.pod.spec, Side::Requests);
        if !allocated.is_empty() {
            status.insert("allocatedResources".into(), list(&allocated));
        }
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        _ => "Pending",
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::super::resize::Refusal;
    use super::*;

    /// The status of a pod with this spec and status, after a report of `phase`.
    fn status(spec: &Value, status: &Value, phase: &str, step: Option<&Step>) -> Value {
        let json = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec, "status": status
        });
        let pod = SimPod::decode(json.to_string().as_bytes()).unwrap();
        let mut patch = Map::new();
        patch.insert("phase".into(), phase.into());
        put(&pod, &mut patch, step);
        patch.remove("phase");
        Value::Object(patch)
    }

    fn container(cpu: &str, limits: &Value) -> Value {
        let requests = json!({"cpu": cpu, "memory": "64Mi", "ephemeral-storage": "1Gi"});
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn a_running_pod_shows_what_its_cgroup_has() {
        let cpu = json!({"cpu": "1"});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let one = |limits: &Value| json!({"containers": [container("100m", limits)]});
        let two = json!({"containers": [container("100m", &both), container("100m", &cpu)]});
        let own = json!({
            "containers": [{"name": "c"}], "overhead": {"cpu": "50m"},
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
        });
        let all = json!({"cpu": "100m", "ephemeral-storage": "1Gi", "memory": "64Mi"});
        let compute = json!({"cpu": "100m", "memory": "64Mi"});
        // (why, spec, phase, requests, limits)
        let cases = [
            (
                "all amounts",
                one(&cpu),
                "Pending",
                all.clone(),
                cpu.clone(),
            ),
            ("ended", one(&cpu), "Succeeded", all, cpu.clone()),
            ("compute only", one(&cpu), "Running", compute, cpu.clone()),
            (
                "a container without a limit of memory",
                two,
                "Running",
                json!({"cpu": "200m", "memory": "128Mi"}),
                json!({"cpu": "2"}),
            ),
            (
                "too little for a cgroup",
                json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2m"}, "limits": {"cpu": "10m"}}}]}),
                "Running",
                json!({}),
                Value::Null,
            ),
            (
                "pod-level resources, with overhead",
                own,
                "Running",
                json!({"cpu": "1050m", "memory": "64Mi"}),
                json!({"memory": "1Gi"}),
            ),
        ];
        for (why, spec, phase, requests, limits) in cases {
            let found = &status(&spec, &json!({}), phase, None)["resources"];
            assert_eq!(
                (&found["requests"], &found["limits"]),
                (&requests, &limits),
                "{why}"
            );
        }
    }

    #[test]
    fn a_start_is_no_resize() {
        let limits = json!({"limits": {"cpu": "1"}});
        let spec = json!({
            "resources": {"limits": {"memory": "1Gi"}},
            "containers": [{"name": "a", "resources": limits}, {"name": "b"}]
        });
        let mut known = json!({"phase": "Pending"});
        let starts = ["Pending", "Running"].map(|phase| {
            let patch = status(&spec, &known, phase, None);
            known["resources"] = patch["resources"].clone();
            patch["resources"]["limits"].clone()
        });
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(starts, [all, json!({"memory": "1Gi"})]);
    }

    #[test]
    fn a_refused_resize_ends_an_earlier_one_in_what_was_allocated() {
        let list = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let status_of = |condition: &str, limit: &str| {
            json!({
                "phase": "Running", "observedGeneration": 2,
                "conditions": [{"type": condition, "status": "True", "observedGeneration": 2}],
                "resources": {"requests": list("1", "64Mi"), "limits": {"cpu": limit}},
                "allocatedResources": list("2050m", "64Mi"),
                "containerStatuses": [{
                    "name": "c", "image": "i", "ready": true, "state": running,
                    "resources": {"requests": list("1", "64Mi"), "limits": {"cpu": "4"}},
                    "allocatedResources": list("2", "64Mi")
                }]
            })
        };
        let wanted = json!({"requests": list("9", "64Mi"), "limits": {"cpu": "9"}});
        let of_container =
            json!({"containers": [{"name": "c", "image": "i", "resources": wanted}]});
        let of_pod = json!({
            "containers": [{"name": "c", "image": "i"}], "resources": wanted, "overhead": {"cpu": "50m"}
        });
        let shown = |cpu: &str, limit: &str| json!({"$patch": "replace", "requests": list(cpu, "64Mi"), "limits": {"cpu": limit}});
        let in_progress = "PodResizeInProgress";
        // (why, spec, condition, limit of CPU in the status, resources after the refusal of nine cores)
        let cases = [
            (
                "containers",
                &of_container,
                in_progress,
                "4",
                shown("2", "4"),
            ),
            (
                "pod-level resources with overhead",
                &of_pod,
                in_progress,
                "4050m",
                shown("2050m", "4050m"),
            ),
            (
                "no earlier resize",
                &of_pod,
                "PodResizePending",
                "4050m",
                Value::Null,
            ),
        ];
        for (why, spec, condition, limit, expected) in cases {
            let refused = Step::Wait(Refusal::infeasible(""));
            let had = status_of(condition, limit);
            let mut patch = status(spec, &had, "Running", Some(&refused));
            assert_eq!(patch["resources"].take(), expected, "{why}");
            assert_eq!(patch.get("allocatedResources"), None, "{why}");
        }
    }

    #[test]
    fn resources_change_with_the_phase_and_the_steps_of_a_resize() {
        let spec = json!({"containers": [container("1", &json!({}))]});
        let changes = |known: &Value, phase: &str, step: Option<&Step>| {
            let patch = status(&spec, known, phase, step);
            ["resources", "allocatedResources"].map(|field| patch.get(field).is_some())
        };
        let running = json!({"phase": "Running", "resources": {}});
        let refusal = Refusal::infeasible("");
        // (why, status, new phase, step, whether it changes resources and allocated ones)
        let cases = [
            ("first report", &json!({}), "Pending", None, [true, true]),
            ("same phase", &running, "Running", None, [false, false]),
            ("new phase", &running, "Failed", None, [true, true]),
            (
                "allocated",
                &running,
                "Running",
                Some(Step::Allocate),
                [false, true],
            ),
            (
                "actuated",
                &running,
                "Running",
                Some(Step::Actuate),
                [true, true],
            ),
            (
                "refused",
                &running,
                "Running",
                Some(Step::Wait(refusal)),
                [false, false],
            ),
        ];
        for (why, known, phase, step, expected) in cases {
            assert_eq!(changes(known, phase, step.as_ref()), expected, "{why}");
        }
        let replaces = |known: &Value| {
            let resources = &status(&spec, known, "Failed", None)["resources"];
            resources["$patch"] == "replace"
        };
        assert!(replaces(&running) && !replaces(&json!({})));
    }
}
