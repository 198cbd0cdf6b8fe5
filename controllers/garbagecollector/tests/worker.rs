//! Upstream's unit tests of the worker and its integration tests, with their values.
//!
//! Each doc comment names the upstream test. `docs/parity.md` lists all of them.

use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::{Qualified, Status};

use super::stage::Node::{Observed, Virtual};
use super::stage::Step::{Nodes, Observe, ObserveStored, OnlyRetries, Process, Remove};
use super::stage::{Id, Stage};
use super::*;

const OWNER: Id = Id("v1", "ReplicationController", "ns1", "owner1", "123");
const POD: Id = Id("v1", "Pod", "ns1", "ToBeDeletedPod", "456");

/// Upstream: `TestAttemptToDeleteItem`.
#[tokio::test(start_paused = true)]
async fn attempt_to_delete_item() {
    const CHILD: Id = Id("v1", "Pod", "ns1", "child", "789");
    let stage = Stage::new(&[(POD, &[OWNER]), (CHILD, &[POD])]).await;
    stage.take(Observe(CHILD, &[POD])).await;
    let requests = &[
        "get pods/ToBeDeletedPod 200",
        "get replicationcontrollers/owner1 404",
        "delete pods/ToBeDeletedPod 200",
    ];
    stage.take(Process(POD, requests)).await;
    stage.take(Nodes(&[Observed(CHILD), Virtual(POD)])).await;
}

