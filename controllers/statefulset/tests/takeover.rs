//! Takeover: from upstream's manager, and from a leader whose last writes the caches lack.
//!
//! The sets of upstream's manager have the revisions that upstream's packages computed. They are at
//! rest, so the new manager must not write.

use std::time::Duration;

use steersman_options::features::FeatureGates;
use steersman_releases::Release;
use steersman_runtime::controller::ControllerContext;

use super::claims::owners;
use super::*;

/// Longer than any back-off of a test.
const A_WHILE: Duration = Duration::from_secs(120);

/// The recorded sets, each with its revision: the objects that upstream leaves behind.
fn recorded() -> Vec<(String, Value, Value)> {
    let text =
        include_str!("../../../crates/helpers/src/history/testdata/controller-revisions.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    let cases = recorded["cases"].as_array().unwrap().iter();
    let cases = cases.filter(|case| case["controller"] == "statefulset");
    cases
        .map(|case| {
            let mut revision = case["controllerRevision"].clone();
            let data: Value = serde_json::from_str(revision["data"].as_str().unwrap()).unwrap();
            revision = json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {
                    "name": revision["name"], "namespace": "default", "uid": "33333333-3333-4333-8333-333333333333",
                    "labels": revision["labels"], "annotations": revision["annotations"],
                    "ownerReferences": revision["ownerReferences"],
                },
                "data": data, "revision": revision["revision"],
            });
            let id = case["id"].as_str().unwrap().to_owned();
            (id, case["object"].clone(), revision)
        })
        .collect()
}

/// The pod of `set` with this ordinal, ready since long ago, with `revision`.
fn pod_of(set: &Value, revision: &str, ordinal: i64) -> Value {
    let name = format!("{}-{ordinal}", name(set));
    let template = &set["spec"]["template"];
    let mut labels = template["metadata"]["labels"].clone();
    labels["statefulset.kubernetes.io/pod-name"] = json!(name);
    labels["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    labels["controller-revision-hash"] = json!(revision);
    let mut spec = template["spec"].clone();
    let mut volumes: Vec<Value> = spec["volumes"].as_array().cloned().unwrap_or_default();
    for claim in set["spec"]["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let template = claim["metadata"]["name"].as_str().unwrap();
        let claim = json!({"claimName": format!("{template}-{name}")});
        volumes.push(json!({"name": template, "persistentVolumeClaim": claim}));
    }
    spec["volumes"] = json!(volumes);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("44444444-4444-4444-8444-{ordinal:012}"), "labels": labels,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set["metadata"]["name"],
                "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]},
    })
}

/// Loads a complete set with its revision and pods.
fn load(world: &World, mut set: Value, revision: &Value) {
    let replicas = set["spec"]["replicas"].as_i64().unwrap();
    let start = set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0);
    let collisions = set["status"]["collisionCount"].as_i64().unwrap_or(0);
    set["status"] = json!({
        "observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "currentReplicas": replicas,
        "updatedReplicas": replicas, "availableReplicas": replicas, "collisionCount": collisions,
        "currentRevision": name(revision), "updateRevision": name(revision),
    });
    for ordinal in start..start + replicas {
        world
            .cluster
            .load(pod_of(&set, name(revision), ordinal))
            .unwrap();
    }
    world.cluster.load(revision.clone()).unwrap();
    world.cluster.load(set).unwrap();
}

#[tokio::test(start_paused = true)]
async fn revisions_of_upstream_are_found() {
    for (id, set, revision) in recorded() {
        let mut world = World::bare().await;
        load(&world, set, &revision);
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        assert!(world.writes().is_empty(), "{id}: {:?}", world.writes());
    }
}

