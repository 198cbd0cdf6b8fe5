//! Tests of the device taint eviction controller: upstream's sequences of events, tables of
//! decisions, and stories against the in-memory API server.

mod decisions;
mod patches;
mod rules;
mod sequences;
mod stories;
mod takeover;

use serde_json::{Value, json};
use steersman_runtime::controller::Descriptor;

use super::DESCRIPTOR;
use crate::testing::world::{World, begin};

const DRIVER: &str = "some-driver";
const NODE: &str = "worker";
const POD: &str = "my-pod";
const CLAIM: &str = "my-pod-my-resource";
const KEY: &str = "example.com/taint";
const VALUE: &str = "something";

/// A slice of the pool `node` with its devices: names and taints.
fn slice(node: &str, devices: &[(&str, Value)]) -> Value {
    let device = |(name, taints): &(&str, Value)| json!({"name": name, "taints": taints});
    let devices: Vec<Value> = devices.iter().map(device).collect();
    let name = format!("{node}-{DRIVER}");
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
        },
    })
}

/// A claim with the device `instance`, used by the pod with this name and UID.
fn claim(name: &str, pod: &str, uid: &str, tolerations: Value) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true});
    let device = json!({
        "request": "req-1", "driver": DRIVER, "pool": NODE, "device": "instance",
        "tolerations": tolerations,
    });
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": "req-1", "exactly": {"deviceClassName": "c"}}]}},
        "status": {
            "allocation": {"devices": {"results": [device]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
        },
    })
}

/// A bound pod that uses a claim by its name.
fn pod(name: &str, uid: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "generation": 1},
        "spec": {
            "nodeName": NODE, "containers": [{"name": "main", "image": "nginx"}],
            "resourceClaims": [{"name": "my-resource", "resourceClaimName": claim}],
            "terminationGracePeriodSeconds": 30,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A taint that evicts pods, added at the start of the test.
fn taint() -> Value {
    json!({"key": KEY, "value": VALUE, "effect": "NoExecute", "timeAdded": begin().to_string()})
}

/// A toleration of all taints, with or without a limit.
fn tolerates(seconds: Option<i64>) -> Value {
    match seconds {
        Some(seconds) => {
            json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
        }
        None => json!({"operator": "Exists", "effect": "NoExecute"}),
    }
}

fn tainted() -> Value {
    slice(NODE, &[("instance", json!([taint()]))])
}

fn untainted() -> Value {
    slice(NODE, &[("instance", json!([]))])
}

/// The tainted device, a claim for it with `tolerations`, and the pod of the claim.
fn in_use(tolerations: Value) -> [Value; 3] {
    [
        tainted(),
        claim(CLAIM, POD, "1234", tolerations),
        pod(POD, "1234", CLAIM),
    ]
}

/// A world with the controller.
struct Evictions(World);

impl Evictions {
    async fn with(objects: &[Value]) -> Self {
        Self::without_controller(objects)
            .await
            .started(&[DESCRIPTOR])
            .await
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

    async fn pass(&self, milliseconds: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
    }

    /// Removes an object at once.
    async fn remove(&self, plural: &str, name: &str) {
        let path = self.0.cluster.path(plural, "default", name);
        let now = json!({"gracePeriodSeconds": 0});
        self.0.cluster.delete_with(&path, now).await.unwrap();
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
            request.user_agent.ends_with(super::NAME) && request.resource != "events"
        });
        own.map(|request| {
            let path = request.path.rsplit("/v1/").next().unwrap();
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
        let text = |event: &Value| {
            format!(
                "{} {} x{}",
                event["involvedObject"]["name"].as_str().unwrap(),
                event["message"].as_str().unwrap(),
                event["count"]
            )
        };
        events.iter().map(text).collect()
    }

    fn count(&self, start: &str) -> usize {
        let requests = self.requests();
        requests
            .iter()
            .filter(|request| request.starts_with(start))
            .count()
    }

    /// The counter of deletions; the number and the sum of their durations.
    fn metrics(&self) -> (f64, u64, f64) {
        let gather = self.0.registry.gather();
        let metric = |name: &str| {
            let name = format!("device_taint_eviction_controller_{name}");
            let family = gather.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].clone()
        };
        let deletions = metric("pod_deletions_total").get_counter().get_value();
        let duration = metric("pod_deletion_duration_seconds");
        let duration = duration.get_histogram();
        (
            deletions,
            duration.get_sample_count(),
            duration.get_sample_sum(),
        )
    }
}
