//! The PodTopologyLabels admission plugin: a pod gets the zone and the region of its node as labels.
//!
//! Upstream: `plugin/pkg/admission/podtopologylabels`.

use serde_json::Value;

use crate::Server;

const COPIED: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl Server {
    /// Copies the labels of the node to a pod that names it, over its own ones. A missing node has
    /// none.
    pub(crate) fn label_by_topology(&self, pod: &mut Value) {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() || !self.release().enables("PodTopologyLabelsAdmission") {
            return;
        }
        let nodes = self
            .registry
            .find("", "v1", "nodes")
            .expect("nodes are built in");
        let Some(node) = nodes.store.get(node) else {
            return;
        };
        for label in COPIED {
            if let Some(value) = node.label(label) {
                pod["metadata"]["labels"][label] = Value::from(value);
            }
        }
    }
}
