//! Tests of ReplicationControllers against the in-memory API server, without kubelets: the test
//! itself binds pods and writes their status.
//!
//! The tests of the ReplicaSet controller cover the shared code. These tests cover the differences,
//! and show that the shared code works for this kind.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::DESCRIPTOR;
use crate::replicaset;
use crate::testing::world::World;

/// Long enough for all work without a deadline or back-off.
const A_WHILE: Duration = Duration::from_secs(30);

fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"app": "web"}, "template": template()},
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
}

/// A pod with the labels of `web` and without an owner.
fn loose_pod(name: &str) -> Value {
    let mut pod = template();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn owner(pod: &Value) -> Option<&str> {
    pod["metadata"]["ownerReferences"][0]["uid"].as_str()
}

fn active_pods(world: &World) -> Vec<Value> {
    let mut pods = world.cluster.objects("pods");
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

fn status(world: &World) -> Value {
    world
        .find("replicationcontrollers", "web")
        .map(|mut rc| rc["status"].take())
        .unwrap_or_default()
}

/// Waits until exactly `count` active pods exist and the status reports them.
async fn settled_at(world: &World, count: usize) -> Vec<Value> {
    let settled =
        |_: &_| active_pods(world).len() == count && status(world)["replicas"] == json!(count);
    world.until(&format!("{count} pods"), settled).await;
    active_pods(world)
}

async fn scale(world: &World, replicas: i32) {
    world
        .patch(
            "replicationcontrollers",
            "web",
            json!({"spec": {"replicas": replicas}}),
        )
        .await;
}

async fn world() -> World {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world
}

/// A cluster with the ReplicationController `web` and all its pods.
async fn world_with(replicas: i32) -> World {
    let world = world().await;
    world.create(web(replicas)).await;
    settled_at(&world, usize::try_from(replicas).unwrap()).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_gets_its_pods_and_its_status() {
    let world = world().await;
    let mut rc = web(2);
    rc["spec"]["minReadySeconds"] = json!(2);
    let rc = world.create(rc).await;
    let pods = settled_at(&world, 2).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": rc["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    for pod in &pods {
        assert_eq!(pod["metadata"]["ownerReferences"], reference);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        world.make_ready(&name(pod)).await;
    }
    let mut expected = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "observedGeneration": 1});
    world.until("ready", |_| status(&world) == expected).await;
    expected["availableReplicas"] = json!(2);
    world
        .until("available", |_| status(&world) == expected)
        .await;

    let events = world.cluster.objects("events");
    let created = events
        .iter()
        .find(|e| e["reason"] == "SuccessfulCreate")
        .unwrap();
    assert_eq!(created["source"]["component"], "replication-controller");
    let about = &created["involvedObject"];
    assert_eq!(
        (&about["apiVersion"], &about["kind"]),
        (&json!("v1"), &json!("ReplicationController"))
    );
    tokio::time::sleep(A_WHILE).await;
    let creations = world.cluster.requests();
    let creations = creations
        .iter()
        .filter(|r| r.verb == "create" && r.path.ends_with("/pods"));
    let agents: Vec<&str> = creations
        .filter_map(|r| r.user_agent.rsplit('/').next())
        .collect();
    assert_eq!(agents, ["replication-controller", "replication-controller"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_adopted_and_deleted_first_if_all_replicas_exist() {
    let world = world_with(2).await;
    scale(&world, 1).await;
    let kept = settled_at(&world, 1).await;
    world.make_ready(&name(&kept[0])).await;
    world
        .until("ready", |_| status(&world)["readyReplicas"] == 1)
        .await;
    let before = world.writes().len();
    world.create(loose_pod("orphan")).await;
    world
        .until("the orphan deleted", |_| active_pods(&world).len() == 1)
        .await;
    assert_eq!(name(&active_pods(&world)[0]), name(&kept[0]));
    assert_eq!(
        world.writes()[before..before + 2],
        ["patch pods/orphan 200", "delete pods/orphan 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn refused_creations_are_reported_until_they_succeed() {
    let world = world().await;
    let quota = Status::new(
        403,
        "Forbidden",
        "pods \"web-\" is forbidden: exceeded quota: q",
    );
    let rule = world
        .cluster
        .faults()
        .reject(Matcher::new("create", "pods"), quota, None);
    world.create(web(3)).await;
    let failure = || {
        status(&world)["conditions"]
            .as_array()
            .and_then(|all| all.first().cloned())
    };
    world.until("ReplicaFailure", |_| failure().is_some()).await;
    let shown = failure().unwrap();
    let expected = [
        ("type", "ReplicaFailure"),
        ("status", "True"),
        ("reason", "FailedCreate"),
    ];
    assert!(
        expected.iter().all(|(field, value)| shown[field] == *value),
        "{shown}"
    );
    world.cluster.faults().remove(rule);
    settled_at(&world, 3).await;
    assert_eq!(failure(), None);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_and_a_replication_controller_of_one_name_keep_their_own_pods() {
    let mut world = World::bare().await;
    // Both controllers use the same metric families, which are registered once.
    world.restart(&[DESCRIPTOR, replicaset::DESCRIPTOR]).await;
    let rc = world.create(web(2)).await;
    let mut rs = web(3);
    rs["apiVersion"] = json!("apps/v1");
    rs["kind"] = json!("ReplicaSet");
    rs["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    let rs = world.create(rs).await;
    world
        .until("5 pods", |_| active_pods(&world).len() == 5)
        .await;
    world.at_rest().await;
    let of = |object: &Value| {
        let uid = object["metadata"]["uid"].as_str().unwrap();
        active_pods(&world)
            .iter()
            .filter(|pod| owner(pod) == Some(uid))
            .count()
    };
    assert_eq!((of(&rc), of(&rs)), (2, 3));
    scale(&world, 0).await;
    settled_at_zero_for(&world, &rc).await;
    assert_eq!(of(&rs), 3);
    assert_eq!(
        world.find("replicasets", "web").unwrap()["status"]["terminatingReplicas"],
        0
    );
}

async fn settled_at_zero_for(world: &World, rc: &Value) {
    let uid = rc["metadata"]["uid"].as_str();
    world
        .until("none left", |_| {
            active_pods(world).iter().all(|pod| owner(pod) != uid)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn related_pods_do_not_count_for_the_rank() {
    let world = world().await;
    let mut rc = web(3);
    rc["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u-1", "controller": true}]);
    world.create(rc).await;
    let pods: Vec<String> = settled_at(&world, 3).await.iter().map(name).collect();
    for (pod, node) in pods.iter().zip(["node-1", "node-1", "node-2"]) {
        world.bind(pod, node).await;
        world.make_ready(pod).await;
    }
    // The pod on node 2 has restarts. With ranks, as for ReplicaSets, a pod on the crowded node 1
    // would be deleted before it.
    let restarted =
        json!([{"name": "main", "restartCount": 7, "image": "", "imageID": "", "ready": true}]);
    world
        .pod_status(&pods[2], json!({"containerStatuses": restarted}))
        .await;
    world
        .until("3 ready", |_| status(&world)["readyReplicas"] == 3)
        .await;
    world.at_rest().await;
    scale(&world, 2).await;
    let left: Vec<String> = settled_at(&world, 2).await.iter().map(name).collect();
    assert!(!left.contains(&pods[2]), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_pod_cache_causes_no_duplicates_and_changes_no_metric() {
    let world = world().await;
    world.cluster.faults().stall_watches("pods");
    world.create(web(3)).await;
    world
        .until("3 pods", |_| active_pods(&world).len() == 3)
        .await;
    // Ten minutes are twice the lifetime of expectations.
    for touch in 0..20 {
        let touch = json!({"metadata": {"annotations": {"touch": touch.to_string()}}});
        world.patch("replicationcontrollers", "web", touch).await;
        tokio::time::sleep(A_WHILE).await;
    }
    assert_eq!(active_pods(&world).len(), 3);
    world.cluster.faults().resume_watches("pods");
    settled_at(&world, 3).await;
    let families = world.registry.gather();
    let skips = families
        .iter()
        .find(|family| family.name() == "replicaset_controller_stale_sync_skips_total");
    assert!(
        skips.is_none_or(|family| family.get_metric().is_empty()),
        "{skips:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut world = world_with(3).await;
    world.make_ready(&name(&active_pods(&world)[0])).await;
    world
        .until("1 ready", |_| status(&world)["readyReplicas"] == 1)
        .await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.cluster.revision(), before);
}

/// Upstream's `TestLogarithmicScaleDown`: of pods in different age buckets, the youngest is
/// deleted.
#[tokio::test(start_paused = true)]
async fn logarithmic_scale_down() {
    let world = world_with(2).await;
    let first: Vec<String> = active_pods(&world).iter().map(name).collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    scale(&world, 3).await;
    settled_at(&world, 3).await;
    scale(&world, 2).await;
    let left: Vec<String> = settled_at(&world, 2).await.iter().map(name).collect();
    assert_eq!(left, first);
}
