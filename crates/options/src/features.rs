//! Feature gates that change the behaviour of a controller, under upstream's names
//! (`pkg/features/kube_features.go`).
//!
//! `--feature-gates` -> [`FeatureGates`] in the `ControllerContext` -> [`FeatureGates::is_on`] in
//! the controller
//!
//! Only gates that some controller reads are listed here. Their states are given to controllers
//! and not kept in a global, so that tests with different gates can run side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A feature gate that some controller reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gate {
    /// Upstream's name.
    pub name: &'static str,
    /// The state of the gate if `--feature-gates` does not set it.
    pub default: bool,
}

impl Gate {
    const fn on(name: &'static str) -> Self {
        Self {
            name,
            default: true,
        }
    }

    const fn off(name: &'static str) -> Self {
        Self {
            name,
            default: false,
        }
    }
}

/// ReplicaSets and Deployments report `status.terminatingReplicas`.
pub const DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS: Gate =
    Gate::on("DeploymentReplicaSetTerminatingReplicas");
/// Generated claims for devices may ask for admin access.
pub const DRA_ADMIN_ACCESS: Gate = Gate::on("DRAAdminAccess");
/// DeviceTaintRules taint devices.
pub const DRA_DEVICE_TAINT_RULES: Gate = Gate::off("DRADeviceTaintRules");
/// Claims for devices count for extended resources of quotas.
pub const DRA_EXTENDED_RESOURCE: Gate = Gate::on("DRAExtendedResource");
/// Claims for devices may list alternatives.
pub const DRA_PRIORITIZED_LIST: Gate = Gate::on("DRAPrioritizedList");
/// Claims for devices may belong to PodGroups.
pub const DRA_WORKLOAD_RESOURCE_CLAIMS: Gate = Gate::off("DRAWorkloadResourceClaims");
/// Claims for devices. Quotas count the devices of each class.
pub const DYNAMIC_RESOURCE_ALLOCATION: Gate = Gate::on("DynamicResourceAllocation");
/// `spec.behavior` of a HorizontalPodAutoscaler may set tolerances.
pub const HPA_CONFIGURABLE_TOLERANCE: Gate = Gate::on("HPAConfigurableTolerance");
/// A change of the spec of a HorizontalPodAutoscaler has its effect at once, and the status tells the generation
/// that it is about. Releases before 1.37 lack it.
pub const HPA_GENERATION: Gate = Gate::off("HPAGeneration");
/// A HorizontalPodAutoscaler with `minReplicas: 0` scales its target to zero and back.
pub const HPA_SCALE_TO_ZERO: Gate = Gate::off("HPAScaleToZero");
/// The storage version migrator needs it since 1.35. Steersman always keeps the order of changes.
pub const IN_ORDER_INFORMERS: Gate = Gate::on("InOrderInformers");
/// Quotas count the resources in the status of resized pods.
pub const IN_PLACE_POD_VERTICAL_SCALING: Gate = Gate::on("InPlacePodVerticalScaling");
/// Jobs with another `spec.managedBy` are left to their controller.
pub const JOB_MANAGED_BY: Gate = Gate::on("JobManagedBy");
/// `spec.podReplacementPolicy` of a Job has an effect, and its status counts terminating pods.
pub const JOB_POD_REPLACEMENT_POLICY: Gate = Gate::on("JobPodReplacementPolicy");
/// A suspended Job loses its start time, so its template becomes mutable.
pub const MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS: Gate =
    Gate::on("MutableSchedulingDirectivesForSuspendedJobs");
/// A rolling update of a StatefulSet honours `maxUnavailable`.
pub const MAX_UNAVAILABLE_STATEFUL_SET: Gate = Gate::off("MaxUnavailableStatefulSet");
/// No node is lost by a cached Lease that is older than the live one. Releases before 1.37 lack it.
pub const NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER: Gate =
    Gate::off("NodeControllerLeaseCircuitBreaker");
/// The namespace controller deletes pods before all other content of a namespace.
pub const ORDERED_NAMESPACE_DELETION: Gate = Gate::on("OrderedNamespaceDeletion");
/// Claims have the condition `Unused`.
pub const PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME: Gate =
    Gate::off("PersistentVolumeClaimUnusedSinceTime");
