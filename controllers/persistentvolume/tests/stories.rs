//! Whole controllers against the in-memory API server, under paused time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};

use crate::persistentvolume::DESCRIPTOR;
use crate::testing::gate::Gate;
use crate::testing::world::World;

const IDENTITY: &str = "persistent-volume-binder";

fn volume(name: &str, capacity: &str, spec: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": capacity},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
    });
    merge(&mut volume["spec"], spec);
    volume
}

fn claim(name: &str, request: &str, spec: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": request}},
        },
    });
    merge(&mut claim["spec"], spec);
    claim
}

fn class(name: &str, provisioner: &str, fields: Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner,
    });
    merge(&mut class, fields);
    class
}

/// Sets the members of `fields`; `null` removes one.
fn merge(object: &mut Value, fields: Value) {
    for (name, value) in fields.as_object().unwrap() {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            object[name] = value.clone();
        }
    }
}

impl World {
    async fn binder() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// With the claim `data` of a class of an external provisioner.
    async fn with_external_claim() -> Self {
        let world = Self::binder().await;
        let class = class("fast", "csi.example.com", json!({}));
        world.create(class).await;
        let claim = claim("data", "1Gi", json!({"storageClassName": "fast"}));
        world.create(claim).await;
        world
    }

    fn claim(&self, name: &str) -> Value {
        self.find("persistentvolumeclaims", name).unwrap()
    }

    fn volume(&self, name: &str) -> Value {
        self.find("persistentvolumes", name).unwrap()
    }

    /// Phase and volume of a claim.
    fn binding(&self, claim: &str) -> (String, String) {
        let claim = self.claim(claim);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&claim["status"]["phase"]),
            text(&claim["spec"]["volumeName"]),
        )
    }

    async fn until_claim(&self, claim: &str, phase: &str) {
        let expected = format!("claim {claim} is {phase}");
        self.until(&expected, |_| self.binding(claim).0 == phase)
            .await;
    }

    async fn until_volume(&self, volume: &str, phase: &str) {
        let expected = format!("volume {volume} is {phase}");
        self.until(&expected, |_| {
            self.volume(volume)["status"]["phase"] == phase
        })
        .await;
    }

    async fn until_told(&self, reason: &str) -> Value {
        let state = self
            .until(&format!("an Event {reason}"), |state| {
                state.events.iter().any(|event| event["reason"] == reason)
            })
            .await;
        let mut events = state.events.into_iter();
        events.find(|event| event["reason"] == reason).unwrap()
    }
}

/// Upstream: `TestPersistentVolumeBindRace` and `TestPersistentVolumeMultiPVs`.
#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_and_no_other_claim_gets_it() {
    let world = World::binder().await;
    for (name, capacity) in [("large", "10Gi"), ("small", "2Gi"), ("tiny", "500Mi")] {
        world.create(volume(name, capacity, json!({}))).await;
        world.until_volume(name, "Available").await;
    }
    for name in ["a", "b", "c"] {
        world.create(claim(name, "1Gi", json!({}))).await;
    }
    world
        .until("two claims are bound", |_| {
            let bound = |name: &&&str| world.binding(name).0 == "Bound";
            ["a", "b", "c"].iter().filter(bound).count() == 2
        })
        .await;
    world.at_rest().await;
    let mut volumes: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|name| world.binding(name).1)
        .collect();
    volumes.sort();
    assert_eq!(volumes, ["", "large", "small"]);
    let state = world.state();
    let waiting = state
        .events
        .iter()
        .find(|event| event["reason"] == "FailedBinding")
        .unwrap();
    assert_eq!(
        waiting["message"],
        "no persistent volumes available for this claim and no storage class is set"
    );
    assert_eq!(
        waiting["source"]["component"],
        "persistentvolume-controller"
    );
}

/// A binding takes two writes of each object, and no conflict.
#[tokio::test(start_paused = true)]
async fn a_binding_takes_four_writes() {
    let world = World::binder().await;
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.until_volume("pv", "Available").await;
    world.clear_requests();
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    for _ in 0..3 {
        world.a_minute().await;
    }
    assert_eq!(
        world.writes_by(IDENTITY),
        [
            "update /api/v1/persistentvolumes/pv 200",
            "update /api/v1/persistentvolumes/pv/status 200",
            "update /api/v1/namespaces/default/persistentvolumeclaims/data 200",
            "update /api/v1/namespaces/default/persistentvolumeclaims/data/status 200",
        ]
    );
}

