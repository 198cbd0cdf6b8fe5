//! Failed requests: Events, back-off, conflicts, stale caches and lost leadership.

use std::time::Duration;

use steersman_devcluster::faults::{self, Matcher};
use steersman_devcluster::status::Status;
use steersman_releases::Release;
use tracing::Level;

use super::*;
use crate::testing::gate::ONE_SYNC;
use crate::testing::log::Log;

fn forbidden() -> Status {
    Status::new(403, "Forbidden", "exceeded quota")
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_reported_and_retried_slowly() {
    let world = world().await;
    let rule = world
        .cluster
        .faults()
        .reject(Matcher::new("create", "pods"), forbidden(), None);
    world.create(web(2)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let events = world.state().events_about("web");
    let (reason, message) = &events[0];
    assert_eq!(reason, "FailedCreate");
    let prefix = "Create Pod web-0 in StatefulSet web failed error: ";
    assert!(message.starts_with(prefix), "{message}");
    let writes = world.writes();
    let creations = writes
        .iter()
        .filter(|write| write.starts_with("create pods"));
    let count = creations.count();
    assert!((10..30).contains(&count), "{count} requests in ten minutes");
    assert_eq!(
        counters(&world.set_status()),
        [0; 5],
        "the status is written all the same"
    );
    world.cluster.faults().remove(rule);
    world.until("web-0", |state| state.pods.len() == 1).await;
    world.make_pods_ready().await;
    assert_eq!(counters(&world.set_status()), [2; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_is_reported_twice() {
    let world = world().await;
    let matcher = Matcher::new("create", "persistentvolumeclaims");
    world.cluster.faults().reject(matcher, forbidden(), Some(1));
    world.create(with_claims(web(1))).await;
    world.make_pods_ready().await;
    let events = world.set_events().await;
    let first = &events[0];
    let second = &events[1];
    assert_eq!((&*first.0, &*second.0), ("FailedCreate", "FailedCreate"));
    let claim = "Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: ";
    assert!(first.1.starts_with(claim), "{first:?}");
    let pod = "Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: ";
    assert!(second.1.starts_with(pod), "{second:?}");
    assert_eq!(counters(&world.set_status()), [1; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_taken_pod_name_is_waited_for_without_an_event() {
    let world = world().await;
    let foreign = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "another", "controller": true}]);
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "labels": {"app": "web"}, "ownerReferences": foreign},
            "spec": {"containers": [{"name": "main", "image": "v0"}]}}))
        .await;
    world.create(web(1)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.pod_images()["web-0"], "v0");
    assert!(world.state().events_about("web").is_empty());
    let writes = world.writes().len();
    assert!(writes < 25, "{writes} writes in five minutes");
    world.kill("web-0").await;
    world
        .until("our pod", |_| {
            world
                .pod_images()
                .get("web-0")
                .is_some_and(|image| image == "v1")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_of_the_status_are_repeated_in_the_same_sync() {
    let world = world_with(web(1)).await;
    let matcher = Matcher::new("update", "statefulsets").subresource("status");
    world
        .cluster
        .faults()
        .reject(matcher, faults::conflict(), Some(4));
    let before = world.writes().len();
    world.change_set(json!({"minReadySeconds": 1})).await;
    world.at_rest().await;
    let expected =
        [409, 409, 409, 409, 200].map(|code| format!("update statefulsets/web/status {code}"));
    assert_eq!(world.set_writes_since(before)[..5], expected);
}

#[tokio::test(start_paused = true)]
async fn conflicts_of_a_repair_are_repeated_in_the_same_sync() {
    let world = world_with(web(1)).await;
    world
        .cluster
        .faults()
        .reject(Matcher::new("update", "pods"), faults::conflict(), Some(3));
    let label = json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null}}});
    let before = world.writes().len();
    world.patch("pods", "web-0", label).await;
    world.at_rest().await;
    let expected = [409, 409, 409, 200].map(|code| format!("update pods/web-0 {code}"));
    assert_eq!(world.set_writes_since(before)[..4], expected);
    let events = world.set_events().await;
    let (reason, message) = events.last().unwrap();
    assert_eq!(reason, "SuccessfulUpdate");
    assert_eq!(message, "Update Pod web-0 in StatefulSet web successful");
}

