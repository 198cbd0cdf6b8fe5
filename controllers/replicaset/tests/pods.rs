//! Scenarios of upstream's unit and integration tests that need a whole controller.
//!
//! Each doc comment names the upstream test. `docs/parity.md` lists all of them.

use super::*;

/// A ReplicaSet `name` with the pod label `app: {label}`, owned by a controller with this UID.
fn owned_by(name: &str, replicas: i32, label: &str, controller: &str) -> Value {
    let mut set = web(replicas);
    set["metadata"] = json!({"name": name, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": controller, "controller": true}]});
    set["spec"]["selector"] = json!({"matchLabels": {"app": label}});
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": label});
    set
}

async fn set_references(world: &World, pod: &str, references: Value) {
    world
        .patch(
            "pods",
            pod,
            json!({"metadata": {"ownerReferences": references}}),
        )
        .await;
}

/// `TestAdoption`.
#[tokio::test(start_paused = true)]
async fn adoption() {
    let reference = |uid: &str, name: &str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid});
    let controls = |mut reference: Value| {
        reference["controller"] = json!(true);
        reference
    };
    let blocks = |reference: Value| {
        let mut reference = controls(reference);
        reference["blockOwnerDeletion"] = json!(true);
        reference
    };
    // (name, references of the pod before and after, given the UID of the set)
    type References<'a> = &'a dyn Fn(&str) -> Value;
    let other = || controls(reference("1", "anotherRS"));
    let cases: [(&str, References, References); 4] = [
        (
            "pod refers rs as an owner, not a controller",
            &|uid| json!([reference(uid, "web")]),
            &|uid| json!([blocks(reference(uid, "web"))]),
        ),
        (
            "pod doesn't have owner references",
            &|_| json!([]),
            &|uid| json!([blocks(reference(uid, "web"))]),
        ),
        (
            "pod refers rs as a controller",
            &|uid| json!([controls(reference(uid, "web"))]),
            &|uid| json!([controls(reference(uid, "web"))]),
        ),
        (
            "pod refers other rs as the controller, refers the rs as an owner",
            &|uid| json!([other(), reference(uid, "web")]),
            &|uid| json!([other(), reference(uid, "web")]),
        ),
    ];
    for (name, before, after) in cases {
        let mut world = World::bare().await;
        let set = world.create(web(1)).await;
        let uid = set["metadata"]["uid"].as_str().unwrap();
        let mut pod = loose_pod("pod");
        pod["metadata"]["ownerReferences"] = before(uid);
        world.create(pod).await;
        world.restart(&[DESCRIPTOR]).await;
        world
            .until("one pod", |_| world.status()["replicas"] == 1)
            .await;
        assert_eq!(
            world.find("pods", "pod").unwrap()["metadata"]["ownerReferences"].as_array(),
            after(uid).as_array(),
            "{name}"
        );
    }
}

/// `TestPodDeletionCost`. Upstream's fourth case disables the feature gate.
#[tokio::test(start_paused = true)]
async fn pod_deletion_cost() {
    // (name, costs, restarts, index of the remaining pod)
    let cases = [
        (
            "enabled-with-different-costs",
            [Some("1000"), Some("100")],
            [5, 0],
            0,
        ),
        (
            "enabled-with-same-costs",
            [Some("100"), Some("100")],
            [5, 0],
            1,
        ),
        ("enabled-with-no-costs", [None, None], [5, 0], 1),
    ];
    for (case, costs, restarts, remains) in cases {
        let world = world_with(2).await;
        let pods: Vec<String> = world.active_pods().iter().map(name).collect();
        for ((pod, cost), restarts) in pods.iter().zip(costs).zip(restarts) {
            let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
            world.patch("pods", pod, cost).await;
            let status = json!([{"name": "main", "restartCount": restarts, "image": "", "imageID": "", "ready": false}]);
            world
                .pod_status(pod, json!({"containerStatuses": status}))
                .await;
        }
        world.at_rest().await;
        world.scale(1).await;
        let left = world.settled_at(1).await;
        assert_eq!(name(&left[0]), pods[remains], "{case}");
    }
}

/// `TestOverlappingRSs`.
#[tokio::test(start_paused = true)]
async fn overlapping_replica_sets_keep_their_own_pods() {
    let world = world().await;
    for i in 1..=2 {
        let mut set = web(i);
        set["metadata"]["name"] = json!(format!("rs-{i}"));
        world.create(set).await;
        let size = |rs: &str| world.find("replicasets", rs).unwrap()["status"]["replicas"].clone();
        world
            .until("stable", |_| size(&format!("rs-{i}")) == json!(i))
            .await;
    }
    world.at_rest().await;
    assert_eq!(world.active_pods().len(), 3);
}