/// Upstream: `TestPersistentVolumeRecycler` (the part of Retain), and the removal of `claimRef` by an
/// administrator.
#[tokio::test(start_paused = true)]
async fn a_retained_volume_becomes_available_without_its_claim() {
    let world = World::binder().await;
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    world.delete("persistentvolumeclaims", "data").await;
    world.until_volume("pv", "Released").await;
    world.at_rest().await;
    world
        .patch(
            "persistentvolumes",
            "pv",
            json!({"spec": {"claimRef": null}}),
        )
        .await;
    world.until_volume("pv", "Available").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_lost_volume_recovers_with_it() {
    let world = World::binder().await;
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    world
        .cluster
        .delete("/api/v1/persistentvolumes/pv")
        .await
        .unwrap();
    world.until_claim("data", "Lost").await;
    let event = world.until_told("ClaimLost").await;
    assert_eq!(event["type"], "Warning");
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    assert_eq!(world.volume("pv")["status"]["phase"], "Bound");
}

/// Upstream: `TestPersistentVolumeProvisionMultiPVCs`.
#[tokio::test(start_paused = true)]
async fn a_claim_of_an_external_provisioner_is_handed_over_and_bound() {
    let world = World::with_external_claim().await;
    let event = world.until_told("ExternalProvisioning").await;
    assert_eq!(event["type"], "Normal");
    let claim = world.claim("data");
    for annotation in [
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ] {
        assert_eq!(
            claim["metadata"]["annotations"][annotation],
            "csi.example.com"
        );
    }
    let of = json!({"namespace": "default", "name": "data", "uid": claim["metadata"]["uid"]});
    let spec = json!({
        "claimRef": of, "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
    });
    let mut provisioned = volume("pvc-1", "1Gi", spec);
    provisioned["metadata"]["annotations"] =
        json!({"pv.kubernetes.io/provisioned-by": "csi.example.com"});
    world.create(provisioned).await;
    world.until_claim("data", "Bound").await;
    world.delete("persistentvolumeclaims", "data").await;
    // The external provisioner deletes it.
    world.until_volume("pvc-1", "Released").await;
    world.at_rest().await;
    assert_eq!(world.volume("pvc-1")["status"]["phase"], "Released");
    let metrics = world.registry.gather();
    let count = |name: &str| {
        let family = metrics.iter().find(|family| family.name() == name)?;
        Some(family.get_metric()[0].get_histogram().get_sample_count())
    };
    assert_eq!(count("volume_operation_total_seconds"), Some(1));
}

/// The volume that an external provisioner makes for the claim `data`.
fn provisioned(world: &World) -> Value {
    let uid = world.claim("data")["metadata"]["uid"].clone();
    let of = json!({"namespace": "default", "name": "data", "uid": uid});
    let spec = json!({"claimRef": of, "storageClassName": "fast"});
    volume("pvc-1", "1Gi", spec)
}

/// Number of times that the Event about an awaited volume was recorded.
fn times_awaited(world: &World) -> u64 {
    let state = world.state();
    let mut events = state.events.iter();
    let event = events.find(|event| event["reason"] == "ExternalProvisioning");
    event.map_or(0, |event| event["count"].as_u64().unwrap())
}

/// The key of the volume waits behind another one, and the key of the claim does not.
#[tokio::test(start_paused = true)]
async fn a_claim_finds_a_volume_that_waits_in_the_queue() {
    let world = World::with_external_claim().await;
    world.until_told("ExternalProvisioning").await;
    // The hand-over is an event of the claim, which repeats the Event.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = times_awaited(&world);
    let slow = Matcher::new("update", "persistentvolumes")
        .subresource("status")
        .name("other");
    let delay = RequestFault::Delay(Duration::from_secs(5));
    let delayed = world.cluster.faults().on_request(slow, delay, Some(1));
    world.create(volume("other", "1Gi", json!({}))).await;
    world
        .until("the sync of another volume", |_| {
            world.cluster.faults().hits(delayed) == 1
        })
        .await;
    let labels = json!({"metadata": {"labels": {"changed": "yes"}}});
    world.patch("persistentvolumeclaims", "data", labels).await;
    world.create(provisioned(&world)).await;
    world.until_claim("data", "Bound").await;
    world.at_rest().await;
    assert_eq!(times_awaited(&world), before);
}

/// The administrator reserves a volume while the claim is handed to its provisioner.
#[tokio::test(start_paused = true)]
async fn no_event_awaits_a_volume_that_has_come() {
    let world = World::binder().await;
    let slow = Matcher::new("update", "persistentvolumeclaims").name("data");
    let delay = RequestFault::Delay(Duration::from_secs(5));
    let delayed = world.cluster.faults().on_request(slow, delay, Some(1));
    world
        .create(class("fast", "csi.example.com", json!({})))
        .await;
    world
        .create(claim("data", "1Gi", json!({"storageClassName": "fast"})))
        .await;
    world
        .until("the hand-over", |_| {
            world.cluster.faults().hits(delayed) == 1
        })
        .await;
    let of = json!({"namespace": "default", "name": "data"});
    let spec = json!({"claimRef": of, "storageClassName": "fast"});
    world.create(volume("pv", "1Gi", spec)).await;
    world.until_claim("data", "Bound").await;
    world.at_rest().await;
    assert_eq!(times_awaited(&world), 0);
}

/// A provisioner that never answers costs one write and an Event per period, which are counted.
#[tokio::test(start_paused = true)]
async fn a_silent_provisioner_causes_no_hot_loop() {
    let world = World::with_external_claim().await;
    world.until_told("ExternalProvisioning").await;
    world.clear_requests();
    for _ in 0..10 {
        world.a_minute().await;
    }
    let requests = world.requests_of(IDENTITY);
    assert!(requests.len() <= 40, "{} requests", requests.len());
    assert!(requests.iter().all(|request| request.contains("/events")));
}

/// A volume that names a claim wrongly changes nothing and is not asked about again and again.
#[tokio::test(start_paused = true)]
async fn volumes_that_lie_about_their_claims_cause_no_hot_loop() {
    let world = World::binder().await;
    world
        .create(claim("data", "1Gi", json!({"storageClassName": ""})))
        .await;
    world.until_told("FailedBinding").await;
    let reference = |name: &str, uid: &str| json!({"claimRef": {"namespace": "default", "name": name, "uid": uid}});
    world
        .create(volume("other-uid", "1Gi", reference("data", "lie")))
        .await;
    world
        .create(volume("no-claim", "1Gi", reference("missing", "lie")))
        .await;
    world
        .create(volume("no-name", "1Gi", reference("..", "lie")))
        .await;
    world.until_volume("other-uid", "Released").await;
    world.until_volume("no-claim", "Released").await;
    world.clear_requests();
    for _ in 0..10 {
        world.a_minute().await;
    }
    let all = world.requests_of(IDENTITY);
    let requests: Vec<_> = all
        .iter()
        .filter(|request| !request.contains("/events"))
        .collect();
    assert!(requests.len() <= 45, "{requests:#?}");
    assert_eq!(world.binding("data").0, "Pending");
}

/// Upstream: `TestRetroactiveStorageClassAssignment` in `test/integration/volume`.
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_a_later_default() {
    let world = World::binder().await;
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_told("FailedBinding").await;
    let mut default = class("fast", "csi.example.com", json!({}));
    default["metadata"]["annotations"] =
        json!({"storageclass.kubernetes.io/is-default-class": "true"});
    world.create(default).await;
    world.until_told("ExternalProvisioning").await;
    assert_eq!(world.claim("data")["spec"]["storageClassName"], "fast");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_claim_waits_for_its_pod_and_its_node() {
    let world = World::binder().await;
    let delayed = json!({"volumeBindingMode": "WaitForFirstConsumer"});
    world
        .create(class("local", "csi.example.com", delayed))
        .await;
    world
        .create(claim("data", "1Gi", json!({"storageClassName": "local"})))
        .await;
    let event = world.until_told("WaitForFirstConsumer").await;
    assert_eq!(
        event["message"],
        "waiting for first consumer to be created before binding"
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    });
    world.create(pod).await;
    let event = world.until_told("WaitForPodScheduled").await;
    assert_eq!(event["message"], "waiting for pod web to be scheduled");
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    world.patch("persistentvolumeclaims", "data", chosen).await;
    world.until_told("ExternalProvisioning").await;
}

/// Upstream: `TestPersistentVolumeDeleter`, with the plugin of folders.
#[tokio::test(start_paused = true)]
async fn a_folder_is_provisioned_and_deleted_with_its_claim() {
    let mut world = World::bare().await;
    world
        .restart_with(&[DESCRIPTOR], |context| {
            context.with_flag("enable-hostpath-provisioner", "true")
        })
        .await;
    world
        .create(class("folder", "kubernetes.io/host-path", json!({})))
        .await;
    world
        .create(claim("data", "1Gi", json!({"storageClassName": "folder"})))
        .await;
    world.until_claim("data", "Bound").await;
    world.until_told("ProvisioningSucceeded").await;
    let (_, name) = world.binding("data");
    let volume = world.volume(&name);
    assert_eq!(
        volume["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-controller"])
    );
    let folder = volume["spec"]["hostPath"]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::write(format!("{folder}/file"), "content").unwrap();
    world.delete("persistentvolumeclaims", "data").await;
    world
        .until("the volume is deleted", |_| {
            world.find("persistentvolumes", &name).is_none()
        })
        .await;
    assert!(!std::path::Path::new(&folder).exists());
}

