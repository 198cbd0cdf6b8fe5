//! A controller that starts finds the attachments of its predecessor.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn attachment(node: &str) -> Value {
    let volume = steersman_helpers::volume::CsiVolume {
        driver: DRIVER.into(),
        handle: "vol-1".into(),
    };
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": super::super::attachment::name(&volume, node)},
        "spec": {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": "pv1"}},
        "status": {"attached": true},
    })
}

/// A node whose status has the volume.
fn node_with_volume(name: &str) -> Value {
    let mut node = node(name);
    node["status"]["volumesAttached"] = json!([{"name": UNIQUE, "devicePath": ""}]);
    node
}

/// Upstream's `Test_AttachDetachControllerRecovery`.
#[tokio::test(start_paused = true)]
async fn attachments_at_rest_are_taken_over_without_a_request() {
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let objects = [node_with_volume("n3"), attachment("n3"), pod("p1", "n3")];
    let storage = Storage::on(&volumes, &objects).await;
    storage.pass(600 * SECOND).await;
    assert!(storage.requests().is_empty(), "{:?}", storage.requests());
}

#[tokio::test(start_paused = true)]
async fn volumes_of_pods_that_vanished_are_detached() {
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let storage = Storage::on(&volumes, &[node_with_volume("n3"), attachment("n3")]).await;
    storage
        .until("a detached volume", |storage| {
            storage.attachment("n3").is_null()
        })
        .await;
    let expected = [
        "patch nodes/n3/status 200",
        "get nodes/n3 200",
        "delete volumeattachments 200",
    ];
    assert_eq!(storage.requests(), expected);
}

/// The status of the node is the only trace of the volume.
#[tokio::test(start_paused = true)]
async fn a_volume_without_an_attachment_leaves_the_status() {
    let storage = Storage::on(&[], &[node_with_volume("n3")]).await;
    storage
        .until("no report", |storage| storage.reported("n3").is_empty())
        .await;
    storage.pass(60 * SECOND).await;
    let expected = [
        "patch nodes/n3/status 200",
        "get nodes/n3 200",
        "delete volumeattachments 404",
    ];
    assert_eq!(storage.requests(), expected);
}

/// Upstream's `Test_ADC_VolumeAttachmentRecovery`.
#[tokio::test(start_paused = true)]
async fn uncertain_attachments_are_finished_or_removed() {
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let storage = Storage::on(&volumes, &[attachment("n1")]).await;
    storage
        .until("a detached volume", |storage| {
            storage.attachment("n1").is_null()
        })
        .await;
    let storage = Storage::on(&volumes, &[attachment("n1"), pod("p1", "n1")]).await;
    storage
        .until("a report", |storage| storage.reported("n1") == [UNIQUE])
        .await;
    assert_eq!(storage.requests(), ["patch nodes/n1/status 200"]);
}

#[tokio::test(start_paused = true)]
async fn uncertain_attachments_of_migrated_volumes_are_known() {
    let source = json!({"cinder": {"volumeID": "vol-1"}});
    let volumes = [volume("pv1", "ReadWriteOnce", source), claim("pv1")];
    let mut attachment = attachment("n1");
    let csi = steersman_helpers::volume::CsiVolume {
        driver: "cinder.csi.openstack.org".into(),
        handle: "vol-1".into(),
    };
    attachment["metadata"]["name"] = json!(super::super::attachment::name(&csi, "n1"));
    let storage = Storage::on(&volumes, &[attachment]).await;
    storage
        .until("a detached volume", |storage| {
            storage.attachment("n1").is_null()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn attachments_of_unknown_volumes_are_left_alone() {
    let mut inline = attachment("n2");
    inline["spec"]["source"] = json!({"inlineVolumeSpec": {"csi": {"driver": DRIVER}}});
    let storage = Storage::on(&[], &[attachment("n1"), inline]).await;
    storage.pass(600 * SECOND).await;
    assert!(storage.requests().is_empty());
    let unknown = "kubernetes.io/rbd/pool:image";
    let mut other = node("n3");
    other["status"]["volumesAttached"] = json!([{"name": unknown, "devicePath": "/dev/x"}]);
    let storage = Storage::on(&[], &[other]).await;
    storage.pass(600 * SECOND).await;
    assert!(storage.requests().is_empty());
}

/// A new leader whose cache of nodes has a taint that is gone by now.
#[tokio::test(start_paused = true)]
async fn a_new_leader_checks_a_node_that_was_out_of_service() {
    let mut tainted = node_with_volume("n3");
    tainted["spec"] =
        json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    tainted["status"]["volumesInUse"] = json!([UNIQUE]);
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let mut storage = Storage::stopped(&volumes, &[tainted, attachment("n3")]).await;
    let before = storage.0.cluster.revision();
    let path = storage.0.cluster.path("nodes", "", "n3");
    storage
        .0
        .cluster
        .patch(&path, json!({"spec": {"taints": null}}))
        .await
        .unwrap();
    let rule = storage
        .0
        .take_over_behind(&[DESCRIPTOR], "nodes", before)
        .await;
    storage.pass(60 * SECOND).await;
    assert!(storage.attachment("n3").is_object());
    storage.0.cluster.faults().remove(rule);
    storage.pass(60 * SECOND).await;
    assert!(storage.attachment("n3").is_object());
}
