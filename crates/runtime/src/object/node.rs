//! The cached view of a node: taints, conditions, and the annotation of the TTL controller.
//!
//! Upstream: `Node` of `k8s.io/api/core/v1`.

use super::view::view;
use super::{Conditions, Parsed};
use crate::intern::Sym;

/// Annotation with the time for which the kubelet may cache Secrets and ConfigMaps, in seconds.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

view! {
    /// The cached view of a node.
    pub struct Node: NODES, annotations: NodeAnnotations {
        /// `spec`.
        pub spec: NodeSpec,
        /// `status`.
        pub status: NodeStatus,
    }

    /// Annotations of a node that controllers read.
    pub struct NodeAnnotations {
        /// Value of [`TTL_ANNOTATION`], in seconds; unset when missing or malformed.
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
    /// Whether the `Ready` condition is `True`; false when the condition is missing.
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
    fn null_and_absent_node_fields_have_the_default() {
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
