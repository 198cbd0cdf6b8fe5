//! Tests of the pod garbage collector against the in-memory API server, without kubelets.

mod collections;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_runtime::controller::ControllerContext;

use super::DESCRIPTOR;
use crate::testing::world::World;

/// Longer than the quarantine and two cycles.
const LONG: Duration = Duration::from_secs(90);

/// The time of three cycles.
const A_MINUTE: Duration = Duration::from_secs(60);

fn pod(name: &str, node: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

impl World {
    fn exists(&self, pod: &str) -> bool {
        self.find("pods", pod).is_some()
    }

    /// Waits until the pod is removed. Returns the time that this took.
    async fn until_removed(&self, pod: &str) -> Duration {
        let start = tokio::time::Instant::now();
        self.until(&format!("{pod} removed"), |_| !self.exists(pod))
            .await;
        start.elapsed()
    }

    /// The value of a counter for one reason, over all namespaces.
    fn counted(&self, family: &str, reason: &str) -> u64 {
        let families = self.registry.gather();
        let found = families.iter().find(|f| f.name() == family);
        let metrics = found.map(|f| f.get_metric()).unwrap_or_default();
        let of_reason = metrics
            .iter()
            .filter(|m| m.get_label().iter().any(|l| l.value() == reason));
        of_reason.map(|m| m.get_counter().get_value() as u64).sum()
    }

    fn deleted(&self, reason: &str) -> u64 {
        self.counted("pod_gc_collector_force_delete_pods_total", reason)
    }

    fn failed(&self, reason: &str) -> u64 {
        self.counted("pod_gc_collector_force_delete_pod_errors_total", reason)
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_failed_and_removed_after_the_quarantine() {
    let mut world = World::bare().await;
    world.create(node("here")).await;
    world.restart(&[DESCRIPTOR]).await;
    world.create(pod("kept", "here")).await;
    let mut held = pod("held", "nowhere");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(held).await;
    world.create(pod("orphan", "nowhere")).await;
    let waited = world.until_removed("orphan").await;
    assert!(
        (Duration::from_secs(40)..Duration::from_secs(81)).contains(&waited),
        "{waited:?}"
    );
    let held = world.find("pods", "held").unwrap();
    assert_eq!(held["status"]["phase"], "Failed");
    let conditions = held["status"]["conditions"].as_array().unwrap();
    let condition = conditions
        .iter()
        .find(|c| c["type"] == "DisruptionTarget")
        .unwrap();
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "DeletionByPodGC");
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert!(world.exists("kept"));
    assert_eq!(
        (world.deleted("orphaned"), world.failed("orphaned")),
        (2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn pods_stay_if_only_the_cache_lacks_their_node() {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world.cluster.faults().stall_watches("nodes");
    world.create(node("new")).await;
    world.create(pod("kept", "new")).await;
    tokio::time::sleep(LONG).await;
    assert!(world.exists("kept"));
    let reads = world
        .cluster
        .requests()
        .iter()
        .filter(|r| r.path == "/api/v1/nodes/new")
        .count();
    assert!(reads > 0, "the controller reads the node");
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn pods_stay_if_only_a_proxy_answers_about_their_node() {
    let mut world = World::bare().await;
    let page = Status::new(404, "NotFound", "404 page not found");
    let reads = Matcher::new("get", "nodes");
    let rule = world.cluster.faults().reject(reads, page, None);
    world.restart(&[DESCRIPTOR]).await;
    world.create(pod("kept", "gone")).await;
    tokio::time::sleep(LONG).await;
    assert!(world.cluster.faults().hits(rule) > 0, "the node is read");
    assert!(world.exists("kept"));
    world.cluster.faults().remove(rule);
    world.until_removed("kept").await;
}

#[tokio::test(start_paused = true)]
async fn pods_stay_if_their_node_appears_during_the_quarantine() {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world.create(pod("kept", "late")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.create(node("late")).await;
    tokio::time::sleep(LONG).await;
    assert!(world.exists("kept"));
}

#[tokio::test(start_paused = true)]
async fn finished_pods_beyond_the_threshold_are_removed_evicted_ones_first() {
    let mut world = World::bare().await;
    world.create(node("n")).await;
    let pods = [
        ("p0", json!({"phase": "Succeeded"})),
        ("p1", json!({"phase": "Failed"})),
        ("p2", json!({"phase": "Failed", "reason": "Evicted"})),
        ("p3", json!({"phase": "Succeeded"})),
        ("p4", json!({"phase": "Failed"})),
        ("running", json!({"phase": "Running"})),
    ];
    for (name, status) in &pods {
        world.create(pod(name, "n")).await;
        world.pod_status(name, status.clone()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let keep_three =
        |context: ControllerContext| context.with_flag("terminated-pod-gc-threshold", "3");
    world.restart_with(&[DESCRIPTOR], keep_three).await;
    world.until_removed("p2").await;
    world.until_removed("p0").await;
    tokio::time::sleep(A_MINUTE).await;
    assert_eq!(world.cluster.count("pods"), 4);
    assert_eq!(
        (world.deleted("terminated"), world.failed("terminated")),
        (2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_that_was_never_bound_is_failed_and_removed() {
    let mut world = World::bare().await;
    let mut held = pod("held", "");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(held).await;
    world.delete("pods", "held").await;
    world.restart(&[DESCRIPTOR]).await;
    let held = || world.find("pods", "held").unwrap();
    world
        .until("phase Failed", |_| held()["status"]["phase"] == "Failed")
        .await;
    let held = held();
    let conditions = held["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        conditions.iter().all(|c| c["type"] != "DisruptionTarget"),
        "its deletion is no disruption"
    );
    tokio::time::sleep(A_MINUTE).await;
    assert!(
        world.deleted("unscheduled") >= 3,
        "the removal is repeated in each cycle"
    );
    assert_eq!(world.failed("unscheduled"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_on_a_node_out_of_service_is_removed() {
    let mut world = World::bare().await;
    let mut down = node("down");
    down["spec"]["taints"] = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    world.create(down).await;
    for name in ["going", "staying"] {
        world.create(pod(name, "down")).await;
        world.pod_status(name, json!({"phase": "Running"})).await;
    }
    world.delete("pods", "going").await;
    assert!(world.exists("going"), "a bound pod waits for its kubelet");
    world.restart(&[DESCRIPTOR]).await;
    world.until_removed("going").await;
    tokio::time::sleep(A_MINUTE).await;
    assert!(world.exists("staying"));
    assert_eq!(
        (
            world.deleted("out-of-service"),
            world.failed("out-of-service")
        ),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_the_name_of_an_orphan_stays() {
    let mut world = World::bare().await;
    world.create(node("here")).await;
    for (name, phase) in [("running", "Running"), ("finished", "Succeeded")] {
        world.create(pod(name, "nowhere")).await;
        world.pod_status(name, json!({"phase": phase})).await;
    }
    world.restart(&[DESCRIPTOR]).await;
    world.cluster.faults().stall_watches("pods");
    for name in ["running", "finished"] {
        world.kill(name).await;
        world.create(pod(name, "here")).await;
    }
    tokio::time::sleep(LONG).await;
    for name in ["running", "finished"] {
        let found = world
            .find("pods", name)
            .expect("the second pod of that name");
        assert!(found["metadata"]["deletionTimestamp"].is_null());
        assert_ne!(found["status"]["phase"], "Failed");
    }
    assert_eq!(
        world.failed("orphaned"),
        world.deleted("orphaned"),
        "every attempt fails"
    );
    assert!(world.failed("orphaned") >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_removal_counts_as_no_attempt() {
    let mut world = World::bare().await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    gate.set_open(false);
    world.create(pod("lost", "gone")).await;
    tokio::time::sleep(LONG).await;
    assert!(gate.refused() > 0 && world.exists("lost"));
    let counts = |registry: &prometheus::Registry| {
        let families = registry.gather();
        let found = families
            .iter()
            .filter(|family| family.name().starts_with("pod_gc_collector_force_delete"));
        found.map(|family| family.get_metric().len()).sum::<usize>()
    };
    assert_eq!(counts(&world.registry), 0, "the metrics count no attempt");
    gate.set_open(true);
    world.until_removed("lost").await;
    assert_eq!(counts(&world.registry), 1);
}

/// kubernetes/kubernetes#141190
#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_finalizers_are_deleted_once_and_hide_no_others() {
    let mut world = World::bare().await;
    let finished = |name: String, second: i64, finalizers: Value| {
        let mut pod = pod(&name, "node");
        pod["metadata"]["namespace"] = json!("default");
        pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
        pod["metadata"]["creationTimestamp"] = json!(crate::testing::time(second));
        pod["metadata"]["finalizers"] = finalizers;
        pod["status"]["phase"] = json!("Succeeded");
        pod
    };
    world.create(node("node")).await;
    let held = (0..5).map(|n| finished(format!("held-{n}"), 100 + n, json!(["example.com/hold"])));
    let newer = (0..4).map(|n| finished(format!("newer-{n}"), 200 + n, json!([])));
    for pod in held.chain(newer) {
        world.cluster.load(pod).unwrap();
    }
    let threshold =
        |context: ControllerContext| context.with_flag("terminated-pod-gc-threshold", "3");
    world.restart_with(&[DESCRIPTOR], threshold).await;
    tokio::time::sleep(5 * A_MINUTE).await;
    let deletions = || world.writes_by(super::IDENTITY);
    // The nine pods are six too many: the five oldest, and one more.
    assert_eq!(deletions().len(), 6, "{:#?}", deletions());
    let kept = |name: &str| {
        (0..4)
            .filter(|n| world.exists(&format!("{name}-{n}")))
            .count()
    };
    assert_eq!(kept("newer"), 3);

    // The pods that still wait take no place of the three.
    world
        .cluster
        .load(finished("newest".to_owned(), 300, json!([])))
        .unwrap();
    tokio::time::sleep(5 * A_MINUTE).await;
    assert_eq!(deletions().len(), 7, "{:#?}", deletions());
    assert_eq!(kept("newer"), 2);
    assert!(world.exists("newest"));
}
