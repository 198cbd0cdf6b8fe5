//! Scenarios of the ResourceClaim controller. The user also acts as scheduler and kubelet.

use serde_json::{Value, json};
use steersman_controllers::resourceclaim;
use steersman_perturb::rules::{CLAIM_IN_USE, ONE_CLAIM};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, count, delete, is_gone, patch, path, until_caches_are_current};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

const BASE: Scenario = Scenario {
    controller: "resource-claim-controller",
    controllers: &[resourceclaim::DESCRIPTOR],
    rules: &[CLAIM_IN_USE, ONE_CLAIM],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name, steps| Scenario {
        name,
        steps,
        ..BASE
    };
    vec![
        scenario("templates", templates),
        scenario("recreated", recreated),
        scenario("shared", shared),
        scenario("namesake", namesake),
        scenario("bound", bound),
    ]
}

fn requests() -> Value {
    let exactly = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
    json!([{"name": "r", "exactly": exactly}])
}

fn template() -> Step {
    Step::Create(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests()}}},
    }))
}

/// A pod with these claims, and its own UID.
fn pod(name: &str, uid: &str, claims: &Value, node: Option<&str>) -> Step {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {
            "containers": [{"name": "main", "image": "web:1"}], "resourceClaims": claims,
            "terminationGracePeriodSeconds": 1,
        },
        "status": {"phase": "Pending"},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    Step::Load(pod)
}

/// Claims of a pod from the template, under these names.
fn generated(names: &[&str]) -> Value {
    let claim = |name: &&str| json!({"name": name, "resourceClaimTemplateName": "t"});
    names.iter().map(claim).collect()
}

/// The claim `shared` of a user.
fn of_user() -> Value {
    json!([{"name": "gpu", "resourceClaimName": "shared"}])
}

/// The user's claim, as the scheduler left it for these pods: names and UIDs.
fn user_claim(users: &[(&str, &str)]) -> Step {
    Step::Load(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "shared", "namespace": "default", "uid": "uid-of-shared",
            "finalizers": [FINALIZER],
        },
        "spec": {"devices": {"requests": requests()}},
        "status": allocation(users),
    }))
}

