//! Scenarios of upstream's unit and integration tests that need a whole controller.
//!
//! Each doc comment names the upstream test. `docs/parity.md` lists all of them.

use std::time::Duration;

use steersman_devcluster::faults::EventFault;

use super::*;

/// Longer than the first retries of a sync.
const A_WHILE: Duration = Duration::from_secs(30);

fn replica_set_of(name: &str, labels: Value) -> Value {
    let selector = json!({"matchLabels": labels});
    let spec = json!({"replicas": 1, "selector": selector, "template": template("one")});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": labels}, "spec": spec})
}

fn controller(object: &Value) -> Option<&Value> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    references
        .iter()
        .find(|reference| reference["controller"] == true)
        .map(|reference| &reference["uid"])
}

/// `TestSyncDeploymentDontDoAnythingDuringDeletion`.
#[tokio::test(start_paused = true)]
async fn sync_deployment_dont_do_anything_during_deletion() {
    let mut world = World::with(&[]).await;
    let mut d = web(1);
    d["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(d).await;
    world.delete("deployments", "web").await;
    world.restart(&CONTROLLERS).await;
    let state = world
        .until("observed", |state| {
            !state.deployment("web")["status"]["observedGeneration"].is_null()
        })
        .await;
    assert_eq!(
        state.deployment("web")["status"]["observedGeneration"],
        state.deployment("web")["metadata"]["generation"]
    );
    assert!(world.at_rest().await.replica_sets.is_empty());
    assert!(
        world
            .writes()
            .iter()
            .all(|write| write.starts_with("update deployments/web/status")),
        "{:?}",
        world.writes()
    );
}

/// `TestSyncDeploymentDeletionRace`: the Deployment is terminating, its cached copy is not, and an
/// orphan matches its selector.
#[tokio::test(start_paused = true)]
async fn sync_deployment_deletion_race() {
    let mut d = web(1);
    d["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let world = rolled_out(d).await;
    world.cluster.faults().stall_watches("deployments");
    world.delete("deployments", "web").await;
    let mut orphan = replica_set_of("orphan", json!({"app": "web", "orphan": "yes"}));
    orphan["spec"]["replicas"] = json!(0);
    orphan["spec"]["template"]["metadata"]["labels"]["orphan"] = json!("yes");
    world.create(orphan).await;
    let read_live = |_: &State| {
        let requests = world.cluster.requests();
        requests.iter().any(|r| {
            r.verb == "get"
                && r.path.ends_with("/deployments/web")
                && r.user_agent.ends_with("deployment-controller")
        })
    };
    world
        .until("a live read of the Deployment", read_live)
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        controller(&world.find("replicasets", "orphan").unwrap()),
        None
    );
    let patches = world
        .writes()
        .into_iter()
        .filter(|write| write.starts_with("patch replicasets/orphan"))
        .count();
    assert_eq!(patches, 0);
}

/// `TestGetReplicaSetsForDeployment`, and `TestOverlappingDeployments` of the integration tests.
#[tokio::test(start_paused = true)]
async fn overlapping_deployments_keep_their_own_replica_sets() {
    let world = rolled_out(web(2)).await;
    let mut second = web(3);
    second["metadata"]["name"] = json!("second");
    let second = world.create(second).await;
    let available =
        |state: &State, name: &str| state.deployment(name)["status"]["availableReplicas"].clone();
    world
        .until("both available", |state| {
            available(state, "web") == 2 && available(state, "second") == 3
        })
        .await;
    world
        .patch("deployments", "second", json!({"spec": {"replicas": 4}}))
        .await;
    world
        .until("second scaled", |state| available(state, "second") == 4)
        .await;
    let state = world.at_rest().await;
    let sizes = |owner: &Value| {
        let of = |rs: &&Value| controller(rs) == Some(owner);
        state
            .replica_sets
            .iter()
            .filter(of)
            .map(size)
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&state.deployment("web")["metadata"]["uid"]), [2]);
    assert_eq!(sizes(&second["metadata"]["uid"]), [4]);
    assert_eq!(state.pods.len(), 6);
}

