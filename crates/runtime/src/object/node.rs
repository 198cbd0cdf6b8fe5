//! Nodes, as controllers read them.

use super::view::view;
use super::{Conditions, Parsed};
use crate::intern::Sym;

/// Seconds for which the kubelet of the node may cache Secrets and ConfigMaps.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

view! {
    /// A node, as controllers read it.
    pub struct Node: NODES, annotations: NodeAnnotations {
        /// `spec`.
        pub spec: NodeSpec,
        /// `status`.
        pub status: NodeStatus,
    }

    /// Annotations of a node.
    pub struct NodeAnnotations {
        /// [`TTL_ANNOTATION`].
        #[serde(rename = "node.alpha.kubernetes.io/ttl")]
        pub ttl: Parsed<i64>,
    }

    /// `spec` of a node.
    pub struct NodeSpec {
        /// Taints.
        pub taints: Vec<Taint>,
    }

    /// One taint of a node.
    pub struct Taint {
        /// Key, such as `node.kubernetes.io/out-of-service`.
        pub key: Sym,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: Sym,
    }

    /// `status` of a node.
    pub struct NodeStatus {
        /// Conditions.
        pub conditions: Conditions,
    }
}

impl Node {
    /// Whether the `Ready` condition is `True`; false when it is missing.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.is_true("Ready")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Object;

    #[test]
    fn a_node_is_decoded_with_null_as_the_default() {
        let taint = json!({"key": "k", "effect": null, "value": "v"});
        let ready = |status| json!([{"type": "Other"}, {"type": "Ready", "status": status}]);
        // (annotations, spec, conditions, (ttl, taints, ready))
        let cases = [
            (json!(null), json!(null), json!(null), (None, vec![], false)),
            (
                json!({ TTL_ANNOTATION: null }),
                json!({ "taints": null }),
                ready(json!(null)),
                (None, vec![], false),
            ),
            (
                json!({ TTL_ANNOTATION: "x", "other": "7" }),
                json!({}),
                ready(json!("False")),
                (None, vec![], false),
            ),
            (
                json!({ TTL_ANNOTATION: "-5" }),
                json!({ "taints": [taint], "podCIDR": "10.0.0.0/24" }),
                ready(json!("True")),
                (Some(-5), vec!["k"], true),
            ),
        ];
        for (annotations, spec, conditions, expected) in cases {
            let json = json!({
                "metadata": {"name": "n", "resourceVersion": "7", "annotations": annotations},
                "spec": spec,
                "status": {"conditions": conditions},
            });
            let node = Node::decode(json.to_string().as_bytes()).unwrap();
            let taints = node.spec.taints.iter().map(|t| t.key.as_str()).collect();
            let found = (node.annotations.ttl.0, taints, node.is_ready());
            assert_eq!(found, expected, "{json}");
            assert_eq!(node.key().to_string(), "n");
        }
    }
}
