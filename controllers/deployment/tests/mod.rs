//! Tests of whole rollouts against the in-memory API server, together with the ReplicaSet
//! controller and simulated nodes.

mod adoption_and_deletion;
mod invariants;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::nodes::BEHAVIOUR;
use steersman_devcluster::status::Status;
use steersman_objects::{Deployment, DeploymentStatus, ReplicaSet};
use steersman_runtime::controller::Descriptor;
use steersman_runtime::informer::Change;
use tracing::Level;

use super::DESCRIPTOR;
use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO};
use super::conditions::{self, PROGRESSING, TRUE, reason};
use super::replica_sets::by_age;
use crate::replicaset;
use crate::testing::gate::ONE_SYNC;
use crate::testing::log::Log;
use crate::testing::world::{State, World, condition_of};

const CONTROLLERS: [Descriptor; 2] = [DESCRIPTOR, replicaset::DESCRIPTOR];
const DONE: Option<(&str, &str)> = Some((TRUE, reason::NEW_REPLICA_SET_AVAILABLE));

/// A Deployment `web` of `replicas` pods with image `one`.
fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("one"),
        },
    })
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// A merge patch that changes only the image.
fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// True if the rollout of `web` is complete and its status up to date.
fn is_done(state: &State) -> bool {
    let d = state.deployment("web");
    let replicas = |field: &str, of: &Value| of[field].as_i64().unwrap_or(0);
    let wanted = replicas("replicas", &d["spec"]);
    let counters = ["replicas", "updatedReplicas", "availableReplicas"];
    counters
        .iter()
        .all(|field| replicas(field, &d["status"]) == wanted)
        && d["status"]["observedGeneration"] == d["metadata"]["generation"]
        && condition_of(d, PROGRESSING).is_none_or(|condition| Some(condition) == DONE)
}

/// A world with a complete rollout of `deployment`, named `web`.
async fn rolled_out(deployment: Value) -> World {
    let world = World::with(&CONTROLLERS).await;
    world.create(deployment).await;
    world.until("rolled out", is_done).await;
    world.at_rest().await;
    world
}

async fn roll_to(world: &World, name: &str) -> State {
    world.patch("deployments", "web", image(name)).await;
    world.until("rolled out", is_done).await;
    world.at_rest().await
}

fn size(rs: &Value) -> i64 {
    rs["spec"]["replicas"].as_i64().unwrap()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// Collects every status of `web`, from now on.
fn record_statuses(world: &World) -> Arc<Mutex<Vec<DeploymentStatus>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    world
        .informers
        .shared::<Deployment>()
        .add_handler(move |change| {
            if let Change::Updated { new, .. } = change {
                into.lock().push(new.status.clone());
            }
        });
    seen
}

/// The state of all ReplicaSets after a change of one of them.
#[derive(Debug)]
struct Step {
    /// Their sizes, the oldest first.
    sizes: Vec<i32>,
    /// The sum of `availableReplicas`.
    available: i32,
}