#[tokio::test(start_paused = true)]
async fn revisions_of_older_releases_are_found() {
    let (_, set, mut revision) = recorded().swap_remove(0);
    let template = &mut revision["data"]["spec"]["template"];
    // Releases before 1.34 wrote this, and lacked fields that got a default later.
    template["metadata"]["creationTimestamp"] = Value::Null;
    template["spec"]
        .as_object_mut()
        .unwrap()
        .remove("schedulerName");
    // 1.33 has no gate for it.
    for release in [Release::OLDEST, Release::DEFAULT] {
        let mut world = World::bare().await;
        load(&world, set.clone(), &revision);
        let equal = |mut context: ControllerContext| {
            context.release = release;
            context.features = FeatureGates::new(|gate| release.enables(gate));
            context
        };
        world.restart_with(&[DESCRIPTOR], equal).await;
        world.at_rest().await;
        assert!(world.writes().is_empty(), "{release}: {:?}", world.writes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_pods_writes_no_older_status() {
    let mut world = world().await;
    world.create(web(1)).await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.make_pods_ready().await;
    let status = world.set_status();
    let writes = world.writes().len();
    assert_eq!(counters(&status), [1; 5]);
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.set_status(), status);
    world.cluster.faults().remove(view);
    world.at_rest().await;
    assert_eq!(world.set_writes_since(writes), [""; 0]);
    world.kill("web-0").await;
    world.make_pods_ready().await;
    assert_eq!(counters(&world.set_status()), [1; 5], "it goes on");
}

/// The old leader gave the claim to the pod that it then deleted. The garbage collector is about to
/// delete the claim.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_claims_does_not_reuse_a_doomed_claim() {
    for set in [web(2), parallel(web(2))] {
        let mut world = world_with(retention(with_claims(set), "Retain", "Delete")).await;
        let before = world.cluster.revision();
        world.change_set(json!({"replicas": 1})).await;
        world.at_rest().await;
        world.restart(&[]).await;
        world.change_set(json!({"replicas": 2})).await;
        let view = world
            .take_over_behind(&[DESCRIPTOR], "persistentvolumeclaims", before)
            .await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.names_of("pods"), ["web-0"]);
        world.cluster.faults().remove(view);
        world.at_rest().await;
        assert_eq!(
            world.names_of("pods"),
            ["web-0"],
            "the claim is still there"
        );
        let claim = world.find("persistentvolumeclaims", "data-web-1").unwrap();
        let finalizers = json!({"metadata": {"finalizers": null}});
        world
            .patch("persistentvolumeclaims", name(&claim), finalizers)
            .await;
        world.delete("persistentvolumeclaims", name(&claim)).await;
        world.make_pods_ready().await;
        assert_eq!(world.names_of("pods"), ["web-0", "web-1"]);
        let renewed = world.find("persistentvolumeclaims", "data-web-1").unwrap();
        assert_ne!(renewed["metadata"]["uid"], claim["metadata"]["uid"]);
    }
}

/// The cache lacks the claim of a condemned pod. The garbage collector deletes only claims that
/// belong to the pod.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_claims_leaves_no_claim_of_a_condemned_pod() {
    for set in [web(1), parallel(web(1))] {
        let mut world = world_with(retention(with_claims(set), "Retain", "Delete")).await;
        let before = world.cluster.revision();
        world.change_set(json!({"replicas": 2})).await;
        world.make_pods_ready().await;
        world.restart(&[]).await;
        world.change_set(json!({"replicas": 1})).await;
        let view = world
            .take_over_behind(&[DESCRIPTOR], "persistentvolumeclaims", before)
            .await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.names_of("pods"), ["web-0", "web-1"]);
        world.cluster.faults().remove(view);
        world.at_rest().await;
        assert_eq!(world.names_of("pods"), ["web-0"]);
        assert_eq!(owners(&world, "data-web-1"), ["Pod web-1"]);
    }
}

/// The previous leader ended between the creation of the claim and the write of its owner.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_claims_gives_a_new_claim_its_owner() {
    let mut world = world_with(retention(with_claims(web(1)), "Delete", "Retain")).await;
    let before = world.cluster.revision();
    world.change_set(json!({"replicas": 2})).await;
    world.make_pods_ready().await;
    world.restart(&[]).await;
    let ownerless = json!({"metadata": {"ownerReferences": null}});
    world
        .patch("persistentvolumeclaims", "data-web-1", ownerless)
        .await;
    let view = world
        .take_over_behind(&[DESCRIPTOR], "persistentvolumeclaims", before)
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().remove(view);
    world.at_rest().await;
    assert_eq!(owners(&world, "data-web-1"), ["StatefulSet web"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_revisions_repeats_no_number() {
    let mut world = world_with(with(web(1), "updateStrategy", json!({"type": "OnDelete"}))).await;
    let before = world.cluster.revision();
    world.roll_set_to("v2").await;
    world.at_rest().await;
    world.restart(&[]).await;
    world.roll_set_to("v3").await;
    let writes = world.writes().len();
    let view = world
        .take_over_behind(&[DESCRIPTOR], "controllerrevisions", before)
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.set_writes_since(writes), [""; 0]);
    world.cluster.faults().remove(view);
    world.at_rest().await;
    let revisions = world.cluster.objects("controllerrevisions");
    let mut numbers: Vec<_> = revisions.iter().map(|r| r["revision"].as_i64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3].map(Some));
}
