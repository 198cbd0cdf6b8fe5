//! Stories of several controllers: claims, their pods and their volumes.

use serde_json::json;

use super::{A_MINUTE, Story, claim, deleted, pod_with, protected, user};
use crate::protection::claims::DESCRIPTOR;
use crate::testing::world::World;
use crate::{ephemeralvolume, garbagecollector};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
const CLAIMS: &str = "persistentvolumeclaims";

#[tokio::test(start_paused = true)]
async fn a_used_claim_goes_with_its_pod() {
    let world = World::with(&[DESCRIPTOR]).await;
    world.create(claim("a")).await;
    let mut pod = user("p", "a");
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    world.create(pod).await;
    let runs = |pods: &[serde_json::Value]| pods[0]["status"]["phase"] == "Running";
    world
        .cluster
        .wait_for("pods", A_MINUTE, runs)
        .await
        .unwrap();
    world.delete(CLAIMS, "a").await;
    tokio::time::sleep(A_MINUTE).await;
    let kept = world.find(CLAIMS, "a").unwrap();
    assert_eq!(kept["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    world.delete("pods", "p").await;
    world.until_object_gone(CLAIMS, "a").await;
    assert!(world.find("pods", "p").is_none());
}

/// The garbage collector deletes the claim of an ephemeral volume after its pod.
#[tokio::test(start_paused = true)]
async fn the_claim_of_an_ephemeral_volume_goes_with_its_pod() {
    let controllers = [
        DESCRIPTOR,
        ephemeralvolume::DESCRIPTOR,
        garbagecollector::DESCRIPTOR,
    ];
    let world = World::with(&controllers).await;
    let template = json!({"spec": claim("x")["spec"]});
    let scratch = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
    let mut pod = pod_with("p", scratch);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    world.create(pod).await;
    let runs = |pods: &[serde_json::Value]| pods[0]["status"]["phase"] == "Running";
    world
        .cluster
        .wait_for("pods", A_MINUTE, runs)
        .await
        .unwrap();
    assert!(world.find(CLAIMS, "p-scratch").is_some());
    world.delete("pods", "p").await;
    world.until_object_gone(CLAIMS, "p-scratch").await;
}

/// The pod is gone before a cache shows it.
#[tokio::test(start_paused = true)]
async fn a_claim_does_not_wait_for_a_pod_that_no_cache_ever_shows() {
    let gone = deleted(protected(claim("a"), FINALIZER));
    let world = Story::of(DESCRIPTOR, [gone])
        .uncached("pods", [user("p", "a")])
        .begin()
        .await;
    assert!(world.find(CLAIMS, "a").is_some());
    world.kill("p").await;
    world.until_object_gone(CLAIMS, "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_write_carries_the_version_of_its_decision() {
    let gone = deleted(protected(claim("a"), FINALIZER));
    let world = Story::of(DESCRIPTOR, [gone.clone()])
        .uncached(CLAIMS, [protected(gone, "example.com/keep")])
        .begin()
        .await;
    let sent = world.sent_by(DESCRIPTOR.identity);
    let update = "update default/persistentvolumeclaims/a 409";
    assert!(sent.iter().any(|one| one == update), "{sent:?}");
    assert_eq!(
        world.finalizers(CLAIMS, "a"),
        Some(json!(["example.com/keep"]))
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_of_a_claim_survive_its_writes() {
    let mut old = claim("a");
    old["metadata"]["annotations"] = json!({"example.com/a": "b"});
    old["metadata"]["finalizers"] = json!(["example.com/keep"]);
    old["spec"]["volumeMode"] = json!("Block");
    let world = Story::of(DESCRIPTOR, [old.clone()]).begin().await;
    let found = world.find(CLAIMS, "a").unwrap();
    assert_eq!(found["spec"], old["spec"]);
    assert_eq!(
        found["metadata"]["annotations"],
        old["metadata"]["annotations"]
    );
    let finalizers = json!(["example.com/keep", FINALIZER]);
    assert_eq!(found["metadata"]["finalizers"], finalizers);
}
