//! Tests of DaemonSets against the in-memory API server. The test itself stands in for a scheduler
//! and kubelets ([`World::kubelets`]).

mod handlers;
mod integration;
mod model;
mod nodes_and_updates;
mod stale;

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::DESCRIPTOR;
use crate::testing::world::World;

/// Long enough for all work without a deadline or back-off.
const A_WHILE: Duration = Duration::from_secs(30);

const REVISION: &str = "controller-revision-hash";

/// The DaemonSet `agent` with this strategy.
fn agent(strategy: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "labels": {"app": "agent"}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "v1"}]},
            },
        },
    })
}

fn on_delete() -> Value {
    json!({"type": "OnDelete"})
}

fn rolling(max_surge: impl Into<Value>, max_unavailable: impl Into<Value>) -> Value {
    let limits = json!({"maxSurge": max_surge.into(), "maxUnavailable": max_unavailable.into()});
    json!({"type": "RollingUpdate", "rollingUpdate": limits})
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn is_active(pod: &Value) -> bool {
    let is_finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    );
    pod["metadata"]["deletionTimestamp"].is_null() && !is_finished
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"].as_array().is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

fn image(pod: &Value) -> String {
    pod["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The node that the affinity of a pod names.
fn target(pod: &Value) -> String {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let value = format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0");
    pod.pointer(&value).unwrap().as_str().unwrap().to_owned()
}

impl World {
    /// A cluster with these nodes and the controller running.
    async fn of_nodes(nodes: &[&str]) -> Self {
        let mut world = Self::bare().await;
        for name in nodes {
            world.create(node(name)).await;
        }
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The same, with the DaemonSet `ds` and its ready pods.
    async fn running(nodes: &[&str], ds: Value) -> Self {
        let world = Self::of_nodes(nodes).await;
        world.create(ds).await;
        world.all_available(nodes.len()).await;
        world
    }

    fn agents(&self) -> Vec<Value> {
        let mut pods = self.cluster.objects("pods");
        pods.retain(|pod| pod["metadata"]["labels"]["app"] == "agent");
        pods
    }

    /// The status of `agent`.
    fn agent_status(&self) -> Value {
        let found = self.find("daemonsets", "agent");
        found.map(|mut ds| ds["status"].take()).unwrap_or_default()
    }

    /// One step of a scheduler and of kubelets: binds pods to the node of their affinity, makes
    /// bound pods ready, and ends terminating ones.
    async fn kubelets(&self) {
        self.bind_pods().await;
        for pod in self.agents() {
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.kill(&name(&pod)).await;
            } else if is_active(&pod) && !is_ready(&pod) && !pod["spec"]["nodeName"].is_null() {
                self.make_ready(&name(&pod)).await;
            }
        }
    }

    async fn bind_pods(&self) {
        for pod in self.agents() {
            let is_bound = !pod["spec"]["nodeName"].is_null();
            if is_active(&pod) && !is_bound && self.find("nodes", &target(&pod)).is_some() {
                self.bind(&name(&pod), &target(&pod)).await;
            }
        }
    }

    /// Lets kubelets work until `holds` is true. Checks `invariant` before each step.
    async fn with_kubelets(
        &self,
        expected: &str,
        holds: impl Fn() -> bool,
        invariant: impl Fn(&[Value]),
    ) {
        for _ in 0..2000 {
            invariant(&self.agents());
            if holds() {
                return;
            }
            self.kubelets().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("timed out waiting for: {expected}: {:#?}", self.agents());
    }

    /// Waits until `count` nodes have an available pod of the current template.
    async fn all_available(&self, count: usize) {
        let holds = || {
            let status = self.agent_status();
            let generation = &self.find("daemonsets", "agent").unwrap()["metadata"]["generation"];
            let number = |field: &str| status[field].as_u64().unwrap_or(0) == count as u64;
            status["observedGeneration"] == *generation
                && [
                    "desiredNumberScheduled",
                    "numberAvailable",
                    "updatedNumberScheduled",
                ]
                .into_iter()
                .all(number)
                && self.agents().len() == count
        };
        let expected = format!("{count} available pods");
        self.with_kubelets(&expected, holds, |_| {}).await;
    }

    async fn set_image(&self, image: &str) {
        let containers = json!([{"name": "main", "image": image}]);
        let template = json!({"spec": {"containers": containers}});
        self.patch(
            "daemonsets",
            "agent",
            json!({"spec": {"template": template}}),
        )
        .await;
    }

    /// Reason and message of the Events about `agent`.
    fn agent_events(&self) -> Vec<(String, String)> {
        self.state().events_about("agent")
    }

    /// The controller's requests so far with this verb and resource.
    fn sent(&self, verb: &str, resource: &str) -> usize {
        let requests = self.cluster.requests();
        let sent = requests.iter().filter(|request| {
            request.verb == verb
                && request.resource == resource
                && request.user_agent.ends_with("daemon-set-controller")
        });
        sent.count()
    }
}

#[tokio::test(start_paused = true)]
async fn each_node_gets_a_pod() {
    let world = World::of_nodes(&["n1", "n2", "n3"]).await;
    let ds = world.create(agent(rolling(0, 1))).await;
    world
        .until("3 pods", |_| {
            world.agents().len() == 3 && world.agent_status()["currentNumberScheduled"] == 3
        })
        .await;
    let revisions = world.cluster.objects("controllerrevisions");
    assert_eq!(revisions.len(), 1);
    let hash = &revisions[0]["metadata"]["labels"][REVISION];
    assert_eq!(
        name(&revisions[0]),
        format!("agent-{}", hash.as_str().unwrap())
    );
    assert_eq!(revisions[0]["revision"], 1);
    let mut nodes = Vec::new();
    for pod in world.agents() {
        let labels = json!({"app": "agent", REVISION: hash, "pod-template-generation": "1"});
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["metadata"]["generateName"], "agent-");
        let reference = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": ds["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(pod["metadata"]["ownerReferences"], reference);
        assert!(pod["spec"]["nodeName"].is_null(), "the scheduler binds it");
        nodes.push(target(&pod));
    }
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    let expected = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberMisscheduled": 0, "numberReady": 0, "numberUnavailable": 3, "observedGeneration": 1});
    assert_eq!(world.agent_status(), expected);
    world.all_available(3).await;
    let expected = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberMisscheduled": 0, "numberReady": 3, "numberAvailable": 3, "observedGeneration": 1});
    assert_eq!(world.agent_status(), expected);
    assert_eq!(
        (
            world.sent("create", "pods"),
            world.sent("create", "controllerrevisions")
        ),
        (3, 1)
    );
    let events = world.agent_events();
    assert!(
        events
            .iter()
            .all(|(reason, _)| reason == "SuccessfulCreate"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn rolling_update_replaces_at_most_max_unavailable_pods_at_once() {
    // (maxUnavailable, unavailable nodes at once)
    for (max_unavailable, limit) in [(json!(1), 1), (json!("50%"), 3)] {
        let nodes = ["n1", "n2", "n3", "n4", "n5"];
        let world = World::running(&nodes, agent(rolling(0, max_unavailable))).await;
        world.set_image("v2").await;
        let available =
            |pods: &[Value]| pods.iter().filter(|p| is_active(p) && is_ready(p)).count();
        let is_updated = || {
            world
                .agents()
                .iter()
                .all(|pod| image(pod) == "v2" && is_ready(pod))
                && world.agents().len() == 5
        };
        world
            .with_kubelets("all updated", is_updated, |pods| {
                assert!(available(pods) >= 5 - limit, "{pods:#?}");
            })
            .await;
        world.all_available(5).await;
        let revisions = world.cluster.objects("controllerrevisions");
        assert_eq!(revisions.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn surge_keeps_an_available_pod_on_each_node() {
    let nodes = ["n1", "n2", "n3"];
    let world = World::running(&nodes, agent(rolling(1, 0))).await;
    world.set_image("v2").await;
    let is_updated =
        || world.agents().len() == 3 && world.agents().iter().all(|pod| image(pod) == "v2");
    world
        .with_kubelets("all updated", is_updated, |pods| {
            for node in nodes {
                let ready = pods
                    .iter()
                    .filter(|p| target(p) == node && is_active(p) && is_ready(p));
                assert!(ready.count() >= 1, "{node}: {pods:#?}");
            }
            let active = pods.iter().filter(|pod| is_active(pod)).count();
            assert!(active <= 4, "one node at a time: {pods:#?}");
        })
        .await;
    world.all_available(3).await;
    assert_eq!(world.sent("delete", "pods"), 3);
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_of_on_delete_get_the_new_template() {
    let world = World::running(&["n1", "n2"], agent(on_delete())).await;
    world.set_image("v2").await;
    world.at_rest().await;
    assert!(world.agents().iter().all(|pod| image(pod) == "v1"));
    assert_eq!(world.agent_status()["updatedNumberScheduled"], Value::Null);
    let first = name(&world.agents()[0]);
    world.delete("pods", &first).await;
    let updated = || {
        world
            .agents()
            .iter()
            .filter(|pod| image(pod) == "v2" && is_ready(pod))
            .count()
    };
    world
        .with_kubelets("one updated pod", || updated() == 1, |_| {})
        .await;
    world.at_rest().await;
    assert_eq!(world.agent_status()["updatedNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn rollback_reuses_the_old_revision_with_a_new_number() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    world.set_image("v2").await;
    world.all_available(1).await;
    world.set_image("v1").await;
    world.all_available(1).await;
    let mut numbers: Vec<_> = world
        .cluster
        .objects("controllerrevisions")
        .iter()
        .map(|revision| revision["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(world.sent("create", "controllerrevisions"), 2);
    assert_eq!(world.sent("update", "controllerrevisions"), 1);
}

#[tokio::test(start_paused = true)]
async fn old_revisions_beyond_the_limit_are_deleted() {
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["revisionHistoryLimit"] = json!(2);
    let world = World::running(&["n1"], ds).await;
    for number in 2..=6 {
        world.set_image(&format!("v{number}")).await;
        world.all_available(1).await;
    }
    world.at_rest().await;
    let revisions = world.cluster.objects("controllerrevisions");
    let mut numbers: Vec<_> = revisions
        .iter()
        .map(|r| r["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_with_back_off() {
    let world = World::of_nodes(&["n1"]).await;
    world.create(agent(rolling(0, 1))).await;
    let start = tokio::time::Instant::now();
    let mut seen = HashSet::new();
    let mut created = Vec::new();
    while start.elapsed() < Duration::from_secs(60) {
        world.bind_pods().await;
        for pod in world.agents() {
            if seen.insert(name(&pod)) {
                created.push(start.elapsed().as_secs());
            }
            if is_active(&pod) && !pod["spec"]["nodeName"].is_null() {
                // The API server removes a deleted pod at once if it has ended.
                world
                    .pod_status(&name(&pod), json!({"phase": "Failed"}))
                    .await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(created, [0, 0, 1, 3, 7, 15, 31], "seconds of the creations");
    let events = world.agent_events();
    let killed = events
        .iter()
        .find(|(reason, _)| reason == "FailedDaemonPod")
        .unwrap();
    assert!(
        killed
            .1
            .starts_with("Found failed daemon pod default/agent-"),
        "{killed:?}"
    );
    assert!(
        killed.1.ends_with(" on node n1, will try to kill it"),
        "{killed:?}"
    );
    assert!(
        world.sent("update", "daemonsets/status") < 40,
        "no hot loop: {:#?}",
        world.writes()
    );
}

#[tokio::test(start_paused = true)]
async fn refused_creations_are_retried_with_back_off() {
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::of_nodes(&names).await;
    let quota = Status::new(
        403,
        "Forbidden",
        "pods \"agent-\" is forbidden: exceeded quota: q",
    );
    let rule = world
        .cluster
        .faults()
        .reject(Matcher::new("create", "pods"), quota, None);
    world.create(agent(rolling(0, 1))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let attempts = world.cluster.faults().hits(rule);
    assert!(
        (5..30).contains(&attempts),
        "one request per attempt: {attempts}"
    );
    let status = world.agent_status();
    assert_eq!(
        (
            &status["desiredNumberScheduled"],
            &status["observedGeneration"]
        ),
        (&json!(10), &json!(1)),
        "the status is written despite the failure"
    );
    let events = world.agent_events();
    let text = "Error creating: pods \"agent-\" is forbidden: exceeded quota: q";
    assert!(
        events.contains(&("FailedCreate".to_owned(), text.to_owned())),
        "{events:?}"
    );
    world.cluster.faults().remove(rule);
    world.all_available(10).await;
}

#[tokio::test(start_paused = true)]
async fn one_sync_creates_at_most_a_burst_of_pods() {
    let names: Vec<String> = (0..300).map(|n| format!("n{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::of_nodes(&names).await;
    world.cluster.faults().stall_watches("pods");
    world.create(agent(rolling(0, 1))).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.agents().len(), 250);
    world.cluster.faults().resume_watches("pods");
    world
        .until("300 pods", |_| world.agents().len() == 300)
        .await;
    world.at_rest().await;
    let mut targets: Vec<String> = world.agents().iter().map(target).collect();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), 300, "one pod per node");
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_node_move_its_pod() {
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let world = World::of_nodes(&["n1", "n2"]).await;
    world.create(ds).await;
    world.at_rest().await;
    assert_eq!(world.agents().len(), 0, "no node has the label");
    let label = |value: Value| json!({"metadata": {"labels": {"disk": value}}});
    let taint =
        |effect: &str| json!({"spec": {"taints": [{"key": "dedicated", "effect": effect}]}});
    world.patch("nodes", "n1", label(json!("ssd"))).await;
    world.all_available(1).await;

    world.patch("nodes", "n1", taint("NoSchedule")).await;
    let misscheduled = |_: &_| world.agent_status()["numberMisscheduled"] == 1;
    world.until("misscheduled", misscheduled).await;
    assert_eq!(world.agents().len(), 1, "the pod stays");
    world
        .patch("nodes", "n1", json!({"spec": {"taints": null}}))
        .await;
    world.all_available(1).await;
    assert_eq!(world.agent_status()["numberMisscheduled"], 0);

    world.patch("nodes", "n1", taint("NoExecute")).await;
    world
        .with_kubelets("no pod", || world.agents().is_empty(), |_| {})
        .await;
    world
        .patch("nodes", "n1", json!({"spec": {"taints": null}}))
        .await;
    world.all_available(1).await;
    world.patch("nodes", "n1", label(Value::Null)).await;
    world
        .with_kubelets("no pod", || world.agents().is_empty(), |_| {})
        .await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_nodes_cause_no_sync() {
    use super::placement::evaluations;
    let world = World::running(&["n1", "n2"], agent(rolling(0, 1))).await;
    world.at_rest().await;
    evaluations::take();
    let condition =
        |n: u32| json!([{"type": "Ready", "status": "True", "reason": format!("r{n}")}]);
    for n in 0..20 {
        let status = json!({"status": {"conditions": condition(n)}});
        world.patch("nodes", "n1/status", status).await;
    }
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(evaluations::take(), 0);
    world
        .patch("nodes", "n1", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        evaluations::take(),
        1,
        "one DaemonSet, which is not concerned"
    );
}

#[tokio::test(start_paused = true)]
async fn unbound_pods_of_deleted_nodes_are_deleted() {
    let world = World::of_nodes(&["n1", "n2"]).await;
    world.create(agent(rolling(0, 1))).await;
    world.until("2 pods", |_| world.agents().len() == 2).await;
    world.delete("nodes", "n2").await;
    world.create(node("n3")).await;
    let targets = || {
        let mut targets: Vec<String> = world.agents().iter().map(target).collect();
        targets.sort();
        targets
    };
    world
        .until("pods of n1 and n3", |_| targets() == ["n1", "n3"])
        .await;
    world.all_available(2).await;
}

#[tokio::test(start_paused = true)]
async fn surplus_pods_of_a_node_are_deleted_except_the_oldest() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let first = name(&world.agents()[0]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut twin = world.agents()[0].clone();
    twin["metadata"] = json!({"name": "twin", "labels": twin["metadata"]["labels"]});
    twin["spec"]["nodeName"] = json!("n1");
    world.create(twin).await;
    world
        .with_kubelets("one pod", || world.agents().len() == 1, |_| {})
        .await;
    assert_eq!(name(&world.agents()[0]), first);
    assert_eq!(world.sent("patch", "pods"), 1, "the orphan is adopted once");
}

#[tokio::test(start_paused = true)]
async fn relabelled_pods_are_released_and_replaced() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let first = name(&world.agents()[0]);
    world
        .patch(
            "pods",
            &first,
            json!({"metadata": {"labels": {"app": "debug"}}}),
        )
        .await;
    world.all_available(1).await;
    let released = world.find("pods", &first).unwrap();
    assert!(
        released["metadata"]["ownerReferences"].is_null(),
        "{released}"
    );
    assert!(is_active(&released));
}

#[tokio::test(start_paused = true)]
async fn a_terminating_daemon_set_does_nothing() {
    let world = World::of_nodes(&["n1"]).await;
    let mut ds = agent(rolling(0, 1));
    ds["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(ds).await;
    world.all_available(1).await;
    world.delete("daemonsets", "agent").await;
    let before = world.writes().len();
    world.create(node("n2")).await;
    world.kill(&name(&world.agents()[0])).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.writes().len(), before, "{:#?}", world.writes());
}

#[tokio::test(start_paused = true)]
async fn an_empty_selector_is_reported_and_nothing_else_happens() {
    let world = World::of_nodes(&["n1"]).await;
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["selector"] = json!({});
    ds["metadata"]["uid"] = json!("u");
    ds["metadata"]["namespace"] = json!("default");
    // The API server refuses such a selector, so this one is put past its validation.
    world.cluster.load(ds).unwrap();
    tokio::time::sleep(A_WHILE).await;
    let text = "This daemon set is selecting all pods. A non-empty selector is required.";
    assert_eq!(
        world.agent_events(),
        [("SelectingAll".to_owned(), text.to_owned())]
    );
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_available_after_min_ready_seconds_without_any_event() {
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["minReadySeconds"] = json!(60);
    let world = World::of_nodes(&["n1"]).await;
    world.create(ds).await;
    let ready = || world.agent_status()["numberReady"] == 1;
    world.with_kubelets("ready", ready, |_| {}).await;
    let start = tokio::time::Instant::now();
    assert_eq!(world.agent_status()["numberUnavailable"], 1);
    let available = |_: &_| world.agent_status()["numberAvailable"] == 1;
    world.until("available", available).await;
    let waited = start.elapsed();
    assert!(
        (Duration::from_secs(58)..Duration::from_secs(62)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut world = World::running(&["n1", "n2"], agent(rolling(0, 1))).await;
    world.set_image("v2").await;
    world.all_available(2).await;
    world.at_rest().await;
    let before = world.cluster.revision();
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.cluster.revision(), before);
}
