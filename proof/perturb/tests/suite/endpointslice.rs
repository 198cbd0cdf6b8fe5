//! Scenarios of the EndpointSlice controller: pods that come, change and go, and foreign changes.

use serde_json::{Value, json};
use steersman_controllers::endpointslice;
use steersman_perturb::{Churn, Rule, Scenario, State, Step, rules};

use crate::objects::{BLANK, delete, patch, path, pod_on, until_caches_are_current};

const RULES: &[Rule] = &[rules::NO_MISSING_ENDPOINT];

const BASE: Scenario = Scenario {
    controller: "endpointslice",
    controllers: &[endpointslice::DESCRIPTOR],
    rules: RULES,
    final_rules: &[rules::EXACT_ENDPOINTS],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "readiness",
            steps: readiness,
            ..BASE
        },
        Scenario {
            name: "replaced",
            steps: replaced,
            ..BASE
        },
        Scenario {
            name: "target-port",
            steps: target_port,
            ..BASE
        },
        Scenario {
            name: "edited",
            steps: edited,
            ..BASE
        },
        Scenario {
            name: "relabelled",
            steps: relabelled,
            ..BASE
        },
        Scenario {
            name: "metadata",
            steps: metadata,
            ..BASE
        },
        Scenario {
            name: "two-services",
            steps: two_services,
            // A slice whose first event is lost, while those of the other Service come, gets a twin,
            // which goes after the next list.
            churn: Churn::Within(&[("endpointslices", 0..=1)]),
            ..BASE
        },
    ]
}

/// A Service for the pods with this value of the label `app`.
pub(crate) fn service(name: &str, app: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }))
}

fn node() -> Step {
    Step::Load(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

/// A ready pod with this address.
fn pod(name: &str, ip: &str) -> Vec<Step> {
    vec![Step::Create(pod_on(name, "node")), ready(name, ip, true)]
}

fn ready(name: &str, ip: &str, is_ready: bool) -> Step {
    let condition = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    let status =
        json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]});
    Step::Patch(path("pods", name) + "/status", json!({ "status": status }))
}

fn kill(name: &str) -> Step {
    delete("pods", name, json!({"gracePeriodSeconds": 0}))
}

/// The addresses of the ready endpoints of a Service, sorted.
fn addresses(state: &State, service: &str) -> Vec<String> {
    let slices = state.all("endpointslices");
    let slices =
        slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    let endpoints = slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let mut addresses: Vec<String> = ready
        .filter_map(|endpoint| Some(endpoint["addresses"][0].as_str()?.to_owned()))
        .collect();
    addresses.sort();
    addresses
}

/// Waits until exactly these addresses of a Service are ready.
fn serves(service: &'static str, ips: &'static [&'static str]) -> Step {
    Step::until("serving", move |state| addresses(state, service) == ips)
}

fn concat(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

/// Pods appear, become ready, and are not ready for a while.
fn readiness() -> Vec<Step> {
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        vec![
            Step::Create(pod_on("b", "node")),
            ready("b", "10.0.0.2", false),
        ],
        vec![serves("web", &["10.0.0.1"]), ready("b", "10.0.0.2", true)],
        vec![
            serves("web", &["10.0.0.1", "10.0.0.2"]),
            ready("a", "10.0.0.1", false),
        ],
        vec![serves("web", &["10.0.0.2"]), ready("a", "10.0.0.1", true)],
        vec![serves("web", &["10.0.0.1", "10.0.0.2"])],
    ])
}

/// Pods are replaced one after the other, as in a roll-out.
fn replaced() -> Vec<Step> {
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        pod("b", "10.0.0.2"),
        vec![
            serves("web", &["10.0.0.1", "10.0.0.2"]),
            until_caches_are_current(),
        ],
        pod("c", "10.0.0.3"),
        vec![kill("a")],
        pod("d", "10.0.0.4"),
        vec![kill("b"), serves("web", &["10.0.0.3", "10.0.0.4"])],
    ])
}

