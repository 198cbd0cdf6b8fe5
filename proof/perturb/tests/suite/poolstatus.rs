//! Scenarios of ResourcePoolStatusRequests, which the API server has by a definition.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::resourcepoolstatusrequest;
use steersman_devcluster::definitions::definition;
use steersman_perturb::rules::{OLD_ANSWERS, ONE_ANSWER};
use steersman_perturb::{AllowedError, Scenario, State, Step};

use crate::objects::{BLANK, is_gone, until_caches_are_current};

const REQUESTS: &str = "resourcepoolstatusrequests";
const DRIVER: &str = "test.example.com";
/// Times of answers. Runs begin at 22:13:20.
const OLD: &str = "2023-11-14T21:00:00Z";
const YOUNG: &str = "2023-11-14T22:13:00Z";

const POOLS: Scenario = Scenario {
    controller: "resourcepoolstatusrequest",
    controllers: &[resourcepoolstatusrequest::DESCRIPTOR],
    rules: &[ONE_ANSWER, OLD_ANSWERS],
    before: with_type,
    ..BLANK
};

/// The first sync of an incomplete pool and its five retries, again for each new leader.
const ERRORS: &[AllowedError] = &[AllowedError::with_message("sync failed", 24)];

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "answered",
            steps: answered,
            ..POOLS
        },
        Scenario {
            name: "incomplete",
            steps: incomplete,
            errors: ERRORS,
            ..POOLS
        },
        Scenario {
            name: "expired",
            before: with_answers,
            steps: || vec![two_passes(), is_gone(REQUESTS, "old")],
            ..POOLS
        },
    ]
}

fn with_type() -> Vec<Value> {
    let kind = "ResourcePoolStatusRequest";
    let mut made = definition("resource.k8s.io", kind, &["v1alpha3"], "Cluster");
    made["metadata"]["uid"] = json!("uid-of-the-type");
    vec![made]
}

fn request(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"driver": DRIVER},
    })
}

fn with_answers() -> Vec<Value> {
    let answer = |name: &str, since: &str| {
        let mut request = request(name);
        let end = json!({"type": "Complete", "status": "True", "lastTransitionTime": since});
        request["status"] = json!({"conditions": [end]});
        request
    };
    let answers = [answer("old", OLD), answer("young", YOUNG)];
    with_type().into_iter().chain(answers).collect()
}

/// One of `count` slices of a pool, with four devices.
fn slice(name: &str, pool: &str, count: usize) -> Step {
    let devices: Vec<Value> = (0..4)
        .map(|number| json!({"name": format!("{name}-{number}")}))
        .collect();
    Step::Load(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {
            "driver": DRIVER, "devices": devices, "allNodes": true,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
        },
    }))
}

/// A claim with a device of the pool.
fn claim(name: &str, pool: &str, device: &str) -> Step {
    let result = json!({"request": "r", "driver": DRIVER, "pool": pool, "device": device});
    Step::Load(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }))
}

/// Waits for an answer with these numbers of devices: all, and allocated ones.
fn until_answered(name: &'static str, total: i64, allocated: i64) -> Step {
    Step::until("answered", move |state: &State| {
        let pools = state
            .get(REQUESTS, name)
            .and_then(|request| request["status"]["pools"].as_array());
        pools.is_some_and(|pools| {
            let sum =
                |field: &str| -> i64 { pools.iter().filter_map(|pool| pool[field].as_i64()).sum() };
            (sum("totalDevices"), sum("allocatedDevices")) == (total, allocated)
        })
    })
}

/// The second request sees a later claim.
fn answered() -> Vec<Step> {
    vec![
        slice("one", "p", 2),
        slice("two", "p", 2),
        slice("three", "q", 1),
        claim("a", "p", "one-0"),
        until_caches_are_current(),
        Step::Create(request("first")),
        until_answered("first", 12, 1),
        claim("b", "q", "three-0"),
        until_caches_are_current(),
        Step::Create(request("second")),
        until_answered("second", 12, 2),
    ]
}

/// A request waits for the missing slice, and for a change of its own.
fn incomplete() -> Vec<Step> {
    let path = format!("/apis/resource.k8s.io/v1alpha3/{REQUESTS}/r");
    vec![
        slice("one", "p", 2),
        until_caches_are_current(),
        Step::Create(request("r")),
        until_caches_are_current(),
        slice("two", "p", 2),
        until_caches_are_current(),
        Step::Patch(path, json!({"metadata": {"labels": {"touched": "yes"}}})),
        until_answered("r", 8, 0),
    ]
}

/// Two passes of the cleaner, also after a failed deletion.
fn two_passes() -> Step {
    Step::Sleep(Duration::from_secs(2 * 600 + 60))
}
