//! Scenarios of the quota controller. The user creates and ends the counted objects, and the API
//! server leaves their usage to the controller.

use serde_json::{Value, json};
use steersman_client::{Category, Decision};
use steersman_controllers::resourcequota;
use steersman_perturb::rules::EXACT_USAGE;
use steersman_perturb::{AllowedError, Scenario, State, Step};

use crate::objects::{BLANK, delete, patch, path, pod_on};

const BASE: Scenario = Scenario {
    controller: "resourcequota",
    controllers: &[resourcequota::DESCRIPTOR],
    errors: &[UNKNOWN],
    final_rules: &[EXACT_USAGE],
    ..BLANK
};

/// A list that is late delays the first count of its type. The quota is retried meanwhile.
const UNKNOWN: AllowedError = AllowedError::of(Category::Named(Decision("usage_unknown")), 40);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "count",
            steps: count,
            ..BASE
        },
        Scenario {
            name: "release",
            steps: release,
            ..BASE
        },
        Scenario {
            name: "finish",
            steps: finish,
            ..BASE
        },
        Scenario {
            name: "changed-limits",
            steps: changed_limits,
            ..BASE
        },
        Scenario {
            name: "types",
            steps: types,
            ..BASE
        },
        Scenario {
            name: "scopes",
            steps: scopes,
            ..BASE
        },
    ]
}

/// The quota `q` with this spec.
fn quota(spec: Value) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec,
    }))
}

fn pod(name: &str, fields: Value) -> Step {
    let mut pod = pod_on(name, "absent");
    let requests = json!({"requests": {"cpu": "500m"}});
    pod["spec"]["containers"][0]["resources"] = requests;
    for (field, value) in fields.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    Step::Create(pod)
}

fn config_map(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
}

fn gone(plural: &str, name: &str) -> Step {
    delete(plural, name, json!({"gracePeriodSeconds": 0}))
}

/// Waits until the quota shows this usage.
fn used(usage: Value) -> Step {
    Step::until("counted", move |state: &State| {
        let quota = state.get("resourcequotas", "default/q");
        quota.is_some_and(|quota| quota["status"]["used"] == usage)
    })
}

/// Objects exist before their quota.
fn count() -> Vec<Step> {
    vec![
        pod("a", json!({})),
        pod("b", json!({})),
        config_map("m"),
        quota(json!({"hard": {"pods": "5", "requests.cpu": "5", "configmaps": "5"}})),
        used(json!({"pods": "2", "requests.cpu": "1", "configmaps": "1"})),
    ]
}

/// Pods come and go, and the quota has room again.
fn release() -> Vec<Step> {
    vec![
        quota(json!({"hard": {"pods": "2", "cpu": "5"}})),
        used(json!({"pods": "0", "cpu": "0"})),
        pod("a", json!({})),
        pod("b", json!({})),
        used(json!({"pods": "2", "cpu": "1"})),
        gone("pods", "a"),
        used(json!({"pods": "1", "cpu": "500m"})),
        pod("c", json!({})),
        gone("pods", "b"),
        used(json!({"pods": "1", "cpu": "500m"})),
    ]
}

/// A pod finishes, and is deleted later.
fn finish() -> Vec<Step> {
    let succeeded = json!({"status": {"phase": "Succeeded"}});
    vec![
        quota(json!({"hard": {"pods": "5", "count/pods": "5"}})),
        used(json!({"pods": "0", "count/pods": "0"})),
        pod("a", json!({})),
        pod("b", json!({})),
        Step::Patch(path("pods", "a") + "/status", succeeded),
        used(json!({"pods": "1", "count/pods": "2"})),
        gone("pods", "a"),
        used(json!({"pods": "1", "count/pods": "1"})),
    ]
}

/// The user changes the limits while objects exist.
fn changed_limits() -> Vec<Step> {
    vec![
        config_map("a"),
        quota(json!({"hard": {"configmaps": "5", "secrets": "5"}})),
        used(json!({"configmaps": "1", "secrets": "0"})),
        patch(
            "resourcequotas",
            "q",
            json!({"spec": {"hard": {"secrets": null, "services": "3"}}}),
        ),
        used(json!({"configmaps": "1", "services": "0"})),
        config_map("b"),
        used(json!({"configmaps": "2", "services": "0"})),
    ]
}

/// Several types in one quota.
fn types() -> Vec<Step> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "selector": {"app": "s"}, "ports": [{"port": 80}]},
    });
    let one = |services: &str, ports: &str, maps: &str| json!({"services": services, "services.nodeports": ports, "count/configmaps": maps});
    vec![
        quota(
            json!({"hard": {"services": "2", "services.nodeports": "2", "count/configmaps": "2"}}),
        ),
        used(one("0", "0", "0")),
        Step::Create(service),
        config_map("m"),
        used(one("1", "1", "1")),
        patch("services", "s", json!({"spec": {"type": "ClusterIP"}})),
        used(one("1", "0", "1")),
        gone("configmaps", "m"),
        gone("services", "s"),
        used(one("0", "0", "0")),
    ]
}

/// A pod leaves the scope of the quota.
fn scopes() -> Vec<Step> {
    vec![
        quota(json!({"hard": {"pods": "5"}, "scopes": ["NotTerminating", "NotBestEffort"]})),
        used(json!({"pods": "0"})),
        pod("a", json!({})),
        pod("b", json!({"activeDeadlineSeconds": 3600})),
        used(json!({"pods": "1"})),
        patch(
            "pods",
            "a",
            json!({"spec": {"activeDeadlineSeconds": 3600}}),
        ),
        used(json!({"pods": "0"})),
    ]
}