#[tokio::test(start_paused = true)]
async fn conflicts_of_a_claim_are_repeated_in_the_same_sync() {
    let world = world_with(with_claims(web(1))).await;
    let matcher = Matcher::new("update", "persistentvolumeclaims");
    world
        .cluster
        .faults()
        .reject(matcher, faults::conflict(), Some(3));
    let before = world.writes().len();
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    world
        .change_set(json!({"persistentVolumeClaimRetentionPolicy": policy}))
        .await;
    world.at_rest().await;
    let claim = |code| format!("update persistentvolumeclaims/data-web-0 {code}");
    let pod = "update pods/web-0 200".to_owned();
    let expected = [claim(409), claim(409), claim(409), claim(200), pod];
    assert_eq!(world.set_writes_since(before)[..5], expected);
}

/// The volume binder writes a new claim at the same time.
#[tokio::test(start_paused = true)]
async fn a_conflict_of_a_new_claim_is_no_failure_of_its_pod() {
    let world = world().await;
    let update = Matcher::new("update", "persistentvolumeclaims");
    let conflict = faults::conflict();
    let rule = world.cluster.faults().reject(update, conflict, Some(1));
    let set = retention(with_claims(web(1)), "Delete", "Retain");
    world.create(set).await;
    world.make_pods_ready().await;
    world.at_rest().await;
    assert_eq!(world.cluster.faults().hits(rule), 1);
    let claim = world.find("persistentvolumeclaims", "data-web-0").unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "web");
    let events = world.set_events().await;
    let created = "Create Pod web-0 in StatefulSet web successful";
    let created = ("SuccessfulCreate".to_owned(), created.to_owned());
    assert!(events.contains(&created), "{events:?}");
    let failed = events.iter().find(|(reason, _)| reason == "FailedUpdate");
    assert_eq!(failed, None);
}

