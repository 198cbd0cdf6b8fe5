//! Scenarios of the finalizers that protect claims, volumes, classes and PodGroups. The user plays the
//! binder and the kubelet. The API server has PodGroups by a definition.

use serde_json::{Value, json};
use steersman_controllers::protection::{claims, classes, pod_groups, volumes};
use steersman_devcluster::definitions::definition;
use steersman_perturb::rules::PROTECTED;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, is_gone, patch, pod_on, until_caches_are_current};

const CLAIMS: Scenario = Scenario {
    controller: "pvc-protection",
    controllers: &[claims::DESCRIPTOR],
    rules: &[PROTECTED],
    ..BLANK
};

const VOLUMES: Scenario = Scenario {
    controller: "pv-protection",
    controllers: &[volumes::DESCRIPTOR],
    ..CLAIMS
};

const CLASSES: Scenario = Scenario {
    controller: "vac-protection",
    controllers: &[classes::DESCRIPTOR],
    ..CLAIMS
};

const GROUPS: Scenario = Scenario {
    controller: "podgroup-protection",
    controllers: &[pod_groups::DESCRIPTOR],
    before: with_groups,
    ..CLAIMS
};

/// The steps of a scenario.
type Steps = fn() -> Vec<Step>;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let of = |base: fn() -> Scenario, all: [(&'static str, Steps); 3]| {
        all.map(|(name, steps)| Scenario {
            name,
            steps,
            ..base()
        })
    };
    let claims: [(&str, Steps); 3] = [
        ("unused", claims_unused),
        ("used", claim_used),
        ("two-pods", claim_of_two_pods),
    ];
    let volumes: [(&str, Steps); 3] = [
        ("available", volume_available),
        ("released", volume_released),
        ("bound", volume_bound),
    ];
    let classes: [(&str, Steps); 3] = [
        ("unused", class_unused),
        ("used", class_used),
        ("modified", class_modified),
    ];
    let groups: [(&str, Steps); 3] = [
        ("unused", group_unused),
        ("members", group_with_members),
        ("moved", group_of_moved_pod),
    ];
    let all = [
        of(|| CLAIMS, claims),
        of(|| VOLUMES, volumes),
        of(|| CLASSES, classes),
        of(|| GROUPS, groups),
    ];
    all.into_iter().flatten().collect()
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    })
}

fn user(name: &str, claim: &str) -> Step {
    let mut pod = pod_on(name, "node");
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    Step::Create(pod)
}

/// Waits until all objects of the type have a finalizer.
fn until_protected(plural: &'static str) -> Step {
    Step::until("protected", move |state: &State| {
        let has = |object: &Value| object["metadata"]["finalizers"].is_array();
        state.all(plural).all(has)
    })
}

fn remove(plural: &str, name: &str) -> Step {
    delete(plural, name, json!({}))
}

fn kill(pod: &str) -> Step {
    delete("pods", pod, json!({"gracePeriodSeconds": 0}))
}

fn claims_unused() -> Vec<Step> {
    vec![
        Step::Create(claim("a")),
        Step::Create(claim("b")),
        until_protected("persistentvolumeclaims"),
        remove("persistentvolumeclaims", "a"),
        remove("persistentvolumeclaims", "b"),
        is_gone("persistentvolumeclaims", "default/a"),
        is_gone("persistentvolumeclaims", "default/b"),
    ]
}

fn claim_used() -> Vec<Step> {
    vec![
        Step::Create(claim("a")),
        user("p", "a"),
        until_protected("persistentvolumeclaims"),
        remove("persistentvolumeclaims", "a"),
        until_caches_are_current(),
        kill("p"),
        is_gone("persistentvolumeclaims", "default/a"),
    ]
}

/// The claim stays for the second pod.
fn claim_of_two_pods() -> Vec<Step> {
    vec![
        Step::Create(claim("a")),
        until_protected("persistentvolumeclaims"),
        user("p", "a"),
        user("q", "a"),
        remove("persistentvolumeclaims", "a"),
        kill("p"),
        until_caches_are_current(),
    ]
}

fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

fn phase(name: &str, phase: &str) -> Step {
    let status = json!({"status": {"phase": phase}});
    patch("persistentvolumes", &format!("{name}/status"), status)
}

