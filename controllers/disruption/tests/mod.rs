//! Tests of the disruption controller against the in-memory API server, without kubelets.

mod budgets;
mod evictions;
mod scales;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::{World, condition_of};

/// Name of the budget and of workloads.
const NAME: &str = "foobar";

/// `disruptionsAllowed`, `currentHealthy`, `desiredHealthy` and `expectedPods`.
type Numbers = [i64; 4];

/// A budget for pods with the label `foo: bar`. `limits` are the fields `minAvailable`,
/// `maxUnavailable` and so on.
fn budget(limits: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": NAME}, "spec": limits,
    });
    if budget["spec"]["selector"].is_null() {
        budget["spec"]["selector"] = json!({"matchLabels": {"foo": "bar"}});
    }
    budget
}

/// A pod on a node without kubelet, with the label `foo: bar`, controlled by `owner`.
fn pod(name: &str, owner: Option<&Value>) -> Value {
    let references: Vec<Value> = owner.into_iter().map(reference).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"foo": "bar"}, "ownerReferences": references},
        "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "nginx"}]},
    })
}

/// The controller reference to `owner`.
pub(super) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true,
    })
}

/// A workload without a running controller.
pub(super) fn workload(kind: &str, replicas: i32) -> Value {
    let labels = json!({"foo": "bar"});
    let (api_version, selector) = match kind {
        "ReplicationController" => ("v1", labels.clone()),
        _ => ("apps/v1", json!({"matchLabels": labels})),
    };
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": NAME},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    if kind == "DaemonSet" {
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("replicas");
    }
    object
}

impl World {
    /// A cluster with the disruption controller.
    async fn with_disruption() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The same with a budget.
    async fn with_budget(limits: Value) -> Self {
        let world = Self::with_disruption().await;
        world.create(budget(limits)).await;
        world
    }

    /// Creates a ready pod.
    async fn run_pod(&self, name: &str, owner: Option<&Value>) {
        self.create(pod(name, owner)).await;
        self.make_ready(name).await;
    }

    /// Makes a pod unready.
    async fn make_unready(&self, name: &str) {
        self.pod_status(name, json!({"conditions": null})).await;
    }

    /// The status of the budget.
    fn budget_status(&self) -> Value {
        let budget = self.find("poddisruptionbudgets", NAME).unwrap();
        budget["status"].clone()
    }

    /// The numbers of the budget once the controller is at rest.
    async fn settled(&self) -> Numbers {
        self.at_rest().await;
        let status = self.budget_status();
        [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ]
        .map(|field| status[field].as_i64().unwrap())
    }

    /// Reasons of the Events about the object `name`.
    async fn budget_reasons(&self, name: &str) -> Vec<String> {
        let events = self.at_rest().await.events_about(name);
        events.into_iter().map(|(reason, _)| reason).collect()
    }

    /// Sends a merge patch for the budget; `part` is empty or `/status`.
    async fn patch_budget(&self, part: &str, changes: Value) {
        let name = format!("{NAME}{part}");
        self.patch("poddisruptionbudgets", &name, changes).await;
    }

    /// Requests of the controller about `resource`, as verb and status code.
    fn sent_to(&self, resource: &str) -> Vec<String> {
        let requests = self.cluster.requests();
        let ours = requests
            .iter()
            .filter(|r| r.user_agent.ends_with("/disruption-controller") && r.resource == resource);
        ours.map(|r| format!("{} {}", r.verb, r.status)).collect()
    }

    /// True if the condition of the budget has this status and reason.
    fn shows(&self, status: &str, reason: &str) -> bool {
        let budget = self.find("poddisruptionbudgets", NAME).unwrap();
        condition_of(&budget, "DisruptionAllowed") == Some((status, reason))
    }
}

const STATUS: &str = "poddisruptionbudgets/status";

