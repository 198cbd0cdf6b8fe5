//! Volumes are attached where pods want them.

use steersman_devcluster::faults::{Matcher, internal_error};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SUCCESS: &str = "SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv1\"  x1";

#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_reported_and_announced() {
    let storage = Storage::with(&[]).await;
    storage.load(&pod("p1", "n1"));
    storage.until_requested("n1").await;
    let attachment = storage.attachment("n1");
    let expected = json!({
        "attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv1"},
    });
    assert_eq!(attachment["spec"], expected);
    assert_eq!(attachment["status"], json!({"attached": false}));
    for field in ["ownerReferences", "labels", "annotations", "finalizers"] {
        assert!(attachment["metadata"][field].is_null(), "{field}");
    }
    assert!(storage.reported("n1").is_empty() && storage.events("p1").is_empty());
    storage.answer("n1", json!({"attached": true})).await;
    storage.until_event("p1", SUCCESS).await;
    storage
        .until("a report", |storage| storage.reported("n1") == [UNIQUE])
        .await;
    let node = storage.object("nodes", "n1");
    let expected = json!([{"devicePath": "", "name": UNIQUE}]);
    assert_eq!(node["status"]["volumesAttached"], expected);
    storage.pass(10 * SECOND).await;
    let expected = ["create volumeattachments 201", "patch nodes/n1/status 200"];
    assert_eq!(storage.requests(), expected);
    let counts = storage.metric("attachdetach_controller_total_volumes{");
    let count = |state: &str| {
        format!(
            "attachdetach_controller_total_volumes{{plugin_name=\"kubernetes.io/csi:{DRIVER}\",state=\"{state}\"}} 1"
        )
    };
    let expected = [
        count("actual_state_of_world"),
        count("desired_state_of_world"),
    ];
    assert_eq!(counts, expected);
    let in_use = storage.metric("storage_count_attachable_volumes_in_use{");
    assert_eq!(in_use.len(), 1, "{in_use:?}");
}

/// No node attaches a volume that a pod has from a CSI driver of its own, but upstream counts it.
#[tokio::test(start_paused = true)]
async fn inline_csi_volumes_are_in_use() {
    let inline = |name: &str| {
        let csi = json!({"driver": "secrets.example.com", "volumeAttributes": {"pod": name}});
        pod_with(name, "n1", json!({"name": "secrets", "csi": csi}))
    };
    let storage = Storage::with(&[inline("a"), inline("b")]).await;
    storage.pass(10 * SECOND).await;
    let in_use = storage.metric("storage_count_attachable_volumes_in_use{");
    let expected = "storage_count_attachable_volumes_in_use{node=\"n1\",volume_plugin=\"kubernetes.io/csi:secrets.example.com\"} 2";
    assert_eq!(in_use, [expected]);
    assert_eq!(storage.requests(), [""; 0]);
}

