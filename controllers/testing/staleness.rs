//! Stale caches: an informer lacks the controllers' own writes for minutes.
//!
//! During that time no write is repeated. After the cache has caught up, the controllers complete
//! their work.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::requests::RequestRecord;
use steersman_runtime::controller::Descriptor;
use tokio::time::Instant;

use super::NAMESPACE;
use super::world::World;
use crate::{deployment, podgc, replicaset, replicationcontroller};

/// Time between two changes that trigger a sync.
const A_WHILE: Duration = Duration::from_secs(30);

/// Number of such changes; together they take more than twice the lifetime of expectations.
const TOUCHES: usize = 24;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// A kind that owns pods, and its controller.
struct Kind {
    plural: &'static str,
    controller: Descriptor,
    new: fn(i32) -> Value,
}

const KINDS: [Kind; 2] = [
    Kind {
        plural: "replicasets",
        controller: replicaset::DESCRIPTOR,
        new: |replicas| {
            let selector = json!({"matchLabels": {"app": "web"}});
            let spec =
                json!({"replicas": replicas, "selector": selector, "template": template("one")});
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec})
        },
    },
    Kind {
        plural: "replicationcontrollers",
        controller: replicationcontroller::DESCRIPTOR,
        new: |replicas| {
            let spec = json!({"replicas": replicas, "selector": {"app": "web"}, "template": template("one")});
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec})
        },
    },
];

impl Kind {
    async fn world(&self) -> World {
        let mut world = World::bare().await;
        world.restart(&[self.controller]).await;
        world
    }

    fn status(&self, world: &World) -> Value {
        world.find(self.plural, "web").unwrap()["status"].take()
    }

    async fn settled_at(&self, world: &World, count: usize) {
        let settled =
            |_: &_| active(world).len() == count && self.status(world)["replicas"] == json!(count);
        world
            .until(&format!("{count} pods of {}", self.plural), settled)
            .await;
    }

    /// Whether our metric counts syncs that were skipped because the cache of `resource` was stale.
    /// Upstream's metric must count them too, but only for ReplicaSets.
    fn counts_skips(&self, world: &World, resource: &str) -> bool {
        let by_upstream_metric = counted(
            world,
            "replicaset_controller_stale_sync_skips_total",
            resource,
        );
        assert_eq!(
            by_upstream_metric > 0,
            self.plural == "replicasets",
            "{}: {by_upstream_metric}",
            self.plural
        );
        skips(world, resource) > 0
    }
}

/// The number of syncs skipped because the cache of `resource` was stale.
fn skips(world: &World, resource: &str) -> u64 {
    counted(world, "steersman_own_write_skips_total", resource)
}

/// The sum of a metric family's counters with `resource` as a label value.
fn counted(world: &World, family: &str, resource: &str) -> u64 {
    let families = world.registry.gather();
    let counters = families
        .iter()
        .find(|known| known.name() == family)
        .map(|family| family.get_metric())
        .unwrap_or_default();
    let of_cache = counters.iter().filter(|counter| {
        counter
            .get_label()
            .iter()
            .any(|label| label.value() == resource)
    });
    of_cache
        .map(|counter| counter.get_counter().get_value() as u64)
        .sum()
}

