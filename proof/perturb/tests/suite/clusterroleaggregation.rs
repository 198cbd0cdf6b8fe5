//! Scenarios of the ClusterRole aggregation controller.

use serde_json::{Value, json};
use steersman_controllers::clusterroleaggregation;
use steersman_perturb::rules::GRANTED;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, patch};

const BASE: Scenario = Scenario {
    controller: "clusterrole-aggregation",
    controllers: &[clusterroleaggregation::DESCRIPTOR],
    rules: &[GRANTED],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "filled",
            steps: filled,
            ..BASE
        },
        Scenario {
            name: "relabelled",
            steps: relabelled,
            ..BASE
        },
        Scenario {
            name: "chain",
            steps: chain,
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
            ..BASE
        },
    ]
}

/// A role with the label `team` and a rule for the resource `resource`.
fn role(name: &str, team: &str, resource: &str) -> Value {
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"team": team}}, "rules": [rule],
    })
}

/// A role with the label `own` that selects the roles with the label `team`.
fn sum(name: &str, team: &str, own: &str) -> Step {
    let mut role = role(name, own, "stale");
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"team": team}}]});
    Step::Create(role)
}

fn part(name: &str, team: &str, resource: &str) -> Step {
    Step::Create(role(name, team, resource))
}

/// Waits until the role has rules for exactly these resources, in this order.
fn has(name: &'static str, resources: &'static [&'static str]) -> Step {
    Step::until("aggregated", move |state: &State| {
        let rules = state
            .get("clusterroles", name)
            .and_then(|role| role["rules"].as_array());
        let found = rules
            .into_iter()
            .flatten()
            .map(|rule| &rule["resources"][0]);
        found.eq(resources.iter())
    })
}

fn filled() -> Vec<Step> {
    vec![
        part("b", "x", "pods"),
        sum("all", "x", ""),
        has("all", &["pods"]),
        part("a", "x", "nodes"),
        part("c", "y", "secrets"),
        has("all", &["nodes", "pods"]),
    ]
}

fn relabelled() -> Vec<Step> {
    let team = |name: &str, team: &str| {
        patch(
            "clusterroles",
            name,
            json!({"metadata": {"labels": {"team": team}}}),
        )
    };
    let mut steps = filled();
    steps.extend([
        team("a", "y"),
        has("all", &["pods"]),
        team("c", "x"),
        team("b", "y"),
        has("all", &["secrets"]),
    ]);
    steps
}

/// The role `top` gets the rules of a part through two other roles.
fn chain() -> Vec<Step> {
    vec![
        sum("top", "c", ""),
        sum("middle", "b", "c"),
        sum("bottom", "a", "b"),
        part("part", "a", "pods"),
        has("top", &["pods"]),
        delete("clusterroles", "part", json!({})),
        part("other", "a", "nodes"),
        has("top", &["nodes"]),
    ]
}

fn deleted() -> Vec<Step> {
    let mut steps = filled();
    steps.extend([
        delete("clusterroles", "a", json!({})),
        has("all", &["pods"]),
        delete("clusterroles", "b", json!({})),
        has("all", &[]),
    ]);
    steps
}

/// The aggregated role is deleted and created again, with another selector.
fn recreated() -> Vec<Step> {
    let mut steps = filled();
    steps.extend([
        delete("clusterroles", "all", json!({})),
        part("d", "x", "events"),
        sum("all", "y", ""),
        has("all", &["secrets"]),
    ]);
    steps
}
