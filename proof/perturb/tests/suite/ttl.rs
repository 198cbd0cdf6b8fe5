//! Scenarios of the TTL controller: nodes join and leave, and users change the annotation. The nodes
//! have no kubelets.

use serde_json::{Value, json};
use steersman_controllers::ttl;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, path, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "ttl",
    controllers: &[ttl::DESCRIPTOR],
    ..BLANK
};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Clusters with more nodes than this get the second value.
const SMALL: usize = 100;

/// Nodes that are updated after the size of the cluster has changed.
const TOUCHED: usize = 3;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "join",
            steps: join,
            ..BASE
        },
        Scenario {
            name: "leave",
            steps: leave,
            ..BASE
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..BASE
        },
        Scenario {
            name: "overwritten",
            steps: overwritten,
            ..BASE
        },
        Scenario {
            name: "grows",
            steps: grows,
            ..BASE
        },
        Scenario {
            name: "shrinks",
            steps: shrinks,
            ..BASE
        },
    ]
}

fn node(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
}

/// As many nodes as a small cluster may have, all with its value.
fn small_cluster() -> Vec<Step> {
    let node = |number: usize| {
        let annotations = json!({ (ANNOTATION): "0" });
        let metadata = json!({"name": format!("n{number:03}"), "annotations": annotations});
        Step::Create(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
    };
    (0..SMALL).map(node).collect()
}

/// Waits until there are this many nodes, each with this value.
fn all_have(ttl: &'static str, nodes: usize) -> Step {
    let has = move |node: &&Value| node["metadata"]["annotations"][ANNOTATION] == ttl;
    Step::until("all nodes have the value", move |state: &State| {
        state.all("nodes").filter(has).count() == nodes && state.all("nodes").count() == nodes
    })
}

/// The first nodes with another label, as an update of their kubelets.
fn touched(state: &State, label: &str) -> Vec<(String, Value)> {
    let mark = json!({"metadata": {"labels": {"touched": label}}});
    let name = |node: &Value| {
        node["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let first = state.all("nodes").take(TOUCHED);
    first
        .map(|node| (path("nodes", &name(node)), mark.clone()))
        .collect()
}

const TOUCH: Step = Step::PatchChosen(|state| touched(state, "once"));

const TOUCH_AGAIN: Step = Step::PatchChosen(|state| touched(state, "twice"));

/// Waits until the touched nodes and the node `last` have this value.
fn touched_have(ttl: &'static str) -> Step {
    let has = move |node: &Value| node["metadata"]["annotations"][ANNOTATION] == ttl;
    Step::until("the touched nodes have the value", move |state: &State| {
        state.all("nodes").take(TOUCHED).all(has) && state.get("nodes", "last").is_some_and(has)
    })
}

fn join() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        all_have("0", 2),
        node("c"),
        all_have("0", 3),
    ]
}

/// Nodes leave while kubelets update the others.
fn leave() -> Vec<Step> {
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    vec![
        node("a"),
        node("b"),
        node("c"),
        Step::Patch(path("nodes", "a"), label.clone()),
        delete("nodes", "b", json!({})),
        all_have("0", 2),
        Step::Patch(path("nodes", "c"), label),
        delete("nodes", "a", json!({})),
        all_have("0", 1),
    ]
}

fn recreated() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        all_have("0", 2),
        delete("nodes", "a", json!({})),
        node("a"),
        all_have("0", 2),
    ]
}

/// The controller restores the value after users change or remove it.
fn overwritten() -> Vec<Step> {
    let set = |value: Value| {
        let annotations = json!({ (ANNOTATION): value });
        Step::Patch(
            path("nodes", "a"),
            json!({"metadata": {"annotations": annotations}}),
        )
    };
    vec![
        node("a"),
        node("b"),
        all_have("0", 2),
        set(json!("77")),
        all_have("0", 2),
        set(json!(null)),
        all_have("0", 2),
        set(json!("soon")),
        all_have("0", 2),
    ]
}

/// The new node gets the value of the larger cluster. The others get it with their next update.
fn grows() -> Vec<Step> {
    let mut steps = small_cluster();
    steps.extend([
        node("last"),
        until_caches_are_current(),
        TOUCH,
        touched_have("15"),
    ]);
    steps
}

/// Below 90 nodes, nodes get the value of the smaller cluster with their next update.
fn shrinks() -> Vec<Step> {
    let mut steps = grows();
    steps.extend((50..62).map(|number| delete("nodes", &format!("n{number:03}"), json!({}))));
    let last = json!({"metadata": {"labels": {"touched": "yes"}}});
    steps.extend([
        until_caches_are_current(),
        TOUCH_AGAIN,
        Step::Patch(path("nodes", "last"), last),
        touched_have("0"),
    ]);
    steps
}