/// The former leader makes no folder, and deletes none that the present leader made for the same claim.
#[tokio::test(start_paused = true)]
async fn a_former_leader_leaves_the_folders_of_the_present_one_alone() {
    let mut world = World::bare().await;
    let gate = Arc::new(Gate::default());
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            let clients = Arc::clone(&context.clients);
            let gate = Arc::clone(&gate);
            context.clients =
                Arc::new(move |identity: &str| clients(identity).fenced(gate.clone()));
            context.with_flag("enable-hostpath-provisioner", "true")
        })
        .await;
    gate.set_open(false);
    world
        .create(class("folder", "kubernetes.io/host-path", json!({})))
        .await;
    let mut data = claim("data", "1Gi", json!({"storageClassName": "folder"}));
    // The present leader has taken the claim over.
    data["metadata"]["annotations"] = json!({
        "volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/host-path",
        "volume.kubernetes.io/storage-provisioner": "kubernetes.io/host-path",
    });
    let created = world.create(data).await;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let folder = std::path::PathBuf::from(format!("/tmp/hostpath_pv/pvc-{uid}"));
    world.a_minute().await;
    assert!(!folder.exists(), "the former leader makes none");
    std::fs::create_dir_all(&folder).unwrap();
    world.a_minute().await;
    assert!(folder.exists(), "the former leader deletes none");
    gate.set_open(true);
    world.until_claim("data", "Bound").await;
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A folder is outside the API, so no server refuses its deletion by a former leader.
#[tokio::test(start_paused = true)]
async fn a_former_leader_deletes_no_folder() {
    let mut world = World::bare().await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    let folder = tempfile::Builder::new()
        .prefix("former-leader-")
        .tempdir_in("/tmp")
        .unwrap();
    let source =
        json!({"hostPath": {"path": folder.path()}, "persistentVolumeReclaimPolicy": "Delete"});
    let mut pv = volume("pv", "1Gi", source);
    pv["spec"]["csi"] = Value::Null;
    world.create(pv).await;
    world
        .create(claim("data", "1Gi", json!({"storageClassName": ""})))
        .await;
    world.until_claim("data", "Bound").await;
    gate.set_open(false);
    world.delete("persistentvolumeclaims", "data").await;
    // The present leader has released the volume, and has yet to delete it.
    let path = format!(
        "{}/status",
        world.cluster.path("persistentvolumes", "", "pv")
    );
    let released = json!({"status": {"phase": "Released"}});
    world.cluster.patch(&path, released).await.unwrap();
    world.a_minute().await;
    assert!(folder.path().exists());
    gate.set_open(true);
    world
        .until("the volume is deleted", |_| {
            world.find("persistentvolumes", "pv").is_none()
        })
        .await;
    assert!(!folder.path().exists());
}