/// Upstream reads the object before each write. Here its resource version is a precondition.
#[tokio::test(start_paused = true)]
async fn an_object_is_written_in_its_observed_version_or_read_live() {
    const MAP: Id = Id("v1", "ConfigMap", "ns1", "map", "456");
    const SOLID: Id = Id("v1", "ReplicationController", "ns1", "solid", "124");
    const GONE: &str = "get replicationcontrollers/owner1 404";
    // (why, references, whether the object changes afterwards, requests)
    let cases: [(&str, &'static [Id], bool, &[&str]); 5] = [
        ("no owner", &[], false, &[]),
        (
            "absent owner",
            &[OWNER],
            false,
            &[GONE, "delete configmaps/map 200"],
        ),
        (
            "absent owner, changed object",
            &[OWNER],
            true,
            &[
                GONE,
                "delete configmaps/map 409",
                "get configmaps/map 200",
                "delete configmaps/map 200",
            ],
        ),
        (
            "absent and solid owner",
            &[OWNER, SOLID],
            false,
            &[
                GONE,
                "get replicationcontrollers/solid 200",
                "patch configmaps/map 200",
            ],
        ),
        (
            "absent and solid owner, changed object",
            &[OWNER, SOLID],
            true,
            &[
                GONE,
                "get replicationcontrollers/solid 200",
                "patch configmaps/map 409",
                "get configmaps/map 200",
                "get replicationcontrollers/solid 200",
                "patch configmaps/map 200",
            ],
        ),
    ];
    for (why, owners, changes, requests) in cases {
        let stage = Stage::new(&[(SOLID, &[]), (MAP, owners)]).await;
        stage.take(ObserveStored("configmaps", MAP, owners)).await;
        let cluster = &stage.world.cluster;
        if changes {
            let path = cluster.path("configmaps", MAP.2, MAP.3);
            let labels = json!({"metadata": {"labels": {"changed": "1"}}});
            cluster.patch(&path, labels).await.unwrap();
            stage.world.clear_requests();
        }
        stage.sync(MAP).await;
        assert_eq!(stage.requests(), requests, "{why}");
        let maps = cluster.objects("configmaps");
        let left = maps
            .iter()
            .flat_map(|map| map["metadata"]["ownerReferences"].as_array().cloned());
        let left: Vec<Value> = left.flatten().map(|owner| owner["uid"].clone()).collect();
        let expected: &[&str] = if owners.contains(&SOLID) {
            &["124"]
        } else {
            &[]
        };
        assert_eq!(left, expected, "{why}");
    }
}

/// Upstream: `TestAttemptToDeleteItemDeleteObjectNotFound`,
/// `TestAttemptToDeleteItemDeleteObjectNotFoundWaitingForDependents`.
#[tokio::test(start_paused = true)]
async fn attempt_to_delete_item_delete_object_not_found() {
    for owner_waits in [false, true] {
        let stage = Stage::new(&[(POD, &[OWNER])]).await;
        if owner_waits {
            let mut owner = OWNER.object(&[]);
            owner["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:20Z");
            owner["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
            stage.world.cluster.load(owner).unwrap();
        }
        let gone = Status::not_found(
            Qualified {
                name: "pods",
                group: "",
            },
            POD.3,
        );
        stage
            .world
            .cluster
            .faults()
            .reject(Matcher::new("delete", "pods"), gone, Some(1));
        stage.take(Observe(POD, &[])).await;
        stage.collector.to_delete.add(stage.key_of(POD));
        let owner = if owner_waits {
            "get replicationcontrollers/owner1 200"
        } else {
            "get replicationcontrollers/owner1 404"
        };
        let delete = "delete pods/ToBeDeletedPod 404";
        let processed = stage.process().await;
        assert_eq!(processed.as_deref(), Some(POD.4));
        assert_eq!(
            stage.requests(),
            ["get pods/ToBeDeletedPod 200", owner, delete]
        );
        stage.take(Nodes(&[])).await;
        stage.take(OnlyRetries(&[])).await;
    }
}

/// Upstream: `TestAbsentOwnerCache`.
#[tokio::test(start_paused = true)]
async fn absent_owner_cache() {
    const RC1: Id = Id("v1", "ReplicationController", "ns1", "rc1", "1");
    const RC2: Id = Id("v1", "ReplicationController", "ns1", "rc2", "2");
    const POD1: Id = Id("v1", "Pod", "ns1", "rc1Pod1", "11");
    const POD2: Id = Id("v1", "Pod", "ns1", "rc1Pod2", "12");
    const POD3: Id = Id("v1", "Pod", "ns1", "rc2Pod1", "21");
    let stage = Stage::new(&[(POD1, &[RC1]), (POD2, &[RC1]), (POD3, &[RC2])]).await;
    for pod in [POD1, POD2, POD3] {
        stage.take(Observe(pod, &[])).await;
        stage.collector.to_delete.add(stage.key_of(pod));
    }
    const GET_RC1: &str = "get replicationcontrollers/rc1 404";
    stage
        .take(Process(
            POD1,
            &["get pods/rc1Pod1 200", GET_RC1, "delete pods/rc1Pod1 200"],
        ))
        .await;
    stage
        .take(Process(
            POD2,
            &["get pods/rc1Pod2 200", "delete pods/rc1Pod2 200"],
        ))
        .await;
    const GET_RC2: &str = "get replicationcontrollers/rc2 404";
    stage
        .take(Process(
            POD3,
            &["get pods/rc2Pod1 200", GET_RC2, "delete pods/rc2Pod1 200"],
        ))
        .await;
    stage.take(Remove(POD1, &[])).await;
}

/// Upstream: `TestOrphanDependentsFailure`.
#[tokio::test(start_paused = true)]
async fn orphan_dependents_failure() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    let conflict = Status::modified(
        Qualified {
            name: "configmaps",
            group: "",
        },
        "b",
    );
    world.cluster.faults().reject(
        Matcher::new("patch", "configmaps").name("b"),
        conflict,
        Some(3),
    );
    world.delete_with("a", "Orphan").await;
    world.until_config_maps(&["b"]).await;
    assert_eq!(world.owners_of("b"), Vec::<String>::new());
    let refused = world
        .collector_requests()
        .iter()
        .filter(|asked| *asked == "patch b 409")
        .count();
    assert_eq!(refused, 3, "repeated until the patch succeeds");
}

fn replication_controller(name: &str, finalizers: &[&str]) -> Value {
    let template = json!({"metadata": {"labels": {"name": "test"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"replicas": 0, "selector": {"name": "test"}, "template": template},
    })
}

/// A pod of upstream's tests. Its references have no `controller`; the flag of each owner is
/// `blockOwnerDeletion`.
fn pod(name: &str, owners: &[(&Value, bool)], finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
        "metadata": {
            "name": name, "finalizers": finalizers, "ownerReferences": owned("x", owners)["metadata"]["ownerReferences"],
        },
    })
}

