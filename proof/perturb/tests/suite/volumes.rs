//! Scenarios of the PersistentVolume binder and of the volume expander. The simulated CSI driver of
//! the nodes provisions and expands.

use serde_json::{Value, json};
use steersman_controllers::{expand, persistentvolume};
use steersman_perturb::rules::{BOUND_ONCE, KEPT_FOR_CLAIM, POINTERS_AGREE};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, is_gone, patch, path, until_caches_are_current};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";

const BINDER: Scenario = Scenario {
    controller: "persistentvolume-binder",
    controllers: &[persistentvolume::DESCRIPTOR],
    rules: &[BOUND_ONCE, KEPT_FOR_CLAIM],
    final_rules: &[POINTERS_AGREE],
    ..BLANK
};

const EXPANDER: Scenario = Scenario {
    controller: "persistentvolume-expander",
    controllers: &[expand::DESCRIPTOR],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "static",
            steps: smallest,
            ..BINDER
        },
        Scenario {
            name: "reserved",
            steps: reserved,
            ..BINDER
        },
        Scenario {
            name: "provisioned",
            nodes: 1,
            steps: provisioned,
            ..BINDER
        },
        Scenario {
            name: "delayed",
            nodes: 1,
            steps: delayed,
            ..BINDER
        },
        Scenario {
            name: "retained",
            steps: retained,
            ..BINDER
        },
        Scenario {
            name: "lost",
            rules: &[BOUND_ONCE],
            steps: lost,
            ..BINDER
        },
        Scenario {
            name: "default-class",
            nodes: 1,
            steps: default_class,
            ..BINDER
        },
        Scenario {
            name: "migrated",
            steps: migrated,
            ..EXPANDER
        },
        Scenario {
            name: "unfinished",
            steps: unfinished,
            ..EXPANDER
        },
        Scenario {
            name: "external",
            controllers: &[expand::DESCRIPTOR, persistentvolume::DESCRIPTOR],
            nodes: 1,
            steps: external,
            rules: &[BOUND_ONCE, KEPT_FOR_CLAIM],
            final_rules: &[POINTERS_AGREE],
            ..EXPANDER
        },
    ]
}

fn volume(name: &str, capacity: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": capacity},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
    })
}

/// A claim of a class; an empty name is the claim of a volume that exists.
fn claim(name: &str, request: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": request}},
        },
    })
}

fn class(name: &str, mode: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "csi.example.com", "volumeBindingMode": mode, "allowVolumeExpansion": true,
    }))
}

fn phase(plural: &'static str, key: &'static str, phase: &'static str) -> Step {
    Step::until(phase, move |state: &State| {
        let object = state.get(plural, key);
        object.is_some_and(|object| object["status"]["phase"] == phase)
    })
}

fn bound(key: &'static str) -> Step {
    phase(CLAIMS, key, "Bound")
}

fn smallest() -> Vec<Step> {
    vec![
        Step::Create(volume("large", "10Gi")),
        Step::Create(volume("middle", "5Gi")),
        Step::Create(volume("small", "1Gi")),
        phase(VOLUMES, "large", "Available"),
        phase(VOLUMES, "middle", "Available"),
        phase(VOLUMES, "small", "Available"),
        Step::Create(claim("a", "4Gi", "")),
        bound("default/a"),
        Step::Create(claim("b", "1Gi", "")),
        bound("default/b"),
        Step::Create(claim("c", "20Gi", "")),
        phase(CLAIMS, "default/c", "Pending"),
        until_caches_are_current(),
        // A claim without a volume gets an Event in each period for ever.
        delete(CLAIMS, "c", json!({})),
        is_gone(CLAIMS, "default/c"),
    ]
}

/// A volume for one claim by name, and a claim of one volume by name.
fn reserved() -> Vec<Step> {
    let mut mine = volume("mine", "10Gi");
    mine["spec"]["claimRef"] = json!({"namespace": "default", "name": "a"});
    let mut asks = claim("b", "1Gi", "");
    asks["spec"]["volumeName"] = json!("asked");
    vec![
        Step::Create(mine),
        Step::Create(volume("free", "1Gi")),
        Step::Create(asks),
        Step::Create(claim("a", "1Gi", "")),
        bound("default/a"),
        Step::Create(volume("asked", "1Gi")),
        bound("default/b"),
        phase(VOLUMES, "free", "Available"),
    ]
}