#[tokio::test(start_paused = true)]
async fn conflicts_of_a_deletion_are_repeated_without_an_event() {
    let world = world_with(web(2)).await;
    let delete = Matcher::new("delete", "pods");
    let before = world.writes().len();
    let conflict = faults::conflict();
    world.cluster.faults().reject(delete, conflict, Some(3));
    world.change_set(json!({"replicas": 1})).await;
    world.until("one pod", |state| state.pods.len() == 1).await;
    let mut deletions = world.set_writes_since(before);
    deletions.retain(|write| write.starts_with("delete"));
    let expected = [409, 409, 409, 200].map(|code| format!("delete pods/web-1 {code}"));
    assert_eq!(deletions, expected);
    let mut events = world.set_events().await;
    events.retain(|(reason, _)| reason.ends_with("Delete"));
    let message = "Delete Pod web-1 in StatefulSet web successful";
    assert_eq!(events, [("SuccessfulDelete".into(), message.into())]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_reported_and_repeated() {
    let world = world_with(web(2)).await;
    world.cluster.faults().reject(
        Matcher::new("delete", "pods"),
        faults::internal_error(),
        Some(3),
    );
    world.change_set(json!({"replicas": 1})).await;
    world.until("one pod", |state| state.pods.len() == 1).await;
    let events = world.set_events().await;
    let prefix = "Delete Pod web-1 in StatefulSet web failed error: ";
    let failed = |(reason, message): &(String, String)| {
        reason == "FailedDelete" && message.starts_with(prefix)
    };
    assert!(events.iter().any(failed), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_counts_as_deleted() {
    let world = world_with(web(2)).await;
    world.cluster.faults().stall_watches("pods");
    world.kill("web-1").await;
    world.change_set(json!({"replicas": 1})).await;
    let deleted = (
        "SuccessfulDelete".to_owned(),
        "Delete Pod web-1 in StatefulSet web successful".to_owned(),
    );
    assert!(world.set_events().await.contains(&deleted));
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_proxy_answers_is_repeated() {
    let world = world_with(web(2)).await;
    let proxy = Status::new(404, "NotFound", "default backend - 404");
    let delete = Matcher::new("delete", "pods");
    world.cluster.faults().reject(delete, proxy, Some(3));
    world.change_set(json!({"replicas": 1})).await;
    world.until("one pod", |state| state.pods.len() == 1).await;
    let mut events = world.set_events().await;
    events.retain(|(reason, _)| reason == "SuccessfulDelete");
    assert_eq!(events.len(), 1, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_volume_is_reported() {
    let world = world().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "v1"}]}}))
        .await;
    world.make_ready("web-0").await;
    world.create(with_claims(web(1))).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let events = world.state().events_about("web");
    let prefix = "Update Pod web-0 in StatefulSet web failed error: ";
    let failed = |(reason, message): &&(String, String)| {
        reason == "FailedUpdate" && message.starts_with(prefix)
    };
    assert!(events.iter().any(|event| failed(&event)), "{events:?}");
    assert_eq!(world.names_of("persistentvolumeclaims"), ["data-web-0"]);
    let writes = world.writes().len();
    assert!(writes < 40, "{writes} writes in five minutes");
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_repeats_no_write() {
    for plural in [
        "pods",
        "persistentvolumeclaims",
        "controllerrevisions",
        "statefulsets",
    ] {
        let world = world().await;
        world.create(with_claims(parallel(web(3)))).await;
        world.cluster.faults().stall_watches(plural);
        for touch in 0..10 {
            let annotations = json!({"metadata": {"annotations": {"touch": touch.to_string()}}});
            world.patch("statefulsets", "web", annotations).await;
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        world.cluster.faults().resume_watches(plural);
        world.make_pods_ready().await;
        let failed: Vec<_> = world
            .writes()
            .into_iter()
            .filter(|write| write.ends_with(" 409"))
            .collect();
        assert!(failed.is_empty(), "{plural}: {failed:?}");
        let creations = |kind: &str| {
            let prefix = format!("create {kind} ");
            world
                .writes()
                .iter()
                .filter(|write| write.starts_with(&prefix))
                .count()
        };
        let counts = ["pods", "persistentvolumeclaims", "controllerrevisions"].map(creations);
        assert_eq!(counts, [3, 3, 1], "{plural}");
        assert_eq!(counters(&world.set_status()), [3; 5], "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_no_event() {
    let mut world = World::bare().await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    gate.close_after(1);
    world.create(with_claims(web(1))).await;
    world
        .until("the revision", |_| {
            !world.names_of("controllerrevisions").is_empty()
        })
        .await;
    tokio::time::sleep(ONE_SYNC).await;
    assert!(gate.refused() > 0);
    assert!(
        world.names_of("persistentvolumeclaims").is_empty() && world.names_of("pods").is_empty()
    );
    assert!(world.state().events.is_empty());
    world.restart(&[DESCRIPTOR]).await;
    world.make_pods_ready().await;
    assert_eq!(
        counters(&world.set_status()),
        [1; 5],
        "the next leader goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_set_with_a_malformed_selector_gets_no_writes() {
    let log = Log::collect();
    let world = world_with(web(1)).await;
    let mut set = world.find("statefulsets", "web").unwrap();
    set["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let before = world.writes().len();
    world.cluster.load(set).unwrap();
    world.kill("web-0").await;
    world.at_rest().await;
    assert!(world.set_writes_since(before).is_empty());
    let message = "selector is malformed, nothing to sync until it changes";
    log.assert_has(Level::ERROR, &[message]);
}

#[tokio::test(start_paused = true)]
async fn events_of_1_34_begin_in_lower_case() {
    let mut world = World::bare().await;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.release = Release::of_minor(34);
            context
        })
        .await;
    world.create(with_claims(web(1))).await;
    world.make_pods_ready().await;
    world.at_rest().await;
    let texts = [
        "create Claim data-web-0 Pod web-0 in StatefulSet web success",
        "create Pod web-0 in StatefulSet web successful",
    ];
    let expected = texts.map(|text| ("SuccessfulCreate".to_owned(), text.to_owned()));
    assert_eq!(world.set_events().await, expected);
}
