//! Tests of the attach-detach controller: stories against the in-memory API server, with an attacher
//! that answers when the test tells it to.

mod attach;
mod detach;
mod start;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_runtime::controller::ControllerContext;
use tokio::time::Instant;

use super::{DESCRIPTOR, IDENTITY};
use crate::testing::NAMESPACE;
use crate::testing::world::World;

const DRIVER: &str = "csi.example.com";
const UNIQUE: &str = "kubernetes.io/csi/csi.example.com^vol-1";
/// Limit of each wait, in paused time.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A node with a kubelet that leaves attachments to the controller.
fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A volume with this source that is bound to the claim of its name.
fn volume(name: &str, mode: &str, source: Value) -> Value {
    let mut spec = json!({
        "accessModes": [mode], "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": NAMESPACE, "name": name, "uid": format!("uid-of-claim-{name}")},
    });
    for (kind, source) in source.as_object().into_iter().flatten() {
        spec[kind] = source.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": spec,
        "status": {"phase": "Bound"},
    })
}

/// The volume `pv1` of the CSI driver.
fn csi_volume(mode: &str) -> Value {
    let source = json!({"csi": {"driver": DRIVER, "volumeHandle": "vol-1"}});
    volume("pv1", mode, source)
}

/// The bound claim of the volume `name`.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-claim-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    })
}

/// A running pod on a node with this volume.
fn pod_with(name: &str, node: &str, volume: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
        "spec": {
            "nodeName": node, "containers": [{"name": "main", "image": "i"}], "volumes": [volume],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        },
    })
}

/// A pod with the claim `pv1`.
fn pod(name: &str, node: &str) -> Value {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "pv1"}});
    pod_with(name, node, volume)
}

/// A cluster with the controller.
struct Storage(World);

impl Storage {
    /// Two nodes, the exclusive volume `pv1` with its claim, and `objects`.
    async fn with(objects: &[Value]) -> Self {
        Self::on(&[csi_volume("ReadWriteOnce"), claim("pv1")], objects).await
    }

    async fn on(volumes: &[Value], objects: &[Value]) -> Self {
        let storage = Self::stopped(volumes, objects).await;
        storage.started(|context| context).await
    }

    /// The same, before the controller starts.
    async fn stopped(volumes: &[Value], objects: &[Value]) -> Self {
        let storage = Self(World::bare().await);
        let nodes = [node("n1"), node("n2")];
        for object in nodes.iter().chain(volumes).chain(objects) {
            storage.load(object);
        }
        storage
    }

    async fn started(mut self, configure: impl Fn(ControllerContext) -> ControllerContext) -> Self {
        self.0.restart_with(&[DESCRIPTOR], configure).await;
        self
    }

    /// Stores an object, also one that the API server would refuse.
    fn load(&self, object: &Value) {
        self.0.cluster.load(object.clone()).unwrap();
    }

    fn object(&self, plural: &str, name: &str) -> Value {
        let mut objects = self.0.cluster.objects(plural).into_iter();
        let found = objects.find(|object| object["metadata"]["name"] == name);
        found.unwrap_or(Value::Null)
    }

    async fn until(&self, expected: &str, holds: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(
                Instant::now() < limit,
                "timed out waiting for: {expected}; {:#?}, {:#?}",
                self.requests(),
                self.0.cluster.objects("volumeattachments"),
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The only VolumeAttachment to a node; null without one.
    fn attachment(&self, node: &str) -> Value {
        let attachments = self.0.cluster.objects("volumeattachments");
        let mut of_node = attachments
            .into_iter()
            .filter(|attachment| attachment["spec"]["nodeName"] == node);
        let found = of_node.next().unwrap_or(Value::Null);
        assert!(of_node.next().is_none());
        found
    }

    async fn until_requested(&self, node: &str) {
        let what = format!("a VolumeAttachment to {node}");
        self.until(&what, |storage| storage.attachment(node).is_object())
            .await;
    }

    /// Answers as the attacher of a driver.
    async fn answer(&self, node: &str, status: Value) {
        let attachment = self.attachment(node);
        let name = attachment["metadata"]["name"].as_str().unwrap();
        let path = self.0.cluster.path("volumeattachments", "", name);
        let path = format!("{path}/status");
        self.0
            .cluster
            .patch(&path, json!({"status": status}))
            .await
            .unwrap();
    }

    /// Waits for the attachment to `n`, attaches, and waits for the status of the node.
    async fn attach(&self, node: &str) {
        self.until_requested(node).await;
        self.answer(node, json!({"attached": true})).await;
        self.until("a reported volume", |storage| {
            storage.reported(node) == [UNIQUE]
        })
        .await;
    }

    /// `status.volumesAttached` of a node.
    fn reported(&self, node: &str) -> Vec<String> {
        let node = self.object("nodes", node);
        let volumes = node["status"]["volumesAttached"].as_array();
        let name = |volume: &Value| volume["name"].as_str().unwrap().to_owned();
        volumes.into_iter().flatten().map(name).collect()
    }

    /// Writes `status.volumesInUse` as the kubelet of the node.
    async fn use_volumes(&self, node: &str, volumes: &[&str]) {
        self.patch_status("nodes", "", node, json!({"volumesInUse": volumes}))
            .await;
    }

    async fn patch_status(&self, plural: &str, namespace: &str, name: &str, status: Value) {
        let path = format!("{}/status", self.0.cluster.path(plural, namespace, name));
        self.0
            .cluster
            .patch(&path, json!({"status": status}))
            .await
            .unwrap();
    }

    /// Removes an object at once.
    async fn remove(&self, plural: &str, namespace: &str, name: &str) {
        let path = self.0.cluster.path(plural, namespace, name);
        let now = json!({"gracePeriodSeconds": 0});
        self.0.cluster.delete_with(&path, now).await.unwrap();
    }

    async fn remove_pod(&self, name: &str) {
        self.remove("pods", NAMESPACE, name).await;
    }

    /// Requests of the controller: verb, the last part of the path, status. Events are left out.
    fn requests(&self) -> Vec<String> {
        let requests = self.0.cluster.requests();
        let own = requests.iter().filter(|request| {
            request.user_agent.ends_with(IDENTITY) && request.resource != "events"
        });
        own.map(|request| {
            let path = request.path.rsplit("/v1/").next().unwrap();
            let path = path.split("/csi-").next().unwrap();
            format!("{} {path} {}", request.verb, request.status)
        })
        .collect()
    }

    /// The Events about a pod: reason, message and count.
    fn events(&self, pod: &str) -> Vec<String> {
        let events = self.0.cluster.objects("events");
        let about = events
            .iter()
            .filter(|event| event["involvedObject"]["name"] == pod);
        let text = |event: &Value| {
            let part = |field: &str| event[field].as_str().unwrap().to_owned();
            assert_eq!(event["source"]["component"], IDENTITY);
            format!("{} {} x{}", part("reason"), part("message"), event["count"])
        };
        let mut events: Vec<String> = about.map(text).collect();
        events.sort_unstable();
        events
    }

    async fn until_event(&self, pod: &str, event: &str) {
        self.until(event, |storage| {
            storage.events(pod).iter().any(|found| found == event)
        })
        .await;
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The lines of `/metrics` that start with `family`.
    fn metric(&self, family: &str) -> Vec<String> {
        let families = self.0.registry.gather();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&families)
            .unwrap();
        let lines = text.lines().filter(|line| line.starts_with(family));
        lines.map(str::to_owned).collect()
    }
}
