//! Scenarios of the EndpointSlice mirroring controller: Endpoints and Services that come, change
//! and go.

use serde_json::{Value, json};
use steersman_controllers::endpointslicemirroring;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, patch, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "endpointslicemirroring",
    controllers: &[endpointslicemirroring::DESCRIPTOR],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "addresses",
            steps: addresses,
            ..BASE
        },
        Scenario {
            name: "families",
            steps: families,
            ..BASE
        },
        Scenario {
            name: "ports",
            steps: ports,
            ..BASE
        },
        Scenario {
            name: "metadata",
            steps: metadata,
            ..BASE
        },
        Scenario {
            name: "selector",
            steps: selector,
            ..BASE
        },
        Scenario {
            name: "edited",
            steps: edited,
            ..BASE
        },
        Scenario {
            name: "deleted",
            steps: deleted,
            ..BASE
        },
    ]
}

/// The Service `db` without a selector.
fn service() -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]},
    }))
}

fn subsets(ips: &[&str], port: i32) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!([{"addresses": addresses, "ports": [{"name": "p", "port": port, "protocol": "TCP"}]}])
}

/// The Endpoints `db` with these addresses.
fn endpoints(ips: &[&str]) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db"}, "subsets": subsets(ips, 80),
    }))
}

fn change(ips: &[&str], port: i32) -> Step {
    patch("endpoints", "db", json!({"subsets": subsets(ips, port)}))
}

/// The mirrored slices.
fn slices(state: &State) -> impl Iterator<Item = &Value> {
    state
        .all("endpointslices")
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "db")
}

/// Waits until the slices have exactly these addresses.
fn mirrors(ips: &'static [&'static str]) -> Step {
    Step::until("mirrored", move |state| {
        let endpoints =
            slices(state).flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let mut found: Vec<&str> = endpoints
            .filter_map(|endpoint| endpoint["addresses"][0].as_str())
            .collect();
        found.sort_unstable();
        found == ips
    })
}

/// Waits until there is a slice for which `holds` is true.
fn has_slice(holds: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Step {
    Step::until("a slice", move |state| slices(state).any(&holds))
}

/// Addresses are added and removed.
fn addresses() -> Vec<Step> {
    vec![
        service(),
        endpoints(&["10.0.0.1"]),
        mirrors(&["10.0.0.1"]),
        change(&["10.0.0.1", "10.0.0.2"], 80),
        mirrors(&["10.0.0.1", "10.0.0.2"]),
        change(&["10.0.0.2"], 80),
        mirrors(&["10.0.0.2"]),
    ]
}

/// Addresses of one family are joined by those of the other one, and leave later.
fn families() -> Vec<Step> {
    vec![
        service(),
        endpoints(&["10.0.0.1"]),
        mirrors(&["10.0.0.1"]),
        change(&["10.0.0.1", "fd00::1"], 80),
        mirrors(&["10.0.0.1", "fd00::1"]),
        until_caches_are_current(),
        change(&["fd00::1"], 80),
        mirrors(&["fd00::1"]),
    ]
}

/// The port changes twice.
fn ports() -> Vec<Step> {
    let has_port = |port: i32| has_slice(move |slice| slice["ports"][0]["port"] == port);
    vec![
        service(),
        endpoints(&["10.0.0.1"]),
        mirrors(&["10.0.0.1"]),
        change(&["10.0.0.1"], 81),
        has_port(81),
        change(&["10.0.0.1"], 82),
        has_port(82),
    ]
}

/// Labels and annotations change.
fn metadata() -> Vec<Step> {
    let part = |part: &'static str, value: &'static str| {
        let change = patch(
            "endpoints",
            "db",
            json!({"metadata": {part: {"team": value}}}),
        );
        [
            change,
            has_slice(move |slice| slice["metadata"][part]["team"] == value),
        ]
    };
    let mut steps = vec![service(), endpoints(&["10.0.0.1"]), mirrors(&["10.0.0.1"])];
    for (member, value) in [("labels", "a"), ("annotations", "a"), ("labels", "b")] {
        steps.extend(part(member, value));
    }
    steps
}

/// The Service gains a selector, and loses it.
fn selector() -> Vec<Step> {
    let select = |selector: Value| patch("services", "db", json!({"spec": {"selector": selector}}));
    vec![
        service(),
        endpoints(&["10.0.0.1"]),
        mirrors(&["10.0.0.1"]),
        until_caches_are_current(),
        select(json!({"app": "db"})),
        mirrors(&[]),
        until_caches_are_current(),
        select(Value::Null),
        mirrors(&["10.0.0.1"]),
    ]
}

/// A user removes the endpoints of the slice, and adds a label.
fn edited() -> Vec<Step> {
    fn changed(state: &State, change: &Value) -> Vec<(String, Value)> {
        let root = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let names = slices(state).filter_map(|slice| slice["metadata"]["name"].as_str());
        names
            .map(|name| (format!("{root}/{name}"), change.clone()))
            .collect()
    }
    fn empty(state: &State) -> Vec<(String, Value)> {
        changed(state, &json!({"endpoints": []}))
    }
    fn labelled(state: &State) -> Vec<(String, Value)> {
        changed(state, &json!({"metadata": {"labels": {"mine": "1"}}}))
    }
    vec![
        service(),
        endpoints(&["10.0.0.1"]),
        mirrors(&["10.0.0.1"]),
        until_caches_are_current(),
        Step::PatchChosen(empty),
        mirrors(&["10.0.0.1"]),
        Step::PatchChosen(labelled),
        has_slice(|slice| slice["metadata"]["labels"]["mine"].is_null()),
    ]
}

/// Endpoints are deleted and created again.
fn deleted() -> Vec<Step> {
    vec![
        service(),
        endpoints(&["10.0.0.1", "fd00::1"]),
        mirrors(&["10.0.0.1", "fd00::1"]),
        until_caches_are_current(),
        delete("endpoints", "db", json!({})),
        mirrors(&[]),
        until_caches_are_current(),
        endpoints(&["10.0.0.2"]),
        mirrors(&["10.0.0.2"]),
    ]
}
