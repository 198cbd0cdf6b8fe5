//! Decisions of upstream's table, and whole syncs against the in-memory API server.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict};
use steersman_objects::{Object, PersistentVolume, PersistentVolumeClaim};

use super::DESCRIPTOR;
use super::decision::{self, Resizer};
use crate::testing::world::World;

const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// A claim that asks for `request`, and has `capacity`.
fn claim(request: &str, capacity: &str) -> PersistentVolumeClaim {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "default", "uid": "u"},
        "spec": {"resources": {"requests": {"storage": request}}, "volumeName": "pv"},
        "status": {"phase": "Bound", "capacity": {"storage": capacity}},
    });
    PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap()
}

/// A volume of this source and annotation for the claim with this UID.
fn volume(source: &Value, annotation: Option<&str>, uid: &str) -> PersistentVolume {
    let mut volume = json!({"metadata": {"name": "pv"}, "spec": source});
    volume["spec"]["claimRef"] = json!({"namespace": "default", "name": "data", "uid": uid});
    if let Some(capacity) = annotation {
        volume["metadata"]["annotations"] = json!({ PRE_RESIZE: capacity });
    }
    PersistentVolume::decode(volume.to_string().as_bytes()).unwrap()
}

/// Upstream: `TestSyncHandler`.
#[test]
fn the_source_decides_about_the_resizer() {
    let ebs = json!({"awsElasticBlockStore": {"volumeID": "v"}});
    let csi = json!({"csi": {"driver": "com.csi.ceph", "volumeHandle": "h"}});
    let flex = json!({"flexVolume": {"driver": "d"}});
    let migrated = Some(Resizer::Migrated {
        plugin: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
    });
    // (why, source, capacity before, request, capacity, resizer)
    let cases = [
        ("in tree", &ebs, None, "2Gi", "1Gi", migrated),
        (
            "not finished on the node",
            &ebs,
            Some("1Gi"),
            "2Gi",
            "2Gi",
            migrated,
        ),
        (
            "of a driver",
            &csi,
            None,
            "2Gi",
            "1Gi",
            Some(Resizer::External),
        ),
        ("flex", &flex, None, "2Gi", "1Gi", Some(Resizer::External)),
        ("large enough", &csi, None, "1Gi", "1Gi", None),
        ("larger", &csi, None, "1Gi", "1025Mi", None),
    ];
    for (why, source, before, request, capacity, expected) in cases {
        let volume = volume(source, before, "u");
        let claim = claim(request, capacity);
        assert_eq!(decision::resizer(&volume, &claim), expected, "{why}");
    }
}

#[test]
fn a_volume_is_of_one_claim() {
    let csi = json!({"csi": {"driver": "d", "volumeHandle": "h"}});
    let claim = claim("1Gi", "1Gi");
    assert!(decision::is_of(&volume(&csi, None, "u"), &claim));
    assert!(!decision::is_of(&volume(&csi, None, "other"), &claim));
    assert!(!decision::is_of(&volume(&csi, None, ""), &claim));
}

#[test]
fn larger_requests_and_capacities_enqueue_a_bound_claim() {
    // (request and capacity before, request and capacity after, enqueued)
    let cases = [
        (("1Gi", "1Gi"), ("2Gi", "1Gi"), true),
        (("2Gi", "1Gi"), ("2Gi", "2Gi"), true),
        (("2Gi", "1Gi"), ("1Gi", "1Gi"), false),
        (("1Gi", "1Gi"), ("1024Mi", "1Gi"), false),
    ];
    for (before, after, enqueued) in cases {
        let [old, new] = [before, after].map(|(request, capacity)| claim(request, capacity));
        assert_eq!(
            decision::has_grown(&old, &new),
            enqueued,
            "{before:?} {after:?}"
        );
    }
}

/// A cluster with the expander, and a bound claim `data` of 1Gi with a volume of this source.
async fn cluster(source: Value) -> World {
    let mut world = World::bare().await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "growing"},
        "provisioner": "csi.example.com", "allowVolumeExpansion": true,
    });
    world.create(class).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "pv", "storageClassName": "growing",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = world.create(claim).await;
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "data", "uid": claim["metadata"]["uid"]},
        },
    });
    let members = volume["spec"].as_object_mut().unwrap();
    members.extend(source.as_object().unwrap().clone());
    world.create(volume).await;
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    world
        .patch("persistentvolumeclaims", "data/status", bound)
        .await;
    world.restart(&[DESCRIPTOR]).await;
    world
}

impl World {
    async fn ask_for(&self, storage: &str) {
        let request = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        self.patch("persistentvolumeclaims", "data", request).await;
    }

    async fn until_event(&self, message: &str) {
        let is_there = |event: &Value| event["message"] == message;
        self.until(&format!("an Event {message:?}"), |state| {
            state.events.iter().any(is_there)
        })
        .await;
    }
}

const EXTERNAL: &str = "waiting for an external controller to expand this PVC";

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_driver_waits_for_its_resizer() {
    let world = cluster(json!({"csi": {"driver": "d", "volumeHandle": "h"}})).await;
    world.at_rest().await;
    assert!(world.state().events.is_empty());
    world.ask_for("2Gi").await;
    world.until_event(EXTERNAL).await;
    let event = world.state().events[0].clone();
    assert_eq!(event["reason"], "ExternalExpanding");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["source"]["component"], "volume_expand");
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_in_tree_volume_names_the_driver_after_a_conflict() {
    let disk = json!({"gcePersistentDisk": {"pdName": "disk"}});
    let world = cluster(disk).await;
    let patches = Matcher::new("patch", "persistentvolumeclaims").subresource("status");
    world.cluster.faults().reject(patches, conflict(), Some(1));
    world.ask_for("2Gi").await;
    world
        .until("the driver is named", |_| {
            let claim = world.find("persistentvolumeclaims", "data").unwrap();
            claim["metadata"]["annotations"][RESIZER] == "pd.csi.storage.gke.io"
        })
        .await;
    world
        .until_event(
            "CSI migration enabled for kubernetes.io/gce-pd; waiting for external resizer to expand the pvc",
        )
        .await;
    // The text of `PatchPVCStatus` is within that of `syncHandler`.
    let refused = "error setting resizer annotation to pvc default/data, with error patchPVCStatus failed to patch PVC \"data\": Operation cannot be fulfilled: ";
    let events = world.state().events;
    let mut messages = events.iter().filter_map(|event| event["message"].as_str());
    assert!(
        messages.any(|message| message.starts_with(refused)),
        "{events:#?}"
    );
}

/// The volume of the claim may be of another claim for ever. Retries become rare.
#[tokio::test(start_paused = true)]
async fn a_volume_of_another_claim_causes_no_hot_loop() {
    let world = cluster(json!({"csi": {"driver": "d", "volumeHandle": "h"}})).await;
    let other = json!({"spec": {"claimRef": {"uid": "another"}}});
    world.patch("persistentvolumes", "pv", other).await;
    world.clear_requests();
    world.ask_for("2Gi").await;
    for _ in 0..10 {
        world.a_minute().await;
    }
    let reads = world.requests_of("expand-controller").len();
    assert!((5..25).contains(&reads), "{reads} requests in ten minutes");
    assert!(world.state().events.is_empty());
}