/// The target port of a Service changes twice.
fn target_port() -> Vec<Step> {
    let ports = |port: i32| {
        let ports = json!([{"name": "http", "port": 80, "targetPort": port}]);
        patch("services", "web", json!({"spec": {"ports": ports}}))
    };
    let has_port = |port: i32| {
        Step::until("port", move |state| {
            let mut slices = state.all("endpointslices");
            slices.any(|slice| slice["ports"][0]["port"] == port)
        })
    };
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        vec![serves("web", &["10.0.0.1"]), ports(8081), has_port(8081)],
        vec![ports(8082), has_port(8082), serves("web", &["10.0.0.1"])],
    ])
}

/// A user removes the endpoints of all slices, and adds a label.
fn edited() -> Vec<Step> {
    fn slices(state: &State, change: &Value) -> Vec<(String, Value)> {
        let root = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let slices = state.all("endpointslices");
        let ours = slices
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        let names = ours.filter_map(|slice| slice["metadata"]["name"].as_str());
        names
            .map(|name| (format!("{root}/{name}"), change.clone()))
            .collect()
    }
    fn empty(state: &State) -> Vec<(String, Value)> {
        slices(state, &json!({"endpoints": []}))
    }
    fn labelled(state: &State) -> Vec<(String, Value)> {
        slices(state, &json!({"metadata": {"labels": {"mine": "1"}}}))
    }
    let clean = Step::until("without the label", |state| {
        state
            .all("endpointslices")
            .all(|slice| slice["metadata"]["labels"]["mine"].is_null())
    });
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        vec![serves("web", &["10.0.0.1"]), until_caches_are_current()],
        vec![Step::PatchChosen(empty), serves("web", &["10.0.0.1"])],
        vec![
            Step::PatchChosen(labelled),
            clean,
            serves("web", &["10.0.0.1"]),
        ],
    ])
}

/// Pods leave a Service and come back by their labels.
fn relabelled() -> Vec<Step> {
    let label = |name: &str, app: &str| {
        let labels = json!({"metadata": {"labels": {"app": app}}});
        patch("pods", name, labels)
    };
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        pod("b", "10.0.0.2"),
        vec![
            serves("web", &["10.0.0.1", "10.0.0.2"]),
            label("a", "other"),
        ],
        vec![serves("web", &["10.0.0.2"]), until_caches_are_current()],
        vec![label("a", "web"), serves("web", &["10.0.0.1", "10.0.0.2"])],
    ])
}

/// Labels and traffic distribution of a Service change.
fn metadata() -> Vec<Step> {
    let label = |value: Value| {
        patch(
            "services",
            "web",
            json!({"metadata": {"labels": {"team": value}}}),
        )
    };
    let has_label = |value: Value| {
        Step::until("label", move |state| {
            let mut slices = state.all("endpointslices");
            slices.any(|slice| slice["metadata"]["labels"]["team"] == value)
        })
    };
    let near = |value: Value| {
        patch(
            "services",
            "web",
            json!({"spec": {"trafficDistribution": value}}),
        )
    };
    let has_hint = |zone: Value| {
        Step::until("hint", move |state| {
            let mut slices = state.all("endpointslices");
            slices.any(|slice| slice["endpoints"][0]["hints"]["forZones"][0]["name"] == zone)
        })
    };
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        vec![
            serves("web", &["10.0.0.1"]),
            label(json!("a")),
            has_label(json!("a")),
        ],
        vec![near(json!("PreferSameZone")), has_hint(json!("a"))],
        vec![
            label(json!("b")),
            has_label(json!("b")),
            serves("web", &["10.0.0.1"]),
        ],
    ])
}

/// Two Services select the same pods, and one of them is created later and deleted.
fn two_services() -> Vec<Step> {
    concat([
        vec![node(), service("web", "web")],
        pod("a", "10.0.0.1"),
        vec![serves("web", &["10.0.0.1"]), service("other", "web")],
        pod("b", "10.0.0.2"),
        vec![
            serves("other", &["10.0.0.1", "10.0.0.2"]),
            serves("web", &["10.0.0.1", "10.0.0.2"]),
        ],
        vec![patch(
            "services",
            "other",
            json!({"spec": {"selector": {"app": "none"}}}),
        )],
        vec![
            serves("other", &[]),
            serves("web", &["10.0.0.1", "10.0.0.2"]),
        ],
    ])
}
