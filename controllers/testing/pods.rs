//! Builders of pods and nodes.

use serde_json::{Value, json};
use steersman_objects::{Node, Object, Pod};

use super::builder::Builder;
use super::{NAMESPACE, time};

/// Builds a Pod.
pub(crate) type PodBuilder = Builder<Pod>;

/// A running, unscheduled pod without conditions. It has the label `app: web` and was created at
/// second 0.
pub(crate) fn pod(name: &str) -> PodBuilder {
    Builder::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": time(0), "labels": {"app": "web"},
        },
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        "status": {"phase": "Running"},
    }))
}

impl PodBuilder {
    pub(crate) fn uid(self, uid: &str) -> Self {
        self.metadata("uid", uid)
    }

    /// Removes the creation timestamp.
    pub(crate) fn not_created(self) -> Self {
        self.metadata("creationTimestamp", Value::Null)
    }

    /// Sets the deletion timestamp.
    pub(crate) fn deleted(self, second: i64) -> Self {
        self.metadata("deletionTimestamp", time(second))
    }

    /// Replaces the labels.
    pub(crate) fn labels(self, labels: Value) -> Self {
        self.metadata("labels", labels)
    }

    /// Sets the annotation for the deletion cost.
    pub(crate) fn deletion_cost(self, cost: &str) -> Self {
        self.metadata(
            "annotations",
            json!({"controller.kubernetes.io/pod-deletion-cost": cost}),
        )
    }

    /// Sets the node; the empty name means unscheduled.
    pub(crate) fn node(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = json!(node);
        self
    }

    /// Sets the affinity to `node` that the DaemonSet controller gives its pods.
    pub(crate) fn target(mut self, node: &str) -> Self {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        self.0["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            terms;
        self
    }

    pub(crate) fn phase(self, phase: &str) -> Self {
        self.status("phase", phase)
    }

    /// Makes the pod ready since this time.
    pub(crate) fn ready_since(self, second: i64) -> Self {
        self.status(
            "conditions",
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": time(second)}]),
        )
    }

    /// Makes the pod ready without a transition time.
    pub(crate) fn ready_without_time(self) -> Self {
        self.status("conditions", json!([{"type": "Ready", "status": "True"}]))
    }

    /// Makes the pod not ready since second 0.
    pub(crate) fn not_ready(self) -> Self {
        self.status(
            "conditions",
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": time(0)}]),
        )
    }

    /// Sets one container status per restart count.
    pub(crate) fn restarts(self, counts: &[i32]) -> Self {
        let statuses = counts
            .iter()
            .enumerate()
            .map(|(i, n)| json!({"name": format!("c{i}"), "restartCount": n}));
        self.status("containerStatuses", statuses.collect::<Vec<_>>())
    }

    /// Adds a sidecar (a restartable init container) with this restart count.
    pub(crate) fn sidecar_restarts(mut self, count: i32) -> Self {
        self.0["spec"]["initContainers"] = json!([{"name": "sidecar", "restartPolicy": "Always"}]);
        self.status(
            "initContainerStatuses",
            json!([{"name": "sidecar", "restartCount": count}]),
        )
    }
}

/// A node; the pairs are keys and effects of its taints.
pub(crate) fn node(name: &str, ready: bool, taints: &[(&str, &str)]) -> Node {
    let taints: Vec<Value> = taints
        .iter()
        .map(|(key, effect)| json!({"key": key, "effect": effect}))
        .collect();
    let json = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1"},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    Node::decode(json.to_string().as_bytes()).unwrap()
}