/// `TestGetReplicaSetsForDeploymentAdoptRelease`, and
/// `TestReplicaSetOrphaningAndAdoptionWhenLabelsChange` of the integration tests.
#[tokio::test(start_paused = true)]
async fn a_replica_set_relabelled_is_released_and_adopted_when_labelled_back() {
    let world = rolled_out(web(1)).await;
    let state = world.state();
    let d = state.deployment("web");
    let name = state.replica_set("one")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let labels = state.replica_set("one")["metadata"]["labels"].clone();
    let find = || world.find("replicasets", &name).unwrap();
    world
        .patch(
            "replicasets",
            &name,
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    world
        .until("released", |_| controller(&find()).is_none())
        .await;
    world
        .patch(
            "replicasets",
            &name,
            json!({"metadata": {"labels": labels}}),
        )
        .await;
    world
        .until("adopted", |_| {
            controller(&find()) == Some(&d["metadata"]["uid"])
        })
        .await;
}

/// `TestGeneralReplicaSetAdoption`.
#[tokio::test(start_paused = true)]
async fn general_replica_set_adoption() {
    let world = rolled_out(web(1)).await;
    let state = world.state();
    let uid = state.deployment("web")["metadata"]["uid"].clone();
    let name = state.replica_set("one")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // (the only owner reference, with `controller: false`; number of references afterwards)
    let cases = [
        (
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-1", "controller": false}),
            2,
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": false}),
            1,
        ),
    ];
    for (reference, count) in cases {
        world
            .patch(
                "replicasets",
                &name,
                json!({"metadata": {"ownerReferences": [reference]}}),
            )
            .await;
        let find = || world.find("replicasets", &name).unwrap();
        world
            .until("adopted", |_| controller(&find()) == Some(&uid))
            .await;
        assert_eq!(
            find()["metadata"]["ownerReferences"]
                .as_array()
                .unwrap()
                .len(),
            count,
            "{reference}"
        );
    }
}

/// `TestDeploymentAvailableCondition`: a pod is available after it was ready for
/// `minReadySeconds`.
#[tokio::test(start_paused = true)]
async fn deployment_available_condition() {
    let world = World::with(&CONTROLLERS).await;
    let mut d = web(10);
    d["spec"]["minReadySeconds"] = json!(3600);
    d["spec"]["progressDeadlineSeconds"] = json!(7200);
    world.create(d).await;
    let available = |state: &State| {
        condition_of(state.deployment("web"), conditions::AVAILABLE)
            .map(|(status, reason)| (status.to_owned(), reason.to_owned()))
    };
    let state = world
        .until("ready", |state| {
            state.deployment("web")["status"]["readyReplicas"] == 10
        })
        .await;
    assert_eq!(
        available(&state).unwrap(),
        ("False".to_owned(), "MinimumReplicasUnavailable".to_owned())
    );
    assert_eq!(state.deployment("web")["status"]["unavailableReplicas"], 10);
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"minReadySeconds": 1}}),
        )
        .await;
    let state = world
        .until("available", |state| {
            state.deployment("web")["status"]["availableReplicas"] == 10
        })
        .await;
    assert_eq!(
        available(&state).unwrap(),
        ("True".to_owned(), "MinimumReplicasAvailable".to_owned())
    );
}

/// `TestPausedDeployment`, from the start.
#[tokio::test(start_paused = true)]
async fn a_deployment_created_paused_gets_its_replica_set_when_it_is_resumed() {
    let world = World::with(&CONTROLLERS).await;
    let mut d = web(1);
    d["spec"]["paused"] = json!(true);
    world.create(d).await;
    assert!(world.at_rest().await.replica_sets.is_empty());
    world
        .patch("deployments", "web", json!({"spec": {"paused": false}}))
        .await;
    let state = world.until("rolled out", is_done).await;
    assert_eq!(annotation(state.deployment("web"), REVISION), Some("1"));
}

