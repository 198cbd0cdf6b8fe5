//! A Deployment whose template the user replaces at any time, and a ReplicaSet that is scaled.

use serde_json::{Value, json};
use steersman_controllers::{deployment, replicaset};
use steersman_explore::World;
use steersman_perturb::{FinalRule, Rule, Scenario, Step, rules};

use crate::{BLANK, blank, expect, node, template};

const WORKLOADS: &[Rule] = &[
    rules::NO_SURPLUS,
    rules::NO_SHORTAGE,
    rules::SURGE,
    rules::MIN_AVAILABLE,
    rules::NEW_PODS_AVAILABLE,
];

/// If the template changes before its first ReplicaSet exists, there is none in the end. So the ends
/// differ.
const ROLLED_OUT: FinalRule = FinalRule {
    name: "the Deployment is rolled out",
    check: |state| {
        let fields = ["replicas", "updatedReplicas", "availableReplicas"];
        expect(state, "deployments", &fields.map(|field| (field, 1)))
    },
};

const SCALED: FinalRule = FinalRule {
    name: "the ReplicaSet is scaled",
    check: |state| {
        let fields = ["replicas", "readyReplicas", "availableReplicas"];
        expect(state, "replicasets", &fields.map(|field| (field, 1)))
    },
};

fn nodes() -> Vec<Value> {
    vec![node("node-a")]
}

pub(super) fn roll() -> World {
    let scenario = Scenario {
        controller: "deployment",
        name: "roll",
        controllers: &[deployment::DESCRIPTOR, replicaset::DESCRIPTOR],
        before: nodes,
        steps: || {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
            let web = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                    "template": template("web:1"), "strategy": strategy,
                },
            });
            let image = json!({"spec": {"template": template("web:2")}});
            let path = "/apis/apps/v1/namespaces/default/deployments/web".to_owned();
            vec![Step::Create(web), Step::Patch(path, image)]
        },
        rules: WORKLOADS,
        final_rules: &[ROLLED_OUT],
        ..BLANK
    };
    World {
        lags: &["deployments", "replicasets", "pods"],
        same_end: false,
        ..blank(scenario)
    }
}

pub(super) fn replica_set() -> World {
    let scenario = Scenario {
        controller: "replicaset",
        name: "scale",
        controllers: &[replicaset::DESCRIPTOR],
        before: nodes,
        steps: || {
            let web = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
                "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web:1")},
            });
            let path = "/apis/apps/v1/namespaces/default/replicasets/web".to_owned();
            vec![
                Step::Create(web),
                Step::Patch(path, json!({"spec": {"replicas": 1}})),
            ]
        },
        rules: &[rules::NO_SURPLUS, rules::NO_SHORTAGE],
        final_rules: &[SCALED],
        ..BLANK
    };
    World {
        lags: &["replicasets", "pods"],
        ..blank(scenario)
    }
}
