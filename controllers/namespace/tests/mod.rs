//! Tests of terminating namespaces against the in-memory API server.

mod content;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::Target;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_values::resource::{NAMESPACES, PODS};
use tokio::time::Instant;
use tracing::Level;

use super::DESCRIPTOR;
use crate::testing::log::Log;
use crate::testing::world::{World, condition_of};
use crate::{deployment, replicaset};

const SHOP: &str = "/api/v1/namespaces/shop";
const A_WHILE: Duration = Duration::from_secs(60);

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "finalizers": finalizers},
    })
}

fn pod(name: &str, grace: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"terminationGracePeriodSeconds": grace, "containers": [{"name": "main", "image": "nginx"}]},
    })
}

fn app(kind: &str, replicas: i32, finalizers: &[&str]) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop", "finalizers": finalizers},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    })
}

/// A namespace `shop` and a running controller. The cluster has no node, so pods end only by a
/// request of the test.
async fn world() -> World {
    let mut world = World::bare().await;
    world.create(namespace("shop")).await;
    world.restart(&[DESCRIPTOR]).await;
    // The controller reads discovery once at its start.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world
}

impl World {
    fn shop(&self) -> Option<Value> {
        self.find("namespaces", "shop")
    }

    async fn delete_shop(&self) -> Instant {
        self.cluster.delete(SHOP).await.unwrap();
        Instant::now()
    }

    /// Waits until the namespace is gone. Returns the time since `begin`.
    async fn shop_gone(&self, begin: Instant) -> Duration {
        self.until("the namespace gone", |_| self.shop().is_none())
            .await;
        begin.elapsed()
    }

    /// The message of one condition, if its status is `True`.
    fn failure_message(&self, kind: &str) -> Option<String> {
        let shop = self.shop()?;
        let conditions = shop["status"]["conditions"].as_array()?.clone();
        let found = conditions
            .into_iter()
            .find(|c| c["type"] == kind && c["status"] == "True")?;
        Some(found["message"].as_str()?.to_owned())
    }

    /// True if a pass has written this condition.
    fn has_condition(&self, kind: &str) -> bool {
        self.shop()
            .is_some_and(|shop| condition_of(&shop, kind).is_some())
    }

    /// Waits until the condition is `True`, and returns its message.
    async fn until_condition_is_true(&self, kind: &str) -> String {
        self.until(kind, |_| self.failure_message(kind).is_some())
            .await;
        self.failure_message(kind).unwrap()
    }

    /// Removes the finalizers of an object.
    async fn clear_finalizers_of(&self, plural: &str, name: &str) {
        let path = self.cluster.path(plural, "shop", name);
        self.cluster
            .patch(&path, json!({"metadata": {"finalizers": null}}))
            .await
            .unwrap();
    }

    /// Writes `spec.finalizers` of the namespace.
    async fn finalize(&self, body: Value) {
        let target = Target {
            resource: &NAMESPACES,
            namespace: None,
            name: Some("shop"),
            subresource: Some("finalize"),
        };
        (self.clients)("tester")
            .replace(target, &body)
            .await
            .unwrap();
    }

    /// Verb, path and status code of the controller's requests so far.
    fn controller_requests(&self) -> Vec<String> {
        let requests = self.cluster.requests();
        let ours = requests
            .iter()
            .filter(|r| r.user_agent.ends_with("/namespace-controller"));
        ours.map(|r| {
            format!(
                "{} {} {}",
                r.verb,
                r.path.split('?').next().unwrap_or_default(),
                r.status
            )
        })
        .collect()
    }

    /// The number of the controller's requests that contain `part`.
    fn request_count(&self, part: &str) -> usize {
        self.controller_requests()
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_removed_in_one_pass_after_five_seconds() {
    let world = world().await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.clear_requests();
    let begin = world.delete_shop().await;
    let took = world.shop_gone(begin).await;
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(6)).contains(&took),
        "{took:?}"
    );
    assert_eq!(world.cluster.count("configmaps"), 0);
    let requests = world.controller_requests();
    assert_eq!(
        requests[..6],
        [
            format!("get {SHOP} 200"),
            "get /api 200".to_owned(),
            "get /apis 200".to_owned(),
            format!("list {SHOP}/pods 200"),
            format!("deletecollection {SHOP}/pods 200"),
            format!("list {SHOP}/pods 200"),
        ]
    );
    assert_eq!(
        requests[requests.len() - 2..],
        [
            format!("update {SHOP}/status 200"),
            format!("update {SHOP}/finalize 200")
        ]
    );
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.controller_requests().len(),
        requests.len(),
        "no requests for a removed namespace"
    );
}

