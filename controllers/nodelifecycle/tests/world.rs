//! Kubelets for stories: they renew Leases and post statuses, until a story stops them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_options::features::{self, FeatureGates};
use steersman_runtime::controller::{ControllerContext, Descriptor};

use super::super::DESCRIPTOR;
use super::condition;
use crate::testing::world::World;

/// Period of the renewal of Leases.
const RENEWAL: Duration = Duration::from_secs(10);

/// Half seconds of each wait.
const LIMIT: u32 = 1000;

/// A world with kubelets.
pub(super) struct Kubelets {
    pub(super) world: World,
    alive: Arc<Mutex<BTreeSet<String>>>,
}

impl Kubelets {
    /// Ready nodes in these zones, called `n0`, `n1` and so on, and the controller.
    pub(super) async fn with(zones: &[&str]) -> Self {
        let mut kubelets = Self::without_controllers(zones).await;
        kubelets.world.restart(&[DESCRIPTOR]).await;
        kubelets
    }

    pub(super) async fn without_controllers(zones: &[&str]) -> Self {
        let world = World::bare().await;
        let alive = Arc::<Mutex<BTreeSet<String>>>::default();
        let renewing = Arc::clone(&alive);
        let cluster = world.cluster.clone();
        let clock = world.clock.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                let names = renewing.lock().clone();
                for name in names {
                    let renewed = json!({"spec": {"renewTime": micro(clock.now())}});
                    let path = cluster.path("leases", "kube-node-lease", &name);
                    cluster.patch(&path, renewed).await.unwrap();
                }
            }
        });
        let kubelets = Self { world, alive };
        for (index, zone) in zones.iter().enumerate() {
            kubelets.start(&format!("n{index}"), zone).await;
        }
        kubelets
    }

    /// The same with this state of the gate `NodeControllerLeaseCircuitBreaker`.
    pub(super) async fn with_breaker(zones: &[&str], is_on: bool) -> Self {
        let mut kubelets = Self::without_controllers(zones).await;
        let gate = features::NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER;
        let set = move |name: &str| is_on && name == gate.name;
        let with_gate = |mut context: ControllerContext| {
            context.features = FeatureGates::new(set);
            context
        };
        kubelets.world.restart_with(&[DESCRIPTOR], with_gate).await;
        kubelets
    }

    /// Registers a node with a kubelet.
    pub(super) async fn start(&self, name: &str, zone: &str) {
        let mut node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}}});
        if !zone.is_empty() {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        }
        self.world.create(node).await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "renewTime": micro(self.world.clock.now())},
        });
        self.world.create(lease).await;
        self.revive(name, "True").await;
    }

    /// The kubelet of the node falls silent.
    pub(super) fn kill(&self, name: &str) {
        self.alive.lock().remove(name);
    }

    /// The kubelet renews its Lease again, without posting its status.
    pub(super) fn renew(&self, name: &str) {
        self.alive.lock().insert(name.to_owned());
    }

    /// The kubelet lives and posts this status.
    pub(super) async fn revive(&self, name: &str, status: &str) {
        self.renew(name);
        self.post(name, status).await;
    }

    /// Posts a status with this `Ready` condition.
    pub(super) async fn post(&self, name: &str, status: &str) {
        let now = self.world.clock.now_seconds().to_string();
        let conditions: Value = [
            condition("MemoryPressure", "False", &now),
            condition("DiskPressure", "False", &now),
            condition("PIDPressure", "False", &now),
            condition("Ready", status, &now),
        ]
        .into_iter()
        .collect();
        let status = json!({"status": {"conditions": conditions}});
        self.world
            .patch("nodes", &format!("{name}/status"), status)
            .await;
    }

    /// Creates a ready pod on the node.
    pub(super) async fn pod(&self, name: &str, node: &str) {
        self.pod_with(name, node, json!({})).await;
    }

    /// The same with further fields of the spec.
    pub(super) async fn pod_with(&self, name: &str, node: &str, spec: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx"}]},
        });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        self.world.create(pod).await;
        let now = self.world.clock.now_seconds().to_string();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        self.world
            .patch("pods", &format!("{name}/status"), status)
            .await;
    }

    pub(super) fn object(&self, plural: &str, name: &str) -> Value {
        let objects = self.world.cluster.objects(plural);
        let found = objects.into_iter().find(|o| o["metadata"]["name"] == name);
        found.unwrap_or(Value::Null)
    }

    /// Taints of the node as `key:effect`, without the prefix of the keys, sorted.
    pub(super) fn taints(&self, node: &str) -> Vec<String> {
        let node = self.object("nodes", node);
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |taint: &Value| {
            let key = taint["key"].as_str().unwrap();
            let key = key.trim_start_matches("node.kubernetes.io/");
            format!("{key}:{}", taint["effect"].as_str().unwrap())
        };
        let mut taints: Vec<String> = taints.iter().map(text).collect();
        taints.sort();
        taints
    }

    /// Status of the `Ready` condition; empty when missing.
    pub(super) fn ready(&self, plural: &str, name: &str) -> String {
        let object = self.object(plural, name);
        let conditions = object["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        ready.map_or(String::new(), |ready| {
            ready["status"].as_str().unwrap().to_owned()
        })
    }

    /// Type, reason, object and message of all Events, sorted.
    pub(super) fn events(&self, reason: &str) -> Vec<String> {
        let events = self.world.cluster.objects("events");
        let text = |event: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = &event["involvedObject"];
            format!(
                "{} {} {}: {}",
                text(&event["type"]),
                text(&object["kind"]),
                text(&object["name"]),
                text(&event["message"]),
            )
        };
        let found = events.iter().filter(|event| event["reason"] == reason);
        let mut found: Vec<String> = found.map(text).collect();
        found.sort();
        found
    }

    /// Requests of the controller so far, without lists, watches and Events.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.world.cluster.requests();
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

    pub(super) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(super) async fn until(&self, expected: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..LIMIT {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("timed out waiting for: {expected}: {:#?}", self.requests());
    }

    pub(super) async fn restart(&mut self, controllers: &[Descriptor]) {
        self.world.restart(controllers).await;
    }
}

/// A `MicroTime`.
fn micro(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