/// `TestGeneralPodAdoption`.
#[tokio::test(start_paused = true)]
async fn general_pod_adoption() {
    let world = world_with(1).await;
    let pod = name(&world.active_pods()[0]);
    let uid = world.find("replicasets", "web").unwrap()["metadata"]["uid"].clone();
    // (the only owner reference, with `controller: false`; number of references afterwards)
    let cases = [
        (
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-1", "controller": false}),
            2,
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": false}),
            1,
        ),
    ];
    for (reference, count) in cases {
        set_references(&world, &pod, json!([reference])).await;
        let references = || {
            world.find("pods", &pod).unwrap()["metadata"]["ownerReferences"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let adopted = |_: &_| {
            references()
                .iter()
                .any(|r| r["controller"] == true && r["uid"] == uid)
        };
        world.until("adopted", adopted).await;
        assert_eq!(references().len(), count, "{reference}");
    }
}

/// `TestReadyAndAvailableReplicas`.
#[tokio::test(start_paused = true)]
async fn ready_and_available_replicas() {
    let world = world().await;
    let mut set = web(3);
    set["spec"]["minReadySeconds"] = json!(3600);
    world.create(set).await;
    let pods = world.settled_at(3).await;
    let now = world.clock.now_seconds();
    let ago = |seconds: u64| (now - Duration::from_secs(seconds)).to_string();
    for (pod, (ready, since)) in
        pods.iter()
            .zip([("False", ago(0)), ("True", ago(0)), ("True", ago(7200))])
    {
        let condition = json!([{"type": "Ready", "status": ready, "lastTransitionTime": since}]);
        world
            .pod_status(
                &name(pod),
                json!({"phase": "Running", "conditions": condition}),
            )
            .await;
    }
    world
        .until("2 ready", |_| world.status()["readyReplicas"] == 2)
        .await;
    let status = world.status();
    assert_eq!(
        (&status["replicas"], &status["availableReplicas"]),
        (&json!(3), &json!(1))
    );
}

/// `TestSpecReplicasChange`.
#[tokio::test(start_paused = true)]
async fn spec_replicas_change() {
    let world = world_with(2).await;
    for replicas in [3, 0, 2] {
        world.scale(replicas).await;
        world.settled_at(usize::try_from(replicas).unwrap()).await;
    }
    let annotated =
        json!({"spec": {"template": {"metadata": {"annotations": {"test": "annotation"}}}}});
    let changed = world.patch("replicasets", "web", annotated).await;
    world
        .until("observed", |_| {
            world.status()["observedGeneration"] == changed["metadata"]["generation"]
        })
        .await;
}

/// `TestDeletePodsAllowsMissing`: the deletion of a missing pod counts as success.
#[tokio::test(start_paused = true)]
async fn delete_pods_allows_missing() {
    let world = world_with(1).await;
    let pod = name(&world.active_pods()[0]);
    world.cluster.faults().stall_watches("pods");
    world.kill(&pod).await;
    world.scale(0).await;
    world
        .until("an attempt to delete", |_| {
            world.requests("delete", &pod) > 0
        })
        .await;
    world.cluster.faults().resume_watches("pods");
    world.settled_at(0).await;
    assert_eq!(world.condition(), None);
    assert!(
        world
            .cluster
            .objects("events")
            .iter()
            .all(|event| event["reason"] != "FailedDelete")
    );
}

/// `TestControllerUpdateRequeue`.
#[tokio::test(start_paused = true)]
async fn a_failed_status_update_is_retried() {
    let world = world().await;
    let failed = Status::new(500, "InternalError", "failed to update status");
    let writes = Matcher::new("update", "replicasets").subresource("status");
    let rule = world.cluster.faults().reject(writes, failed, Some(6));
    world.create(web(1)).await;
    world.settled_at(1).await;
    assert_eq!(world.cluster.faults().hits(rule), 6, "two per sync");
    assert_eq!(world.requests("create", "pods"), 1);
}

/// `TestPatchPodFails`: while adoptions fail, the number of own pods is unknown and no pod is
/// created.
#[tokio::test(start_paused = true)]
async fn failed_adoptions_end_the_sync_and_are_retried() {
    let mut world = World::bare().await;
    let refused = Status::new(500, "InternalError", "fake Error");
    let rule = world
        .cluster
        .faults()
        .reject(Matcher::new("patch", "pods"), refused, Some(4));
    world.create(loose_pod("pod1")).await;
    world.create(loose_pod("pod2")).await;
    let set = world.create(web(2)).await;
    world.restart(&[DESCRIPTOR]).await;
    let pods = world.settled_at(2).await;
    assert!(
        pods.iter()
            .all(|pod| owner(pod) == set["metadata"]["uid"].as_str()),
        "{pods:#?}"
    );
    assert_eq!(
        (
            world.cluster.faults().hits(rule),
            world.requests("create", "pods")
        ),
        (4, 0)
    );
}

/// `TestDoNotPatchPodWithOtherControlRef`.
#[tokio::test(start_paused = true)]
async fn a_pod_of_another_controller_is_not_adopted_or_counted() {
    let world = world().await;
    let mut pod = loose_pod("pod");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "AnotherRS", "uid": "u-1", "controller": true}]);
    world.create(pod).await;
    world.create(web(2)).await;
    world
        .until("two pods", |_| world.status()["replicas"] == 2)
        .await;
    assert_eq!(
        (
            world.requests("create", "pods"),
            world.requests("patch", "pod")
        ),
        (2, 0)
    );
}

