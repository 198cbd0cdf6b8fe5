//! The cached view of a node: ranges of pod addresses, taints, conditions, and the annotation of the
//! TTL controller.
//!
//! Upstream: `Node` of `k8s.io/api/core/v1`.

use std::str::FromStr;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::Deserializer;

use steersman_values::intern::Sym;
use steersman_values::quantity::{Quantity, QuantityError};
use steersman_values::resource::NODES;

use super::wire::{Text, time_of};
use super::{Conditions, Parsed};
use crate::view;

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
        /// Set by a kubelet that leaves attachments of volumes to the attach-detach controller; the
        /// value has no meaning.
        #[serde(rename = "volumes.kubernetes.io/controller-managed-attach-detach")]
        pub controller_managed_attach_detach: Option<Sym>,
    }

    /// `spec` of a node.
    pub struct NodeSpec {
        /// The ranges of pod addresses, one per family.
        #[serde(rename = "podCIDRs")]
        pub pod_cidrs: Vec<Box<str>>,
        /// Taints.
        pub taints: Vec<Taint>,
        /// Whether the scheduler ignores the node.
        pub unschedulable: bool,
    }

    /// One taint of a node.
    pub struct Taint {
        /// Key, such as `node.kubernetes.io/out-of-service`.
        pub key: Sym,
        /// Value; empty when unset.
        pub value: Sym,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: Sym,
    }

    /// `status` of a node.
    pub struct NodeStatus {
        /// Resources for pods.
        pub allocatable: Allocatable,
        /// Conditions.
        pub conditions: NodeConditions,
        /// Volumes that are attached to the node; the attach-detach controller writes the list.
        pub volumes_attached: Vec<AttachedVolume>,
        /// Unique names of the volumes that pods of the node use; the kubelet writes the list.
        pub volumes_in_use: Vec<Sym>,
    }

    /// A volume that is attached to a node.
    pub struct AttachedVolume {
        /// Unique name, such as `kubernetes.io/csi/<driver>^<handle>`.
        pub name: Sym,
        /// Path of its device; empty for CSI volumes.
        pub device_path: Box<str>,
    }

    /// The resources of a node for pods, as far as controllers read them.
    pub struct Allocatable {
        /// CPU; unset when missing or malformed.
        pub cpu: Parsed<MilliCpu>,
    }
}

/// Types and statuses of the conditions of a node, and the last heartbeat of its kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConditions {
    states: Conditions,
    /// `lastHeartbeatTime` of the first `Ready` condition.
    pub ready_heartbeat: Option<Timestamp>,
}

impl std::ops::Deref for NodeConditions {
    type Target = Conditions;
    fn deref(&self) -> &Conditions {
        &self.states
    }
}

impl<'de> Deserialize<'de> for NodeConditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(rename = "type", borrow)]
            kind: Text<'a>,
            #[serde(borrow)]
            status: Option<Text<'a>>,
            #[serde(borrow)]
            last_heartbeat_time: Option<Text<'a>>,
        }
        let wire: Vec<Wire<'de>> = Vec::deserialize(deserializer)?;
        let ready = wire.iter().find(|condition| &*condition.kind == "Ready");
        let heartbeat = ready.and_then(|condition| condition.last_heartbeat_time.as_ref());
        Ok(Self {
            states: Conditions::new(wire.iter().map(|condition| {
                let status = condition.status.as_deref();
                (&*condition.kind, status.unwrap_or_default())
            })),
            ready_heartbeat: heartbeat.map(time_of),
        })
    }
}

impl Taint {
    /// Whether the taint has this key and effect. These two identify a taint within its node.
    /// Upstream: `MatchTaint`.
    pub fn is(&self, key: &str, effect: &str) -> bool {
        self.key == *key && self.effect == *effect
    }
}

/// An amount of CPU in thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MilliCpu(pub i64);

impl FromStr for MilliCpu {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse().map(|cpu: Quantity| Self(cpu.milli_value()))
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
    use crate::Object;

    #[test]
    fn cpu_of_a_node_is_decoded() {
        // (allocatable, thousandths of a core)
        let cases = [
            (
                json!({"cpu": "1500m", "memory": "1Gi"}),
                Some(MilliCpu(1500)),
            ),
            (json!({"cpu": "x"}), None),
            (json!({"cpu": null}), None),
            (json!({}), None),
            (json!(null), None),
        ];
        for (allocatable, expected) in cases {
            let json = json!({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}});
            let node = Node::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(node.status.allocatable.cpu.0, expected, "{json}");
        }
    }

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
