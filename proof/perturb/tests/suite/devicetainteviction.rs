//! Scenarios of the device taint eviction controller: a driver taints devices, and claims tolerate
//! the taints for some time, for ever, or not at all.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::devicetainteviction;
use steersman_perturb::rules::{DEVICE_LEFT, DEVICE_TOLERATED};
use steersman_perturb::{Scenario, State, Step};

use crate::nodes::{concat, left, until_ready};
use crate::objects::{BLANK, is_gone, patch, path, pod_on, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "devicetainteviction",
    controllers: &[devicetainteviction::DESCRIPTOR],
    nodes: 2,
    rules: &[DEVICE_TOLERATED],
    final_rules: &[DEVICE_LEFT],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name, steps| Scenario {
        name,
        steps,
        ..BASE
    };
    vec![
        scenario("tainted-by-driver", tainted_by_driver),
        scenario("taint-removed", taint_removed),
        scenario("newer-generation", newer_generation),
        scenario("driver-restarts", driver_restarts),
        scenario("bound-later", bound_later),
        scenario("released", released),
        scenario("two-claims", two_claims),
        scenario("namesake", namesake),
        scenario("held", held),
    ]
}

/// The devices of `node-0`, with a taint on each of `tainted`.
fn devices(tainted: &[&str]) -> Value {
    let names = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"];
    let device = |name: &&str| {
        let taint = json!({"key": "k", "value": "v", "effect": "NoExecute"});
        let taints: Vec<Value> = tainted
            .contains(name)
            .then_some(taint)
            .into_iter()
            .collect();
        json!({"name": name, "taints": taints})
    };
    names.iter().map(device).collect()
}

/// The driver publishes the devices of `node-0`.
fn slice(name: &str, generation: i64, tainted: &[&str]) -> Step {
    let pool = json!({"name": "node-0", "generation": generation, "resourceSliceCount": 1});
    Step::Create(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "node-0", "pool": pool,
            "devices": devices(tainted),
        },
    }))
}

/// The driver taints these devices, and no others.
fn taint(slice: &str, tainted: &[&str]) -> Step {
    let change = json!({"spec": {"devices": devices(tainted)}});
    Step::Patch(path("resourceslices", slice), change)
}

fn remove_slice(name: &str) -> Step {
    Step::Delete(path("resourceslices", name), json!({}))
}

fn seconds(seconds: i64) -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

fn forever() -> Value {
    json!([{"operator": "Exists", "effect": "NoExecute"}])
}

/// A claim with one device, reserved for the pod `user`.
fn claim(name: &str, device: &str, tolerations: Value, user: &str) -> Step {
    let result = json!({
        "request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": device,
        "tolerations": tolerations,
    });
    Step::Load(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": format!("uid-of-{user}")}],
        },
    }))
}

/// A pod on `node-0` that uses claims.
fn pod(name: &str, claims: &[&str]) -> Value {
    let claim = |name: &&str| json!({"name": name, "resourceClaimName": name});
    let mut pod = pod_on(name, "node-0");
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod["spec"]["resourceClaims"] = claims.iter().map(claim).collect();
    pod
}

/// A pod with a claim of its name for a device.
fn user(name: &str, device: &str, tolerations: Value) -> Vec<Step> {
    vec![
        claim(name, device, tolerations, name),
        Step::Load(pod(name, &[name])),
    ]
}

/// A taint evicts pods at once, after their time, or never. Pods on other devices stay.
fn tainted_by_driver() -> Vec<Step> {
    concat([
        vec![slice("s", 1, &[])],
        user("at-once", "gpu-0", json!([])),
        user("later", "gpu-1", seconds(60)),
        user("never", "gpu-2", forever()),
        user("elsewhere", "gpu-3", json!([])),
        vec![
            until_ready(4),
            taint("s", &["gpu-0", "gpu-1", "gpu-2"]),
            left(2),
        ],
    ])
}

/// A taint that is removed in time evicts no pod; the next one does.
fn taint_removed() -> Vec<Step> {
    concat([
        vec![slice("s", 1, &[])],
        user("p", "gpu-0", seconds(300)),
        vec![
            until_ready(1),
            taint("s", &["gpu-0"]),
            until_caches_are_current(),
            taint("s", &[]),
            Step::Sleep(Duration::from_secs(600)),
            left(1),
            taint("s", &["gpu-0"]),
            left(0),
        ],
    ])
}

