//! Feature gates that change what a controller does, under upstream's names.
//!
//! flags -> [`FeatureGates`] in the `ControllerContext` -> [`FeatureGates::is_on`] in the
//! controller that asks

use std::collections::BTreeMap;
use std::sync::Arc;

/// A gate that some controller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Upstream's name.
    pub name: &'static str,
    /// Whether it is on unless something else was asked for.
    pub default: bool,
}

impl Gate {
    const fn on(name: &'static str) -> Self {
        Self {
            name,
            default: true,
        }
    }
}

/// ReplicaSets and Deployments report `status.terminatingReplicas`.
pub const DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS: Gate =
    Gate::on("DeploymentReplicaSetTerminatingReplicas");
/// Pods of a namespace are deleted before anything else in it.
pub const ORDERED_NAMESPACE_DELETION: Gate = Gate::on("OrderedNamespaceDeletion");
/// The annotation `controller.kubernetes.io/pod-deletion-cost` counts when a ReplicaSet shrinks.
pub const POD_DELETION_COST: Gate = Gate::on("PodDeletionCost");
/// The status of a pod and its conditions carry `observedGeneration`.
pub const POD_OBSERVED_GENERATION_TRACKING: Gate = Gate::on("PodObservedGenerationTracking");

/// Every gate that some controller asks for, by name.
pub const ALL: [Gate; 4] = [
    DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS,
    ORDERED_NAMESPACE_DELETION,
    POD_DELETION_COST,
    POD_OBSERVED_GENERATION_TRACKING,
];

/// The state of the gates in [`ALL`]. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Those that differ from their defaults, by name.
    changed: Arc<BTreeMap<&'static str, bool>>,
}

impl FeatureGates {
    /// The gates as `is_on` says of each name.
    pub fn new(is_on: impl Fn(&str) -> bool) -> Self {
        let states = ALL
            .into_iter()
            .map(|gate| (gate.name, is_on(gate.name), gate.default));
        let changed = states
            .filter(|(_, state, default)| state != default)
            .map(|(name, state, _)| (name, state));
        Self {
            changed: Arc::new(changed.collect()),
        }
    }

    /// Whether `gate` is on.
    pub fn is_on(&self, gate: Gate) -> bool {
        self.changed.get(gate.name).copied().unwrap_or(gate.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_their_defaults_unless_set() {
        assert!(ALL.is_sorted_by_key(|gate| gate.name));
        for gate in ALL {
            assert_eq!(
                FeatureGates::default().is_on(gate),
                gate.default,
                "{}",
                gate.name
            );
            for state in [true, false] {
                assert_eq!(
                    FeatureGates::new(|_| state).is_on(gate),
                    state,
                    "{}",
                    gate.name
                );
            }
        }
        let one_off = FeatureGates::new(|name| name != POD_DELETION_COST.name);
        assert!(!one_off.is_on(POD_DELETION_COST) && one_off.is_on(ORDERED_NAMESPACE_DELETION));
    }
}
