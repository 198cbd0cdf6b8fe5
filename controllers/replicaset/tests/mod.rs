//! Tests of ReplicaSets against the in-memory API server, without kubelets: the test itself binds
//! pods and writes their status.

mod invariants;
mod pods;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher, RequestFault};
use steersman_devcluster::status::Status;

use super::DESCRIPTOR;
use crate::testing::gate::ONE_SYNC;
use crate::testing::world::World;

/// Long enough for all work without a deadline or back-off.
const A_WHILE: Duration = Duration::from_secs(30);

fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    })
}

/// A pod with the labels of `web` and without an owner.
fn loose_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    })
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn owner(pod: &Value) -> Option<&str> {
    pod["metadata"]["ownerReferences"][0]["uid"].as_str()
}

fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
}

impl World {
    /// The active pods with the label of `web`.
    fn active_pods(&self) -> Vec<Value> {
        let mut pods = self.cluster.objects("pods");
        pods.retain(|pod| is_active(pod) && pod["metadata"]["labels"]["app"] == "web");
        pods
    }

    fn status(&self) -> Value {
        self.find("replicasets", "web")
            .map(|mut set| set["status"].take())
            .unwrap_or_default()
    }

    fn condition(&self) -> Option<Value> {
        self.status()["conditions"]
            .as_array()?
            .iter()
            .find(|c| c["type"] == "ReplicaFailure")
            .cloned()
    }

    /// Waits until exactly `count` active pods exist and the status reports them.
    async fn settled_at(&self, count: usize) -> Vec<Value> {
        self.until(&format!("{count} pods"), |_| {
            self.active_pods().len() == count && self.status()["replicas"] == json!(count)
        })
        .await;
        self.active_pods()
    }

    async fn scale(&self, replicas: i32) {
        self.patch(
            "replicasets",
            "web",
            json!({"spec": {"replicas": replicas}}),
        )
        .await;
    }

    /// Causes a sync every 30 seconds, for ten minutes. Expectations expire after five minutes.
    async fn keep_touching(&self) {
        for touch in 0..20 {
            self.patch(
                "replicasets",
                "web",
                json!({"metadata": {"annotations": {"touch": touch.to_string()}}}),
            )
            .await;
            tokio::time::sleep(A_WHILE).await;
        }
    }

    /// The number of the controller's requests so far with this verb and last path segment.
    fn requests(&self, verb: &str, last: &str) -> usize {
        let all = self.cluster.requests();
        let sent = all
            .iter()
            .filter(|r| r.verb == verb && r.user_agent.ends_with("replicaset-controller"));
        sent.filter(|r| {
            r.path
                .split('?')
                .next()
                .is_some_and(|path| path.rsplit('/').next() == Some(last))
        })
        .count()
    }
}

/// A cluster with the controller running.
async fn world() -> World {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world
}

/// The same, with the ReplicaSet `web` and all its pods.
async fn world_with(replicas: i32) -> World {
    let world = world().await;
    world.create(web(replicas)).await;
    world.settled_at(usize::try_from(replicas).unwrap()).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_gets_its_pods_and_its_status() {
    let world = world().await;
    let set = world.create(web(3)).await;
    let pods = world.settled_at(3).await;
    for pod in &pods {
        let reference = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(pod["metadata"]["ownerReferences"], reference);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        world.make_ready(&name(pod)).await;
    }
    let expected = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0, "observedGeneration": 1});
    world
        .until("a full status", |_| world.status() == expected)
        .await;
    // The name of an Event contains its time. Of the Events of one instant of paused time, the
    // server accepts only the first.
    let names: Vec<String> = pods
        .iter()
        .map(|pod| format!("Created pod: {}", name(pod)))
        .collect();
    let events = world.cluster.objects("events");
    let created = events
        .iter()
        .find(|e| e["reason"] == "SuccessfulCreate")
        .unwrap();
    assert!(
        names.iter().any(|name| created["message"] == *name),
        "{created}"
    );
    assert_eq!(created["involvedObject"]["uid"], set["metadata"]["uid"]);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.requests("create", "pods"), 3);
}

