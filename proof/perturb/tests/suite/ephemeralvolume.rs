//! Scenarios of the ephemeral volume controller.

use serde_json::{Value, json};
use steersman_controllers::{ephemeralvolume, garbagecollector, protection};
use steersman_perturb::rules::{LIVE_OWNER, OWN_CLAIM, PROTECTED};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, is_gone, pod_on, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "ephemeral-volume",
    controllers: &[ephemeralvolume::DESCRIPTOR],
    rules: &[OWN_CLAIM],
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
            name: "recreated",
            steps: recreated,
            ..BASE
        },
        Scenario {
            name: "deleted",
            controllers: &[
                ephemeralvolume::DESCRIPTOR,
                garbagecollector::DESCRIPTOR,
                protection::claims::DESCRIPTOR,
            ],
            rules: &[OWN_CLAIM, PROTECTED, LIVE_OWNER],
            steps: deleted,
            ..BASE
        },
    ]
}

/// A pod with ephemeral volumes.
fn pod(name: &str, volumes: &[&str]) -> Step {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    });
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let volume =
        |name: &&str| json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}});
    let mut pod = pod_on(name, "node");
    pod["spec"]["volumes"] = volumes.iter().map(volume).collect();
    Step::Create(pod)
}

fn has_claims(names: &'static [&'static str]) -> Step {
    Step::until("claims", move |state: &State| {
        let has = |name: &&str| {
            let claim = state.get("persistentvolumeclaims", &format!("default/{name}"));
            claim.is_some_and(|claim| claim["metadata"]["deletionTimestamp"] == Value::Null)
        };
        names.iter().all(has)
    })
}

fn created() -> Vec<Step> {
    vec![
        pod("a", &["x", "y"]),
        pod("b", &["x"]),
        has_claims(&["a-x", "a-y", "b-x"]),
    ]
}

fn recreated() -> Vec<Step> {
    vec![
        pod("a", &["x", "y"]),
        has_claims(&["a-x", "a-y"]),
        until_caches_are_current(),
        delete("persistentvolumeclaims", "a-x", json!({})),
        has_claims(&["a-x", "a-y"]),
    ]
}

/// The garbage collector deletes the claims after the pod.
fn deleted() -> Vec<Step> {
    vec![
        pod("a", &["x"]),
        pod("b", &["x"]),
        has_claims(&["a-x", "b-x"]),
        until_caches_are_current(),
        delete("pods", "a", json!({"gracePeriodSeconds": 0})),
        is_gone("persistentvolumeclaims", "default/a-x"),
        is_gone("pods", "default/a"),
    ]
}