/// The taint is absent in the next generation of the pool, which another slice publishes.
fn newer_generation() -> Vec<Step> {
    concat([
        vec![slice("s1", 1, &["gpu-0", "gpu-1"])],
        user("kept", "gpu-0", seconds(300)),
        user("evicted", "gpu-1", seconds(300)),
        vec![
            until_caches_are_current(),
            slice("s2", 2, &["gpu-1"]),
            until_caches_are_current(),
            remove_slice("s1"),
            is_gone("pods", "default/evicted"),
            Step::Sleep(Duration::from_secs(600)),
            left(1),
        ],
    ])
}

/// The driver removes its slices and publishes them again.
fn driver_restarts() -> Vec<Step> {
    concat([
        vec![slice("s", 1, &["gpu-0"])],
        user("p", "gpu-0", seconds(300)),
        user("other", "gpu-1", json!([])),
        vec![
            until_caches_are_current(),
            remove_slice("s"),
            Step::Sleep(Duration::from_secs(600)),
            left(2),
            slice("s", 1, &["gpu-0"]),
            left(1),
        ],
    ])
}

/// Pods come to a device that is tainted already.
fn bound_later() -> Vec<Step> {
    concat([
        vec![
            slice("s", 1, &["gpu-0", "gpu-1", "gpu-2"]),
            until_caches_are_current(),
        ],
        user("never", "gpu-0", forever()),
        user("later", "gpu-1", seconds(120)),
        user("at-once", "gpu-2", json!([])),
        vec![
            is_gone("pods", "default/at-once"),
            is_gone("pods", "default/later"),
            Step::Sleep(Duration::from_secs(120)),
            left(1),
        ],
    ])
}

/// A pod loses its reservation before the end of its time, for example because it has finished.
fn released() -> Vec<Step> {
    let unreserved = json!({"status": {"reservedFor": null}});
    concat([
        vec![slice("s", 1, &["gpu-0", "gpu-1"])],
        user("released", "gpu-0", seconds(300)),
        user("evicted", "gpu-1", seconds(300)),
        vec![
            until_caches_are_current(),
            patch("resourceclaims", "released/status", unreserved),
            is_gone("pods", "default/evicted"),
            Step::Sleep(Duration::from_secs(600)),
            left(1),
        ],
    ])
}

/// The earlier time of two claims counts.
fn two_claims() -> Vec<Step> {
    vec![
        slice("s", 1, &["gpu-0"]),
        claim("a", "gpu-0", seconds(3600), "p"),
        claim("b", "gpu-1", seconds(60), "p"),
        claim("c", "gpu-1", forever(), "q"),
        claim("d", "gpu-2", json!([]), "q"),
        Step::Load(pod("p", &["a", "b"])),
        Step::Load(pod("q", &["c", "d"])),
        until_ready(2),
        until_caches_are_current(),
        taint("s", &["gpu-0", "gpu-1"]),
        left(1),
    ]
}

/// After the eviction of a pod, another one gets its name. The claim is not reserved for it.
fn namesake() -> Vec<Step> {
    let mut another = pod("p", &["p"]);
    another["metadata"]["uid"] = json!("another");
    concat([
        vec![slice("s", 1, &[])],
        user("p", "gpu-0", json!([])),
        vec![
            until_ready(1),
            taint("s", &["gpu-0"]),
            left(0),
            Step::Load(another),
            until_ready(1),
            Step::Sleep(Duration::from_secs(120)),
            left(1),
        ],
    ])
}

/// A finalizer holds an evicted pod. The controller evicts it once.
fn held() -> Vec<Step> {
    let mut held = pod("p", &["p"]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let is_terminating = |state: &State| {
        let pod = state.get("pods", "default/p");
        pod.is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    };
    vec![
        slice("s", 1, &[]),
        claim("p", "gpu-0", json!([]), "p"),
        Step::Load(held),
        until_ready(1),
        taint("s", &["gpu-0"]),
        Step::until("the pod terminates", is_terminating),
        Step::Sleep(Duration::from_secs(120)),
        patch("pods", "p", json!({"metadata": {"finalizers": null}})),
        left(0),
    ]
}