/// Each step follows its cause at once, also if the sync before took long.
#[tokio::test(start_paused = true)]
async fn a_step_takes_as_long_as_its_request() {
    let world = world_with(1).await;
    let delay = RequestFault::Delay(Duration::from_secs(1));
    world
        .cluster
        .faults()
        .on_request(Matcher::new("create", "pods"), delay, None);
    let began = tokio::time::Instant::now();
    world.scale(2).await;
    world
        .until("2 pods", |_| world.active_pods().len() == 2)
        .await;
    assert_eq!(began.elapsed().as_secs(), 1, "a new size");
    let pod = name(&world.active_pods()[0]);
    world.delete("pods", &pod).await;
    let is_replaced = |_: &_| {
        let pods = world.active_pods();
        pods.len() == 2 && !pods.iter().any(|other| name(other) == pod)
    };
    world.until("a replacement", is_replaced).await;
    assert_eq!(began.elapsed().as_secs(), 2, "a lost pod");
    world.scale(3).await;
    world
        .until("the status", |_| world.status()["replicas"] == 3)
        .await;
    assert_eq!(began.elapsed().as_secs(), 3, "the status");
}

#[tokio::test(start_paused = true)]
async fn bursts_of_a_large_set_follow_each_other_at_once() {
    let world = world().await;
    let delay = RequestFault::Delay(Duration::from_millis(100));
    world
        .cluster
        .faults()
        .on_request(Matcher::new("create", "pods"), delay, None);
    let began = tokio::time::Instant::now();
    world.create(web(1_100)).await;
    world.settled_at(1_100).await;
    // Each burst takes a second, because a step has twice as many requests as the one before.
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_deleted_pod_is_replaced_at_once() {
    let world = world_with(2).await;
    let before = world.active_pods();
    world
        .pod_status(&name(&before[0]), json!({"phase": "Failed"}))
        .await;
    world.delete("pods", &name(&before[1])).await;
    world
        .until("replacements", |_| world.active_pods().len() == 2)
        .await;
    let after = world.active_pods();
    assert!(
        after
            .iter()
            .all(|pod| !before.iter().any(|old| name(old) == name(pod))),
        "both were replaced"
    );
    let failed = world
        .find("pods", &name(&before[0]))
        .expect("a failed pod stays");
    assert!(owner(&failed).is_some(), "a failed pod keeps its owner");
}

#[tokio::test(start_paused = true)]
async fn scaling_down_deletes_unscheduled_unready_and_cheap_pods_first() {
    let world = world_with(4).await;
    let pods: Vec<String> = world.active_pods().iter().map(name).collect();
    for pod in &pods[..3] {
        world.bind(pod, "node-1").await;
    }
    world.make_ready(&pods[0]).await;
    world.make_ready(&pods[2]).await;
    let cheap =
        json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    world.patch("pods", &pods[2], cheap).await;
    world
        .until("2 ready", |_| world.status()["readyReplicas"] == 2)
        .await;
    // First the unscheduled pod, then the unready one, then the one with the lower deletion cost.
    for (replicas, victim) in [(3, 3), (2, 1), (1, 2)] {
        world.scale(replicas).await;
        let left = world.settled_at(usize::try_from(replicas).unwrap()).await;
        assert!(
            !left.iter().any(|pod| name(pod) == pods[victim]),
            "at {replicas}: {left:#?}"
        );
    }
    assert_eq!(name(&world.active_pods()[0]), pods[0]);
    world.scale(0).await;
    world.settled_at(0).await;
}

#[tokio::test(start_paused = true)]
async fn refused_creations_are_retried_with_back_off_and_reported() {
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
    world.create(web(20)).await;
    world
        .until("ReplicaFailure", |_| world.condition().is_some())
        .await;
    let condition = world.condition().unwrap();
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "FailedCreate");
    assert_eq!(
        condition["message"],
        "pods \"web-\" is forbidden: exceeded quota: q"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let sent = world.cluster.faults().hits(rule);
    assert!(
        (5..30).contains(&sent),
        "one request per attempt, with back-off: {sent}"
    );
    assert_eq!(
        world.condition(),
        Some(condition),
        "the condition keeps the first failure"
    );
    world.scale(21).await;
    world
        .until("the generation", |_| {
            world.status()["observedGeneration"] == 2
        })
        .await;

    world.cluster.faults().remove(rule);
    world.settled_at(21).await;
    assert_eq!(world.condition(), None);
    let events = world.cluster.objects("events");
    assert!(
        events
            .iter()
            .any(|e| e["reason"] == "FailedCreate" && e["type"] == "Warning"),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_surplus_ones_are_deleted() {
    let world = world().await;
    for pod in ["a", "b", "c"] {
        world.create(loose_pod(pod)).await;
    }
    let set = world.create(web(2)).await;
    let pods = world.settled_at(2).await;
    for pod in &pods {
        assert_eq!(owner(pod), set["metadata"]["uid"].as_str());
        assert!(["a", "b", "c"].contains(&&*name(pod)));
    }
    assert_eq!(world.requests("create", "pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_relabelled_pod_is_released_and_adopted_again_with_its_old_labels() {
    let world = world_with(1).await;
    let pod = name(&world.active_pods()[0]);
    world
        .patch(
            "pods",
            &pod,
            json!({"metadata": {"labels": {"app": "debug"}}}),
        )
        .await;
    let replacement = world.settled_at(1).await;
    assert_ne!(name(&replacement[0]), pod);
    world
        .until("release", |_| {
            world
                .find("pods", &pod)
                .is_some_and(|pod| owner(&pod).is_none() && is_active(&pod))
        })
        .await;

    world
        .patch(
            "pods",
            &pod,
            json!({"metadata": {"labels": {"app": "web"}}}),
        )
        .await;
    world
        .until("adoption", |_| {
            world
                .find("pods", &pod)
                .is_none_or(|pod| owner(&pod).is_some())
        })
        .await;
    world.settled_at(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_set_does_not_adopt_or_create_pods() {
    let world = world().await;
    let mut set = web(2);
    set["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(set).await;
    let pods = world.settled_at(2).await;
    world.delete("replicasets", "web").await;
    world.kill(&name(&pods[0])).await;
    world.create(loose_pod("orphan")).await;
    world
        .until("a status of 1", |_| world.status()["replicas"] == 1)
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.requests("create", "pods"), 2);
    assert_eq!(owner(&world.find("pods", "orphan").unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_terminating_only_on_the_server_does_not_adopt() {
    let world = world().await;
    let mut set = web(1);
    set["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(set).await;
    world.settled_at(1).await;
    world.cluster.faults().stall_watches("replicasets");
    world.delete("replicasets", "web").await;
    world.create(loose_pod("orphan")).await;
    world
        .until("a live read of the set", |_| {
            world.requests("get", "web") > 0
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(owner(&world.find("pods", "orphan").unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut world = world_with(3).await;
    for pod in &world.active_pods()[1..] {
        world.make_ready(&name(pod)).await;
    }
    world
        .until("2 ready", |_| world.status()["readyReplicas"] == 2)
        .await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.cluster.revision(), before);
}

/// The cache of the new leader lacks the last change of a pod that the status already counts.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_older_cache_of_pods_writes_no_older_status() {
    // (why, last change)
    let changes = [
        (
            "readiness",
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        ("deletion", Value::Null),
    ];
    for (why, change) in changes {
        let mut world = world_with(2).await;
        let pod = name(&world.active_pods()[0]);
        if change.is_null() {
            let finalizers = json!({"metadata": {"finalizers": ["example.com/keep"]}});
            world.patch("pods", &pod, finalizers).await;
            world.delete("pods", &pod).await;
            world.at_rest().await;
        }
        let before = world.cluster.revision();
        if change.is_null() {
            let finalizers = json!({"metadata": {"finalizers": null}});
            world.patch("pods", &pod, finalizers).await;
        } else {
            world.patch("pods", &format!("{pod}/status"), change).await;
        }
        world.at_rest().await;
        let status = world.status();
        let writes = world.writes().len();
        let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.status(), status, "{why}");
        world.cluster.faults().remove(view);
        world.at_rest().await;
        assert_eq!(world.writes()[writes..], [""; 0], "{why}");
        world.make_ready(&name(&world.active_pods()[1])).await;
        world
            .until("the next change is counted", |_| world.status() != status)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_pod_cache_causes_no_duplicate_creations_or_deletions() {
    let world = world().await;
    world.cluster.faults().stall_watches("pods");
    world.create(web(5)).await;
    world
        .until("5 pods", |_| world.active_pods().len() == 5)
        .await;
    // Ten minutes are twice the lifetime of expectations.
    world.keep_touching().await;
    assert_eq!(world.requests("create", "pods"), 5);
    world.cluster.faults().resume_watches("pods");
    world.settled_at(5).await;
    world.scale(3).await;
    world.cluster.faults().stall_watches("pods");
    world
        .until("3 pods", |_| world.active_pods().len() <= 3)
        .await;
    world.keep_touching().await;
    world.cluster.faults().resume_watches("pods");
    world.settled_at(3).await;
    assert_eq!(
        world
            .writes()
            .iter()
            .filter(|write| write.starts_with("delete pods/"))
            .count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_creation_with_unknown_outcome_pods_are_read_from_the_server() {
    let world = world().await;
    let faults = world.cluster.faults();
    faults.stall_watches("pods");
    let timed_out = Status::new(500, "InternalError", "etcdserver: request timed out");
    let rule = faults.reject(Matcher::new("create", "pods"), timed_out, None);
    let set = world.create(web(3)).await;
    world
        .until("an attempt", |_| world.cluster.faults().hits(rule) > 0)
        .await;
    // The failed creations happened nevertheless, and the cache does not show the pods.
    faults.remove(rule);
    for pod in ["web-1", "web-2", "web-3"] {
        let mut body = loose_pod(pod);
        body["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": set["metadata"]["uid"], "controller": true}]);
        world.create(body).await;
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.active_pods().len(),
        3,
        "a stale cache causes no further creation"
    );
    faults.resume_watches("pods");
    world.settled_at(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_the_name_of_a_deleted_one_stays() {
    let world = world_with(1).await;
    let pod = name(&world.active_pods()[0]);
    let faults = world.cluster.faults();
    faults.stall_watches("pods");
    world.kill(&pod).await;
    let mut second = loose_pod(&pod);
    second["metadata"]["labels"] = json!({});
    let second = world.create(second).await;
    world.scale(0).await;
    world
        .until("an attempt to delete", |_| {
            world.requests("delete", &pod) > 0
        })
        .await;
    faults.resume_watches("pods");
    world
        .until("an empty set", |_| world.status()["replicas"] == 0)
        .await;
    let found = world
        .find("pods", &pod)
        .expect("the second pod of that name");
    assert_eq!(found["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(is_active(&found));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_repeated_without_an_event_of_the_pod() {
    let proxy = Status::new(404, "NotFound", "default backend - 404");
    for failure in [faults::conflict(), proxy] {
        let world = world_with(2).await;
        let delete = Matcher::new("delete", "pods");
        world.cluster.faults().reject(delete, failure, Some(4));
        world.scale(1).await;
        world.settled_at(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_counts_as_available_after_min_ready_seconds_without_any_event() {
    let world = world().await;
    let mut set = web(1);
    set["spec"]["minReadySeconds"] = json!(60);
    world.create(set).await;
    let pods = world.settled_at(1).await;
    let start = tokio::time::Instant::now();
    world.make_ready(&name(&pods[0])).await;
    world
        .until("ready", |_| world.status()["readyReplicas"] == 1)
        .await;
    assert!(world.status()["availableReplicas"].is_null());
    world
        .until("available", |_| world.status()["availableReplicas"] == 1)
        .await;
    let waited = start.elapsed();
    assert!(
        (Duration::from_secs(59)..Duration::from_secs(61)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_status_is_written_to_the_live_object() {
    let world = world_with(1).await;
    world.cluster.faults().stall_watches("replicasets");
    // The cached set is outdated after this patch.
    world
        .patch(
            "replicasets",
            "web",
            json!({"metadata": {"annotations": {"kept": "yes"}}}),
        )
        .await;
    let pod = name(&world.active_pods()[0]);
    world.make_ready(&pod).await;
    world
        .until("ready", |_| world.status()["readyReplicas"] == 1)
        .await;
    let set = world.find("replicasets", "web").unwrap();
    assert_eq!(set["metadata"]["annotations"]["kept"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_set_ignores_expectations_of_its_predecessor() {
    let world = world_with(2).await;
    world.cluster.faults().stall_watches("pods");
    world.scale(4).await;
    world
        .until("4 pods", |_| world.active_pods().len() == 4)
        .await;
    world.delete("replicasets", "web").await;
    world.cluster.faults().resume_watches("pods");
    world
        .until("the set gone", |_| {
            world.find("replicasets", "web").is_none()
        })
        .await;
    let second = world.create(web(1)).await;
    // The pods of the first set still have it as their controller.
    let uid = second["metadata"]["uid"].as_str();
    world
        .until("a pod of the second set", |_| {
            world.active_pods().iter().any(|pod| owner(pod) == uid)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_with_fenced_writes_ends_without_a_status_or_event() {
    // (why, desired pods, pods before, fenced writes of one sync)
    let cases = [
        ("creation", 10, 0, 1),
        ("deletion", 1, 3, 2),
        ("status", 3, 3, 1),
    ];
    for (why, desired, existing, refused) in cases {
        let mut world = World::bare().await;
        let gate = world.restart_fenced(&[DESCRIPTOR]).await;
        world.create(web(existing)).await;
        let pods = world.settled_at(usize::try_from(existing).unwrap()).await;
        world.at_rest().await;
        let before = world.state();

        gate.set_open(false);
        if desired == existing {
            world.make_ready(&name(&pods[0])).await;
        } else {
            world.scale(desired).await;
        }
        tokio::time::sleep(ONE_SYNC).await;
        assert_eq!(
            gate.refused(),
            refused,
            "{why}: no status and no Event is sent"
        );
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.state().events.len(), before.events.len(), "{why}");

        // After the gate opens, the retry completes the work.
        gate.set_open(true);
        world.settled_at(usize::try_from(desired).unwrap()).await;
        assert!(world.condition().is_none(), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_adoption_ends_the_sync() {
    let mut world = World::bare().await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    for pod in ["a", "b", "c"] {
        world.create(loose_pod(pod)).await;
    }
    gate.set_open(false);
    world.create(web(3)).await;
    tokio::time::sleep(ONE_SYNC).await;
    assert_eq!(gate.refused(), 1);
    gate.set_open(true);
    world.settled_at(3).await;
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|pod| owner(&world.find("pods", pod).unwrap()).is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_in_another_namespace_with_our_uid_as_controller_is_ignored() {
    let world = world_with(2).await;
    let set = world.find("replicasets", "web").unwrap();
    let mut forged = world.active_pods()[0].clone();
    forged["metadata"]["namespace"] = json!("kube-system");
    forged["metadata"]["name"] = json!("forged");
    forged["metadata"]["uid"] = json!("forged");
    world.cluster.load(forged).unwrap();
    world
        .patch(
            "replicasets",
            "web",
            json!({"metadata": {"annotations": {"touch": "1"}}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.find("replicasets", "web").unwrap()["status"],
        set["status"]
    );
    assert_eq!(
        (
            world.cluster.count("pods"),
            world.requests("delete", "forged")
        ),
        (3, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_watch_never_showed_are_replaced_after_a_relist() {
    let world = world().await;
    world.cluster.faults().stall_watches("pods");
    let set = world.create(web(2)).await;
    world
        .until("2 pods", |_| world.active_pods().len() == 2)
        .await;
    // The stalled watch does not show the creations and deletions. The compaction forces a relist.
    for pod in world.active_pods() {
        world.kill(&name(&pod)).await;
    }
    world.cluster.compact("pods");
    world.cluster.faults().resume_watches("pods");
    world.settled_at(2).await;
    assert_eq!(
        world.find("replicasets", "web").unwrap()["metadata"]["uid"],
        set["metadata"]["uid"]
    );
}
