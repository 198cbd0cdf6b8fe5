//! Two volumes of different sizes, and two claims of which one is deleted.

use serde_json::{Value, json};
use steersman_controllers::persistentvolume;
use steersman_explore::World;
use steersman_perturb::{Scenario, Step, rules};

use crate::{BLANK, blank};

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
        "status": {"phase": "Available"},
    })
}

fn claim(name: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))
}

pub(super) fn binder() -> World {
    let scenario = Scenario {
        controller: "persistentvolume-binder",
        name: "two-claims",
        controllers: &[persistentvolume::DESCRIPTOR],
        before: || vec![volume("volume-one", "1Gi"), volume("volume-two", "2Gi")],
        steps: || {
            let first = "/api/v1/namespaces/default/persistentvolumeclaims/first".to_owned();
            vec![
                claim("first"),
                claim("second"),
                Step::Delete(first, json!({})),
            ]
        },
        rules: &[rules::BOUND_ONCE, rules::KEPT_FOR_CLAIM],
        final_rules: &[rules::POINTERS_AGREE],
        ..BLANK
    };
    World {
        lags: &["persistentvolumes", "persistentvolumeclaims"],
        same_end: false,
        ..blank(scenario)
    }
}
