//! The resources of a pod as a whole, in its status.
//!
//! A kubelet reports them for all pods: what it has allocated to the pod, and what its cgroup has. A resize
//! changes them in steps of its own. Upstream: `convertToAPIPodLevelResourcesStatus` in
//! `pkg/kubelet/kubelet_pods.go`.

use serde_json::{Map, Value, json};
use steersman_helpers::quota::{Amounts, Side, amounts_of_containers};
use steersman_objects::{Phase, PodSpec, Resources};
use steersman_values::quantity::Quantity;

use super::pod::SimPod;
use super::resize::{RESIZABLE, Step};

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

impl SimPod {
    /// Whether it has other resources as a whole than its spec.
    pub(super) fn is_resized_as_a_whole(&self) -> bool {
        let Some(whole) = self.whole.as_deref() else {
            return false;
        };
        let reported = &whole.resources;
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
    let is_new = !pod.reports_whole || phase != name(pod.pod.phase);
    let (is_allocated, is_actuated) = match step {
        Some(Step::Allocate) => (true, false),
        Some(Step::Actuate) => (true, true),
        Some(Step::Wait(_)) => (false, false),
        Some(Step::Refresh) | None => {
            let is_settled = is_new && !pod.is_resized();
            (is_settled, is_settled)
        }
    };
    let spec = &pod.pod.spec;
    if is_actuated {
        let resources = Both::of(spec, phase).patch(pod.reports_whole);
        status.insert("resources".into(), resources);
    }
    if is_allocated {
        let allocated = amounts_of_containers(spec, Side::Requests);
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
                "the pod as a whole, with overhead",
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
