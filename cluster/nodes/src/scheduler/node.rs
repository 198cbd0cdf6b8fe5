//! A node as the scheduler sees it, and its reasons against a pod.

use std::borrow::Cow;

use steersman_helpers::scheduling::amounts::Amounts;
use steersman_objects::Node;
use steersman_values::intern::Sym;

/// A node, with the fields that decide which pods it takes.
#[derive(Debug, Clone)]
pub(crate) struct NodeFacts {
    /// The fields that controllers read too.
    pub(crate) node: Node,
    /// `spec.unschedulable`, which `kubectl cordon` sets.
    pub(crate) unschedulable: bool,
    /// `status.allocatable`. A node without it takes any amount, so that tests need not name it.
    pub(crate) allocatable: Amounts,
}

impl NodeFacts {
    /// Whether both take the same pods, as two versions of a node between which only heartbeats
    /// happened.
    pub(crate) fn takes_same_pods(&self, other: &Self) -> bool {
        let key = |facts: &'_ Self| (facts.unschedulable, facts.node.is_ready());
        key(self) == key(other)
            && self.node.meta.labels == other.node.meta.labels
            && self.node.spec.taints == other.node.spec.taints
            && self.allocatable == other.allocatable
    }

    /// The value of a label of the node.
    pub(super) fn label(&self, key: &Sym) -> Option<&Sym> {
        self.node.meta.labels.get(key)
    }
}

/// The reasons of a node against a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reasons: Vec<Cow<'static, str>>,
    /// Whether the pod could fit without other pods on the node.
    pub(super) is_due_to_pods: bool,
}

impl Refusal {
    pub(super) fn of_node(reason: &'static str) -> Option<Self> {
        Some(Self {
            reasons: vec![Cow::Borrowed(reason)],
            is_due_to_pods: false,
        })
    }

    /// The refusal of a node without free devices for the ResourceClaims of the pod.
    pub(super) fn of_devices() -> Self {
        Self {
            reasons: vec![Cow::Borrowed("cannot allocate all claims")],
            is_due_to_pods: false,
        }
    }

    /// The refusal of a node where no pod has a lower priority.
    pub(super) fn of_lack_of_victims() -> Self {
        Self {
            reasons: vec![Cow::Borrowed(
                "No preemption victims found for incoming pod",
            )],
            is_due_to_pods: false,
        }
    }

    pub(super) fn of_pods(reason: &'static str) -> Option<Self> {
        Some(Self {
            reasons: vec![Cow::Borrowed(reason)],
            is_due_to_pods: true,
        })
    }
}
