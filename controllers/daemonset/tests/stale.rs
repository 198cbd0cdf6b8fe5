//! Stale caches and failed requests: each pod and revision is created and deleted once.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict};
use steersman_devcluster::status::Status;
use tracing::Level;

use super::{A_WHILE, REVISION, agent, is_active, name, node, on_delete, rolling, target};
use crate::daemonset::DESCRIPTOR;
use crate::testing::gate::ONE_SYNC;
use crate::testing::log::Log;
use crate::testing::world::World;

impl World {
    /// Causes a sync every 30 seconds, for ten minutes. Expectations expire after five minutes.
    async fn keep_touching_agent(&self) {
        for touch in 0..20 {
            let labels = json!({"touch": touch.to_string()});
            self.patch(
                "daemonsets",
                "agent",
                json!({"metadata": {"labels": labels}}),
            )
            .await;
            tokio::time::sleep(A_WHILE).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stale_pod_cache_causes_no_duplicate_creations_or_deletions() {
    let world = World::of_nodes(&["n1", "n2", "n3"]).await;
    world.cluster.faults().stall_watches("pods");
    world.create(agent(rolling(0, 1))).await;
    world.until("3 pods", |_| world.agents().len() == 3).await;
    world.keep_touching_agent().await;
    assert_eq!(world.sent("create", "pods"), 3);
    world.cluster.faults().resume_watches("pods");
    world.all_available(3).await;
    world.at_rest().await;

    world.cluster.faults().stall_watches("pods");
    world.set_image("v2").await;
    world
        .until("a deletion", |_| world.sent("delete", "pods") == 1)
        .await;
    world.keep_touching_agent().await;
    assert_eq!(world.sent("delete", "pods"), 1);
    world.cluster.faults().resume_watches("pods");
    world.all_available(3).await;
    assert_eq!(world.sent("delete", "pods"), 3);
}

#[tokio::test(start_paused = true)]
async fn stale_revision_cache_causes_no_duplicate_revisions() {
    let world = World::of_nodes(&["n1"]).await;
    world.cluster.faults().stall_watches("controllerrevisions");
    world.create(agent(rolling(0, 1))).await;
    world.keep_touching_agent().await;
    assert_eq!(world.sent("create", "controllerrevisions"), 1);
    world.cluster.faults().resume_watches("controllerrevisions");
    world.all_available(1).await;
    assert_eq!(world.cluster.objects("controllerrevisions").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn existing_revision_that_the_cache_lacks_is_used() {
    let mut world = World::of_nodes(&["n1"]).await;
    let before = world.cluster.revision();
    world.create(agent(rolling(0, 1))).await;
    world.all_available(1).await;
    let revision = name(&world.cluster.objects("controllerrevisions")[0]);
    // The API server's watch cache lacks the revision for the new process.
    let revisions = Matcher {
        resource: Some("controllerrevisions".to_owned()),
        ..Matcher::default()
    };
    let view = world.cluster.faults().hold_view(revisions, before);
    world.restart(&[DESCRIPTOR]).await;
    world.keep_touching_agent().await;
    assert!(
        world.sent("create", "controllerrevisions") > 1,
        "the cache lacks the revision"
    );
    world.cluster.faults().remove(view);
    let revisions = world.cluster.objects("controllerrevisions");
    assert_eq!(revisions.iter().map(name).collect::<Vec<_>>(), [revision]);
    assert_eq!(world.agent_status()["collisionCount"], Value::Null);
    assert_eq!(world.sent("delete", "pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_creation_with_unknown_outcome_pods_are_read_from_the_server() {
    let world = World::of_nodes(&["n1"]).await;
    let faults = world.cluster.faults();
    faults.stall_watches("pods");
    let timed_out = Status::new(500, "InternalError", "etcdserver: request timed out");
    let rule = faults.reject(Matcher::new("create", "pods"), timed_out, None);
    let ds = world.create(agent(on_delete())).await;
    world
        .until("an attempt", |_| world.cluster.faults().hits(rule) > 0)
        .await;
    // The creation happened nevertheless, and the cache does not show the pod.
    faults.remove(rule);
    let reference = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": ds["metadata"]["uid"], "controller": true});
    let revision = world.cluster.objects("controllerrevisions")[0].clone();
    let labels = json!({"app": "agent", REVISION: revision["metadata"]["labels"][REVISION]});
    let metadata = json!({"name": "agent-1", "labels": labels, "ownerReferences": [reference]});
    let spec = json!({"nodeName": "n1", "containers": [{"name": "main", "image": "v1"}]});
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.agents().len(),
        1,
        "a stale cache causes no further creation"
    );
    faults.resume_watches("pods");
    world.at_rest().await;
    assert_eq!(world.agents().len(), 1);
}

/// `TestStoreDaemonSetStatus`.
#[tokio::test(start_paused = true)]
async fn store_daemon_set_status() {
    let failed = || Status::new(500, "InternalError", "fake error");
    // (name, failed updates, failed reads, updates and reads until the status is written). A failed
    // sync is followed by one with a single update.
    let cases = [
        ("succeed immediately", 0, 0, (1, 0)),
        ("succeed after one update failure", 1, 0, (2, 1)),
        ("fail after two update failures", 2, 0, (2 + 1, 1)),
        (
            "fail after one update failure and one get failure",
            1,
            1,
            (1 + 1, 1),
        ),
    ];
    for (case, updates, reads, expected) in cases {
        let world = World::of_nodes(&[]).await;
        let faults = world.cluster.faults();
        let update = Matcher::new("update", "daemonsets").subresource("status");
        if updates > 0 {
            faults.reject(update, failed(), Some(updates));
        }
        if reads > 0 {
            faults.reject(Matcher::new("get", "daemonsets"), failed(), Some(reads));
        }
        world.create(agent(on_delete())).await;
        let written = |_: &_| world.agent_status()["observedGeneration"] == 1;
        world.until("the status", written).await;
        let sent = (
            world.sent("update", "daemonsets/status"),
            world.sent("get", "daemonsets"),
        );
        assert_eq!(sent, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_status_is_written_to_the_live_object() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    world.cluster.faults().stall_watches("daemonsets");
    // The cached DaemonSet is outdated after these patches.
    world
        .patch(
            "daemonsets",
            "agent",
            json!({"metadata": {"annotations": {"kept": "yes"}}}),
        )
        .await;
    world
        .patch(
            "daemonsets",
            "agent/status",
            json!({"status": {"collisionCount": 4}}),
        )
        .await;
    let pod = name(&world.agents()[0]);
    let conditions = json!([{"type": "Ready", "status": "False"}]);
    world
        .pod_status(&pod, json!({ "conditions": conditions }))
        .await;
    let unready = |_: &_| world.agent_status()["numberReady"] == 0;
    world.until("unready", unready).await;
    let ds = world.find("daemonsets", "agent").unwrap();
    assert_eq!(ds["metadata"]["annotations"]["kept"], "yes");
    assert_eq!(
        ds["status"]["collisionCount"], 4,
        "other fields keep their live values"
    );
}

#[tokio::test(start_paused = true)]
async fn a_sync_with_fenced_writes_ends_without_a_status_or_event() {
    let mut world = World::bare().await;
    for name in ["n1", "n2"] {
        world.create(node(name)).await;
    }
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    world.create(agent(rolling(0, 1))).await;
    world.all_available(2).await;
    world.at_rest().await;
    let events = world.state().events.len();
    gate.set_open(false);
    gate.refused();
    world.create(node("n3")).await;
    tokio::time::sleep(ONE_SYNC).await;
    assert_eq!(gate.refused(), 1, "one creation, no status and no Event");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.state().events.len(), events);
    gate.set_open(true);
    world.all_available(3).await;
}

/// `TestDontDoAnythingIfBeingDeletedRace`: the deletion shows only in the live object.
#[tokio::test(start_paused = true)]
async fn dont_do_anything_if_being_deleted_race() {
    let world = World::of_nodes(&["n1"]).await;
    let mut ds = agent(rolling(0, 1));
    ds["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(ds).await;
    world.all_available(1).await;
    world.at_rest().await;
    world.cluster.faults().stall_watches("daemonsets");
    world.delete("daemonsets", "agent").await;
    let orphan = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "agent"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "v1"}]}});
    world.create(orphan).await;
    tokio::time::sleep(A_WHILE).await;
    let orphan = world.find("pods", "orphan").unwrap();
    assert!(orphan["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        (world.sent("patch", "pods"), world.sent("delete", "pods")),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_recreated_daemon_set_ignores_expectations_of_its_predecessor() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    world.cluster.faults().stall_watches("pods");
    world.create(node("n2")).await;
    world.until("2 pods", |_| world.agents().len() == 2).await;
    world.delete("daemonsets", "agent").await;
    world.cluster.faults().resume_watches("pods");
    let gone = |_: &_| world.find("daemonsets", "agent").is_none();
    world.until("the DaemonSet gone", gone).await;
    let second = world.create(agent(rolling(0, 1))).await;
    // The pods of the first DaemonSet still have it as their controller.
    let uid = &second["metadata"]["uid"];
    let of_second = |_: &_| {
        let agents = world.agents();
        let ours = agents
            .iter()
            .filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid);
        ours.count() == 2
    };
    world.until("pods of the second one", of_second).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_creates_no_second_pod() {
    let mut world = World::of_nodes(&["n1", "n2"]).await;
    let before = world.cluster.revision();
    world.create(agent(rolling(0, 1))).await;
    world.all_available(2).await;
    world.at_rest().await;
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    tokio::time::sleep(A_WHILE).await;
    let active = |world: &World| world.agents().into_iter().filter(is_active).count();
    assert_eq!(active(&world), 2, "{:#?}", world.writes());
    assert_eq!(
        world.agent_status()["numberReady"],
        2,
        "the status stays while the cache is stale"
    );
    world.cluster.faults().remove(view);
    world.at_rest().await;
    assert_eq!(active(&world), 2);
    let mut targets: Vec<String> = world.agents().iter().map(target).collect();
    targets.sort();
    assert_eq!(targets, ["n1", "n2"]);
}

/// The cache shows the pods as not ready, and a rolling update replaces such pods beyond its limits.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_keeps_ready_pods_in_a_rolling_update() {
    let nodes = ["n1", "n2", "n3"];
    let mut world = World::of_nodes(&nodes).await;
    world.create(agent(rolling(0, 1))).await;
    world.until("3 pods", |_| world.agents().len() == 3).await;
    world.bind_pods().await;
    let before = world.cluster.revision();
    world.all_available(3).await;
    world.at_rest().await;
    world.restart(&[]).await;
    world.set_image("v2").await;
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.sent("delete", "pods"), 0, "{:#?}", world.writes());
    world.cluster.faults().remove(view);
    world.all_available(3).await;
    assert_eq!(world.sent("delete", "pods"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_of_revisions_gives_a_rollback_its_number() {
    let mut world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let before = world.cluster.revision();
    world.set_image("v2").await;
    world.all_available(1).await;
    world.at_rest().await;
    world.restart(&[]).await;
    world.set_image("v1").await;
    let view = world
        .take_over_behind(&[DESCRIPTOR], "controllerrevisions", before)
        .await;
    world.all_available(1).await;
    world.cluster.faults().remove(view);
    // A bookmark tells that the cache of revisions is as new as the term.
    let has_third = |_: &_| {
        let revisions = world.cluster.objects("controllerrevisions");
        revisions.iter().any(|revision| revision["revision"] == 3)
    };
    world.until("a revision with number 3", has_third).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_old_cache_of_nodes_deletes_no_pod_of_a_fitting_node() {
    let mut world = World::of_nodes(&["n1"]).await;
    let before = world.cluster.revision();
    let labels = json!({"metadata": {"labels": {"role": "edge"}}});
    world.patch("nodes", "n1", labels).await;
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["template"]["spec"]["nodeSelector"] = json!({"role": "edge"});
    world.create(ds).await;
    world.all_available(1).await;
    world.at_rest().await;
    let view = world.take_over_behind(&[DESCRIPTOR], "nodes", before).await;
    world
        .patch(
            "daemonsets",
            "agent",
            json!({"metadata": {"labels": {"touch": "1"}}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.sent("delete", "pods"), 0, "{:#?}", world.writes());
    world.cluster.faults().remove(view);
    world
        .patch(
            "nodes",
            "n1",
            json!({"metadata": {"labels": {"role": "core"}}}),
        )
        .await;
    let what = "the deletion from a node that does not fit";
    world
        .until(what, |_| world.sent("delete", "pods") == 1)
        .await;
}

/// `TestSimpleDaemonSetUpdatesStatusError`.
#[tokio::test(start_paused = true)]
async fn errors_of_a_sync_have_the_precedence_of_upstream() {
    const BOTH: &str = "Failed to update status";
    let failed = || Status::new(500, "InternalError", "fake error");
    // (desc, sync error, status error)
    let cases = [
        ("sync error", true, false),
        ("status error", false, true),
        ("sync and status error", true, true),
    ];
    for strategy in [on_delete(), rolling(0, 1)] {
        for (desc, sync_error, status_error) in cases {
            let log = Log::collect();
            let world = World::of_nodes(&["n1"]).await;
            let faults = world.cluster.faults();
            if sync_error {
                faults.reject(Matcher::new("create", "pods"), failed(), Some(1));
            }
            if status_error {
                let update = Matcher::new("update", "daemonsets").subresource("status");
                faults.reject(update, failed(), Some(2));
            }
            world.create(agent(strategy.clone())).await;
            tokio::time::sleep(ONE_SYNC).await;
            let updates = world.sent("update", "daemonsets/status");
            assert!(updates > usize::from(status_error), "{desc}: {updates}");
            let is_logged = log.at(Level::ERROR).contains(BOTH);
            assert_eq!(is_logged, sync_error && status_error, "{desc}");
            world.all_available(1).await;
        }
    }
}

/// `TestControlledHistories`, and the release of a revision with other labels.
#[tokio::test(start_paused = true)]
async fn revisions_are_adopted_and_released() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let uid = world.find("daemonsets", "agent").unwrap()["metadata"]["uid"].clone();
    let orphan = |name: &str, namespace: &str, app: &str| {
        let labels = json!({"app": app, REVISION: name});
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": {}, "revision": 0})
    };
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    world.create(other).await;
    world.create(orphan("same", "default", "agent")).await;
    world.create(orphan("elsewhere", "other", "agent")).await;
    world.create(orphan("unmatched", "default", "web")).await;
    let owner = |name: &str| {
        let revision = world.find("controllerrevisions", name).unwrap();
        revision["metadata"]["ownerReferences"][0]["uid"].clone()
    };
    world.until("adoption", |_| owner("same") == uid).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        (owner("elsewhere"), owner("unmatched")),
        (Value::Null, Value::Null)
    );
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    world.patch("controllerrevisions", "same", labels).await;
    world.until("release", |_| owner("same").is_null()).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_revision_that_is_gone_counts_as_deleted() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let old = name(&world.cluster.objects("controllerrevisions")[0]);
    world.set_image("v2").await;
    world.all_available(1).await;
    world.at_rest().await;
    world.cluster.faults().stall_watches("controllerrevisions");
    world.delete("controllerrevisions", &old).await;
    let limit = json!({"spec": {"revisionHistoryLimit": 0}});
    world.patch("daemonsets", "agent", limit).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.sent("delete", "controllerrevisions"),
        2,
        "one sync for the spec and one for the status; none failed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_a_revision_is_repeated() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    world.set_image("v2").await;
    world.all_available(1).await;
    world.at_rest().await;
    let delete = Matcher::new("delete", "controllerrevisions");
    world.cluster.faults().reject(delete, conflict(), Some(4));
    let limit = json!({"spec": {"revisionHistoryLimit": 0}});
    world.patch("daemonsets", "agent", limit).await;
    let one = |_: &_| world.cluster.objects("controllerrevisions").len() == 1;
    world.until("one revision", one).await;
}