/// "exclude orphan pods, pods in mismatched ns,uid,kind,name,controller" of
/// `TestFilterPodsByOwner`: a pod in another namespace does not affect a ReplicaSet.
#[tokio::test(start_paused = true)]
async fn a_pod_in_another_namespace_with_a_forged_reference_is_ignored() {
    let world = world_with(1).await;
    let uid = world.find("replicasets", "web").unwrap()["metadata"]["uid"].clone();
    let pod = name(&world.active_pods()[0]);
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}))
        .await;
    let mut forged = loose_pod("forged");
    forged["metadata"]["namespace"] = json!("elsewhere");
    forged["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}]);
    world.create(forged).await;
    world
        .patch(
            "replicasets",
            "web",
            json!({"metadata": {"annotations": {"touch": "1"}}}),
        )
        .await;
    world.at_rest().await;
    assert_eq!(world.status()["replicas"], 1);
    let left: Vec<String> = world.active_pods().iter().map(name).collect();
    assert!(
        left.contains(&pod) && left.contains(&"forged".to_owned()),
        "{left:?}"
    );
}

/// `TestGetReplicaSetsWithSameController` and `TestRelatedPodsLookup`: the rank of a pod counts the
/// pods of all ReplicaSets with the same controller, including terminating ReplicaSets.
#[tokio::test(start_paused = true)]
async fn pods_of_all_replica_sets_of_one_controller_count_for_the_rank() {
    for (why, controller, being_deleted, victim) in [
        ("the same controller", "123", false, 0),
        ("the same controller, terminating", "123", true, 0),
        ("another controller", "456", false, 1),
    ] {
        let world = world().await;
        world.create(owned_by("web", 2, "web", "123")).await;
        let pods: Vec<String> = world.settled_at(2).await.iter().map(name).collect();
        let mut neighbour = owned_by("neighbour", 2, "neighbour", controller);
        neighbour["metadata"]["finalizers"] = json!(["example.com/hold"]);
        world.create(neighbour).await;
        world
            .until("its pods", |_| world.cluster.count("pods") == 4)
            .await;
        // The pods of `neighbour` are on node 1. Without them, the pod on node 2 is deleted first
        // because of its restarts.
        for pod in world.cluster.objects("pods").iter().map(name) {
            world
                .bind(&pod, if pod == pods[1] { "node-2" } else { "node-1" })
                .await;
            world.make_ready(&pod).await;
        }
        let restarted =
            json!([{"name": "main", "restartCount": 7, "image": "", "imageID": "", "ready": true}]);
        world
            .pod_status(&pods[1], json!({"containerStatuses": restarted}))
            .await;
        if being_deleted {
            world.delete("replicasets", "neighbour").await;
        }
        world
            .until("2 ready", |_| world.status()["readyReplicas"] == 2)
            .await;
        world.at_rest().await;
        world.scale(1).await;
        let left = world.settled_at(1).await;
        assert_ne!(name(&left[0]), pods[victim], "{why}");
    }
}

/// `TestFullyLabeledReplicas`.
#[tokio::test(start_paused = true)]
async fn fully_labeled_replicas() {
    let world = world_with(2).await;
    let extra = json!({"metadata": {"labels": {"foo": "bar", "extraKey": "extraValue"}}});
    world
        .patch("replicasets", "web", json!({"spec": {"template": extra}}))
        .await;
    world
        .until("none fully labelled", |_| {
            world.status()["fullyLabeledReplicas"].is_null()
        })
        .await;
    world
        .patch("pods", &name(&world.active_pods()[0]), extra)
        .await;
    world
        .until("one fully labelled", |_| {
            world.status()["fullyLabeledReplicas"] == 1
        })
        .await;
    assert_eq!(world.status()["replicas"], 2);
}

/// `TestTerminatingReplicas` with the feature gate `DeploymentReplicaSetTerminatingReplicas`
/// enabled.
#[tokio::test(start_paused = true)]
async fn terminating_replicas() {
    let world = world().await;
    let mut set = web(5);
    set["spec"]["template"]["metadata"]["finalizers"] = json!(["fake.example.com/blockDeletion"]);
    world.create(set).await;
    let pods = world.settled_at(5).await;
    assert_eq!(world.status()["terminatingReplicas"], 0);
    world.scale(3).await;
    world
        .until("2 terminating", |_| {
            world.status()["terminatingReplicas"] == 2
        })
        .await;
    assert_eq!(world.status()["replicas"], 3);
    for pod in &pods {
        world
            .patch(
                "pods",
                &name(pod),
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
    }
    world
        .until("none terminating", |_| {
            world.status()["terminatingReplicas"] == 0
        })
        .await;
    assert_eq!(world.status()["replicas"], 3);
}