/// Upstream: `TestPersistentVolumeRecycler`. The test is the kubelet of the pod.
#[tokio::test(start_paused = true)]
async fn a_recycled_volume_is_emptied_by_a_pod_after_a_failure() {
    let world = World::binder().await;
    let nfs = json!({
        "csi": null, "nfs": {"server": "nfs.example.com", "path": "/data"},
        "persistentVolumeReclaimPolicy": "Recycle",
    });
    world.create(volume("pv", "1Gi", nfs)).await;
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    world.delete("persistentvolumeclaims", "data").await;
    let pod = || world.find("pods", "recycler-for-pv");
    world.until("a recycler pod", |_| pod().is_some()).await;
    assert_eq!(pod().unwrap()["spec"]["volumes"][0]["nfs"]["path"], "/data");
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "recycler-for-pv"},
        "reason": "Pulling", "message": "pulls", "type": "Normal",
    });
    world.create(event).await;
    world
        .pod_status(
            "recycler-for-pv",
            json!({"phase": "Failed", "message": "disk error"}),
        )
        .await;
    world.until_volume("pv", "Failed").await;
    let event = world.until_told("VolumeFailedRecycle").await;
    assert_eq!(
        event["message"],
        "Recycle failed: failed to recycle volume: disk error"
    );
    let event = world.until_told("RecyclerPod").await;
    assert_eq!(event["message"], "Recycler pod: pulls");
    world
        .until("the next recycler pod", |_| pod().is_some())
        .await;
    world
        .pod_status("recycler-for-pv", json!({"phase": "Succeeded"}))
        .await;
    world.until_volume("pv", "Available").await;
    world.until_told("VolumeRecycled").await;
    world.until("no recycler pod", |_| pod().is_none()).await;
    assert!(world.volume("pv")["spec"]["claimRef"].is_null());
}