fn allocation(users: &[(&str, &str)]) -> Value {
    let device = json!({"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "x"});
    let user = |(name, uid): &(&str, &str)| json!({"resource": "pods", "name": name, "uid": uid});
    let users: Vec<Value> = users.iter().map(user).collect();
    json!({"allocation": {"devices": {"results": [device]}}, "reservedFor": users})
}

/// The scheduler allocates all claims of pods, and reserves each for its pod.
fn schedule(state: &State) -> Vec<(String, Value)> {
    let patches = state.all("resourceclaims").flat_map(|claim| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let path = path("resourceclaims", &text(&claim["metadata"]["name"]));
        let owner = &claim["metadata"]["ownerReferences"][0];
        let name = text(&owner["name"]);
        let uid = text(&owner["uid"]);
        let status = json!({"status": allocation(&[(&name, &uid)])});
        let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
        [(path.clone(), finalizer), (path + "/status", status)]
    });
    patches.collect()
}

/// Waits until the status of each pod names this many claims, which exist.
fn claims_exist(number: usize) -> Step {
    Step::until("all pods have their claims", move |state| {
        let exists = |status: &Value| {
            let name = status["resourceClaimName"].as_str().unwrap_or_default();
            state
                .get("resourceclaims", &format!("default/{name}"))
                .is_some()
        };
        let mut pods = state.all("pods");
        pods.all(|pod| {
            let statuses = pod["status"]["resourceClaimStatuses"].as_array();
            statuses.is_some_and(|all| all.len() == number && all.iter().all(exists))
        })
    })
}

/// The kubelet reports the end of a pod.
fn finish(pod: &str) -> Step {
    patch(
        "pods",
        &format!("{pod}/status"),
        json!({"status": {"phase": "Succeeded"}}),
    )
}

/// Waits until the user's claim has this many reservations, and is allocated if there are any. The
/// finalizer may stay after a crash, as upstream: a scheduler may be about to allocate the claim again.
fn reservations(number: usize) -> Step {
    let name = if number == 0 {
        "the claim is free"
    } else {
        "the claim keeps its other reservations"
    };
    Step::until(name, move |state| {
        let claim = state.get("resourceclaims", "default/shared");
        claim.is_some_and(|claim| {
            let consumers = claim["status"]["reservedFor"].as_array();
            let is_allocated = claim["status"]["allocation"].is_object();
            consumers.map_or(0, Vec::len) == number && is_allocated == (number > 0)
        })
    })
}

/// The user removes a pod. The final state then shows no generated names.
fn removed(pod: &str) -> Step {
    delete("pods", pod, json!({"gracePeriodSeconds": 0}))
}

/// Pods with one and with two claims, from their creation to their end.
fn templates() -> Vec<Step> {
    vec![
        template(),
        pod("a", "uid-of-a", &generated(&["x", "y"]), None),
        pod("b", "uid-of-b", &generated(&["x", "y"]), None),
        claims_exist(2),
        Step::PatchChosen(schedule),
        finish("a"),
        Step::until("the claims of the finished pod are gone", |state| {
            count(state, "resourceclaims") == 2
        }),
        finish("b"),
        Step::until("all claims are gone", |state| {
            count(state, "resourceclaims") == 0
        }),
        // Finished pods get no further claims.
        until_caches_are_current(),
        removed("a"),
        removed("b"),
    ]
}

/// The claim that a former leader made for the pod `a` is deleted while the pod waits.
fn recreated() -> Vec<Step> {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-of-a", "controller": true,
    });
    let made = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "made", "namespace": "default", "ownerReferences": [owner],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "x"},
        },
        "spec": {"devices": {"requests": requests()}},
    });
    vec![
        template(),
        Step::Load(made),
        until_caches_are_current(),
        pod("a", "uid-of-a", &generated(&["x"]), None),
        claims_exist(1),
        until_caches_are_current(),
        delete("resourceclaims", "made", json!({})),
        claims_exist(1),
        finish("a"),
        Step::until("its claim is gone", |state| {
            count(state, "resourceclaims") == 0
        }),
    ]
}

/// Two pods share a claim, and end one after the other.
fn shared() -> Vec<Step> {
    vec![
        pod("a", "uid-of-a", &of_user(), Some("n")),
        pod("b", "uid-of-b", &of_user(), Some("n")),
        user_claim(&[("a", "uid-of-a"), ("b", "uid-of-b")]),
        until_caches_are_current(),
        finish("a"),
        reservations(1),
        removed("b"),
        reservations(0),
        delete("resourceclaims", "shared", json!({})),
        is_gone("resourceclaims", "default/shared"),
    ]
}

/// A pod is replaced by another one of its name, for which the claim is reserved as well.
fn namesake() -> Vec<Step> {
    let both = allocation(&[("a", "former"), ("a", "latter")]);
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    vec![
        pod("a", "former", &of_user(), Some("n")),
        user_claim(&[("a", "former")]),
        until_caches_are_current(),
        removed("a"),
        pod("a", "latter", &of_user(), None),
        reservations(0),
        until_caches_are_current(),
        patch("resourceclaims", "shared", finalizer),
        patch("resourceclaims", "shared/status", json!({"status": both})),
        reservations(1),
        until_caches_are_current(),
        reservations(1),
    ]
}

/// A pod that no scheduler bound gets its reservation when its claim is allocated.
fn bound() -> Vec<Step> {
    vec![
        template(),
        pod("a", "uid-of-a", &generated(&["x"]), Some("n")),
        claims_exist(1),
        until_caches_are_current(),
        Step::PatchChosen(|state| {
            let patches = state.all("resourceclaims").map(|claim| {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                let status = json!({"status": allocation(&[])});
                (path("resourceclaims", name) + "/status", status)
            });
            patches.collect()
        }),
        Step::until("the claim is reserved", |state| {
            let mut claims = state.all("resourceclaims");
            claims.all(|claim| claim["status"]["reservedFor"][0]["name"] == "a")
        }),
        finish("a"),
        Step::until("the claim is gone", |state| {
            count(state, "resourceclaims") == 0
        }),
    ]
}