/// Upstream keeps the pod as it was when its volume was first wanted.
#[tokio::test(start_paused = true)]
async fn events_name_the_version_of_the_pod() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    let version = storage.object("pods", "p1")["metadata"]["resourceVersion"].clone();
    storage.until_requested("n1").await;
    let mut touched = pod("p1", "n1");
    touched["metadata"]["labels"] = json!({"touched": "yes"});
    storage.load(&touched);
    storage.answer("n1", json!({"attached": true})).await;
    storage.until_event("p1", SUCCESS).await;
    let event = storage.0.cluster.objects("events").swap_remove(0);
    assert_eq!(event["involvedObject"]["resourceVersion"], version);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attachment_is_tried_again_without_a_new_object() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    storage.until_requested("n1").await;
    let failure = json!({"attached": false, "attachError": {"message": "boom"}});
    storage.answer("n1", failure).await;
    let failed = "FailedAttachVolume AttachVolume.Attach failed for volume \"pv1\" : boom";
    storage.until_event("p1", &format!("{failed} x1")).await;
    // The delays are 0.5 s, 1 s, 2 s and so on: the 8th attempt follows 63.5 s after the first one.
    storage.pass(60 * SECOND).await;
    assert_eq!(storage.events("p1"), [format!("{failed} x7")]);
    assert_eq!(storage.requests(), ["create volumeattachments 201"]);
    storage
        .answer("n1", json!({"attached": true, "attachError": null}))
        .await;
    storage.until_event("p1", SUCCESS).await;
    let metric = "storage_operation_duration_seconds_count{";
    let counts = storage.metric(metric);
    assert!(
        counts.iter().any(|line| line.contains("fail-unknown")),
        "{counts:?}"
    );
    assert!(
        counts.iter().any(|line| line.contains("success")),
        "{counts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_never_answers_causes_no_hot_loop() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    let text = format!(
        "FailedAttachVolume AttachVolume.Attach failed for volume \"pv1\" : timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume vol-1"
    );
    storage.pass(119 * SECOND).await;
    assert!(storage.events("p1").is_empty());
    storage.until_event("p1", &format!("{text} x1")).await;
    storage.pass(Duration::from_hours(1)).await;
    assert_eq!(storage.requests(), ["create volumeattachments 201"]);
    let events = storage.events("p1");
    assert!(
        events.len() == 1 && events[0].starts_with(&text),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_attachment_is_an_event_and_is_retried() {
    let storage = Storage::stopped(
        &[csi_volume("ReadWriteOnce"), claim("pv1")],
        &[pod("p1", "n1")],
    )
    .await;
    let faults = storage.0.cluster.faults();
    faults.reject(
        Matcher::new("create", "volumeattachments"),
        internal_error(),
        Some(2),
    );
    let storage = storage.started(|context| context).await;
    storage.until_requested("n1").await;
    let events = storage.events("p1");
    let prefix = "FailedAttachVolume AttachVolume.Attach failed for volume \"pv1\" : kubernetes.io/csi: attacher.Attach failed: ";
    assert!(
        events.iter().all(|event| event.starts_with(prefix)) && !events.is_empty(),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shared_volume_is_attached_to_several_nodes() {
    let volumes = [csi_volume("ReadWriteMany"), claim("pv1")];
    let storage = Storage::on(&volumes, &[pod("p1", "n1"), pod("p2", "n2")]).await;
    storage.until_requested("n1").await;
    storage.until_requested("n2").await;
    storage.attach("n1").await;
    storage.attach("n2").await;
}

#[tokio::test(start_paused = true)]
async fn claims_may_be_bound_after_their_pods() {
    let storage = Storage::on(&[], &[pod("p1", "n1")]).await;
    storage.load(&csi_volume("ReadWriteOnce"));
    storage.pass(SECOND).await;
    assert!(storage.attachment("n1").is_null());
    storage.load(&claim("pv1"));
    storage.until_requested("n1").await;
    // The other order.
    let storage = Storage::on(&[claim("pv1")], &[pod("p1", "n1")]).await;
    storage.pass(SECOND).await;
    assert!(storage.attachment("n1").is_null());
    storage.load(&csi_volume("ReadWriteOnce"));
    storage.until_requested("n1").await;
}

#[tokio::test(start_paused = true)]
async fn only_nodes_with_the_annotation_are_managed() {
    let storage = Storage::with(&[]).await;
    let mut other = node("other");
    other["metadata"]["annotations"] = json!({});
    storage.load(&other);
    storage.load(&pod("p1", "other"));
    storage.pass(10 * SECOND).await;
    assert!(storage.attachment("other").is_null());
    let annotations = node("other")["metadata"]["annotations"].clone();
    let path = storage.0.cluster.path("nodes", "", "other");
    let change = json!({"metadata": {"annotations": annotations}});
    storage.0.cluster.patch(&path, change).await.unwrap();
    storage.until_requested("other").await;
}

#[tokio::test(start_paused = true)]
async fn drivers_decide_whether_their_volumes_are_attached() {
    let driver = |required: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {"attachRequired": required},
        })
    };
    let storage = Storage::with(&[driver(false), pod("p1", "n1")]).await;
    storage.pass(10 * SECOND).await;
    assert!(storage.requests().is_empty());
    storage.remove("csidrivers", "", DRIVER).await;
    storage.attach("n1").await;
    storage.load(&driver(false));
    storage
        .until("a detached volume", |storage| {
            storage.attachment("n1").is_null()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn volumes_that_every_node_reaches_need_no_object() {
    let iscsi = json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.a", "lun": 1});
    let volumes = [
        volume("pv1", "ReadWriteOnce", json!({"iscsi": iscsi})),
        claim("pv1"),
    ];
    let storage = Storage::on(&volumes, &[pod("p1", "n1")]).await;
    let unique = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.a:1";
    storage
        .until("a report", |storage| storage.reported("n1") == [unique])
        .await;
    storage.until_event("p1", SUCCESS).await;
    storage.remove_pod("p1").await;
    storage.use_volumes("n1", &[]).await;
    storage
        .until("no report", |storage| storage.reported("n1").is_empty())
        .await;
    assert!(storage.0.cluster.objects("volumeattachments").is_empty());
}

#[tokio::test(start_paused = true)]
async fn in_tree_volumes_of_pods_are_attached_by_their_translation() {
    let disk =
        json!({"name": "data", "awsElasticBlockStore": {"volumeID": "vol-9", "fsType": "ext4"}});
    let storage = Storage::on(&[], &[pod_with("p1", "n1", disk)]).await;
    storage.until_requested("n1").await;
    let csi = json!({
        "driver": "ebs.csi.aws.com", "volumeHandle": "vol-9", "fsType": "ext4",
        "volumeAttributes": {"partition": "0"},
    });
    let spec = storage.attachment("n1")["spec"]["source"]["inlineVolumeSpec"].clone();
    assert_eq!(
        spec,
        json!({"accessModes": ["ReadWriteOnce"], "csi": csi, "volumeMode": "Filesystem"})
    );
    storage.answer("n1", json!({"attached": true})).await;
    let event = "SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"ebs.csi.aws.com-vol-9\"  x1";
    storage.until_event("p1", event).await;
    let counted = "storage_operation_duration_seconds_count{migrated=\"true\",operation_name=\"volume_attach\",status=\"success\",volume_plugin=\"kubernetes.io/csi:ebs.csi.aws.com\"} 1";
    assert_eq!(
        storage.metric("storage_operation_duration_seconds_count"),
        [counted]
    );
}

#[tokio::test(start_paused = true)]
async fn volumes_without_a_plugin_are_left_alone() {
    let volumes = [
        volume(
            "pv1",
            "ReadWriteOnce",
            json!({"nfs": {"server": "s", "path": "/"}}),
        ),
        claim("pv1"),
    ];
    let storage = Storage::on(&volumes, &[pod("p1", "n1")]).await;
    storage.pass(Duration::from_hours(1)).await;
    assert!(storage.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_attachment_is_found_by_the_regular_check() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    storage.attach("n1").await;
    let name = storage.attachment("n1")["metadata"]["name"].clone();
    storage
        .remove("volumeattachments", "", name.as_str().unwrap())
        .await;
    storage.until_requested("n1").await;
    storage
        .until("no report", |storage| storage.reported("n1").is_empty())
        .await;
    storage.attach("n1").await;
    let checks = storage.metric("storage_operation_duration_seconds_count{migrated=\"false\",operation_name=\"verify_volumes_are_attached_per_node\",status=\"success\",volume_plugin=\"<n/a>\"}");
    assert_eq!(checks.len(), 1, "{checks:?}");
}

#[tokio::test(start_paused = true)]
async fn flags_switch_the_regular_check_off() {
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let storage = Storage::stopped(&volumes, &[pod("p1", "n1")]).await;
    let flag = "disable-attach-detach-reconcile-sync";
    let storage = storage
        .started(|context| context.with_flag(flag, "true"))
        .await;
    storage.attach("n1").await;
    let name = storage.attachment("n1")["metadata"]["name"].clone();
    storage
        .remove("volumeattachments", "", name.as_str().unwrap())
        .await;
    storage.pass(Duration::from_hours(1)).await;
    assert!(storage.attachment("n1").is_null());
}