fn active(world: &World) -> Vec<Value> {
    let mut pods = world.cluster.objects("pods");
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// The number of the controllers' requests with this verb and resource, including failed ones.
fn sent(world: &World, verb: &str, resource: &str) -> usize {
    let is_controller = |r: &RequestRecord| {
        r.user_agent.ends_with("-controller") || r.user_agent.ends_with("/pod-garbage-collector")
    };
    world
        .cluster
        .requests()
        .iter()
        .filter(|r| r.verb == verb && r.resource == resource && is_controller(r))
        .count()
}

/// Changes an annotation of an object [`TOUCHES`] times. Each change triggers a sync.
async fn keep_touching(world: &World, plural: &str, name: &str) {
    for touch in 0..TOUCHES {
        world
            .patch(
                plural,
                name,
                json!({"metadata": {"annotations": {"touch": touch.to_string()}}}),
            )
            .await;
        tokio::time::sleep(A_WHILE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_pods_causes_no_duplicate_creations_or_deletions() {
    for kind in KINDS {
        let world = kind.world().await;
        let faults = world.cluster.faults();
        faults.stall_watches("pods");
        world.create((kind.new)(5)).await;
        world.until("5 pods", |_| active(&world).len() == 5).await;
        keep_touching(&world, kind.plural, "web").await;
        assert_eq!(
            (
                sent(&world, "create", "pods"),
                sent(&world, "delete", "pods")
            ),
            (5, 0),
            "{}",
            kind.plural
        );
        assert!(kind.counts_skips(&world, "pods"), "{}", kind.plural);
        faults.resume_watches("pods");
        kind.settled_at(&world, 5).await;
        world.kill(&name(&active(&world)[0])).await;
        world
            .until("a replacement", |_| sent(&world, "create", "pods") == 6)
            .await;
        kind.settled_at(&world, 5).await;

        faults.stall_watches("pods");
        world
            .patch(kind.plural, "web", json!({"spec": {"replicas": 3}}))
            .await;
        world.until("3 pods", |_| active(&world).len() == 3).await;
        keep_touching(&world, kind.plural, "web").await;
        assert_eq!(
            (
                sent(&world, "create", "pods"),
                sent(&world, "delete", "pods")
            ),
            (6, 2),
            "{}",
            kind.plural
        );
        faults.resume_watches("pods");
        kind.settled_at(&world, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_owners_causes_no_duplicate_status_updates() {
    for kind in KINDS {
        let world = kind.world().await;
        world.create((kind.new)(2)).await;
        kind.settled_at(&world, 2).await;
        world.at_rest().await;
        let pods = active(&world);
        let status = format!("{}/status", kind.plural);
        world.cluster.faults().stall_watches(kind.plural);
        let before = sent(&world, "update", &status);
        world.make_ready(&name(&pods[0])).await;
        world
            .until("1 ready", |_| kind.status(&world)["readyReplicas"] == 1)
            .await;
        keep_touching(&world, "pods", &name(&pods[0])).await;
        assert_eq!(
            sent(&world, "update", &status) - before,
            1,
            "{}",
            kind.plural
        );
        assert!(kind.counts_skips(&world, kind.plural), "{}", kind.plural);
        world.make_ready(&name(&pods[1])).await;
        world.cluster.faults().resume_watches(kind.plural);
        world
            .until("2 ready", |_| kind.status(&world)["readyReplicas"] == 2)
            .await;
        assert_eq!(
            (
                sent(&world, "create", "pods"),
                sent(&world, "delete", "pods")
            ),
            (2, 0),
            "{}",
            kind.plural
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_owner_in_a_stale_cache_causes_one_failed_write_per_event() {
    let kinds = KINDS.map(|kind| (kind.plural, kind.controller, (kind.new)(2), "pods"));
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    for (plural, controller, object, below) in
        kinds
            .into_iter()
            .chain([("deployments", deployment::DESCRIPTOR, web, "replicasets")])
    {
        let mut world = World::bare().await;
        world.restart(&[controller]).await;
        world.create(object).await;
        world
            .until("its first dependent", |_| {
                !world.cluster.objects(below).is_empty()
            })
            .await;
        world.at_rest().await;
        world.cluster.faults().stall_watches(plural);
        let background = json!({"propagationPolicy": "Background"});
        world
            .cluster
            .delete_with(&world.cluster.path(plural, NAMESPACE, "web"), background)
            .await
            .unwrap();
        let status = format!("{plural}/status");
        let before = sent(&world, "update", &status);
        let child = name(&world.cluster.objects(below)[0]);
        let changed = if below == "pods" {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        } else {
            json!({"replicas": 1})
        };
        world
            .patch(
                below,
                &format!("{child}/status"),
                json!({"status": changed}),
            )
            .await;
        tokio::time::sleep(10 * A_WHILE).await;
        assert_eq!(sent(&world, "update", &status) - before, 1, "{plural}");
        world.cluster.faults().resume_watches(plural);
        world.at_rest().await;
        assert_eq!(sent(&world, "update", &status) - before, 1, "{plural}");
    }
}

/// The resource version of a creation is unknown if its answer is lost. Only a live read shows the
/// outcome.
#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_pods_are_listed_live_before_the_next_creation() {
    for kind in KINDS {
        let world = kind.world().await;
        let faults = world.cluster.faults();
        faults.stall_watches("pods");
        let lost = faults.on_request(
            Matcher::new("create", "pods"),
            RequestFault::LoseAnswer,
            Some(1),
        );
        world.create((kind.new)(3)).await;
        keep_touching(&world, kind.plural, "web").await;
        assert_eq!(faults.hits(lost), 1, "{}", kind.plural);
        assert_eq!(
            (active(&world).len(), sent(&world, "create", "pods")),
            (1, 1),
            "{}",
            kind.plural
        );
        assert!(
            sent(&world, "list", "pods") > 0,
            "{}: the controller lists pods",
            kind.plural
        );
        faults.resume_watches("pods");
        kind.settled_at(&world, 3).await;
        assert_eq!(sent(&world, "create", "pods"), 3, "{}", kind.plural);
    }
}

/// A live list shows the end of a pod, and no version of its deletion. The list has the version of
/// another type, which the cache of pods reaches with a bookmark.
#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_as_soon_as_its_cache_shows_the_end_of_a_pod() {
    for kind in KINDS {
        let mut world = kind.world().await;
        world.create((kind.new)(2)).await;
        kind.settled_at(&world, 2).await;
        world.restart(&[]).await;
        let before = world.cluster.revision();
        world.kill(&name(&active(&world)[0])).await;
        world
            .patch(kind.plural, "web", json!({"spec": {"replicas": 3}}))
            .await;
        let controllers = [kind.controller];
        let view = world.take_over_behind(&controllers, "pods", before).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(sent(&world, "create", "pods"), 2, "{}", kind.plural);
        assert!(sent(&world, "list", "pods") > 0, "{}", kind.plural);
        world.cluster.faults().remove(view);
        let caught_up = Instant::now();
        kind.settled_at(&world, 3).await;
        let waited = caught_up.elapsed();
        assert!(
            waited < Duration::from_secs(2),
            "{}: {waited:?}",
            kind.plural
        );
    }
}

/// Expectations have expired, and the cache still lacks the pods.
#[tokio::test(start_paused = true)]
async fn after_expectations_expired_pods_are_listed_live_before_the_next_creation() {
    for kind in KINDS {
        let world = kind.world().await;
        let faults = world.cluster.faults();
        faults.stall_watches("pods");
        world.create((kind.new)(2)).await;
        world.until("2 pods", |_| active(&world).len() == 2).await;
        // The stalled watch does not show the creation and deletion of these pods. The compaction
        // removes both from the watch history.
        for pod in active(&world) {
            world.kill(&name(&pod)).await;
        }
        world.cluster.compact("pods");
        faults.resume_watches("pods");
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert_eq!(
            sent(&world, "create", "pods"),
            2,
            "{}: the creations are still expected",
            kind.plural
        );
        let lists = sent(&world, "list", "pods");
        // From now on the cache also lacks writes of other clients.
        faults.stall_watches("pods");
        let mut pod = template("one");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!("created-by-a-user");
        let owner = world.find(kind.plural, "web").unwrap();
        let reference = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "web",
            "uid": owner["metadata"]["uid"], "controller": true}]);
        pod["metadata"]["ownerReferences"] = reference;
        world.create(pod).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(
            sent(&world, "create", "pods"),
            2,
            "{}: the live list shows that the cache is stale",
            kind.plural
        );
        assert_eq!(sent(&world, "list", "pods"), lists + 1, "{}", kind.plural);
        faults.resume_watches("pods");
        kind.settled_at(&world, 2).await;
        assert_eq!(sent(&world, "create", "pods"), 3, "{}", kind.plural);
    }
}

const ROLLOUT: [Descriptor; 2] = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];

fn web(replicas: i32) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": replicas, "selector": selector, "template": template("one"), "revisionHistoryLimit": 0});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

fn is_rolled_out(world: &World, image: &str, replicas: i64) -> bool {
    let state = world.state();
    let status = &state.deployment("web")["status"];
    let all = ["replicas", "updatedReplicas", "availableReplicas"]
        .iter()
        .all(|field| status[field] == replicas);
    all && state
        .with_image(image)
        .any(|rs| rs["status"]["availableReplicas"] == replicas)
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_no_duplicate_writes_of_a_deployment() {
    for stale in ["replicasets", "deployments"] {
        let world = World::with(&ROLLOUT).await;
        world.create(web(4)).await;
        world
            .until("rolled out", |_| is_rolled_out(&world, "one", 4))
            .await;
        world.at_rest().await;
        world.clear_requests();
        let faults = world.cluster.faults();
        let old = name(world.state().replica_set("one"));
        let change = json!({"spec": {"replicas": 5, "template": template("two")}});
        if stale == "replicasets" {
            faults.stall_watches(stale);
            world.patch("deployments", "web", change).await;
            keep_touching(&world, "deployments", "web").await;
            assert_eq!(
                sent(&world, "update", "deployments/status"),
                1,
                "only the report of the created ReplicaSet"
            );
        } else {
            // The controller must see the new template before the watch stalls.
            world.patch("deployments", "web", change).await;
            world
                .until("the new ReplicaSet", |_| {
                    sent(&world, "create", "replicasets") == 1
                })
                .await;
            faults.stall_watches(stale);
            let before = sent(&world, "update", "deployments/status");
            keep_touching(&world, "replicasets", &old).await;
            assert!(
                sent(&world, "update", "deployments/status") <= before + 1,
                "one update, and the next only after the cache shows it"
            );
        }
        assert!(skips(&world, stale) > 0, "{stale}");
        faults.resume_watches(stale);
        world
            .until("rolled out", |_| is_rolled_out(&world, "two", 5))
            .await;
        world.at_rest().await;
        assert_eq!(
            (
                sent(&world, "create", "replicasets"),
                sent(&world, "delete", "replicasets")
            ),
            (1, 1),
            "{stale}"
        );
        assert_eq!(
            world.state().deployment("web")["status"].get("collisionCount"),
            None,
            "{stale}"
        );
    }
}

/// The controller decides by the cache of pods whether all old pods are gone.
#[tokio::test(start_paused = true)]
async fn recreate_creates_no_new_pods_while_the_cache_shows_old_pods() {
    let world = World::with(&ROLLOUT).await;
    let mut d = web(3);
    d["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(d).await;
    world
        .until("rolled out", |_| is_rolled_out(&world, "one", 3))
        .await;
    world.at_rest().await;
    world.clear_requests();
    world.cluster.faults().stall_watches("pods");
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"template": template("two")}}),
        )
        .await;
    world
        .until("deletions", |_| sent(&world, "delete", "pods") == 3)
        .await;
    // The watches of the simulated nodes stall too, so the test removes the pods.
    for pod in world.cluster.objects("pods") {
        world.kill(&name(&pod)).await;
    }
    keep_touching(&world, "deployments", "web").await;
    assert_eq!(
        (
            sent(&world, "create", "replicasets"),
            sent(&world, "create", "pods")
        ),
        (0, 0)
    );
    assert_eq!(sent(&world, "delete", "pods"), 3);
    world.cluster.faults().resume_watches("pods");
    world
        .until("rolled out", |_| is_rolled_out(&world, "two", 3))
        .await;
    world.at_rest().await;
    assert_eq!(
        (
            sent(&world, "create", "replicasets"),
            sent(&world, "create", "pods"),
            sent(&world, "delete", "pods")
        ),
        (1, 3, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_created_by_a_request_without_an_answer_is_used() {
    let world = World::with(&ROLLOUT).await;
    let faults = world.cluster.faults();
    faults.stall_watches("replicasets");
    faults.on_request(
        Matcher::new("create", "replicasets"),
        RequestFault::LoseAnswer,
        Some(1),
    );
    world.create(web(2)).await;
    keep_touching(&world, "deployments", "web").await;
    assert_eq!(
        world.cluster.count("replicasets"),
        1,
        "the name is taken, and the stale cache does not show the ReplicaSet"
    );
    faults.resume_watches("replicasets");
    world
        .until("rolled out", |_| is_rolled_out(&world, "one", 2))
        .await;
    let state = world.at_rest().await;
    assert_eq!(state.replica_sets.len(), 1);
    assert_eq!(
        state.deployment("web")["status"].get("collisionCount"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn the_pod_garbage_collector_removes_each_pod_once() {
    let mut world = World::bare().await;
    let pod = |name: &str, finalizers: Value| {
        let mut pod = template("one");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"] = json!({"name": name, "finalizers": finalizers});
        pod["spec"]["nodeName"] = json!("gone");
        pod
    };
    world.create(pod("orphan", json!([]))).await;
    world.create(pod("held", json!(["example.com/hold"]))).await;
    world.restart(&[podgc::DESCRIPTOR]).await;
    world.cluster.faults().stall_watches("pods");
    tokio::time::sleep(Duration::from_secs(720)).await;
    // One status patch and one deletion for each pod.
    assert_eq!(
        (
            sent(&world, "patch", "pods/status"),
            sent(&world, "delete", "pods")
        ),
        (2, 2)
    );
    let errors = world.registry.gather();
    assert!(
        errors
            .iter()
            .all(|family| family.name() != "pod_gc_collector_force_delete_pod_errors_total"),
        "{errors:?}"
    );
    world.cluster.faults().resume_watches("pods");
    world.a_minute().await;
    assert_eq!(
        (
            sent(&world, "patch", "pods/status"),
            sent(&world, "delete", "pods")
        ),
        (2, 2),
        "the held pod has failed already, and only waits for its finalizer"
    );
}

/// The previous leader created a ReplicaSet for another template just before its end. The cache of
/// the new leader lacks it.
#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_replica_sets_live_before_a_rollout() {
    for strategy in ["RollingUpdate", "Recreate"] {
        let mut world = World::with(&ROLLOUT).await;
        let mut d = web(4);
        d["spec"]["strategy"] = json!({"type": strategy});
        world.create(d).await;
        world
            .until("rolled out", |_| is_rolled_out(&world, "one", 4))
            .await;
        world.at_rest().await;
        // The term begins at a resource version that no cache reaches.
        let term_start_rv = world.cluster.revision() + 1_000_000;
        world
            .restart_with(&ROLLOUT, |mut context| {
                context.term_start_rv = term_start_rv;
                context
            })
            .await;
        world.cluster.faults().stall_watches("replicasets");
        let mut between = world.state().replica_set("one").clone();
        between["metadata"]["name"] = json!("web-between");
        between["metadata"]["uid"] = json!("between");
        let labels = json!({"app": "web", "pod-template-hash": "between"});
        between["metadata"]["labels"] = labels.clone();
        between["spec"]["selector"]["matchLabels"] = labels.clone();
        between["spec"]["template"] = template("two");
        between["spec"]["template"]["metadata"]["labels"] = labels;
        between["spec"]["replicas"] = json!(1);
        between["status"] = json!({"replicas": 0});
        world.cluster.load(between).unwrap();
        world.clear_requests();
        let change = json!({"spec": {"replicas": 5, "template": template("three")}});
        world.patch("deployments", "web", change).await;
        keep_touching(&world, "deployments", "web").await;
        assert!(
            sent(&world, "list", "replicasets") > 0,
            "{strategy}: the controller lists ReplicaSets"
        );
        let writes = ["create", "update"].map(|verb| sent(&world, verb, "replicasets"));
        assert_eq!(writes, [0, 0], "{strategy}: {:?}", world.writes());

        world.cluster.faults().resume_watches("replicasets");
        world
            .until("rolled out", |_| is_rolled_out(&world, "three", 5))
            .await;
        let state = world.at_rest().await;
        assert_eq!(state.pods.len(), 5, "{strategy}");
    }
}
