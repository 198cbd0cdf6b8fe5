//! Fields that few pods have, behind one pointer. A running pod of a Deployment has none of them.
//!
//! Add a field here if most pods lack it, such as the completion index of pods of a Job. Fields of
//! most pods belong to [`Pod`](super::Pod), where each byte costs memory for every cached pod.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::StatusWire;

use crate::intern::Sym;
use crate::object::view::view;

/// Fields that few pods have. A field that a pod lacks has its default.
#[derive(Debug, Clone, PartialEq)]
pub struct PodDetails {
    /// `metadata.deletionGracePeriodSeconds`.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The complete `DisruptionTarget` condition.
    pub disruption: Option<PodCondition>,
    /// Name of the node to which the affinity of an unbound DaemonSet pod restricts the pod.
    pub target_node: Option<Sym>,
    /// Terminated containers, in the order of their statuses. Init containers come last.
    pub terminated: Vec<TerminatedContainer>,
    /// ResourceClaims that were created for the pod.
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// Name of the ResourceClaim for the extended resources of the pod.
    pub extended_resource_claim: Option<Sym>,
}

impl PodDetails {
    /// No details.
    pub(super) const NONE: Self = Self {
        deletion_grace_period_seconds: None,
        disruption: None,
        target_node: None,
        terminated: Vec::new(),
        resource_claim_statuses: Vec::new(),
        extended_resource_claim: None,
    };
}

/// A complete pod condition as served.
#[derive(Debug, Clone, PartialEq)]
pub struct PodCondition(pub Map<String, Value>);

/// A container in the state `terminated`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatedContainer {
    /// Name.
    pub name: Sym,
    /// Whether it is an init container.
    pub init: bool,
    /// Exit code.
    pub exit_code: i32,
    /// Time at which the container terminated.
    pub finished_at: Option<Timestamp>,
}

view! {
    /// The ResourceClaim that was created for a claim of the pod.
    pub struct ResourceClaimStatus {
        /// Name of the claim within the pod.
        pub name: Sym,
        /// Name of the ResourceClaim; unset if the claim needed none.
        pub resource_claim_name: Option<Sym>,
    }
}

/// The complete `DisruptionTarget` condition of the pod `json`. Few pods have it, so a second pass
/// over the text is cheaper than to keep all conditions complete.
pub(super) fn disruption(
    status: &StatusWire<'_>,
    json: &str,
) -> Result<Option<PodCondition>, serde_json::Error> {
    const TYPE: &str = "DisruptionTarget";
    #[derive(Deserialize)]
    struct Outer {
        status: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        conditions: Vec<Map<String, Value>>,
    }
    if status.conditions.iter().all(|c| &*c.kind != TYPE) {
        return Ok(None);
    }
    let Outer { status } = serde_json::from_str(json)?;
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|c| c.get("type").is_some_and(|kind| kind == TYPE));
    Ok(found.map(PodCondition))
}

/// The terminated containers in `status`.
pub(super) fn terminated(status: &StatusWire<'_>) -> Vec<TerminatedContainer> {
    let containers = status.container_statuses.iter().map(|s| (s, false));
    let init_containers = status.init_container_statuses.iter().map(|s| (s, true));
    let terminated = containers
        .chain(init_containers)
        .filter_map(|(status, init)| {
            let end = status.state.terminated.as_ref()?;
            Some(TerminatedContainer {
                name: Sym::new(&status.name),
                init,
                exit_code: end.exit_code,
                finished_at: end.finished_at,
            })
        });
    terminated.collect()
}

/// The node that the required node affinity names with a match of the field `metadata.name`. The
/// DaemonSet controller writes such a term. Upstream: `GetTargetNodeName`.
pub(super) fn target_node(node_affinity: &str) -> Result<Option<Sym>, serde_json::Error> {
    let affinity: NodeAffinity = serde_json::from_str(node_affinity)?;
    let fields = affinity
        .required
        .node_selector_terms
        .iter()
        .flat_map(|term| &term.match_fields);
    let mut names = fields.filter(|field| field.key == *"metadata.name" && field.operator == *"In");
    // Upstream reads only the first such field, and requires exactly one value.
    Ok(names.next().and_then(|field| match &field.values[..] {
        [name] => Some(name.clone()),
        _ => None,
    }))
}

view! {
    /// The part of the affinity to nodes that can name a node.
    struct NodeAffinity {
        /// Required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: NodeSelector,
    }

    /// A list of terms. A node matches if it matches one of them.
    struct NodeSelector {
        /// The terms.
        node_selector_terms: Vec<NodeSelectorTerm>,
    }

    /// A term.
    struct NodeSelectorTerm {
        /// Requirements on fields.
        match_fields: Vec<FieldRequirement>,
    }

    /// A requirement on a field.
    struct FieldRequirement {
        /// Field.
        key: Sym,
        /// Operator.
        operator: Sym,
        /// Values.
        values: Vec<Sym>,
    }
}
