//! The simulated failures that the page offers: annotations that the simulated nodes read.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use steersman_client::{ApiClient, PatchKind, Query, Target};
use steersman_devcluster::nodes::BEHAVIOUR;
use steersman_values::resource::{DEPLOYMENTS, NODES, ResourceType};

use crate::ui::{Simulator, Wish};

/// Label of nodes with their zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Namespace and name of the example.
const EXAMPLE: (&str, &str) = ("default", "example");
/// Pods of the example leave a node that does not report after this time, in seconds, in place of five
/// minutes: a viewer should see it.
const PATIENCE: u32 = 5;

/// The embedded cluster.
pub(super) struct Cluster(pub(super) ApiClient);

impl Simulator for Cluster {
    fn fulfil(&self, wish: Wish) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            match wish {
                Wish::Node { name, behaviour } => {
                    let patch = behave(&behaviour);
                    self.patch(&NODES, None, &name, &patch).await
                }
                Wish::Zone { name, behaviour } => self.zone(&name, &behaviour).await,
                Wish::Deployment {
                    namespace,
                    name,
                    behaviour,
                } => {
                    let patch = json!({ "spec": { "template": behave(&behaviour) } });
                    self.patch(&DEPLOYMENTS, Some(&namespace), &name, &patch)
                        .await
                }
                Wish::Example {} => self.example().await,
            }
        })
    }
}

impl Cluster {
    async fn patch(
        &self,
        of: &ResourceType,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<(), String> {
        let target = Target {
            resource: of,
            namespace,
            name: Some(name),
            subresource: None,
        };
        let patched = self.0.patch(target, PatchKind::Merge, patch).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// Changes all nodes of a zone.
    async fn zone(&self, zone: &str, behaviour: &str) -> Result<(), String> {
        let target = Target {
            resource: &NODES,
            namespace: None,
            name: None,
            subresource: None,
        };
        let query = Query::default().with_text("labelSelector", &format!("{ZONE}={zone}"));
        let nodes = self.0.list(target, query).await;
        let nodes = nodes.map_err(|error| error.to_string())?;
        let nodes: Value = serde_json::from_slice(&nodes).map_err(|error| error.to_string())?;
        let names: Vec<&str> = nodes["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|node| node["metadata"]["name"].as_str())
            .collect();
        if names.is_empty() {
            return Err(format!("no node is in zone {zone}"));
        }
        for name in names {
            self.patch(&NODES, None, name, &behave(behaviour)).await?;
        }
        Ok(())
    }

    /// A Deployment whose pods spread over zones, and leave dead nodes soon.
    async fn example(&self) -> Result<(), String> {
        let (namespace, name) = EXAMPLE;
        let tolerate = |key: &str| {
            json!({
                "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": PATIENCE,
            })
        };
        let labels = json!({ "app": name });
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "replicas": 6, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "containers": [{ "name": "web", "image": "example:1" }],
                        "tolerations": [tolerate("unreachable"), tolerate("not-ready")],
                        "topologySpreadConstraints": [{
                            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": { "matchLabels": labels },
                        }],
                    },
                },
            },
        });
        let target = Target {
            resource: &DEPLOYMENTS,
            namespace: Some(namespace),
            name: Some(name),
            subresource: None,
        };
        let applied = self.0.apply(target, "steersman-page", &body).await;
        applied.map(drop).map_err(|error| error.to_string())
    }
}

/// Metadata with the behaviour; an empty one removes the annotation.
fn behave(behaviour: &str) -> Value {
    let value = if behaviour.is_empty() {
        Value::Null
    } else {
        behaviour.into()
    };
    json!({ "metadata": { "annotations": { BEHAVIOUR: value } } })
}