fn volume_available() -> Vec<Step> {
    vec![
        Step::Create(volume("a")),
        Step::Create(volume("b")),
        until_protected("persistentvolumes"),
        remove("persistentvolumes", "a"),
        is_gone("persistentvolumes", "a"),
    ]
}

fn volume_bound() -> Vec<Step> {
    vec![
        Step::Create(volume("a")),
        until_protected("persistentvolumes"),
        phase("a", "Bound"),
        remove("persistentvolumes", "a"),
        until_caches_are_current(),
    ]
}

fn volume_released() -> Vec<Step> {
    let released = [phase("a", "Released"), is_gone("persistentvolumes", "a")];
    [volume_bound(), released.into()].concat()
}

fn class(name: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": name}, "driverName": "d", "parameters": {"iops": "1"},
    }))
}

fn with_class(mut object: Value) -> Step {
    object["spec"]["volumeAttributesClassName"] = json!("gold");
    Step::Create(object)
}

fn class_unused() -> Vec<Step> {
    vec![
        class("gold"),
        class("silver"),
        until_protected("volumeattributesclasses"),
        remove("volumeattributesclasses", "gold"),
        is_gone("volumeattributesclasses", "gold"),
    ]
}

/// The class goes after its claim and its volume.
fn class_used() -> Vec<Step> {
    vec![
        class("gold"),
        until_protected("volumeattributesclasses"),
        with_class(claim("a")),
        with_class(volume("b")),
        remove("volumeattributesclasses", "gold"),
        until_caches_are_current(),
        remove("persistentvolumeclaims", "a"),
        until_caches_are_current(),
        remove("persistentvolumes", "b"),
        is_gone("volumeattributesclasses", "gold"),
    ]
}

/// The status of a claim keeps the class until its volume has the next one.
fn class_modified() -> Vec<Step> {
    let current = |class: Value| {
        let status = json!({"status": {"currentVolumeAttributesClassName": class}});
        patch("persistentvolumeclaims", "a/status", status)
    };
    vec![
        class("gold"),
        until_protected("volumeattributesclasses"),
        Step::Create(claim("a")),
        current(json!("gold")),
        remove("volumeattributesclasses", "gold"),
        until_caches_are_current(),
        current(json!("silver")),
        is_gone("volumeattributesclasses", "gold"),
    ]
}

/// The type, and two PodGroups with the finalizer, which the API server sets elsewhere.
fn with_groups() -> Vec<Value> {
    let mut kind = definition("scheduling.k8s.io", "PodGroup", &["v1alpha2"], "Namespaced");
    kind["metadata"]["uid"] = json!("uid-of-the-type");
    let group = |name: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
                "finalizers": ["scheduling.k8s.io/podgroup-protection"],
            },
            "spec": {"schedulingPolicy": {"basic": {}}},
        })
    };
    vec![kind, group("a"), group("b")]
}

/// A running pod of a PodGroup.
fn member(name: &str, uid: &str, group: &str) -> Step {
    let mut pod = pod_on(name, "node");
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["uid"] = json!(uid);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod["status"] = json!({"phase": "Running"});
    Step::Load(pod)
}

fn group_unused() -> Vec<Step> {
    vec![
        member("p", "p", "b"),
        until_caches_are_current(),
        remove("podgroups", "a"),
        is_gone("podgroups", "default/a"),
        remove("podgroups", "b"),
        until_caches_are_current(),
    ]
}

/// One pod of the PodGroup finishes, the other one is deleted.
fn group_with_members() -> Vec<Step> {
    vec![
        member("p", "p", "a"),
        member("q", "q", "a"),
        until_caches_are_current(),
        remove("podgroups", "a"),
        patch(
            "pods",
            "p/status",
            json!({"status": {"phase": "Succeeded"}}),
        ),
        until_caches_are_current(),
        kill("q"),
        is_gone("podgroups", "default/a"),
    ]
}

/// A pod of the same name belongs to another PodGroup.
fn group_of_moved_pod() -> Vec<Step> {
    vec![
        member("p", "old", "a"),
        until_caches_are_current(),
        remove("podgroups", "a"),
        remove("podgroups", "b"),
        is_gone("podgroups", "default/b"),
        kill("p"),
        member("p", "new", "c"),
        is_gone("podgroups", "default/a"),
    ]
}
