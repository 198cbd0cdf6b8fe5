//! Scenarios of the status controller of policies.

use serde_json::{Value, json};
use steersman_controllers::validatingadmissionpolicystatus;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::BLANK;

const BASE: Scenario = Scenario {
    controller: "validatingadmissionpolicy-status",
    controllers: &[validatingadmissionpolicystatus::DESCRIPTOR],
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
            name: "changed",
            steps: changed,
            ..BASE
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..BASE
        },
    ]
}

fn path(name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}")
}

fn policy(name: &str, expression: &str) -> Step {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"],
    });
    Step::Create(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}],
        },
    }))
}

const RIGHT: &str = "object.spec.replicas > 1";
const WRONG: &str = "object.spec.replicas > '1'";

/// Waits until the current generation has this number of warnings.
fn checked(name: &'static str, warnings: usize) -> Step {
    Step::until("checked", move |state: &State| {
        let Some(policy) = state.get("validatingadmissionpolicies", name) else {
            return false;
        };
        let status = &policy["status"];
        let found = status["typeChecking"]["expressionWarnings"].as_array();
        status["observedGeneration"] == policy["metadata"]["generation"]
            && found.map_or(0, Vec::len) == warnings
    })
}

fn with_expression(name: &str, expression: &str) -> Step {
    let validations: Value = json!([{"expression": expression}]);
    Step::Patch(path(name), json!({"spec": {"validations": validations}}))
}

fn created() -> Vec<Step> {
    vec![
        policy("right", RIGHT),
        policy("wrong", WRONG),
        checked("right", 0),
        checked("wrong", 1),
    ]
}

fn changed() -> Vec<Step> {
    vec![
        policy("p", WRONG),
        checked("p", 1),
        with_expression("p", RIGHT),
        checked("p", 0),
        with_expression("p", "object.no > 1"),
        checked("p", 1),
    ]
}

/// The second policy has the same generation as the first one.
fn recreated() -> Vec<Step> {
    vec![
        policy("p", RIGHT),
        Step::Delete(path("p"), json!({})),
        policy("p", WRONG),
        checked("p", 1),
    ]
}
