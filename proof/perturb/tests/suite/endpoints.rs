//! Scenarios of the Endpoints controller. The user runs the pods, in place of kubelets, so that
//! their addresses are the same in each run.

use serde_json::{Value, json};
use steersman_controllers::endpoint;
use steersman_perturb::rules::{EXACT_ENDPOINTS, READY_STAYS};
use steersman_perturb::{Churn, Scenario, State, Step};

use crate::objects::{BLANK, delete, patch, path, pod_on, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "endpoint",
    controllers: &[endpoint::DESCRIPTOR],
    rules: &[READY_STAYS],
    final_rules: &[EXACT_ENDPOINTS],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "pods",
            steps: pods,
            ..BASE
        },
        Scenario {
            name: "readiness",
            steps: readiness,
            ..BASE
        },
        Scenario {
            name: "relabelled",
            steps: relabelled,
            ..BASE
        },
        Scenario {
            name: "rolled",
            steps: rolled,
            ..BASE
        },
        Scenario {
            name: "deleted",
            steps: deleted,
            ..BASE
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            // The new Service may come before the controller deletes the old Endpoints.
            churn: Churn::Within(&[("endpoints", -1..=1)]),
            ..BASE
        },
        Scenario {
            name: "ports",
            steps: ports,
            ..BASE
        },
    ]
}

fn service(name: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "None", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    }))
}

fn status(name: &str, number: u8, is_ready: bool) -> Step {
    let ip = format!("10.0.0.{number}");
    let ready = if is_ready { "True" } else { "False" };
    let status = json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready}],
    });
    Step::Patch(path("pods", name) + "/status", json!({ "status": status }))
}

/// A pod with the address 10.0.0.`number`.
fn pod(name: &str, number: u8) -> Vec<Step> {
    vec![
        Step::Create(pod_on(name, "absent")),
        status(name, number, true),
    ]
}

fn kill(name: &str) -> Step {
    delete("pods", name, json!({"gracePeriodSeconds": 0}))
}

/// Waits until Endpoints have these numbers as ready and as not ready addresses.
fn addresses(name: &'static str, ready: &'static [u8], not_ready: &'static [u8]) -> Step {
    Step::until("addresses", move |state: &State| {
        let Some(endpoints) = state.get("endpoints", &format!("default/{name}")) else {
            return false;
        };
        has(endpoints, "addresses", ready) && has(endpoints, "notReadyAddresses", not_ready)
    })
}

fn has(endpoints: &Value, list: &str, numbers: &[u8]) -> bool {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let lists = subsets.filter_map(|subset| subset[list].as_array());
    let found: Vec<&str> = lists
        .flatten()
        .filter_map(|address| address["ip"].as_str())
        .collect();
    let expected: Vec<String> = numbers.iter().map(|n| format!("10.0.0.{n}")).collect();
    found == expected
}

fn concat(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

fn pods() -> Vec<Step> {
    concat([
        vec![service("web"), addresses("web", &[], &[])],
        pod("a", 1),
        pod("b", 2),
        vec![
            addresses("web", &[1, 2], &[]),
            kill("a"),
            addresses("web", &[2], &[]),
        ],
    ])
}

fn readiness() -> Vec<Step> {
    concat([
        pod("a", 1),
        pod("b", 2),
        vec![
            service("web"),
            addresses("web", &[1, 2], &[]),
            status("a", 1, false),
            addresses("web", &[2], &[1]),
            status("a", 1, true),
            addresses("web", &[1, 2], &[]),
            // Both changes may reach the controller as one.
            status("b", 2, false),
            status("b", 2, true),
            until_caches_are_current(),
            addresses("web", &[1, 2], &[]),
        ],
    ])
}

fn relabelled() -> Vec<Step> {
    let label = |app: &str| patch("pods", "a", json!({"metadata": {"labels": {"app": app}}}));
    concat([
        vec![service("web")],
        pod("a", 1),
        pod("b", 2),
        vec![
            addresses("web", &[1, 2], &[]),
            label("other"),
            addresses("web", &[2], &[]),
            label("web"),
            addresses("web", &[1, 2], &[]),
        ],
    ])
}

/// Each pod is replaced by one with another address.
fn rolled() -> Vec<Step> {
    concat([
        vec![service("web")],
        pod("a", 1),
        pod("b", 2),
        vec![addresses("web", &[1, 2], &[])],
        pod("c", 3),
        vec![kill("a"), addresses("web", &[2, 3], &[])],
        pod("d", 4),
        vec![kill("b"), addresses("web", &[3, 4], &[])],
    ])
}

/// The Endpoints go with their Service. The other Service keeps its own.
fn deleted() -> Vec<Step> {
    concat([
        vec![service("web"), service("other")],
        pod("a", 1),
        vec![
            addresses("web", &[1], &[]),
            addresses("other", &[1], &[]),
            delete("services", "web", json!({})),
            Step::until("gone", |state| {
                state.get("endpoints", "default/web").is_none()
            }),
            addresses("other", &[1], &[]),
        ],
    ])
}

/// A user deletes Endpoints, and then a Service, which comes back at once.
fn recreated() -> Vec<Step> {
    concat([
        vec![service("web")],
        pod("a", 1),
        vec![
            addresses("web", &[1], &[]),
            until_caches_are_current(),
            delete("endpoints", "web", json!({})),
            addresses("web", &[1], &[]),
            until_caches_are_current(),
            delete("services", "web", json!({})),
            service("web"),
            until_caches_are_current(),
            addresses("web", &[1], &[]),
        ],
    ])
}

fn ports() -> Vec<Step> {
    let ports = |number: u16| {
        let port = json!({"name": "http", "port": 80, "targetPort": number, "protocol": "TCP"});
        patch("services", "web", json!({"spec": {"ports": [port]}}))
    };
    let has_port = |number: u16| {
        Step::until("port", move |state: &State| {
            let endpoints = state.get("endpoints", "default/web");
            endpoints.is_some_and(|all| all["subsets"][0]["ports"][0]["port"] == number)
        })
    };
    concat([
        vec![service("web")],
        pod("a", 1),
        vec![
            addresses("web", &[1], &[]),
            ports(9090),
            has_port(9090),
            ports(9091),
            has_port(9091),
        ],
    ])
}
