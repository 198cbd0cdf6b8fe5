//! Scenarios of the ResourcePoolStatusRequest controller. The type is a CustomResourceDefinition,
//! because API servers lack it by default.

use serde_json::{Value, json};
use steersman_controllers::resourcepoolstatusrequest;
use steersman_perturb::rules::ANSWERED_ONCE;
use steersman_perturb::{AllowedError, Scenario, State, Step};

use crate::objects::{BLANK, is_gone, patch, until_caches_are_current};

const PLURAL: &str = "resourcepoolstatusrequests";

const NAME: &str = "resourcepoolstatusrequest-controller";

/// A sync fails while slices are missing.
const INCOMPLETE: &[AllowedError] = &[AllowedError::with_message("sync failed", 10).from(NAME)];

const BASE: Scenario = Scenario {
    controller: NAME,
    controllers: &[resourcepoolstatusrequest::DESCRIPTOR],
    rules: &[ANSWERED_ONCE],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name, steps| Scenario {
        name,
        steps,
        ..BASE
    };
    vec![
        scenario("answered", answered),
        Scenario {
            errors: INCOMPLETE,
            ..scenario("incomplete", incomplete)
        },
        scenario("expired", expired),
    ]
}

/// The type exists, and the caches know it.
fn definition() -> [Step; 2] {
    let names = json!({
        "kind": "ResourcePoolStatusRequest", "listKind": "ResourcePoolStatusRequestList",
        "plural": PLURAL, "singular": "resourcepoolstatusrequest",
    });
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1alpha3", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    });
    let approved = "https://github.com/kubernetes/enhancements";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{PLURAL}.resource.k8s.io"),
            "annotations": {"api-approved.kubernetes.io": approved},
        },
        "spec": {
            "group": "resource.k8s.io", "scope": "Cluster", "names": names, "versions": [version],
        },
    });
    [Step::Create(definition), until_caches_are_current()]
}

/// A slice of a pool of two slices.
fn slice(name: &str) -> Step {
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
    Step::Create(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "n", "pool": pool,
            "devices": [{"name": format!("{name}-0")}, {"name": format!("{name}-1")}],
        },
    }))
}

fn request(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name}, "spec": {"driver": "gpu.example.com"},
    })
}

/// Waits until the request has its answer: four devices.
fn has_answer(name: &'static str) -> Step {
    Step::until("the request is answered", move |state: &State| {
        let request = state.get(PLURAL, name);
        request.is_some_and(|request| request["status"]["pools"][0]["totalDevices"] == 4)
    })
}

fn answered() -> Vec<Step> {
    let mut steps = Vec::from(definition());
    steps.extend([
        slice("a"),
        slice("b"),
        until_caches_are_current(),
        Step::Create(request("one")),
        Step::Create(request("two")),
        has_answer("one"),
        has_answer("two"),
    ]);
    steps
}

/// A slice is late. The user touches the request afterwards, as the controller has given up.
fn incomplete() -> Vec<Step> {
    let mut steps = Vec::from(definition());
    steps.extend([
        slice("a"),
        until_caches_are_current(),
        Step::Create(request("one")),
        until_caches_are_current(),
        slice("b"),
        until_caches_are_current(),
        patch(
            PLURAL,
            "one",
            json!({"metadata": {"labels": {"touched": "yes"}}}),
        ),
        has_answer("one"),
    ]);
    steps
}

/// An old answer goes, and a new one stays.
fn expired() -> Vec<Step> {
    let mut old = request("old");
    old["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    old["status"] = json!({"poolCount": 0});
    let mut steps = Vec::from(definition());
    steps.extend([
        slice("a"),
        slice("b"),
        until_caches_are_current(),
        Step::Load(old),
        Step::Create(request("one")),
        has_answer("one"),
        is_gone(PLURAL, "old"),
    ]);
    steps
}
