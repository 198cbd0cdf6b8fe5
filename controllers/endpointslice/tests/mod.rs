//! Tests of the EndpointSlice controller: upstream's computed cases, and whole syncs against the
//! in-memory API server without kubelets.

mod batching;
mod cases;
mod new_leader;
mod slices;
mod takeover;
mod topology;

use serde_json::{Value, json};
use steersman_helpers::endpointslice::{MANAGED_BY, SERVICE_NAME, TRIGGER_TIME};

use super::{DESCRIPTOR, MANAGER};
use crate::testing::world::World;

/// Name of the Service.
const NAME: &str = "web";

/// A Service with the selector `app: web` and one port. `spec` replaces fields of its spec.
fn service(spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

/// A ready node with CPU.
fn node(name: &str, zone: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A pod on `node`, with the label `app: web`.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "nginx"}]},
    })
}

impl World {
    /// A cluster with the controller and one node.
    async fn with_slices() -> Self {
        let mut world = Self::bare().await;
        world.cluster.load(node("node", "a", "4")).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The same with a Service.
    async fn with_service(spec: Value) -> Self {
        let world = Self::with_slices().await;
        world.create(service(spec)).await;
        world.at_rest().await;
        world
    }

    /// Creates a pod with an address.
    async fn start_pod(&self, name: &str, node: &str, ip: &str) {
        self.create(pod(name, node)).await;
        let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]});
        self.pod_status(name, status).await;
    }

    /// Creates a ready pod with an address.
    async fn run_pod_at(&self, name: &str, node: &str, ip: &str) {
        self.start_pod(name, node, ip).await;
        self.make_ready(name).await;
    }

    /// The slices of the controller, by name.
    fn slices(&self) -> Vec<Value> {
        let mut slices = self.cluster.objects("endpointslices");
        slices.retain(|slice| slice["metadata"]["labels"][MANAGED_BY] == MANAGER);
        slices.sort_by_key(|slice| slice["metadata"]["name"].to_string());
        slices
    }

    /// The only slice.
    fn slice(&self) -> Value {
        let slices = self.slices();
        assert_eq!(slices.len(), 1, "{slices:#?}");
        slices[0].clone()
    }

    /// Addresses, conditions and zones of all endpoints, sorted, as `10.0.0.1 ready serving a`.
    fn endpoints(&self) -> Vec<String> {
        let slices = self.slices();
        let endpoints = slices.iter().flat_map(endpoints_of);
        let mut texts: Vec<String> = endpoints
            .map(|endpoint| {
                let mut text = endpoint["addresses"][0].as_str().unwrap().to_owned();
                for condition in ["ready", "serving", "terminating"] {
                    if endpoint["conditions"][condition] == true {
                        text = format!("{text} {condition}");
                    }
                }
                text
            })
            .collect();
        texts.sort();
        texts
    }

    /// Verb and status code of the writes of slices so far.
    fn slice_writes(&self) -> Vec<String> {
        let writes = self.writes();
        let writes = writes.iter().map(|write| {
            let words: Vec<&str> = write.split(' ').collect();
            format!("{} {}", words[0], words[words.len() - 1])
        });
        writes.collect()
    }

    /// The slice writes during `action`, until the controller is at rest.
    async fn writes_of(&self, action: impl Future<Output = ()>) -> Vec<String> {
        let before = self.slice_writes().len();
        action.await;
        self.at_rest().await;
        self.slice_writes().split_off(before)
    }

    /// Reasons and messages of the Events about the Service.
    async fn service_events(&self) -> Vec<(String, String)> {
        self.at_rest().await.events_about(NAME)
    }
}

fn endpoints_of(slice: &Value) -> Vec<Value> {
    slice["endpoints"].as_array().cloned().unwrap_or_default()
}

fn trigger_time(slice: &Value) -> Option<&str> {
    slice["metadata"]["annotations"][TRIGGER_TIME].as_str()
}

fn service_name(slice: &Value) -> &Value {
    &slice["metadata"]["labels"][SERVICE_NAME]
}
