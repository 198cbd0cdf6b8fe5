//! The feature gates that upstream's manager reads, and their effect here.
//!
//! The list comes from `Enabled(features.…)` in `cmd/kube-controller-manager`, `pkg/controller`,
//! `pkg/quota`, and the libraries of the manager, in the branches of all known releases.

/// The effect of a gate on Steersman.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Both states have upstream's effect.
    Acts,
    /// Steersman always behaves as with this state, for this reason.
    Always(bool, &'static str),
}

impl Effect {
    /// The state that the behaviour corresponds to, unless the gate acts.
    pub fn fixed_state(self) -> Option<bool> {
        match self {
            Self::Acts => None,
            Self::Always(state, _) => Some(state),
        }
    }
}

use Effect::{Acts, Always};

/// The reason for gates of upstream's client library.
const CLIENT: &str = "about upstream's client library";
/// The reason for the gates of stale caches.
const OWN_WRITES: &str = "every sync waits until its cache has the controller's own writes";

/// The gates that upstream's manager reads, sorted by name.
// One line per gate keeps this readable as a table.
#[rustfmt::skip]
pub const READ: &[(&str, Effect)] = &[
    ("APIServerIdentity", Acts),
    ("AtomicFIFO", Always(true, CLIENT)),
    ("ClientsAllowCARotation", Always(true, "files of authorities are read again when they change")),
    ("ClientsAllowCBOR", Always(false, "requests and answers are JSON")),
    ("ClientsAllowTLSCacheGC", Always(true, CLIENT)),
    ("ClientsPreferCBOR", Always(false, "requests and answers are JSON")),
    ("ClusterTrustBundle", Acts),
    ("ComponentFlagz", Acts),
    ("ComponentStatusz", Acts),
    ("ControllerManagerReleaseLeaderElectionLockOnExit", Always(true, "the Lease is released after the last write")),
    ("CoordinatedLeaderElection", Acts),
    ("CronJobsScheduledAnnotation", Acts),
    ("DRAAdminAccess", Acts),
    ("DRADeviceTaintRules", Acts),
    ("DRADeviceTaints", Acts),
    ("DRAExtendedResource", Acts),
    ("DRAPrioritizedList", Acts),
    ("DRAResourcePoolStatus", Acts),
    ("DRAWorkloadResourceClaims", Acts),
    ("DeploymentReplicaSetTerminatingReplicas", Acts),
    ("DynamicResourceAllocation", Acts),
    ("GenericWorkload", Acts),
    ("HPAConfigurableTolerance", Acts),
    ("HPAGeneration", Acts),
    ("HPAOptimizedSelectorStore", Always(true, "selectors of a namespace are compared with the different label sets of its pods")),
    ("HPAScaleToZero", Acts),
    ("InOrderInformers", Always(true, CLIENT)),
    ("InPlacePodVerticalScaling", Acts),
    ("InformerResourceVersion", Acts),
    ("JobManagedBy", Acts),
    ("JobPodReplacementPolicy", Acts),
    ("MaxUnavailableStatefulSet", Acts),
    ("MultiCIDRServiceAllocator", Acts),
    ("MutableSchedulingDirectivesForSuspendedJobs", Acts),
    ("NativeHistograms", Acts),
    ("NodeControllerLeaseCircuitBreaker", Acts),
    ("OrderedNamespaceDeletion", Acts),
    ("PersistentVolumeClaimUnusedSinceTime", Acts),
    ("PodCertificateRequest", Acts),
    ("PodDeletionCost", Acts),
    ("PodLevelResources", Acts),
    ("PodObservedGenerationTracking", Acts),
    ("PreferSameTrafficDistribution", Acts),
    ("RecoverVolumeExpansionFailure", Acts),
    ("SELinuxChangePolicy", Acts),
    ("SeparateTaintEvictionController", Acts),
    ("StaleControllerConsistencyDaemonSet", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyHPA", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyJob", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyReplicaSet", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyStatefulSet", Always(true, OWN_WRITES)),
    ("StatefulSetRecreateStrategy", Acts),
    ("StatefulSetSemanticRevisionComparison", Acts),
    ("StorageVersionAPI", Acts),
    ("StorageVersionMigrator", Acts),
    ("TaintTolerationComparisonOperators", Acts),
    ("UnlockWhileProcessingFIFO", Always(true, CLIENT)),
    ("VolumeAttributesClass", Acts),
    ("WatchListClient", Always(true, "lists are streamed if the API server can")),
    ("WorkloadWithJob", Acts),
];

/// The effect of the gate called `name`; `None` if upstream's manager does not read it.
pub fn effect(name: &str) -> Option<Effect> {
    let at = READ.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(READ[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gate, Release};

    #[test]
    fn the_gates_that_are_read_exist() {
        assert!(READ.is_sorted_by(|a, b| a.0 < b.0));
        for (name, _) in READ {
            assert!(Gate::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn no_gate_lets_a_sync_act_on_an_old_cache() {
        let known = Gate::all().iter();
        let known = known.filter(|gate| gate.at(Release::NEWEST).is_some());
        let names = known.map(|gate| gate.name);
        for name in names.filter(|name| name.starts_with("StaleControllerConsistency")) {
            assert_eq!(effect(name), Some(Always(true, OWN_WRITES)), "{name}");
        }
    }
}