/// Upstream: `TestPersistentVolumeControllerStartup`.
#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut world = World::binder().await;
    for index in 0..20 {
        world
            .create(volume(&format!("pv-{index}"), "1Gi", json!({})))
            .await;
        world
            .create(claim(&format!("data-{index}"), "1Gi", json!({})))
            .await;
    }
    for index in 0..20 {
        world.until_claim(&format!("data-{index}"), "Bound").await;
    }
    world.at_rest().await;
    world.restart(&[DESCRIPTOR]).await;
    world.clear_requests();
    world.a_minute().await;
    assert_eq!(world.writes_by(IDENTITY), [""; 0]);
}

/// A binding that stops half way is finished, and the volume is bound to no other claim.
#[tokio::test(start_paused = true)]
async fn an_interrupted_binding_is_finished() {
    let world = World::binder().await;
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.until_volume("pv", "Available").await;
    let faults = world.cluster.faults();
    let claims = Matcher::new("update", "persistentvolumeclaims");
    faults.reject(claims.clone(), internal_error(), Some(2));
    faults.reject(claims, conflict(), Some(1));
    world.create(claim("first", "1Gi", json!({}))).await;
    world.create(claim("second", "1Gi", json!({}))).await;
    world.until_claim("first", "Bound").await;
    world.at_rest().await;
    assert_eq!(
        world.binding("second"),
        ("Pending".to_owned(), String::new())
    );
}

/// A new leader with an old cache releases no volume of a living claim.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_claims_releases_no_volume() {
    let mut world = World::binder().await;
    let before = world.cluster.revision();
    world.create(claim("data", "1Gi", json!({}))).await;
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    let view = world
        .take_over_behind(&[DESCRIPTOR], "persistentvolumeclaims", before)
        .await;
    world.a_minute().await;
    assert_eq!(world.volume("pv")["status"]["phase"], "Bound");
    world.cluster.faults().remove(view);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.binding("data"), ("Bound".to_owned(), "pv".to_owned()));
}

/// A new leader with an old cache takes no claim for lost.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_volumes_loses_no_claim() {
    let mut world = World::binder().await;
    let before = world.cluster.revision();
    world.create(volume("pv", "1Gi", json!({}))).await;
    world.create(claim("data", "1Gi", json!({}))).await;
    world.until_claim("data", "Bound").await;
    world.at_rest().await;
    world.clear_requests();
    let view = world
        .take_over_behind(&[DESCRIPTOR], "persistentvolumes", before)
        .await;
    world.a_minute().await;
    assert_eq!(world.writes_by(IDENTITY), [""; 0]);
    world.cluster.faults().remove(view);
    world.delete("persistentvolumes", "pv").await;
    world.until_claim("data", "Lost").await;
    world.until_told("ClaimLost").await;
}