#[tokio::test(start_paused = true)]
async fn a_new_budget_without_pods_is_processed_with_one_write() {
    let world = World::with_budget(json!({"minAvailable": 1})).await;
    assert_eq!(world.settled().await, [0, 0, 1, 0]);
    let status = world.budget_status();
    assert_eq!(status["observedGeneration"], 1);
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["message"], &condition["observedGeneration"]),
        (&json!(""), &json!(1))
    );
    assert!(world.shows("False", "InsufficientPods"));
    assert_eq!(world.sent_to(STATUS), ["update 200"]);
    let about = world.state().events_about(NAME);
    let expected = ("NoPods".to_owned(), "No matching pods found".to_owned());
    assert_eq!(about, [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_is_observed() {
    let world = World::with_budget(json!({"minAvailable": 2})).await;
    for name in ["a", "b"] {
        world.run_pod(name, None).await;
    }
    assert_eq!(world.settled().await, [0, 2, 2, 2]);
    world
        .patch_budget("", json!({"spec": {"minAvailable": 1}}))
        .await;
    assert_eq!(world.settled().await, [1, 2, 1, 2]);
    assert_eq!(world.budget_status()["observedGeneration"], 2);
    assert!(world.shows("True", "SufficientPods"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_leaves_a_budget_by_its_labels_no_longer_counts() {
    let world = World::with_budget(json!({"minAvailable": 1})).await;
    for name in ["a", "b"] {
        world.run_pod(name, None).await;
    }
    assert_eq!(world.settled().await, [1, 2, 1, 2]);
    let moved = json!({"metadata": {"labels": {"foo": "other"}}});
    world.patch("pods", "a", moved).await;
    assert_eq!(world.settled().await, [0, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_resized_workload_changes_its_budget_without_an_event_of_its_pods() {
    // (plural, kind)
    let cases = [
        ("replicationcontrollers", "ReplicationController"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
    ];
    for (plural, kind) in cases {
        let world = World::with_budget(json!({"maxUnavailable": 1})).await;
        let owner = world.create(workload(kind, 2)).await;
        for name in ["a", "b"] {
            world.run_pod(name, Some(&owner)).await;
        }
        assert_eq!(world.settled().await, [1, 2, 1, 2], "{kind}");
        world
            .patch(plural, NAME, json!({"spec": {"replicas": 3}}))
            .await;
        assert_eq!(world.settled().await, [0, 2, 2, 3], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_two_budgets_has_an_event_and_counts_for_both() {
    let world = World::with_budget(json!({"minAvailable": 1})).await;
    let mut other = budget(json!({"minAvailable": 0}));
    other["metadata"]["name"] = json!("another");
    world.create(other).await;
    world.run_pod("a", None).await;
    assert_eq!(world.settled().await, [0, 1, 1, 1]);
    let other = world.find("poddisruptionbudgets", "another").unwrap();
    assert_eq!(other["status"]["currentHealthy"], 1);
    let (reason, message) = &world.state().events_about("a")[0];
    assert_eq!(reason, "MultiplePodDisruptionBudgets");
    let expected = "Pod \"default\"/\"a\" matches multiple PodDisruptionBudgets.  Chose \"another\" arbitrarily.";
    assert_eq!(message, expected);
    let error = world.evict("a").await.unwrap_err();
    let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!((error.code(), &*error.to_string()), (Some(500), text));
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_leads_to_zero_disruptions_and_then_to_a_retry() {
    let world = World::with_budget(json!({"minAvailable": 1})).await;
    for name in ["a", "b"] {
        world.run_pod(name, None).await;
    }
    world.at_rest().await;
    let update = Matcher::new("update", "poddisruptionbudgets").subresource("status");
    let rule = world.cluster.faults().reject(
        update.client("disruption-controller"),
        faults::internal_error(),
        Some(1),
    );
    let begin = world.cluster.revision();
    world.run_pod("c", None).await;
    assert_eq!(world.settled().await, [2, 3, 1, 3]);
    assert!(world.shows("True", "SufficientPods"));
    assert_eq!(world.cluster.faults().hits(rule), 1);
    let allowed = |condition: &Value| condition["status"]["disruptionsAllowed"].as_i64();
    let changes = world.cluster.changes(begin).unwrap();
    let mut budgets = changes
        .iter()
        .filter(|(plural, _)| plural == "poddisruptionbudgets")
        .map(|(_, event)| event.object().to_value());
    let failed = budgets.next().unwrap();
    let condition = condition_of(&failed, "DisruptionAllowed");
    assert_eq!(condition, Some(("False", "SyncFailed")));
    assert_eq!(allowed(&failed), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_counted_causes_few_requests() {
    let world = World::with_budget(json!({"maxUnavailable": 1})).await;
    world.at_rest().await;
    let owner = world.create(workload("DaemonSet", 0)).await;
    for name in ["a", "b", "c"] {
        world.run_pod(name, Some(&owner)).await;
    }
    world.at_rest().await;
    assert!(world.shows("False", "SyncFailed"));
    let status = world.budget_status();
    let text = "daemonsets.apps does not implement the scale subresource";
    assert_eq!(status["conditions"][0]["message"], text);
    let written = world.sent_to(STATUS).len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        world.sent_to(STATUS).len(),
        written,
        "silent until an event"
    );
    let error = world.evict("a").await.unwrap_err();
    let status = error.status().unwrap();
    let causes = status.details.as_ref().unwrap().causes.as_ref().unwrap();
    let expected = format!(
        "The disruption budget {NAME} does not allow evicting pods currently because it failed sync: {text}"
    );
    assert_eq!(causes[0].message.as_deref(), Some(&*expected));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_budget_is_forgotten() {
    let world = World::with_budget(json!({"minAvailable": 1})).await;
    world.run_pod("a", None).await;
    world.at_rest().await;
    let written = world.sent_to(STATUS).len();
    world.delete("poddisruptionbudgets", NAME).await;
    world.run_pod("b", None).await;
    world.at_rest().await;
    assert_eq!(world.sent_to(STATUS).len(), written);
    world.evict("a").await.unwrap();
}
