//! Actions of schedulers and kubelets, for tests without simulated nodes.

use serde_json::{Value, json};
use steersman_client::Target;
use steersman_values::resource::PODS;

use super::NAMESPACE;
use super::world::World;

impl World {
    /// The object of this name, if it exists.
    pub(crate) fn find(&self, plural: &str, name: &str) -> Option<Value> {
        self.cluster
            .objects(plural)
            .into_iter()
            .find(|object| object["metadata"]["name"] == name)
    }

    /// Changes fields of a pod's status.
    pub(crate) async fn pod_status(&self, pod: &str, status: Value) {
        self.patch("pods", &format!("{pod}/status"), json!({"status": status}))
            .await;
    }

    /// Makes a pod running, and ready since now.
    pub(crate) async fn make_ready(&self, pod: &str) {
        let since = self.clock.now_seconds().to_string();
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        self.pod_status(pod, json!({"phase": "Running", "conditions": ready}))
            .await;
    }

    /// Deletes a pod without a grace period.
    pub(crate) async fn kill(&self, pod: &str) {
        (self.clients)("tester")
            .delete(pod_target(pod), &json!({"gracePeriodSeconds": 0}))
            .await
            .unwrap();
    }

    /// Binds a pod to a node, as a scheduler does.
    pub(crate) async fn bind(&self, pod: &str, node: &str) {
        let target = Target {
            subresource: Some("binding"),
            ..pod_target(pod)
        };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node},
        });
        (self.clients)("tester")
            .create(target, &binding)
            .await
            .unwrap();
    }
}

fn pod_target(name: &str) -> Target<'_> {
    Target {
        resource: &PODS,
        namespace: Some(NAMESPACE),
        name: Some(name),
        subresource: None,
    }
}