#[tokio::test(start_paused = true)]
async fn an_active_namespace_causes_no_requests() {
    let world = world().await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.clear_requests();
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(world.controller_requests(), Vec::<String>::new());
    assert_eq!(world.cluster.count("configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn other_objects_are_deleted_after_all_pods_are_gone() {
    let mut world = world().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
        .await;
    let mut slow = pod("slow", 40);
    slow["spec"]["nodeName"] = json!("n");
    world.cluster.create(slow).await.unwrap();
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.delete_shop().await;
    world
        .until("the pod ends", |_| {
            world.find("pods", "slow").unwrap()["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    assert_eq!(
        world.find("pods", "slow").unwrap()["metadata"]["deletionGracePeriodSeconds"],
        40
    );
    tokio::time::sleep(Duration::from_secs(20)).await;
    let shop = world.shop().unwrap();
    assert_eq!(shop["status"]["conditions"].as_array().unwrap().len(), 5);
    for kind in [
        "NamespaceContentRemaining",
        "NamespaceDeletionContentFailure",
        "NamespaceFinalizersRemaining",
    ] {
        assert_eq!(
            condition_of(&shop, kind).unwrap().0,
            "False",
            "{kind}, as upstream reports while pods remain"
        );
    }
    assert_eq!(
        (
            world.cluster.count("configmaps"),
            world.request_count("configmaps")
        ),
        (1, 0)
    );

    // After its grace period, a remaining pod without a finalizer is reported as a failure.
    let message = world
        .until_condition_is_true("NamespaceDeletionContentFailure")
        .await;
    let expected = "Failed to delete all resource types, 1 remaining: \
                    unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods";
    assert_eq!(message, expected);

    // The manager restarts, and then the test removes the pod in place of a kubelet.
    world.restart(&[DESCRIPTOR]).await;
    let slow = Target {
        resource: &PODS,
        namespace: Some("shop"),
        name: Some("slow"),
        subresource: None,
    };
    (world.clients)("tester")
        .delete(slow, &json!({"gracePeriodSeconds": 0}))
        .await
        .unwrap();
    let took = world.shop_gone(Instant::now()).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(world.cluster.count("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_running_pods_is_removed_after_the_pods_ended() {
    let mut world = World::with(&[DESCRIPTOR]).await;
    world.create(namespace("shop")).await;
    for index in 0..3 {
        world
            .cluster
            .create(pod(&format!("p{index}"), 30))
            .await
            .unwrap();
    }
    world
        .until("running", |state| {
            state
                .pods
                .iter()
                .all(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
    let begin = world.delete_shop().await;
    // The first pass deletes the pods. The second follows 5 s after the first pass's status update.
    let took = world.shop_gone(begin).await;
    assert!(
        (Duration::from_secs(10)..Duration::from_secs(11)).contains(&took),
        "{took:?}"
    );
    assert_eq!(world.cluster.count("pods"), 0);
    world.restart(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn objects_with_finalizers_are_reported_and_delay_the_namespace() {
    let world = world().await;
    world
        .cluster
        .create(app("Deployment", 0, &["custom.io/finalizer"]))
        .await
        .unwrap();
    world
        .cluster
        .create(config_map("a", &["custom.io/finalizer", "b.io/x"]))
        .await
        .unwrap();
    world.cluster.create(config_map("b", &[])).await.unwrap();
    world.delete_shop().await;
    let resources = world
        .until_condition_is_true("NamespaceContentRemaining")
        .await;
    let expected =
        "configmaps. has 1 resource instances, deployments.apps has 1 resource instances";
    assert_eq!(
        resources,
        format!("Some resources are remaining: {expected}")
    );
    let finalizers = world
        .failure_message("NamespaceFinalizersRemaining")
        .unwrap();
    let expected = "b.io/x in 1 resource instances, custom.io/finalizer in 2 resource instances";
    assert_eq!(
        finalizers,
        format!("Some content in the namespace has finalizers remaining: {expected}")
    );
    assert_eq!(
        world.failure_message("NamespaceDeletionContentFailure"),
        None
    );

    // An estimate of 15 s leads to a pass every 8 s. An unchanged status causes no update.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.clear_requests();
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert_eq!(
        (
            world.request_count(&format!("get {SHOP} 200")),
            world.request_count("update")
        ),
        (10, 0)
    );

    world.clear_finalizers_of("deployments", "web").await;
    world.clear_finalizers_of("configmaps", "a").await;
    let took = world.shop_gone(Instant::now()).await;
    assert!(took < Duration::from_secs(9), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_with_failed_discovery_delays_only_the_finalizing() {
    let world = world().await;
    world
        .cluster
        .create(app("ReplicaSet", 0, &[]))
        .await
        .unwrap();
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.cluster.faults().hide_from_discovery("apps");
    world.delete_shop().await;
    let message = world
        .until_condition_is_true("NamespaceDeletionDiscoveryFailure")
        .await;
    let expected = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                    apps/v1: stale GroupVersion discovery: apps/v1";
    assert_eq!(message, expected);
    assert_eq!(
        world.cluster.count("configmaps"),
        0,
        "discovered types are deleted"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.cluster.count("replicasets"),
        1,
        "undiscovered types and the namespace stay"
    );
    assert_eq!(world.request_count("finalize"), 0);
    world.clear_requests();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let passes = world.request_count("get /apis");
    assert!(
        (9..=11).contains(&passes),
        "back-off ends at 60 s: {passes} passes in 10 minutes"
    );

    world.cluster.faults().show_in_discovery("apps");
    let took = world.shop_gone(Instant::now()).await;
    assert!(took <= Duration::from_secs(61), "{took:?}");
    assert_eq!(world.cluster.count("replicasets"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_of_one_type_is_reported_and_the_others_are_deleted() {
    let world = world().await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world
        .cluster
        .create(app("ReplicaSet", 0, &[]))
        .await
        .unwrap();
    let refusal = Status::new(500, "InternalError", "out of order");
    let rule = world.cluster.faults().reject(
        Matcher::new("deletecollection", "configmaps"),
        refusal,
        None,
    );
    world.delete_shop().await;
    let message = world
        .until_condition_is_true("NamespaceDeletionContentFailure")
        .await;
    assert_eq!(
        message,
        "Failed to delete all resource types, 1 remaining: out of order"
    );
    assert_eq!(
        (
            world.cluster.count("replicasets"),
            world.cluster.count("configmaps")
        ),
        (0, 1)
    );
    world.cluster.faults().remove(rule);
    world.shop_gone(Instant::now()).await;
    assert_eq!(world.cluster.count("configmaps"), 0);
}

/// Upstream: `TestDeleteEncounters404`.
#[tokio::test(start_paused = true)]
async fn objects_are_deleted_one_by_one_without_deletecollection_and_skipped_without_list() {
    let world = world().await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.cluster.create(config_map("b", &[])).await.unwrap();
    let faults = world.cluster.faults();
    faults.reject(
        Matcher::new("deletecollection", "configmaps"),
        Status::method_not_allowed(),
        None,
    );
    faults.reject(
        Matcher::new("deletecollection", "secrets"),
        Status::no_such_resource(),
        None,
    );
    faults.reject(
        Matcher::new("list", "secrets"),
        Status::no_such_resource(),
        None,
    );
    world.clear_requests();
    let begin = world.delete_shop().await;
    world.shop_gone(begin).await;
    let maps: Vec<String> = world
        .controller_requests()
        .into_iter()
        .filter(|line| line.contains("configmaps"))
        .collect();
    let expected = [
        format!("deletecollection {SHOP}/configmaps 405"),
        format!("list {SHOP}/configmaps 200"),
        format!("delete {SHOP}/configmaps/a 200"),
        format!("delete {SHOP}/configmaps/b 200"),
        format!("list {SHOP}/configmaps 200"),
    ];
    assert_eq!(maps, expected);
    assert_eq!(
        world.request_count("/secrets 404"),
        3,
        "deletecollection, the list for single deletions, and the final list"
    );
}

#[tokio::test(start_paused = true)]
async fn new_objects_are_refused_and_the_namespace_waits_for_the_last_finalizer() {
    let world = world().await;
    world
        .cluster
        .create(config_map("held", &["a.io/f"]))
        .await
        .unwrap();
    world
        .cluster
        .create(config_map("late", &["a.io/f"]))
        .await
        .unwrap();
    world.delete_shop().await;
    world
        .until_condition_is_true("NamespaceContentRemaining")
        .await;
    world.clear_finalizers_of("configmaps", "held").await;
    let refused = world
        .cluster
        .create(config_map("later", &[]))
        .await
        .unwrap_err();
    assert_eq!(refused.code, 403);
    let message = "configmaps \"later\" is forbidden: unable to create new content in namespace shop because it is being terminated";
    assert_eq!(refused.message, message);
    tokio::time::sleep(A_WHILE).await;
    assert!(
        world.shop().is_some(),
        "the namespace stays while an object remains"
    );
    world.clear_finalizers_of("configmaps", "late").await;
    world.shop_gone(Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_processes_terminating_namespaces() {
    let mut world = world().await;
    world.restart(&[]).await;
    world.delete_shop().await;
    tokio::time::sleep(A_WHILE).await;
    world.restart(&[DESCRIPTOR]).await;
    let took = world.shop_gone(Instant::now()).await;
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(6)).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pass_ends_at_its_first_fenced_write_without_a_status() {
    let mut world = world().await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    gate.set_open(false);
    gate.refused();
    world.delete_shop().await;
    // The first pass comes after five seconds, and the next one three seconds later.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(gate.refused(), 1, "one deletion, no status");
    gate.set_open(true);
    world.shop_gone(Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_other_programs_keep_the_namespace() {
    let world = world().await;
    let extra = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "finalizers": ["meta.io/f"]},
        "spec": {"finalizers": ["kubernetes", "spec.io/f"]},
    });
    world.finalize(extra).await;
    world.delete_shop().await;
    world
        .until("the finalizer kubernetes removed", |_| {
            world.shop().unwrap()["spec"]["finalizers"] == json!(["spec.io/f"])
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert!(world.shop().is_some(), "a finalizer remains in the spec");
    let held = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "finalizers": ["meta.io/f"]}, "spec": {},
    });
    world.finalize(held).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.shop().unwrap()["spec"],
        json!({}),
        "a finalizer remains in the metadata"
    );
    world
        .cluster
        .patch(SHOP, json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    assert!(world.shop().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_namespaces_are_removed_in_parallel() {
    let world = world().await;
    for index in 0..100 {
        world.create(namespace(&format!("n{index}"))).await;
    }
    for index in 0..100 {
        world
            .cluster
            .delete(&format!("/api/v1/namespaces/n{index}"))
            .await
            .unwrap();
    }
    let begin = Instant::now();
    world
        .until("all gone", |_| world.cluster.count("namespaces") == 5)
        .await;
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn workload_controllers_stop_without_events_in_a_terminating_namespace() {
    let mut world = World::with(&[deployment::DESCRIPTOR, replicaset::DESCRIPTOR]).await;
    world.create(namespace("shop")).await;
    world
        .cluster
        .create(app("Deployment", 2, &["a.io/f"]))
        .await
        .unwrap();
    world.until("two pods", |state| state.pods.len() == 2).await;
    world.at_rest().await;
    world.delete_shop().await;
    let before = world.cluster.count("events");

    // The API server refuses the replacement of a lost pod, and the ReplicaSet of a new template.
    let lost = world.cluster.objects("pods")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .cluster
        .delete(&world.cluster.path("pods", "shop", &lost))
        .await
        .unwrap();
    world.until("one pod", |state| state.pods.len() == 1).await;
    let image =
        json!({"spec": {"template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}});
    world
        .cluster
        .patch(&world.cluster.path("deployments", "shop", "web"), image)
        .await
        .unwrap();
    world.at_rest().await;
    assert_eq!(
        (
            world.cluster.count("pods"),
            world.cluster.count("replicasets")
        ),
        (1, 1)
    );
    let refused = world
        .cluster
        .requests()
        .iter()
        .filter(|r| r.verb == "create" && r.status == 403)
        .count();
    assert!(
        (2..=6).contains(&refused),
        "a refused creation is not repeated again and again: {refused}"
    );
    assert_eq!(
        world.cluster.count("events"),
        before,
        "{:#?}",
        world.cluster.objects("events")
    );

    world
        .restart(&[DESCRIPTOR, deployment::DESCRIPTOR, replicaset::DESCRIPTOR])
        .await;
    world
        .until_condition_is_true("NamespaceContentRemaining")
        .await;
    world.clear_finalizers_of("deployments", "web").await;
    world.shop_gone(Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_logged_by_phase() {
    let log = Log::collect();
    let world = world().await;
    world
        .create(config_map("kept", &["example.com/wait"]))
        .await;
    let begin = world.delete_shop().await;
    world
        .until_condition_is_true("NamespaceFinalizersRemaining")
        .await;
    log.assert_has(
        Level::DEBUG,
        &[
            "Deleting all content of namespace",
            "Items remaining in namespace",
        ],
    );
    assert!(!log.at(Level::DEBUG).contains("Namespace has been deleted"));
    let path = format!("{SHOP}/configmaps/kept");
    world
        .cluster
        .patch(&path, json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    world.shop_gone(begin).await;
    log.assert_has(
        Level::DEBUG,
        &["Updated namespace", "Namespace has been deleted"],
    );
}

/// The API server ends requests after a minute. A client with a shorter timeout would repeat the
/// deletion of thousands of pods from the start.
#[tokio::test(start_paused = true)]
async fn a_slow_deletecollection_is_not_cancelled() {
    let world = world().await;
    world.create(pod("a", 0)).await;
    let slow = Duration::from_secs(55);
    world
        .cluster
        .faults()
        .delay(Matcher::new("deletecollection", "pods"), slow, Some(1));
    let begin = world.delete_shop().await;
    assert!(
        world.shop_gone(begin).await > slow,
        "{:#?}",
        world.controller_requests()
    );
    let requests = world.controller_requests();
    let deletions = requests
        .iter()
        .filter(|request| request.starts_with("deletecollection /api/v1/namespaces/shop/pods "))
        .count();
    assert_eq!(deletions, 1, "{requests:#?}");
}