/// The third part of `TestDeploymentRollingUpdate`: the template changes again before the rollout
/// is complete.
#[tokio::test(start_paused = true)]
async fn a_new_template_replaces_an_unfinished_rollout() {
    let world = rolled_out(web(4)).await;
    let mut stuck = image("dont-finish");
    stuck["spec"]["template"]["metadata"] = json!({"annotations": {BEHAVIOUR: "fail"}});
    world.patch("deployments", "web", stuck).await;
    let revision = |state: &State| {
        annotation(state.deployment("web"), REVISION)
            .unwrap_or_default()
            .to_owned()
    };
    world
        .until("revision 2", |state| revision(state) == "2")
        .await;
    let mut next = image("rollover");
    next["spec"]["template"]["metadata"] = json!({"annotations": {BEHAVIOUR: null}});
    world.patch("deployments", "web", next).await;
    let state = world
        .until("revision 3, rolled out", |state| {
            revision(state) == "3" && is_done(state)
        })
        .await;
    let sizes: Vec<i64> = ["one", "dont-finish", "rollover"]
        .map(|image| size(state.replica_set(image)))
        .to_vec();
    assert_eq!(sizes, [0, 0, 4]);
}

/// `TestTerminatingReplicasDeploymentStatus` with the feature gate
/// `DeploymentReplicaSetTerminatingReplicas` enabled.
#[tokio::test(start_paused = true)]
async fn terminating_replicas_deployment_status() {
    let mut d = web(6);
    d["spec"]["strategy"] = json!({"type": "Recreate"});
    d["spec"]["template"]["metadata"]["finalizers"] = json!(["fake.example.com/blockDeletion"]);
    let world = rolled_out(d).await;
    let terminating =
        |state: &State| state.deployment("web")["status"]["terminatingReplicas"].clone();
    assert_eq!(terminating(&world.state()), 0);
    world
        .patch("deployments", "web", json!({"spec": {"replicas": 4}}))
        .await;
    let state = world
        .until("2 terminating", |state| terminating(state) == 2)
        .await;
    assert_eq!(state.deployment("web")["status"]["replicas"], 4);
    for pod in world.at_rest().await.pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        world
            .patch("pods", name, json!({"metadata": {"finalizers": null}}))
            .await;
    }
    world
        .until("none terminating", |state| terminating(state) == 0)
        .await;
}

/// `TestDontSyncDeploymentsWithEmptyPodSelector`: a Deployment that selects every pod gets an
/// Event and no ReplicaSet.
///
/// `load` bypasses the validation that refuses such a Deployment.
#[tokio::test(start_paused = true)]
async fn dont_sync_deployments_with_empty_pod_selector() {
    let world = World::with(&CONTROLLERS).await;
    let mut d = web(1);
    d["metadata"]["namespace"] = json!("default");
    d["metadata"]["uid"] = json!("all");
    d["metadata"]["generation"] = json!(1);
    d["spec"]["selector"] = json!({});
    world.cluster.load(d).unwrap();
    let state = world.at_rest().await;
    assert_eq!(
        (
            state.replica_sets.len(),
            &state.deployment("web")["status"]["observedGeneration"]
        ),
        (0, &json!(1))
    );
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    assert_eq!(
        state.events_about("web"),
        [("SelectingAll".to_owned(), message.to_owned())]
    );
}

/// The event of a deletion is lost. With the version in the answer, the history is cleaned all the same.
#[tokio::test(start_paused = true)]
async fn a_lost_deletion_blocks_the_history_only_if_its_version_is_unknown() {
    // (world, revisions that stay)
    let cases = [
        (World::with(&CONTROLLERS).await, vec!["2", "3", "4"]),
        (
            World::with_deletion_versions(&CONTROLLERS).await,
            vec!["3", "4"],
        ),
    ];
    for (world, expected) in cases {
        let mut d = web(2);
        d["spec"]["revisionHistoryLimit"] = json!(1);
        world.create(d).await;
        world.until("rolled out", is_done).await;
        let state = roll_to(&world, "two").await;
        let first = state.replica_set("one")["metadata"]["name"].clone();
        let repaired_after = Duration::from_secs(3600);
        world.cluster.faults().on_event(
            Matcher::new("watch", "replicasets").name(first.as_str().unwrap()),
            EventFault::Drop { repaired_after },
            Some(1),
        );
        roll_to(&world, "three").await;
        let state = roll_to(&world, "four").await;
        let mut revisions: Vec<_> = state
            .replica_sets
            .iter()
            .filter_map(|rs| annotation(rs, REVISION))
            .collect();
        revisions.sort_unstable();
        assert_eq!(revisions, expected);
    }
}
