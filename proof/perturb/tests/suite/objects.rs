//! Objects, requests and waits that the scenarios share.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_perturb::{Scenario, State, Step};

/// The defaults of a scenario.
pub(crate) const BLANK: Scenario = Scenario::BLANK;

pub(crate) fn path(plural: &str, name: &str) -> String {
    path_in("default", plural, name)
}

pub(crate) fn path_in(namespace: &str, plural: &str, name: &str) -> String {
    let root = match plural {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "controllerrevisions" => {
            "/apis/apps/v1"
        }
        "jobs" | "cronjobs" => "/apis/batch/v1",
        "horizontalpodautoscalers" => "/apis/autoscaling/v2",
        "poddisruptionbudgets" => "/apis/policy/v1",
        "servicecidrs" => return format!("/apis/networking.k8s.io/v1/servicecidrs/{name}"),
        "ipaddresses" => return format!("/apis/networking.k8s.io/v1/ipaddresses/{name}"),
        "clusterroles" => {
            return format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        }
        "certificatesigningrequests" => {
            return format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}");
        }
        "nodes" | "persistentvolumes" => return format!("/api/v1/{plural}/{name}"),
        "csidrivers" => return format!("/apis/storage.k8s.io/v1/csidrivers/{name}"),
        "resourceclaims" => "/apis/resource.k8s.io/v1",
        "podgroups" => "/apis/scheduling.k8s.io/v1alpha2",
        "volumeattributesclasses" => return format!("/apis/storage.k8s.io/v1/{plural}/{name}"),
        "resourceslices" => return format!("/apis/resource.k8s.io/v1/resourceslices/{name}"),
        _ => "/api/v1",
    };
    format!("{root}/namespaces/{namespace}/{plural}/{name}")
}

pub(crate) fn patch(plural: &str, name: &str, patch: Value) -> Step {
    Step::Patch(path(plural, name), patch)
}

pub(crate) fn delete(plural: &str, name: &str, options: Value) -> Step {
    Step::Delete(path(plural, name), options)
}

/// Ends the Job `name` with this condition at `time`, as its controller does.
pub(crate) fn end_job(name: &str, condition: &str, time: &str) -> Step {
    let interim = match condition {
        "Complete" => "SuccessCriteriaMet",
        _ => "FailureTarget",
    };
    let is_true = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    let mut status = json!({
        "startTime": time,
        "conditions": [is_true(interim), is_true(condition)],
    });
    if condition == "Complete" {
        status["completionTime"] = json!(time);
    }
    Step::Patch(path("jobs", name) + "/status", json!({ "status": status }))
}

/// A pod template with one container of this image and the label `app`.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]},
    })
}

/// An empty ConfigMap without owners.
pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub(crate) fn pod_on(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "main", "image": "web:1"}]},
    })
}

pub(crate) fn count(state: &State, plural: &str) -> usize {
    state.all(plural).count()
}

pub(crate) fn is_gone(plural: &'static str, key: &'static str) -> Step {
    Step::until("gone", move |state| state.get(plural, key).is_none())
}

/// Waits longer than any fault lasts, so that all caches show the state before the next step.
pub(crate) fn until_caches_are_current() -> Step {
    Step::Sleep(Duration::from_secs(60))
}

/// Whether the condition of type `kind` has this status and reason.
pub(crate) fn has_condition(object: &Value, kind: &str, status: &str, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let matches = |c: &Value| {
        c["type"] == kind && c["status"] == status && (reason.is_empty() || c["reason"] == reason)
    };
    conditions.is_some_and(|all| all.iter().any(matches))
}
