//! Whole syncs against the in-memory API server, under paused time.

use prometheus::Registry;
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, internal_error};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

const CLAIMS: &str = "persistentvolumeclaims";

/// The spec of the claims.
fn spec() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast", "volumeMode": "Filesystem",
    })
}

fn ephemeral(name: &str) -> Value {
    let metadata = json!({"labels": {"l": "1"}, "annotations": {"a": "2"}});
    let template = json!({"metadata": metadata, "spec": spec()});
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
}

fn pod(name: &str, volumes: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
        "spec": {"containers": [{"name": "main", "image": "i"}], "volumes": volumes},
    })
}

fn claim(name: &str, owner: Option<&str>) -> Value {
    let owner = owner.map(|pod| {
        json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-of-{pod}"),
            "controller": true, "blockOwnerDeletion": true})
    });
    let owners: Vec<Value> = owner.into_iter().collect();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": owners},
        "spec": spec(),
    })
}

fn counts(registry: &Registry) -> (u64, u64) {
    let families = registry.gather();
    let value = |name: &str| {
        let name = format!("ephemeral_volume_controller_{name}");
        let family = families.iter().find(|family| family.name() == name);
        family.unwrap().get_metric()[0].get_counter().get_value() as u64
    };
    (value("create_total"), value("create_failures_total"))
}

impl World {
    /// A cluster with these objects, and the controller.
    async fn with_ephemeral(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self::bare().await;
        for object in objects {
            world.cluster.load(object).unwrap();
        }
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        world
    }

    fn events_of(&self, pod: &str) -> Vec<(String, String)> {
        self.state().events_about(pod)
    }
}

/// Upstream: `TestSyncHandler`, all cases but the conflict.
#[tokio::test(start_paused = true)]
async fn sync_handler() {
    let plain = pod("p", &[json!({"name": "e", "emptyDir": {}})]);
    let with_volume = pod("p", &[ephemeral("scratch")]);
    let mut ending = with_volume.clone();
    ending["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:00Z");
    ending["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let foreign = claim("p-scratch", Some("other"));
    let unowned = claim("p-scratch", None);
    // (case, objects, created claims, Event)
    let cases = [
        ("create", vec![with_volume.clone()], 1, false),
        ("no-such-pod", vec![], 0, false),
        ("pod-deleted", vec![ending], 0, false),
        ("no-volumes", vec![plain], 0, false),
        (
            "create-with-other-PVC",
            vec![with_volume.clone(), claim("other", None)],
            1,
            false,
        ),
        (
            "wrong-PVC-owner",
            vec![with_volume.clone(), foreign],
            0,
            true,
        ),
        (
            "PVC without an owner",
            vec![with_volume.clone(), unowned],
            0,
            true,
        ),
        (
            "own PVC",
            vec![with_volume, claim("p-scratch", Some("p"))],
            0,
            false,
        ),
    ];
    for (case, objects, created, has_event) in cases {
        let world = World::with_ephemeral(objects).await;
        assert_eq!(counts(&world.registry), (created, 0), "{case}");
        let event = (
            "FailedBinding".to_owned(),
            "ephemeral volume scratch: PVC default/p-scratch was not created for pod default/p (pod is not owner)"
                .to_owned(),
        );
        let expected: &[_] = if has_event { &[event] } else { &[] };
        assert_eq!(world.events_of("p"), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_has_the_template_and_its_pod_as_owner() {
    let volumes = [
        ephemeral("scratch"),
        json!({"name": "cfg", "configMap": {"name": "c"}}),
    ];
    let world = World::with_ephemeral([pod("p", &volumes)]).await;
    assert_eq!(world.cluster.objects(CLAIMS).len(), 1);
    let created = world.find(CLAIMS, "p-scratch").unwrap();
    let metadata = &created["metadata"];
    assert_eq!(metadata["labels"], json!({"l": "1"}));
    assert_eq!(metadata["annotations"], json!({"a": "2"}));
    let expected = claim("p-scratch", Some("p"));
    assert_eq!(
        metadata["ownerReferences"],
        expected["metadata"]["ownerReferences"]
    );
    assert_eq!(created["spec"], spec());
}

/// Upstream: `create-conflict` of `TestSyncHandler`.
#[tokio::test(start_paused = true)]
async fn a_failed_request_is_an_event_and_is_retried() {
    let mut world = World::bare().await;
    let creations = Matcher::new("create", CLAIMS);
    let faults = world.cluster.faults();
    faults.reject(creations, internal_error(), Some(2));
    world.restart(&[DESCRIPTOR]).await;
    world.create(pod("p", &[ephemeral("scratch")])).await;
    world.at_rest().await;
    assert!(world.find(CLAIMS, "p-scratch").is_some());
    assert_eq!(counts(&world.registry), (3, 2));
    let (reason, message) = &world.events_of("p")[0];
    assert_eq!(reason, "FailedBinding");
    let start = "ephemeral volume scratch: create PVC p-scratch: ";
    assert!(message.starts_with(start), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_event() {
    let mut world = World::bare().await;
    let creations = Matcher::new("create", CLAIMS);
    let faults = world.cluster.faults();
    faults.on_request(creations, RequestFault::LoseAnswer, Some(1));
    world.restart(&[DESCRIPTOR]).await;
    world.create(pod("p", &[ephemeral("scratch")])).await;
    world.at_rest().await;
    assert_eq!(world.cluster.objects(CLAIMS).len(), 1);
    let is_conflict = |(_, message): &(String, String)| message.contains("already exists");
    assert!(!world.events_of("p").iter().any(is_conflict));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_is_created_again() {
    let world = World::with_ephemeral([pod("p", &[ephemeral("scratch")])]).await;
    let first = world.find(CLAIMS, "p-scratch").unwrap();
    world.delete(CLAIMS, "p-scratch").await;
    world.at_rest().await;
    let second = world.find(CLAIMS, "p-scratch").unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

/// Pod `a-b` with volume `c`, and pod `a` with volume `b-c`.
#[tokio::test(start_paused = true)]
async fn the_second_of_two_pods_with_one_claim_name_gets_an_event() {
    let world = World::with_ephemeral([pod("a-b", &[ephemeral("c")])]).await;
    world.create(pod("a", &[ephemeral("b-c")])).await;
    world.a_minute().await;
    let (reason, message) = &world.events_of("a")[0];
    assert_eq!(reason, "FailedBinding");
    assert_eq!(
        message,
        "ephemeral volume b-c: PVC default/a-b-c was not created for pod default/a (pod is not owner)"
    );
    assert_eq!(counts(&world.registry), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_replaces_another_one_gets_its_claims() {
    let world = World::with_ephemeral([pod("p", &[])]).await;
    let mut second = pod("p", &[ephemeral("scratch")]);
    second["metadata"]["uid"] = json!("second");
    world.cluster.load(second).unwrap();
    world.at_rest().await;
    let created = world.find(CLAIMS, "p-scratch").unwrap();
    assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "second");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_at_rest_writes_nothing() {
    let mut world = World::with_ephemeral([pod("p", &[ephemeral("scratch")])]).await;
    let before = world.writes().len();
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), before, "{:#?}", world.writes());
}
