//! Takeover of claims, volumes and classes that upstream's controllers left: at rest, and deleted
//! while they are used.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::NAMESPACE;
use crate::testing::world::World;
use crate::{ephemeralvolume, protection};

/// Longer than all timers of the controllers.
const AN_HOUR: Duration = Duration::from_secs(3600);

fn object(api_version: &str, kind: &str, name: &str, finalizer: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"), "finalizers": [finalizer],
            "creationTimestamp": "2023-11-14T22:00:00Z",
        },
    })
}

/// A bound claim, its volume and its class.
fn bound() -> [Value; 3] {
    let mut claim = object(
        "v1",
        "PersistentVolumeClaim",
        "p-scratch",
        "kubernetes.io/pvc-protection",
    );
    claim["metadata"]["namespace"] = json!(NAMESPACE);
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-p", "controller": true,
        "blockOwnerDeletion": true,
    }]);
    claim["spec"] = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "pv", "volumeAttributesClassName": "gold",
    });
    claim["status"] = json!({"phase": "Bound"});
    let mut volume = object(
        "v1",
        "PersistentVolume",
        "pv",
        "kubernetes.io/pv-protection",
    );
    volume["spec"] = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"}, "volumeAttributesClassName": "gold",
    });
    volume["status"] = json!({"phase": "Bound"});
    let mut class = object(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "gold",
        "kubernetes.io/vac-protection",
    );
    class["driverName"] = json!("d");
    [claim, volume, class]
}

/// The pod of the claim, on a node.
fn pod() -> Value {
    let ephemeral = json!({"volumeClaimTemplate": {"spec": {}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, "uid": "uid-of-p"},
        "spec": {
            "nodeName": "node", "containers": [{"name": "main", "image": "i"}],
            "volumes": [{"name": "scratch", "ephemeral": ephemeral}],
        },
        "status": {"phase": "Running"},
    })
}

#[tokio::test(start_paused = true)]
async fn used_volumes_cause_no_write() {
    for is_deleted in [false, true] {
        let mut world = World::bare().await;
        for mut object in bound() {
            if is_deleted {
                object["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:00Z");
            }
            world.cluster.load(object).unwrap();
        }
        world.cluster.load(pod()).unwrap();
        let controllers = [
            ephemeralvolume::DESCRIPTOR,
            protection::claims::DESCRIPTOR,
            protection::classes::DESCRIPTOR,
            protection::volumes::DESCRIPTOR,
        ];
        world.restart(&controllers).await;
        tokio::time::sleep(AN_HOUR).await;
        assert_eq!(world.writes(), [""; 0], "deleted: {is_deleted}");
        assert!(world.state().events.is_empty());
    }
}
