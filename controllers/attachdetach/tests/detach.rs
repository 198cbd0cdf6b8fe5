//! Volumes are detached when no pod wants them, and when that is safe or forced.

use steersman_devcluster::faults::{Matcher, internal_error};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A cluster whose volume is attached to `n1` and in use there.
async fn in_use() -> Storage {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    attach_and_use(storage).await
}

async fn attach_and_use(storage: Storage) -> Storage {
    storage.attach("n1").await;
    storage.use_volumes("n1", &[UNIQUE]).await;
    storage
}

async fn until_detached(storage: &Storage, node: &str) {
    storage
        .until("a detached volume", |storage| {
            storage.attachment(node).is_null()
        })
        .await;
}

async fn set_ready(storage: &Storage, node: &str, status: &str) {
    let conditions = json!([{"type": "Ready", "status": status}]);
    storage
        .patch_status("nodes", "", node, json!({"conditions": conditions}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_volume_moves_after_its_unmount() {
    let storage = in_use().await;
    storage.load(&pod("p2", "n2"));
    let event = "FailedAttachVolume Multi-Attach error for volume \"pv1\" Volume is already used by pod(s) p1 x1";
    storage.until_event("p2", event).await;
    storage.remove_pod("p1").await;
    storage.pass(60 * SECOND).await;
    assert!(storage.attachment("n2").is_null());
    assert_eq!(storage.reported("n1"), [UNIQUE]);
    storage.0.clear_requests();
    storage.use_volumes("n1", &[]).await;
    storage.attach("n2").await;
    let expected = [
        "patch nodes/n1/status 200",
        "get nodes/n1 200",
        "delete volumeattachments 200",
        "create volumeattachments 201",
        "patch nodes/n2/status 200",
    ];
    assert_eq!(storage.requests(), expected);
    assert!(storage.object("nodes", "n1")["status"]["volumesAttached"].is_null());
    let attached = "SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv1\"  x1";
    storage.until_event("p2", attached).await;
    assert_eq!(storage.events("p2").len(), 2, "the Event is written once");
}

/// Without pods on the other node, and with pods of another namespace.
#[tokio::test(start_paused = true)]
async fn waiting_pods_learn_only_names_of_their_namespace() {
    let storage = in_use().await;
    storage.remove_pod("p1").await;
    storage.pass(SECOND).await;
    storage.load(&pod("p2", "n2"));
    let event = "FailedAttachVolume Multi-Attach error for volume \"pv1\" Volume is already exclusively attached to one node and can't be attached to another x1";
    storage.until_event("p2", event).await;
}

/// Upstream's `Test_Run_OneVolumeDetachOnUnhealthyNode` and
/// `Test_Run_OneVolumeDetachOnNoOutOfServiceTaintedNode`.
#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_loses_its_volume_after_six_minutes() {
    let storage = in_use().await;
    set_ready(&storage, "n1", "Unknown").await;
    storage.remove_pod("p1").await;
    storage.0.clear_requests();
    storage.pass(359 * SECOND).await;
    assert!(storage.requests().is_empty());
    until_detached(&storage, "n1").await;
    let expected = ["patch nodes/n1/status 200", "delete volumeattachments 200"];
    assert_eq!(storage.requests(), expected);
    let forced =
        storage.metric("attach_detach_controller_attachdetach_controller_forced_detaches{");
    let expected =
        "attach_detach_controller_attachdetach_controller_forced_detaches{reason=\"timeout\"} 1";
    assert_eq!(forced, [expected]);
}

/// Upstream's `Test_Run_OneVolumeDetachOnUnhealthyNodeWithForceDetachOnUnmountDisabled`.
#[tokio::test(start_paused = true)]
async fn a_flag_keeps_volumes_on_unhealthy_nodes() {
    let volumes = [csi_volume("ReadWriteOnce"), claim("pv1")];
    let storage = Storage::stopped(&volumes, &[pod("p1", "n1")]).await;
    let flag = "disable-force-detach-on-timeout";
    let storage = storage
        .started(|context| context.with_flag(flag, "true"))
        .await;
    let storage = attach_and_use(storage).await;
    set_ready(&storage, "n1", "Unknown").await;
    storage.remove_pod("p1").await;
    storage.pass(Duration::from_hours(1)).await;
    assert_eq!(storage.reported("n1"), [UNIQUE]);
}

/// Upstream's `Test_Run_Populate_DesiredStateOfWorld` cases of mounted volumes on healthy nodes.
#[tokio::test(start_paused = true)]
async fn a_healthy_node_keeps_a_volume_in_use() {
    let storage = in_use().await;
    storage.remove_pod("p1").await;
    storage.pass(Duration::from_hours(1)).await;
    assert_eq!(storage.reported("n1"), [UNIQUE]);
    // The wait is over when the node turns unhealthy.
    set_ready(&storage, "n1", "False").await;
    until_detached(&storage, "n1").await;
}

/// Upstream's `Test_Run_OneVolumeDetachOnOutOfServiceTaintedNode` and
/// `TestPodTerminationWithNodeOOSDetach`.
#[tokio::test(start_paused = true)]
async fn a_node_out_of_service_loses_its_volume_at_once() {
    let storage = in_use().await;
    storage.remove_pod("p1").await;
    storage.pass(SECOND).await;
    let path = storage.0.cluster.path("nodes", "", "n1");
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let change = json!({"spec": {"taints": [taint]}});
    storage.0.cluster.patch(&path, change).await.unwrap();
    storage.pass(SECOND).await;
    assert!(storage.attachment("n1").is_null());
    let forced =
        storage.metric("attach_detach_controller_attachdetach_controller_forced_detaches{");
    let expected = "attach_detach_controller_attachdetach_controller_forced_detaches{reason=\"out-of-service\"} 1";
    assert_eq!(forced, [expected]);
}

/// Upstream's `TestPodUpdateWithADC`.
#[tokio::test(start_paused = true)]
async fn finished_pods_want_no_volumes() {
    let storage = in_use().await;
    storage.use_volumes("n1", &[]).await;
    storage
        .patch_status("pods", NAMESPACE, "p1", json!({"phase": "Succeeded"}))
        .await;
    until_detached(&storage, "n1").await;
    assert!(storage.object("pods", "p1").is_object());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_returns_ends_the_wait() {
    let storage = in_use().await;
    set_ready(&storage, "n1", "Unknown").await;
    storage.remove_pod("p1").await;
    storage.pass(300 * SECOND).await;
    storage.load(&pod("p3", "n1"));
    storage.pass(300 * SECOND).await;
    storage.remove_pod("p3").await;
    storage.pass(300 * SECOND).await;
    assert_eq!(storage.reported("n1"), [UNIQUE]);
    storage.pass(61 * SECOND).await;
    assert!(storage.attachment("n1").is_null());
}

/// The cache lacks the status of the kubelet.
#[tokio::test(start_paused = true)]
async fn the_live_node_has_the_last_word_about_use() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    storage.attach("n1").await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(SECOND).await;
    let hold = storage.0.hold("nodes", storage.0.cluster.revision());
    storage.use_volumes("n1", &[UNIQUE]).await;
    storage.remove_pod("p1").await;
    let asked = |storage: &Storage| storage.requests().contains(&"get nodes/n1 200".to_owned());
    storage.until("a live read", asked).await;
    storage.pass(SECOND).await;
    assert!(storage.attachment("n1").is_object());
    storage.0.cluster.faults().remove(hold);
    storage.use_volumes("n1", &[]).await;
    until_detached(&storage, "n1").await;
}

/// The same, and a stranger has deleted the VolumeAttachment.
#[tokio::test(start_paused = true)]
async fn a_node_that_uses_a_volume_without_attachment_is_asked_with_back_off() {
    let storage = Storage::with(&[pod("p1", "n1")]).await;
    storage.attach("n1").await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(SECOND).await;
    let hold = storage.0.hold("nodes", storage.0.cluster.revision());
    storage.use_volumes("n1", &[UNIQUE]).await;
    let attachment = storage.attachment("n1");
    let name = attachment["metadata"]["name"].as_str().unwrap();
    storage.remove("volumeattachments", "", name).await;
    storage.remove_pod("p1").await;
    storage.pass(60 * SECOND).await;
    let requests = storage.requests();
    let reads = requests.iter().filter(|one| *one == "get nodes/n1 200");
    assert!((1..15).contains(&reads.count()), "{requests:#?}");
    storage.0.cluster.faults().remove(hold);
    storage.use_volumes("n1", &[]).await;
    until_detached(&storage, "n1").await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_attacher_is_waited_for() {
    let storage = in_use().await;
    let name = storage.attachment("n1")["metadata"]["name"].clone();
    let path = storage
        .0
        .cluster
        .path("volumeattachments", "", name.as_str().unwrap());
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    storage
        .0
        .cluster
        .patch(&path, finalizers(json!(["external-attacher/x"])))
        .await
        .unwrap();
    storage.load(&pod("p2", "n2"));
    storage.remove_pod("p1").await;
    storage.use_volumes("n1", &[]).await;
    let is_terminating =
        |storage: &Storage| storage.attachment("n1")["metadata"]["deletionTimestamp"].is_string();
    storage.until("a deletion", is_terminating).await;
    storage
        .answer(
            "n1",
            json!({"attached": true, "detachError": {"message": "busy"}}),
        )
        .await;
    storage.pass(600 * SECOND).await;
    assert!(storage.attachment("n1").is_object() && storage.reported("n1").is_empty());
    let deletions = storage
        .requests()
        .iter()
        .filter(|r| r.starts_with("delete"))
        .count();
    assert!(deletions < 15, "{:#?}", storage.requests());
    storage
        .0
        .cluster
        .patch(&path, finalizers(json!(null)))
        .await
        .unwrap();
    storage.attach("n2").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_not_detached_before_its_node_knows() {
    let storage = in_use().await;
    let faults = storage.0.cluster.faults();
    let refused = faults.reject(
        Matcher::new("patch", "nodes")
            .subresource("status")
            .client(IDENTITY),
        internal_error(),
        None,
    );
    storage.remove_pod("p1").await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(600 * SECOND).await;
    assert!(storage.attachment("n1")["metadata"]["deletionTimestamp"].is_null());
    assert!(
        faults.hits(refused) > 5 && faults.hits(refused) < 60,
        "{}",
        faults.hits(refused)
    );
    // A pod that wants the volume again keeps it.
    storage.load(&pod("p3", "n1"));
    storage.pass(SECOND).await;
    faults.remove(refused);
    storage.pass(60 * SECOND).await;
    assert_eq!(storage.reported("n1"), [UNIQUE]);
    assert!(
        storage
            .requests()
            .iter()
            .all(|request| !request.starts_with("delete"))
    );
    storage.remove_pod("p3").await;
    until_detached(&storage, "n1").await;
}

/// Upstream's populator needs up to a minute for this.
#[tokio::test(start_paused = true)]
async fn a_volume_is_detached_after_its_claim_vanished() {
    let storage = in_use().await;
    storage
        .remove("persistentvolumeclaims", NAMESPACE, "pv1")
        .await;
    storage.remove_pod("p1").await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(SECOND).await;
    assert!(storage.attachment("n1").is_null());
}

#[tokio::test(start_paused = true)]
async fn volumes_of_a_deleted_node_are_detached() {
    let storage = in_use().await;
    storage.remove("nodes", "", "n1").await;
    storage.remove_pod("p1").await;
    storage.pass(359 * SECOND).await;
    assert!(storage.attachment("n1").is_object());
    until_detached(&storage, "n1").await;
    let requests = storage.requests();
    assert!(
        !requests.iter().any(|request| request.contains("404")),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_created_again_gets_its_report() {
    let storage = in_use().await;
    storage.remove("nodes", "", "n1").await;
    let mut again = node("n1");
    again["metadata"]["uid"] = json!("another");
    storage.load(&again);
    storage
        .until("a report", |storage| storage.reported("n1") == [UNIQUE])
        .await;
}

#[tokio::test(start_paused = true)]
async fn one_patch_serves_all_volumes_that_leave_a_node() {
    let names: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
    let mut objects = Vec::new();
    for name in &names {
        let source = json!({"csi": {"driver": DRIVER, "volumeHandle": name}});
        objects.push(volume(name, "ReadWriteOnce", source));
        objects.push(claim(name));
    }
    let mut all = pod("p1", "n1");
    let with_claim =
        |name: &String| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    all["spec"]["volumes"] = names.iter().map(with_claim).collect();
    let storage = Storage::on(&objects, &[all]).await;
    let attachments = |storage: &Storage| storage.0.cluster.objects("volumeattachments");
    storage
        .until("all attachments", |storage| {
            attachments(storage).len() == 20
        })
        .await;
    for attachment in attachments(&storage) {
        let name = attachment["metadata"]["name"].as_str().unwrap();
        storage
            .patch_status("volumeattachments", "", name, json!({"attached": true}))
            .await;
    }
    storage
        .until("a report", |storage| storage.reported("n1").len() == 20)
        .await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(SECOND).await;
    storage.0.clear_requests();
    storage.remove_pod("p1").await;
    storage
        .until("no attachments", |storage| attachments(storage).is_empty())
        .await;
    let patches = storage
        .requests()
        .iter()
        .filter(|r| r.starts_with("patch"))
        .count();
    assert!(patches <= 3, "{:#?}", storage.requests());
}

/// A former leader still sees the writes of the present one. Its own refused request says nothing about the volume.
#[tokio::test(start_paused = true)]
async fn a_fenced_deletion_is_no_failed_detach() {
    let mut storage = in_use().await;
    let gate = storage.0.restart_fenced(&[DESCRIPTOR]).await;
    storage.pass(SECOND).await;
    gate.set_open(false);
    storage.remove_pod("p1").await;
    storage.use_volumes("n1", &[]).await;
    storage.pass(SECOND).await;
    let report = json!({"volumesAttached": null});
    storage.patch_status("nodes", "", "n1", report).await;
    storage.pass(20 * SECOND).await;
    assert!(gate.refused() > 1, "the deletion is tried again");
    let attachment = storage.attachment("n1");
    let name = attachment["metadata"]["name"].as_str().unwrap();
    storage.remove("volumeattachments", "", name).await;
    storage.pass(20 * SECOND).await;
    gate.refused();
    storage.pass(300 * SECOND).await;
    assert_eq!(gate.refused(), 0, "nothing is left to write");
}