/// Collects the steps of a rollout, from now on.
fn record_steps(world: &World) -> Arc<Mutex<Vec<Step>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let replica_sets = world.informers.shared::<ReplicaSet>();
    let store = replica_sets.store();
    replica_sets.add_handler(move |_| {
        let mut all = store.list();
        all.sort_by(|a, b| by_age(a, b));
        let sizes = all.iter().map(|rs| rs.spec.replicas).collect();
        into.lock().push(Step {
            sizes,
            available: all.iter().map(|rs| rs.status.available_replicas).sum(),
        });
    });
    seen
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_gets_a_replica_set_and_reports_its_progress() {
    let world = World::with(&CONTROLLERS).await;
    let statuses = record_statuses(&world);
    let mut d = web(3);
    d["metadata"]["annotations"] = json!({"team": "a"});
    world.create(d).await;
    world.until("rolled out", is_done).await;
    let state = world.at_rest().await;

    let d = state.deployment("web");
    let rs = state.replica_set("one");
    let hash = rs["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .unwrap();
    assert_eq!(rs["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(
        rs["spec"]["selector"],
        json!({"matchLabels": {"app": "web", "pod-template-hash": hash}})
    );
    assert_eq!(
        rs["metadata"]["ownerReferences"][0]["uid"],
        d["metadata"]["uid"]
    );
    let expected = json!({"team": "a", REVISION: "1", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"});
    assert_eq!(rs["metadata"]["annotations"], expected);
    assert_eq!(annotation(d, REVISION), Some("1"));
    assert_eq!(
        condition_of(d, conditions::AVAILABLE),
        Some((TRUE, reason::MINIMUM_REPLICAS_AVAILABLE))
    );
    assert_eq!(
        (
            &d["status"]["replicas"],
            &d["status"]["terminatingReplicas"]
        ),
        (&json!(3), &json!(0))
    );
    let message = format!("Scaled up replica set web-{hash} from 0 to 3");
    assert_eq!(
        state.events_about("web"),
        [("ScalingReplicaSet".to_owned(), message)]
    );

    // The first status reports the creation and the counts, the next ones the rollout.
    let statuses = statuses.lock();
    let first = &statuses[0];
    assert_eq!(
        (first.observed_generation, first.unavailable_replicas),
        (1, 3),
        "{first:#?}"
    );
    assert_eq!(
        conditions::find(&first.conditions, conditions::AVAILABLE)
            .unwrap()
            .status,
        conditions::FALSE
    );
    let reasons: Vec<_> = statuses
        .iter()
        .map(|s| {
            conditions::find(&s.conditions, PROGRESSING)
                .unwrap()
                .reason
                .as_str()
        })
        .collect();
    let mut steps = reasons.clone();
    steps.dedup();
    assert_eq!(
        steps,
        [
            reason::NEW_REPLICA_SET_CREATED,
            reason::REPLICA_SET_UPDATED,
            reason::NEW_REPLICA_SET_AVAILABLE
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_stays_within_its_limits() {
    let world = rolled_out(web(10)).await;
    let steps = record_steps(&world);
    let state = roll_to(&world, "two").await;

    assert_eq!(
        (
            size(state.replica_set("one")),
            size(state.replica_set("two"))
        ),
        (0, 10)
    );
    assert_eq!(annotation(state.replica_set("two"), REVISION), Some("2"));
    assert_eq!(annotation(state.deployment("web"), REVISION), Some("2"));
    let steps = steps.lock();
    assert!(
        steps
            .iter()
            .all(|step| step.sizes.iter().sum::<i32>() <= 13 && step.available >= 8),
        "{steps:?}"
    );
    let mut sizes: Vec<_> = steps.iter().map(|step| step.sizes.clone()).collect();
    sizes.dedup();
    assert_eq!(
        sizes[..4],
        [vec![10], vec![10, 3], vec![8, 3], vec![8, 5]],
        "{sizes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_rollout_cause_no_conflicts() {
    let world = rolled_out(web(10)).await;
    roll_to(&world, "two").await;
    world
        .patch(
            "deployments",
            "web",
            json!({"metadata": {"annotations": {"team": "b"}}, "spec": {"minReadySeconds": 3}}),
        )
        .await;
    world
        .until("annotations copied", |state| {
            annotation(state.replica_set("two"), "team") == Some("b")
        })
        .await;
    world.at_rest().await;
    let conflicts: Vec<_> = world
        .writes()
        .into_iter()
        .filter(|write| write.contains("deployments") && write.ends_with("409"))
        .collect();
    assert!(conflicts.is_empty(), "{conflicts:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_settled_deployment_is_not_written_even_after_a_restart() {
    let mut world = rolled_out(web(3)).await;
    roll_to(&world, "two").await;
    let before = world.state();
    let writes = world.writes().len();
    // A restart syncs every object again.
    world.restart(&CONTROLLERS).await;
    let after = world.at_rest().await;
    assert_eq!(world.writes()[writes..], [] as [String; 0]);
    assert_eq!(
        (before.deployments, before.replica_sets),
        (after.deployments, after.replica_sets)
    );
}

#[tokio::test(start_paused = true)]
async fn an_undone_rollout_gives_the_old_replica_set_a_new_revision() {
    let world = rolled_out(web(3)).await;
    roll_to(&world, "two").await;
    let state = roll_to(&world, "one").await;
    let one = state.replica_set("one");
    assert_eq!(
        (
            size(one),
            annotation(one, REVISION),
            annotation(one, REVISION_HISTORY)
        ),
        (3, Some("3"), Some("1"))
    );
    assert_eq!(annotation(state.deployment("web"), REVISION), Some("3"));
    let state = roll_to(&world, "two").await;
    assert_eq!(
        annotation(state.replica_set("two"), REVISION_HISTORY),
        Some("2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollback_by_annotation_restores_template_and_annotations() {
    let mut d = web(2);
    d["metadata"]["annotations"] = json!({"change-cause": "create"});
    let world = rolled_out(d).await;
    world
        .patch(
            "deployments",
            "web",
            json!({"metadata": {"annotations": {"change-cause": "edit"}}}),
        )
        .await;
    roll_to(&world, "two").await;

    world
        .patch(
            "deployments",
            "web",
            json!({"metadata": {"annotations": {ROLLBACK_TO: "1"}}}),
        )
        .await;
    let rolled_back = |state: &State| {
        is_done(state) && size(state.replica_set("one")) == 2 && size(state.replica_set("two")) == 0
    };
    world.until("rolled back", rolled_back).await;
    let state = world.at_rest().await;
    let d = state.deployment("web");
    assert_eq!(annotation(d, ROLLBACK_TO), None);
    assert_eq!(annotation(d, REVISION), Some("3"));
    let succeeded = (
        "DeploymentRollback".to_owned(),
        "Rolled back deployment \"web\" to revision 1".to_owned(),
    );
    assert!(
        state.events_about("web").contains(&succeeded),
        "{:?}",
        state.events_about("web")
    );

    world
        .patch(
            "deployments",
            "web",
            json!({"metadata": {"annotations": {ROLLBACK_TO: "77"}}}),
        )
        .await;
    let state = world
        .until("refused", |state| {
            annotation(state.deployment("web"), ROLLBACK_TO).is_none()
        })
        .await;
    assert_eq!(state.replica_set("one")["spec"]["replicas"], 2);
    world.at_rest().await;
    let refused = (
        "DeploymentRollbackRevisionNotFound".to_owned(),
        "Unable to find the revision to rollback to.".to_owned(),
    );
    assert!(world.state().events_about("web").contains(&refused));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_up_down_and_to_zero() {
    let world = rolled_out(web(3)).await;
    for replicas in [7, 2, 0, 4] {
        world
            .patch(
                "deployments",
                "web",
                json!({"spec": {"replicas": replicas}}),
            )
            .await;
        world.until("scaled", is_done).await;
        let state = world.at_rest().await;
        let rs = state.replica_set("one");
        assert_eq!(size(rs), replicas);
        assert_eq!(
            annotation(rs, DESIRED_REPLICAS),
            Some(replicas.to_string().as_str())
        );
        assert_eq!(annotation(rs, REVISION), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_size_does_not_wait_for_the_end_of_a_rest() {
    let world = rolled_out(web(2)).await;
    let delay = RequestFault::Delay(Duration::from_secs(1));
    world
        .cluster
        .faults()
        .on_request(Matcher::new("update", "replicasets"), delay, None);
    let mut began = tokio::time::Instant::now();
    for replicas in [3, 4] {
        began = tokio::time::Instant::now();
        let spec = json!({"spec": {"replicas": replicas}});
        world.patch("deployments", "web", spec).await;
        let is_resized = |state: &State| size(state.replica_set("one")) == replicas;
        world.until("a resize", is_resized).await;
    }
    // The first resize took a second, so the Deployment rests for three.
    assert!(began.elapsed() < Duration::from_millis(2_500));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_rollout_is_scaled_in_proportion() {
    let mut d = web(10);
    d["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    let world = rolled_out(d).await;
    let mut broken = image("two");
    broken["spec"]["template"]["metadata"] = json!({"annotations": {BEHAVIOUR: "never-ready"}});
    world.patch("deployments", "web", broken).await;
    let sizes = |state: &State| {
        let size_of = |image| state.with_image(image).map(size).sum::<i64>();
        (size_of("one"), size_of("two"))
    };
    world.until("stalled", |state| sizes(state) == (8, 5)).await;
    world.at_rest().await;
    let steps = record_steps(&world);
    world
        .patch("deployments", "web", json!({"spec": {"replicas": 15}}))
        .await;
    world.at_rest().await;
    let steps = steps.lock();
    assert!(
        steps
            .iter()
            .all(|step| step.sizes.iter().sum::<i32>() <= 18),
        "{steps:?}"
    );
    let mut sizes: Vec<_> = steps.iter().map(|step| step.sizes.clone()).collect();
    sizes.dedup();
    assert_eq!(
        sizes[..3],
        [vec![8, 5], vec![11, 5], vec![11, 7]],
        "{sizes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let world = rolled_out(web(3)).await;
    world
        .patch("deployments", "web", json!({"spec": {"paused": true}}))
        .await;
    world.patch("deployments", "web", image("two")).await;
    world
        .patch("deployments", "web", json!({"spec": {"replicas": 5}}))
        .await;
    let paused = Some((conditions::UNKNOWN, reason::DEPLOYMENT_PAUSED));
    world
        .until("scaled", |state| size(state.replica_set("one")) == 5)
        .await;
    let state = world.at_rest().await;
    let d = state.deployment("web");
    assert_eq!(condition_of(d, PROGRESSING), paused);
    assert_eq!(state.with_image("two").count(), 0);
    assert_eq!(
        (&d["status"]["replicas"], d["status"].get("updatedReplicas")),
        (&json!(5), None)
    );

    world
        .patch("deployments", "web", json!({"spec": {"paused": false}}))
        .await;
    world
        .until("rolled out", |state| {
            is_done(state) && state.with_image("two").count() == 1
        })
        .await;
    let state = world.at_rest().await;
    assert_eq!(
        (
            size(state.replica_set("one")),
            size(state.replica_set("two"))
        ),
        (0, 5)
    );
}

#[tokio::test(start_paused = true)]
async fn recreate_creates_the_first_new_pod_after_the_last_old_pod_is_gone() {
    let mut d = web(3);
    d["spec"]["strategy"] = json!({"type": "Recreate"});
    let world = rolled_out(d).await;
    world.patch("deployments", "web", image("two")).await;
    let new = "two";
    let old = "one";
    let has = |state: &State, image: &str| {
        state
            .pods
            .iter()
            .any(|pod| pod["spec"]["containers"][0]["image"] == image)
    };
    world
        .until("recreated", |state| {
            assert!(
                !(has(state, new) && has(state, old)),
                "old and new pods: {:#?}",
                state.pods
            );
            is_done(state) && has(state, new)
        })
        .await;
    let state = world.at_rest().await;
    assert_eq!(
        (
            size(state.replica_set("one")),
            size(state.replica_set("two"))
        ),
        (0, 3)
    );
    assert_eq!(
        annotation(state.replica_set("two"), MAX_REPLICAS),
        Some("3")
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_collision_changes_the_hash() {
    // A first world with the same Deployment shows the name that its ReplicaSet gets.
    let name = {
        let world = rolled_out(web(1)).await;
        world.state().replica_set("one")["metadata"]["name"].clone()
    };
    let world = World::with(&CONTROLLERS).await;
    let unrelated = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": {
            "metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "main", "image": "other"}]},
        }},
    });
    world.create(unrelated).await;
    world.create(web(1)).await;
    world.until("rolled out", is_done).await;
    let state = world.at_rest().await;
    assert_eq!(state.deployment("web")["status"]["collisionCount"], 1);
    assert_ne!(state.replica_set("one")["metadata"]["name"], name);
    assert_eq!(
        state.with_image("other").count(),
        1,
        "the unrelated ReplicaSet stays"
    );
}

#[tokio::test(start_paused = true)]
async fn revisions_beyond_the_history_limit_are_deleted() {
    let mut d = web(2);
    d["spec"]["revisionHistoryLimit"] = json!(1);
    let world = rolled_out(d).await;
    for image in ["two", "three", "four"] {
        roll_to(&world, image).await;
    }
    let state = world.at_rest().await;
    let mut revisions: Vec<_> = state
        .replica_sets
        .iter()
        .filter_map(|rs| annotation(rs, REVISION))
        .collect();
    revisions.sort_unstable();
    assert_eq!(revisions, ["3", "4"]);
    let deletions: Vec<_> = world
        .writes()
        .into_iter()
        .filter(|write| write.starts_with("delete replicasets"))
        .collect();
    assert_eq!(deletions.len(), 2, "each is deleted once: {deletions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_without_progress_misses_its_deadline_and_recovers() {
    let mut d = web(2);
    d["spec"]["progressDeadlineSeconds"] = json!(60);
    d["spec"]["template"]["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    let world = World::with(&CONTROLLERS).await;
    world.create(d).await;
    let late = Some((conditions::FALSE, reason::PROGRESS_DEADLINE_EXCEEDED));
    let state = world
        .until("late", |state| {
            condition_of(state.deployment("web"), PROGRESSING) == late
        })
        .await;
    let message = &state.deployment("web")["status"]["conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()["message"];
    let name = state.replica_set("one")["metadata"]["name"]
        .as_str()
        .unwrap();
    assert_eq!(
        message,
        &format!("ReplicaSet \"{name}\" has timed out progressing.")
    );

    let healthy = json!({"spec": {"template": {"metadata": {"annotations": {BEHAVIOUR: null}}}}});
    world.patch("deployments", "web", healthy).await;
    world.until("recovered", is_done).await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_matches_is_adopted_and_rolled_over() {
    let world = rolled_out(web(2)).await;
    let before = world.state();
    let d = before.deployment("web");
    let rs = before.replica_set("one");
    let name = rs["metadata"]["name"].as_str().unwrap();
    // A user removes the owner reference.
    world
        .patch(
            "replicasets",
            name,
            json!({"metadata": {"ownerReferences": null}}),
        )
        .await;
    let owner =
        |state: &State| state.replica_set("one")["metadata"]["ownerReferences"][0]["uid"].clone();
    let state = world
        .until("adopted", |state| owner(state) == d["metadata"]["uid"])
        .await;
    assert_eq!(
        state.replica_set("one")["metadata"]["uid"],
        rs["metadata"]["uid"]
    );
    let state = roll_to(&world, "two").await;
    assert_eq!(
        (
            size(state.replica_set("one")),
            size(state.replica_set("two"))
        ),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_recreated_under_its_name_is_rolled_out() {
    let world = rolled_out(web(1)).await;
    world.delete("deployments", "web").await;
    let state = world.at_rest().await;
    assert!(state.deployments.is_empty());
    world.create(web(1)).await;
    world.until("rolled out", is_done).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_replica_set_that_the_status_does_not_mention_is_used() {
    let mut world = rolled_out(web(2)).await;
    // The state after a manager that ended between the creation and the status update.
    world.restart(&[]).await;
    let forget = json!({"metadata": {"annotations": {REVISION: null}}, "status": null});
    world.patch("deployments", "web/status", forget).await;
    let writes = world.writes().len();
    world.restart(&CONTROLLERS).await;
    let statuses = record_statuses(&world);
    world.until("rolled out", is_done).await;
    let state = world.at_rest().await;
    assert_eq!(annotation(state.deployment("web"), REVISION), Some("1"));
    assert_eq!(state.replica_sets.len(), 1);
    let writes = &world.writes()[writes..];
    assert!(
        writes
            .iter()
            .all(|write| write.starts_with("update deployments/web/status")),
        "{writes:?}"
    );
    let statuses = statuses.lock();
    let mut reasons = statuses
        .iter()
        .filter_map(|s| conditions::find(&s.conditions, PROGRESSING))
        .map(|c| c.reason.as_str());
    assert_eq!(reasons.next_back(), Some(reason::NEW_REPLICA_SET_AVAILABLE));
}

#[tokio::test(start_paused = true)]
async fn the_collision_count_is_used_after_a_restart() {
    let mut world = World::with(&[]).await;
    world.create(web(1)).await;
    world
        .patch(
            "deployments",
            "web/status",
            json!({"status": {"collisionCount": 4}}),
        )
        .await;
    world.restart(&CONTROLLERS).await;
    world.until("rolled out", is_done).await;
    let state = world.at_rest().await;
    let hash =
        steersman_objects::template::hash(&state.deployment("web")["spec"]["template"], Some(4));
    assert_eq!(
        state.replica_set("one")["metadata"]["name"],
        format!("web-{hash}")
    );
    assert_eq!(state.deployment("web")["status"]["collisionCount"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_is_reported_and_repeated() {
    let world = World::with(&CONTROLLERS).await;
    let refusal = Status::new(403, "Forbidden", "exceeded quota: q");
    let rule = world
        .cluster
        .faults()
        .reject(Matcher::new("create", "replicasets"), refusal, None);
    world.create(web(1)).await;
    let failed = Some((conditions::FALSE, reason::REPLICA_SET_CREATE_ERROR));
    let state = world
        .until("failed", |state| {
            condition_of(state.deployment("web"), PROGRESSING) == failed
        })
        .await;
    let status = &state.deployment("web")["status"];
    assert_eq!(
        status.get("observedGeneration"),
        None,
        "the status reports only the failure: {status}"
    );
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Failed to create new replica set \"web-"),
        "{message}"
    );
    assert!(message.ends_with("\": exceeded quota: q"), "{message}");
    world.cluster.faults().remove(rule);
    world.until("rolled out", is_done).await;
    let events = world.at_rest().await.events_about("web");
    assert!(
        events.contains(&("ReplicaSetCreateError".to_owned(), message.to_owned())),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollout_continues_after_updates_of_an_old_replica_set_failed() {
    let world = rolled_out(web(2)).await;
    let name = world.state().replica_set("one")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let refusal = Status::internal("try later");
    let rule = world.cluster.faults().reject(
        Matcher::new("update", "replicasets").name(&name),
        refusal,
        Some(3),
    );
    roll_to(&world, "two").await;
    assert_eq!(world.cluster.faults().hits(rule), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_size_annotation_does_not_block_a_rollout() {
    let world = rolled_out(web(2)).await;
    let name = world.state().replica_set("one")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .patch(
            "replicasets",
            &name,
            json!({"metadata": {"annotations": {DESIRED_REPLICAS: "9"}}}),
        )
        .await;
    let writes = world.writes().len();
    world.at_rest().await;
    assert_eq!(
        world.writes()[writes..],
        [] as [String; 0],
        "the annotation alone causes no write"
    );
    roll_to(&world, "two").await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_duplicate_writes() {
    let mut d = web(2);
    d["spec"]["revisionHistoryLimit"] = json!(5);
    let world = rolled_out(d).await;
    roll_to(&world, "two").await;
    let faults = world.cluster.faults();
    let relabel = |value: &str| json!({"metadata": {"labels": {"wake": value}}});

    // The cache does not show the deletion, and a new label triggers another sync.
    faults.stall_watches("replicasets");
    let writes = world.writes().len();
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"revisionHistoryLimit": 0}}),
        )
        .await;
    world.at_rest().await;
    world.patch("deployments", "web", relabel("once")).await;
    world.at_rest().await;
    let since = world.writes()[writes..].to_vec();
    assert_eq!(
        since
            .iter()
            .filter(|write| write.starts_with("delete"))
            .count(),
        1,
        "{since:#?}"
    );
    faults.resume_watches("replicasets");
    world.at_rest().await;

    // The cache does not show the creation.
    faults.stall_watches("replicasets");
    let writes = world.writes().len();
    world.patch("deployments", "web", image("three")).await;
    world.at_rest().await;
    world.patch("deployments", "web", relabel("twice")).await;
    world.at_rest().await;
    let since = world.writes()[writes..].to_vec();
    assert_eq!(
        since
            .iter()
            .filter(|write| write.starts_with("create replicasets"))
            .count(),
        1,
        "{since:#?}"
    );
    assert!(
        since.iter().all(|write| !write.ends_with("409")),
        "{since:#?}"
    );
    faults.resume_watches("replicasets");
    world.until("rolled out", is_done).await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_ends_at_its_first_fenced_write_without_a_status_or_event() {
    let mut world = World::bare().await;
    let gate = world.restart_fenced(&CONTROLLERS[..1]).await;
    gate.set_open(false);
    world.create(web(3)).await;
    tokio::time::sleep(ONE_SYNC).await;
    assert_eq!(
        gate.refused(),
        1,
        "only the creation, without a status or Event"
    );
    gate.set_open(true);
    world.at_rest().await;
    gate.set_open(false);
    world
        .patch("deployments", "web", json!({"spec": {"replicas": 5}}))
        .await;
    tokio::time::sleep(ONE_SYNC).await;
    assert_eq!(gate.refused(), 1, "only the resize");
    gate.set_open(true);
    let state = world.at_rest().await;
    assert_eq!(size(state.replica_set("one")), 5);

    // Without a surge, and with an empty new ReplicaSet, the first write of a rollout shrinks the
    // old ReplicaSet. The next lines prepare that state: available pods by a patched status, a
    // rollout that waits because it is paused, and a loaded new ReplicaSet.
    let old = world
        .find(
            "replicasets",
            state.replica_set("one")["metadata"]["name"]
                .as_str()
                .unwrap(),
        )
        .unwrap();
    let path = format!("{}/status", old["metadata"]["name"].as_str().unwrap());
    let counters =
        json!({"replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "observedGeneration": 2});
    world
        .patch("replicasets", &path, json!({"status": counters}))
        .await;
    let limits =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"strategy": limits, "paused": true}}),
        )
        .await;
    world.patch("deployments", "web", image("two")).await;
    world.at_rest().await;
    let mut new = old.clone();
    new["metadata"] = json!({
        "name": "web-new", "namespace": "default", "uid": "new", "labels": {"app": "web", "pod-template-hash": "new"},
        "ownerReferences": old["metadata"]["ownerReferences"], "annotations": {REVISION: "2"},
    });
    new["spec"]["replicas"] = json!(0);
    new["spec"]["template"] = state.deployment("web")["spec"]["template"].clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
    world.cluster.load(new).unwrap();
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"progressDeadlineSeconds": i32::MAX}}),
        )
        .await;
    world.at_rest().await;
    gate.set_open(false);
    world
        .patch("deployments", "web", json!({"spec": {"paused": false}}))
        .await;
    tokio::time::sleep(ONE_SYNC).await;
    assert_eq!(
        gate.refused(),
        1,
        "only the resize of the old ReplicaSet, without a status"
    );
    gate.set_open(true);
    world
        .until("the old ReplicaSet shrinks", |state| {
            size(state.replica_set("one")) == 4
        })
        .await;
}

/// Upstream logs decisions and writes at verbosity 2 (debug), and each sync at 4 (trace).
#[tokio::test(start_paused = true)]
async fn a_rollout_is_logged_at_upstream_verbosities() {
    let log = Log::collect();
    let world = rolled_out(web(2)).await;
    roll_to(&world, "two").await;
    let decisions = [
        "Created new replica set",
        "Scaled up replica set",
        "Scaled down replica set",
        "Too few replicas",
        "Too many replicas",
        "Deleting pod",
        "Finished rolling out deployment",
    ];
    log.assert_has(Level::DEBUG, &decisions);
    log.assert_has(
        Level::TRACE,
        &[
            "Started syncing",
            "Finished syncing",
            "Controller created pod",
            "Updating status",
        ],
    );
    assert!(
        log.at(Level::WARN).is_empty() && log.at(Level::ERROR).is_empty(),
        "no failure"
    );
    let at_0 = log.at(Level::INFO);
    assert!(
        at_0.iter().all(|message| message == "Caches are filled"),
        "{at_0:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_logged_at_verbosity_0() {
    let world = World::with(&CONTROLLERS).await;
    let log = Log::collect();
    let refused = Status::new(500, "InternalError", "no luck");
    world
        .cluster
        .faults()
        .reject(Matcher::new("create", "replicasets"), refused, Some(1));
    world.create(web(1)).await;
    world.until("rolled out", is_done).await;
    log.assert_has(Level::ERROR, &["sync failed"]);
}