fn provisioned() -> Vec<Step> {
    vec![
        class("fast", "Immediate"),
        Step::Create(claim("a", "1Gi", "fast")),
        Step::Create(claim("b", "1Gi", "fast")),
        bound("default/a"),
        bound("default/b"),
        delete(CLAIMS, "a", json!({})),
        is_gone(CLAIMS, "default/a"),
        Step::until("one volume", |state| state.all(VOLUMES).count() == 1),
    ]
}

fn delayed() -> Vec<Step> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": "main", "image": "web:1"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}],
        },
    });
    vec![
        class("late", "WaitForFirstConsumer"),
        Step::Create(claim("a", "1Gi", "late")),
        until_caches_are_current(),
        Step::Create(pod),
        bound("default/a"),
        phase("pods", "default/web", "Running"),
    ]
}

fn retained() -> Vec<Step> {
    vec![
        Step::Create(volume("pv", "1Gi")),
        Step::Create(claim("a", "1Gi", "")),
        bound("default/a"),
        delete(CLAIMS, "a", json!({})),
        phase(VOLUMES, "pv", "Released"),
        Step::Create(claim("b", "1Gi", "")),
        until_caches_are_current(),
        patch(VOLUMES, "pv", json!({"spec": {"claimRef": null}})),
        bound("default/b"),
    ]
}

fn lost() -> Vec<Step> {
    vec![
        Step::Create(volume("pv", "1Gi")),
        Step::Create(claim("a", "1Gi", "")),
        bound("default/a"),
        delete(VOLUMES, "pv", json!({})),
        phase(CLAIMS, "default/a", "Lost"),
        Step::Create(volume("pv", "1Gi")),
        bound("default/a"),
    ]
}

fn default_class() -> Vec<Step> {
    let mut claim = claim("a", "1Gi", "");
    claim["spec"]["storageClassName"] = Value::Null;
    let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    vec![
        Step::Create(claim),
        phase(CLAIMS, "default/a", "Pending"),
        class("fast", "Immediate"),
        Step::Patch(
            "/apis/storage.k8s.io/v1/storageclasses/fast".to_owned(),
            json!({"metadata": {"annotations": default}}),
        ),
        bound("default/a"),
    ]
}

/// A bound claim of an in-tree disk, with the UID `u`.
fn disk() -> Vec<Step> {
    let mut volume = volume("pv", "1Gi");
    volume["spec"]["csi"] = Value::Null;
    volume["spec"]["gcePersistentDisk"] = json!({"pdName": "disk"});
    volume["spec"]["claimRef"] = json!({"namespace": "default", "name": "a", "uid": "u"});
    let mut claim = claim("a", "1Gi", "growing");
    claim["metadata"]["uid"] = json!("u");
    claim["metadata"]["namespace"] = json!("default");
    claim["spec"]["volumeName"] = json!("pv");
    claim["spec"]["volumeMode"] = json!("Filesystem");
    claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    vec![
        Step::Create(volume),
        class("growing", "Immediate"),
        Step::Load(claim),
    ]
}

fn grow(request: &str) -> Step {
    let request = json!({"spec": {"resources": {"requests": {"storage": request}}}});
    Step::Patch(path(CLAIMS, "a"), request)
}

fn driver_is_named() -> Step {
    Step::until("named", |state| {
        let claim = state.get(CLAIMS, "default/a");
        claim.is_some_and(|claim| {
            claim["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"]
                == "pd.csi.storage.gke.io"
        })
    })
}

fn migrated() -> Vec<Step> {
    let mut steps = disk();
    steps.extend([
        until_caches_are_current(),
        grow("2Gi"),
        driver_is_named(),
        grow("3Gi"),
        until_caches_are_current(),
    ]);
    steps
}

/// The node has not finished an expansion when the expander starts.
fn unfinished() -> Vec<Step> {
    let mut steps = disk();
    if let Some(Step::Create(volume)) = steps.first_mut() {
        volume["metadata"]["annotations"] =
            json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"});
    }
    steps.extend([driver_is_named(), until_caches_are_current()]);
    steps
}

fn external() -> Vec<Step> {
    vec![
        class("fast", "Immediate"),
        Step::Create(claim("a", "1Gi", "fast")),
        bound("default/a"),
        grow("2Gi"),
        Step::until("expanded", |state| {
            let claim = state.get(CLAIMS, "default/a");
            claim.is_some_and(|claim| claim["status"]["capacity"]["storage"] == "2Gi")
        }),
    ]
}
