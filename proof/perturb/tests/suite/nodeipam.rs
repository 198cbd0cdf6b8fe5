//! Scenarios of the node IPAM controller: nodes come, go and come back. The user creates them without
//! kubelets.

use serde_json::{Value, json};
use steersman_controllers::nodeipam;
use steersman_perturb::rules::OWN_BLOCK;
use steersman_perturb::{AllowedError, Scenario, State, Step};

use crate::objects::{BLANK, delete, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "nodeipam",
    controllers: &[nodeipam::DESCRIPTOR],
    configure: |context| {
        context
            .with_flag("allocate-node-cidrs", "true")
            .with_flag("cluster-cidr", "10.0.0.0/20")
    },
    rules: &[OWN_BLOCK],
    ..BLANK
};

/// Two blocks only.
const SMALL: Scenario = Scenario {
    configure: |context| {
        context
            .with_flag("allocate-node-cidrs", "true")
            .with_flag("cluster-cidr", "10.0.0.0/23")
    },
    ..BASE
};

/// Syncs of the node without a block, until the user deletes another one.
const NO_BLOCK: &[AllowedError] =
    &[AllowedError::with_message("sync failed", 60).from("node-ipam-controller")];

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "join",
            steps: join,
            ..BASE
        },
        Scenario {
            name: "dual-stack",
            configure: |context| {
                context
                    .with_flag("allocate-node-cidrs", "true")
                    .with_flag("cluster-cidr", "10.0.0.0/20,fd00::/60")
                    .with_flag("service-cluster-ip-range", "10.0.0.0/24,fd00::/112")
            },
            steps: join,
            ..BASE
        },
        Scenario {
            name: "own-blocks",
            steps: own_blocks,
            ..BASE
        },
        Scenario {
            name: "replaced",
            steps: replaced,
            // A node that comes before the cache shows the deletion of another one waits.
            errors: NO_BLOCK,
            ..SMALL
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..SMALL
        },
        Scenario {
            name: "exhausted",
            steps: exhausted,
            errors: NO_BLOCK,
            ..SMALL
        },
        Scenario {
            name: "rolled",
            steps: rolled,
            ..BASE
        },
    ]
}

fn node(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
}

fn remove(name: &str) -> Step {
    delete("nodes", name, json!({}))
}

/// Waits until there are this many nodes, each with a block.
fn given(nodes: usize) -> Step {
    let has_block = |node: &&Value| node["spec"]["podCIDR"].is_string();
    Step::until("all nodes have a block", move |state: &State| {
        state.all("nodes").filter(has_block).count() == nodes && state.all("nodes").count() == nodes
    })
}

fn join() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        node("c"),
        given(3),
        node("d"),
        node("e"),
        given(5),
    ]
}

/// Nodes that were registered with a block, as another allocator does.
fn own_blocks() -> Vec<Step> {
    let with_block = |name: &str, block: &str| {
        Step::Create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"podCIDR": block, "podCIDRs": [block]},
        }))
    };
    vec![
        with_block("a", "10.0.1.0/24"),
        with_block("b", "10.0.2.0/24"),
        until_caches_are_current(),
        node("c"),
        node("d"),
        given(4),
    ]
}

fn replaced() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        given(2),
        remove("a"),
        node("c"),
        given(2),
        remove("b"),
        node("d"),
        given(2),
    ]
}

/// A node of the same name comes back at once.
fn recreated() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        given(2),
        remove("a"),
        node("a"),
        given(2),
        remove("b"),
        node("b"),
        given(2),
    ]
}

/// The third node waits until the user deletes another one.
fn exhausted() -> Vec<Step> {
    vec![
        node("a"),
        node("b"),
        given(2),
        node("c"),
        until_caches_are_current(),
        remove("a"),
        given(2),
    ]
}

/// New nodes come before old ones go.
fn rolled() -> Vec<Step> {
    let mut steps = vec![node("a"), node("b"), given(2)];
    for (old, new) in [("a", "c"), ("b", "d"), ("c", "e")] {
        steps.extend([node(new), given(3), remove(old), given(2)]);
    }
    steps
}