impl World {
    fn names(&self, plural: &str) -> Vec<String> {
        let objects = self.cluster.objects(plural);
        objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Upstream: `TestCascadingDeletion`.
#[tokio::test(start_paused = true)]
async fn cascading_deletion() {
    let world = World::with_collector().await;
    let deleted = world.create(replication_controller("test.rc.1", &[])).await;
    let remaining = world.create(replication_controller("test.rc.2", &[])).await;
    world
        .create(pod("garbage-collected", &[(&deleted, false)], &[]))
        .await;
    world
        .create(pod(
            "one-valid-owner",
            &[(&deleted, false), (&remaining, false)],
            &[],
        ))
        .await;
    world.create(pod("independent", &[], &[])).await;
    world
        .delete_as(
            "replicationcontrollers",
            "test.rc.1",
            json!({"orphanDependents": false}),
        )
        .await;
    world
        .until("collected", |_| {
            world.names("pods") == ["independent", "one-valid-owner"]
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.names("pods"), ["independent", "one-valid-owner"]);
    assert_eq!(world.names("replicationcontrollers"), ["test.rc.2"]);
}

/// Upstream: `TestStressingCascadingDeletion`, which creates ten owners per collection.
#[tokio::test(start_paused = true)]
async fn stressing_cascading_deletion() {
    const EACH: usize = 3;
    let world = World::with_collector().await;
    // (finalizers of the owner, options of its deletion, its pods stay)
    let collections: [(&[&str], Value, bool); 5] = [
        (&[], json!({}), true),
        (&["orphan"], json!({}), true),
        (&["orphan"], json!({"orphanDependents": false}), false),
        (&[], json!({"orphanDependents": true}), true),
        (&[], json!({"propagationPolicy": "Orphan"}), true),
    ];
    let mut stay = Vec::new();
    for (collection, (finalizers, _, stays)) in collections.iter().enumerate() {
        for each in 0..EACH {
            let name = format!("collection{}-{each}", collection + 1);
            let owner = world
                .create(replication_controller(&name, finalizers))
                .await;
            for number in 0..3 {
                let pod_name = format!("{name}-{number}");
                world.create(pod(&pod_name, &[(&owner, false)], &[])).await;
                stay.extend(stays.then_some(pod_name));
            }
        }
    }
    tokio::time::sleep(A_WHILE).await;
    for (collection, (_, options, _)) in collections.iter().enumerate() {
        for each in 0..EACH {
            let name = format!("collection{}-{each}", collection + 1);
            world
                .delete_as("replicationcontrollers", &name, options.clone())
                .await;
        }
    }
    world
        .until("all owners gone", |_| {
            world.names("replicationcontrollers").is_empty()
        })
        .await;
    world
        .until("their pods deleted or orphaned", |_| {
            world.names("pods") == stay
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.names("pods"), stay);
    let orphan = |pod: &Value| pod["metadata"]["ownerReferences"].is_null();
    assert!(world.state().pods.iter().all(orphan));
}

/// Upstream: `TestDoubleDeletionWithFinalizer`.
#[tokio::test(start_paused = true)]
async fn double_deletion_with_finalizer() {
    let world = World::with_collector().await;
    world.create(pod("lucy", &[], &["x/y"])).await;
    for step in 1..=2 {
        world
            .delete_as("pods", "lucy", json!({"propagationPolicy": "Foreground"}))
            .await;
        let finalizers = || world.find("pods", "lucy").unwrap()["metadata"]["finalizers"].clone();
        world
            .until(&format!("only its own finalizer at step {step}"), |_| {
                finalizers() == json!(["x/y"])
            })
            .await;
    }
    world
        .patch("pods", "lucy", json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(world.find("pods", "lucy"), None);
}

/// Upstream: `TestBlockingOwnerRefDoesBlock`, `TestNonBlockingOwnerRefDoesNotBlock`. The collector
/// starts after the objects exist.
#[tokio::test(start_paused = true)]
async fn only_a_blocking_owner_ref_does_block() {
    for blocks in [true, false] {
        let mut world = World::bare().await;
        let owner = world.create(replication_controller("owner", &[])).await;
        world
            .create(pod("pod", &[(&owner, blocks)], &["x/y"]))
            .await;
        let mut unset = pod("unset", &[(&owner, false)], &["x/y"]);
        unset["metadata"]["ownerReferences"][0]
            .as_object_mut()
            .unwrap()
            .remove("blockOwnerDeletion");
        world.create(unset).await;
        world.restart(&[DESCRIPTOR]).await;
        world
            .delete_as(
                "replicationcontrollers",
                "owner",
                json!({"propagationPolicy": "Foreground"}),
            )
            .await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(
            world.find("replicationcontrollers", "owner").is_some(),
            blocks
        );
        assert_eq!(world.names("pods"), ["pod", "unset"]);
    }
}

/// Upstream: `TestCrossNamespaceReferences`, its cases with and without watch cache.
#[tokio::test(start_paused = true)]
async fn cross_namespace_references() {
    let mut world = World::bare().await;
    for name in ["a", "b"] {
        world
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
    }
    let secret = |namespace: &str, name: String, owners: &Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": namespace, "ownerReferences": owners,
        }})
    };
    let parent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": "b"}});
    let parent = world.create(parent).await;
    let uid = parent["metadata"]["uid"].clone();
    let valid = json!([{"name": "parent", "kind": "ConfigMap", "apiVersion": "v1", "uid": uid, "controller": false}]);
    for number in 0..10 {
        world
            .create(secret("b", format!("child-{number}"), &valid))
            .await;
    }
    let bad = json!({"name": "invalid", "uid": uid, "apiVersion": "v1", "kind": "Pod", "controller": false});
    let unknown = |n| json!({"name": "invalid", "uid": format!("invalid-{n}"), "apiVersion": "test/v1", "kind": format!("invalid{n}")});
    let many: Value = (0..25).map(unknown).chain([bad.clone()]).collect();
    for number in 0..5 {
        let mut map = secret("a", format!("invalid-child-{number}"), &many);
        map["kind"] = json!("ConfigMap");
        world.create(map).await;
        world
            .create(secret("a", format!("invalid-child-a-{number}"), &many))
            .await;
        world
            .create(secret(
                "a",
                format!("invalid-child-b-{number}"),
                &json!([bad]),
            ))
            .await;
    }
    world.restart(&[DESCRIPTOR]).await;
    let starting = |prefix: &str| {
        world
            .names("secrets")
            .iter()
            .filter(|name| name.starts_with(prefix))
            .count()
    };
    world
        .until("bad children gone", |_| starting("invalid-child-b-") == 0)
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        (
            starting("child-"),
            starting("invalid-child-a-"),
            world.names("configmaps").len()
        ),
        (10, 5, 6)
    );
    world
        .create(secret("a", "invalid-child-c-0".to_owned(), &json!([bad])))
        .await;
    world
        .until("a new bad child gone", |_| {
            starting("invalid-child-c-") == 0
        })
        .await;
    assert_eq!(starting("child-"), 10);
}

/// Upstream: `TestClusterScopedOwners`.
#[tokio::test(start_paused = true)]
async fn cluster_scoped_owners() {
    let world = World::with_collector().await;
    world.cluster.faults().stall_watches("persistentvolumes");
    let spec = json!({"hostPath": {"path": "/foo"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-valid"}, "spec": spec});
    let volume = world.create(volume).await;
    let missing = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "missing-name", "uid": "missing-uid"}});
    let unknown = json!({"apiVersion": "unknown.group/v1", "kind": "UnknownType", "metadata": {"name": "invalid-name", "uid": "invalid-uid"}});
    for (name, owner) in [
        ("cm-valid", &volume),
        ("cm-missing", &missing),
        ("cm-invalid", &unknown),
    ] {
        world.config_map(name, &[(owner, false)]).await;
    }
    world.until_config_maps(&["cm-invalid", "cm-valid"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["cm-invalid", "cm-valid"]).await;
}