/// The annotation `controller.kubernetes.io/pod-deletion-cost` ranks pods for deletion when a
/// ReplicaSet scales down.
pub const POD_DELETION_COST: Gate = Gate::on("PodDeletionCost");
/// Pods as a whole may request resources.
pub const POD_LEVEL_RESOURCES: Gate = Gate::on("PodLevelResources");
/// The status of a pod and its conditions carry `observedGeneration`.
pub const POD_OBSERVED_GENERATION_TRACKING: Gate = Gate::on("PodObservedGenerationTracking");
/// `spec.trafficDistribution` of a Service may prefer the same zone or node by its newer names.
pub const PREFER_SAME_TRAFFIC_DISTRIBUTION: Gate = Gate::on("PreferSameTrafficDistribution");
/// Quotas count the storage that the expansion of a claim has allocated.
pub const RECOVER_VOLUME_EXPANSION_FAILURE: Gate = Gate::on("RecoverVolumeExpansionFailure");
/// Volumes may be mounted with an SELinux label. Without it, such labels never conflict.
pub const SELINUX_MOUNT_READ_WRITE_ONCE_POD: Gate = Gate::on("SELinuxMountReadWriteOncePod");
/// The strategy `Recreate` of StatefulSets. Releases before 1.37 lack it.
pub const STATEFUL_SET_RECREATE_STRATEGY: Gate = Gate::off("StatefulSetRecreateStrategy");
/// The StatefulSet controller compares revisions of other versions by their meaning. 1.33 lacks the gate.
pub const STATEFUL_SET_SEMANTIC_REVISION_COMPARISON: Gate =
    Gate::on("StatefulSetSemanticRevisionComparison");

/// The operators `Gt` and `Lt` of tolerations compare numbers.
pub const TAINT_TOLERATION_COMPARISON_OPERATORS: Gate =
    Gate::off("TaintTolerationComparisonOperators");
/// VolumeAttributesClasses decide which volume a claim gets, and which quotas count it.
pub const VOLUME_ATTRIBUTES_CLASS: Gate = Gate::on("VolumeAttributesClass");
/// Informers read the first state as a stream of single objects, rather than as a list.
pub const WATCH_LIST_CLIENT: Gate = Gate::on("WatchListClient");
/// A Job whose pods have to start together gets a Workload and a PodGroup.
pub const WORKLOAD_WITH_JOB: Gate = Gate::off("WorkloadWithJob");

/// All gates of this module, sorted by name.
pub const ALL: [Gate; 31] = [
    DRA_ADMIN_ACCESS,
    DRA_DEVICE_TAINT_RULES,
    DRA_EXTENDED_RESOURCE,
    DRA_PRIORITIZED_LIST,
    DRA_WORKLOAD_RESOURCE_CLAIMS,
    DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS,
    DYNAMIC_RESOURCE_ALLOCATION,
    HPA_CONFIGURABLE_TOLERANCE,
    HPA_GENERATION,
    HPA_SCALE_TO_ZERO,
    IN_ORDER_INFORMERS,
    IN_PLACE_POD_VERTICAL_SCALING,
    JOB_MANAGED_BY,
    JOB_POD_REPLACEMENT_POLICY,
    MAX_UNAVAILABLE_STATEFUL_SET,
    MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS,
    NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER,
    ORDERED_NAMESPACE_DELETION,
    PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME,
    POD_DELETION_COST,
    POD_LEVEL_RESOURCES,
    POD_OBSERVED_GENERATION_TRACKING,
    PREFER_SAME_TRAFFIC_DISTRIBUTION,
    RECOVER_VOLUME_EXPANSION_FAILURE,
    SELINUX_MOUNT_READ_WRITE_ONCE_POD,
    STATEFUL_SET_RECREATE_STRATEGY,
    STATEFUL_SET_SEMANTIC_REVISION_COMPARISON,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    VOLUME_ATTRIBUTES_CLASS,
    WATCH_LIST_CLIENT,
    WORKLOAD_WITH_JOB,
];

/// The state of the gates in [`ALL`]. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Gates that differ from their defaults, by name. Usually empty, so clones share one map.
    changed: Arc<BTreeMap<&'static str, bool>>,
}

impl FeatureGates {
    /// Reads the state of each gate in [`ALL`] from `is_on`, which gets the gate's name.
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
