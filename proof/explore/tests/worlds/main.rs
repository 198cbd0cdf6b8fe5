//! The worlds: one small cluster per controller, with at most two nodes and four pods.

mod deployment;
mod garbage;
mod lost_node;
mod network;
mod sets;
mod volumes;

use std::process::ExitCode;
use std::sync::LazyLock;

use serde_json::{Value, json};
use steersman_explore::{World, kubelets};
use steersman_perturb::{Scenario, State};

/// All worlds, in the order of the table.
static ALL: LazyLock<Vec<World>> = LazyLock::new(|| {
    vec![
        deployment::roll(),
        deployment::replica_set(),
        sets::stateful(),
        sets::daemon(),
        sets::job(),
        network::endpoint_slice(),
        garbage::collector(),
        lost_node::lost_node(),
        volumes::binder(),
    ]
});

fn main() -> ExitCode {
    steersman_explore::main(&ALL)
}

/// A scenario without steps, rules and controllers.
const BLANK: Scenario = Scenario::BLANK;

/// A world with kubelets, without steps.
fn blank(scenario: Scenario) -> World {
    World {
        scenario,
        acts: kubelets,
        pulse: |_, _| Vec::new(),
        longest_wait: 30,
        lags: &[],
        faults: 1,
        late_answers: true,
        folds_nodes: false,
        same_end: true,
    }
}

/// A node with the UID of its name.
fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}},
    })
}

/// A pod template with one container of this image and the label `app`.
fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]},
    })
}

/// An error unless the object exists, its status is about its last spec, and each of these fields of
/// the status has this number.
fn expect(state: &State, plural: &str, fields: &[(&str, u64)]) -> Result<(), String> {
    let Some(object) = state.get(plural, "default/web") else {
        return Err("the object is gone".to_owned());
    };
    let status = &object["status"];
    let is_seen = status["observedGeneration"] == object["metadata"]["generation"];
    let number = |field: &str| status[field].as_u64().unwrap_or(0);
    if is_seen
        && fields
            .iter()
            .all(|(field, expected)| number(field) == *expected)
    {
        Ok(())
    } else {
        Err(status.to_string())
    }
}
