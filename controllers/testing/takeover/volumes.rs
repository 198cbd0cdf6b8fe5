//! Takeover of claims and volumes in every phase that upstream's binder leaves them in.

use serde_json::{Value, json};

use crate::testing::world::World;
use crate::{expand, persistentvolume};

/// A volume in a phase, as upstream writes it.
pub(super) fn volume(name: &str, phase: &str, fields: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        },
        "status": {"phase": phase},
    });
    for (field, value) in fields.as_object().unwrap() {
        volume["spec"][field] = value.clone();
    }
    volume
}

/// A claim in a phase, with these annotations and fields of its spec.
pub(super) fn claim(name: &str, phase: &str, annotations: Value, fields: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "annotations": annotations,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "", "volumeMode": "Filesystem",
        },
        "status": {"phase": phase},
    });
    for (field, value) in fields.as_object().unwrap() {
        claim["spec"][field] = value.clone();
    }
    if phase == "Bound" {
        claim["status"]["accessModes"] = json!(["ReadWriteOnce"]);
        claim["status"]["capacity"] = json!({"storage": "1Gi"});
    }
    claim
}

/// A claim that waits gets its Event in each period, as upstream, so only writes are checked.
#[tokio::test(start_paused = true)]
async fn claims_and_volumes_at_rest_are_left_alone() {
    let mut world = World::bare().await;
    let of = |name: &str, uid: &str| {
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
            "name": name, "uid": uid, "resourceVersion": "1",
        });
        json!({ "claimRef": reference })
    };
    let bound = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
    });
    let handed = json!({
        "volume.beta.kubernetes.io/storage-provisioner": "csi.example.com",
        "volume.kubernetes.io/storage-provisioner": "csi.example.com",
    });
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast", "uid": "uid-fast"},
        "provisioner": "csi.example.com", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    let of_fast = json!({"storageClassName": "fast"});
    let too_large = json!({"resources": {"requests": {"storage": "9Gi"}}});
    for object in [
        class,
        volume("free", "Available", json!({})),
        volume(
            "reserved",
            "Available",
            json!({"claimRef": {"namespace": "default", "name": "later"}}),
        ),
        volume("used", "Bound", of("data", "uid-data")),
        volume("released", "Released", of("gone", "uid-gone")),
        claim(
            "data",
            "Bound",
            bound.clone(),
            json!({"volumeName": "used"}),
        ),
        claim("lost", "Lost", bound, json!({"volumeName": "missing"})),
        claim("waiting", "Pending", json!({}), too_large),
        claim("handed", "Pending", handed, of_fast),
    ] {
        world.cluster.load(object).unwrap();
    }
    world
        .restart(&[persistentvolume::DESCRIPTOR, expand::DESCRIPTOR])
        .await;
    for _ in 0..10 {
        world.a_minute().await;
    }
    for identity in ["persistent-volume-binder", "expand-controller"] {
        let writes = world.writes_by(identity);
        let writes: Vec<_> = writes
            .iter()
            .filter(|write| !write.contains("/events"))
            .collect();
        assert_eq!(writes, [""; 0], "{identity}");
    }
}
