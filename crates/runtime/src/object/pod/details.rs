//! Details that few pods have, behind one pointer: a running pod of a Deployment has none.
//!
//! A further field of single pods belongs here unless most pods have it, for example the completion
//! index of a Job's pod. A field of most pods belongs to [`Pod`](super::Pod), where each byte
//! counts 50,000 times.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::StatusWire;

use crate::intern::Sym;
use crate::object::view::view;

/// Details of a pod; the default for those that a pod lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct PodDetails {
    /// `metadata.deletionGracePeriodSeconds`.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The `DisruptionTarget` condition.
    pub disruption: Option<PodCondition>,
    /// Node that the affinity of an unbound pod of a DaemonSet names.
    pub target_node: Option<Sym>,
    /// Containers that ended, in the order of their statuses; those of init containers come last.
    pub terminated: Vec<TerminatedContainer>,
    /// ResourceClaims that were made for the pod.
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// The ResourceClaim of the pod's extended resources.
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

/// A pod condition in full, as served.
#[derive(Debug, Clone, PartialEq)]
pub struct PodCondition(pub Map<String, Value>);

/// The end of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatedContainer {
    /// Name.
    pub name: Sym,
    /// Whether it is an init container.
    pub init: bool,
    /// Exit code.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

view! {
    /// The ResourceClaim made for a claim of the pod.
    pub struct ResourceClaimStatus {
        /// Name of the claim within the pod.
        pub name: Sym,
        /// Name of the ResourceClaim; unset where the pod needs none.
        pub resource_claim_name: Option<Sym>,
    }
}

/// The whole `DisruptionTarget` condition, which hardly any pod has, in a second pass over `json`.
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

/// The containers that ended.
pub(super) fn terminated(status: &StatusWire<'_>) -> Vec<TerminatedContainer> {
    let containers = status.container_statuses.iter().map(|s| (s, false));
    let init_containers = status.init_container_statuses.iter().map(|s| (s, true));
    let ended = containers
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
    ended.collect()
}

/// The node that a term of a required node affinity names by `metadata.name`, as the DaemonSet
/// controller writes it. Upstream's `GetTargetNodeName`.
pub(super) fn target_node(node_affinity: &str) -> Result<Option<Sym>, serde_json::Error> {
    let affinity: NodeAffinity = serde_json::from_str(node_affinity)?;
    let fields = affinity
        .required
        .node_selector_terms
        .iter()
        .flat_map(|term| &term.match_fields);
    let mut names = fields.filter(|field| field.key == *"metadata.name" && field.operator == *"In");
    // Only the first such field counts, and only with one value.
    Ok(names.next().and_then(|field| match &field.values[..] {
        [name] => Some(name.clone()),
        _ => None,
    }))
}

view! {
    /// Affinity to nodes, as far as it names one.
    struct NodeAffinity {
        /// Terms that must hold.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: NodeSelector,
    }

    /// Terms of which one must hold.
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
