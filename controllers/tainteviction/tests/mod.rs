//! Tests of the taint eviction controller: tables of decisions, and stories against the in-memory
//! API server.

mod decisions;
mod events;
mod stories;
mod timers;

use serde_json::{Value, json};
use steersman_runtime::controller::Descriptor;

use super::DESCRIPTOR;
use crate::testing::world::World;

/// A NoExecute taint of upstream's tests.
fn taint(index: i32) -> Value {
    json!({"key": format!("testTaint{index}"), "value": format!("test{index}"), "effect": "NoExecute"})
}

/// The toleration of that taint, with or without a limit.
fn toleration(index: i32, seconds: Option<i64>) -> Value {
    let mut toleration = taint(index);
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

/// A running pod; the empty name of a node means unbound.
fn pod(name: &str, node: &str, tolerations: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": {
            "containers": [{"name": "main", "image": "nginx"}], "tolerations": tolerations,
            "terminationGracePeriodSeconds": 30,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn node(name: &str, taints: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A world with the controller.
struct Evictions(World);

impl Evictions {
    async fn with(objects: &[Value]) -> Self {
        let evictions = Self::without_controller(objects).await;
        evictions.started(&[DESCRIPTOR]).await
    }

    async fn without_controller(objects: &[Value]) -> Self {
        let evictions = Self(World::bare().await);
        objects
            .iter()
            .for_each(|object| evictions.load(object.clone()));
        evictions
    }

    async fn started(mut self, controllers: &[Descriptor]) -> Self {
        self.0.restart(controllers).await;
        self
    }

    /// Stores an object, also one that the API server would refuse.
    fn load(&self, object: Value) {
        self.0.cluster.load(object).unwrap();
    }

    async fn set_taints(&self, node: &str, taints: Value) {
        self.0
            .patch("nodes", node, json!({"spec": {"taints": taints}}))
            .await;
    }

    async fn pass(&self, milliseconds: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
    }

    fn pod(&self, name: &str) -> Value {
        let pods = self.0.cluster.objects("pods");
        let found = pods.into_iter().find(|pod| pod["metadata"]["name"] == name);
        found.unwrap_or(Value::Null)
    }

    /// Names of the pods that terminate.
    fn terminating(&self) -> Vec<String> {
        let pods = self.0.cluster.objects("pods");
        let terminating = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        terminating
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Requests of the controller, without lists, watches and Events.
    fn requests(&self) -> Vec<String> {
        let requests = self.0.cluster.requests();
        let own = requests.iter().filter(|request| {
            request.user_agent.ends_with("/node-controller") && request.resource != "events"
        });
        own.map(|request| {
            let path = request.path.trim_start_matches("/api/v1/");
            let path = path.trim_start_matches("namespaces/default/");
            format!("{} {path} {}", request.verb, request.status)
        })
        .collect()
    }

    /// Messages and counts of the Events, in the order of their first occurrence.
    fn events(&self) -> Vec<String> {
        let mut events = self.0.cluster.objects("events");
        events.sort_by_key(|event| {
            let version = event["metadata"]["resourceVersion"].as_str();
            version.and_then(|version| version.parse::<u64>().ok())
        });
        let text =
            |event: &Value| format!("{} x{}", event["message"].as_str().unwrap(), event["count"]);
        events.iter().map(text).collect()
    }

    fn count(&self, start: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.starts_with(start))
            .count()
    }
}
