//! Scenarios of the service CIDR controller. The user allocates addresses, in place of the API
//! server.

use serde_json::json;
use steersman_controllers::servicecidrs;
use steersman_perturb::rules::COVERED_ADDRESS;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, has_condition, is_gone, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "service-cidr",
    controllers: &[servicecidrs::DESCRIPTOR],
    rules: &[COVERED_ADDRESS],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "created",
            steps: created,
            ..BASE
        },
        Scenario {
            name: "unused",
            steps: unused,
            ..BASE
        },
        Scenario {
            name: "used",
            steps: used,
            ..BASE
        },
        Scenario {
            name: "blocked",
            steps: blocked,
            ..BASE
        },
        Scenario {
            name: "migrated",
            steps: migrated,
            ..BASE
        },
        Scenario {
            name: "dual-stack",
            steps: dual_stack,
            ..BASE
        },
    ]
}

fn range(name: &str, cidrs: &[&str]) -> Step {
    Step::Create(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name}, "spec": {"cidrs": cidrs},
    }))
}

fn address(name: &str) -> Step {
    let family = if name.contains(':') { "IPv6" } else { "IPv4" };
    Step::Create(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": name, "labels": {
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            "ipaddress.kubernetes.io/ip-family": family,
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}},
    }))
}

fn condition(name: &'static str, status: &'static str, reason: &'static str) -> Step {
    Step::until("condition", move |state: &State| {
        let range = state.get("servicecidrs", name);
        range.is_some_and(|range| has_condition(range, "Ready", status, reason))
    })
}

fn ready(name: &'static str) -> Step {
    condition(name, "True", "")
}

fn terminating(name: &'static str) -> Step {
    condition(name, "False", "Terminating")
}

fn remove(plural: &str, name: &str) -> Step {
    delete(plural, name, json!({}))
}

fn created() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24"]),
        range("b", &["10.97.0.0/24"]),
        ready("a"),
        ready("b"),
    ]
}

fn unused() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24"]),
        range("b", &["10.97.0.0/24"]),
        ready("a"),
        ready("b"),
        remove("servicecidrs", "a"),
        is_gone("servicecidrs", "a"),
    ]
}

/// The range goes with its last address.
fn used() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24"]),
        ready("a"),
        address("10.96.0.7"),
        address("10.96.0.8"),
        until_caches_are_current(),
        remove("servicecidrs", "a"),
        terminating("a"),
        remove("ipaddresses", "10.96.0.7"),
        until_caches_are_current(),
        remove("ipaddresses", "10.96.0.8"),
        is_gone("servicecidrs", "a"),
    ]
}

/// The range stays, because its address stays.
fn blocked() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24"]),
        ready("a"),
        address("10.96.0.7"),
        until_caches_are_current(),
        remove("servicecidrs", "a"),
        terminating("a"),
        until_caches_are_current(),
    ]
}

/// An equal range takes the addresses over.
fn migrated() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24"]),
        ready("a"),
        address("10.96.0.7"),
        until_caches_are_current(),
        remove("servicecidrs", "a"),
        terminating("a"),
        range("b", &["10.96.0.0/24"]),
        is_gone("servicecidrs", "a"),
        ready("b"),
    ]
}

fn dual_stack() -> Vec<Step> {
    vec![
        range("a", &["10.96.0.0/24", "fd00::/112"]),
        ready("a"),
        address("fd00::7"),
        until_caches_are_current(),
        remove("servicecidrs", "a"),
        terminating("a"),
        remove("ipaddresses", "fd00::7"),
        is_gone("servicecidrs", "a"),
    ]
}
