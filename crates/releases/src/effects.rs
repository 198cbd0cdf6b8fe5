//! The feature gates that upstream's manager reads, and their effect here.
//!
//! The list comes from `Enabled(features.…)` in `cmd/kube-controller-manager`, `pkg/controller`,
//! `pkg/quota`, `pkg/volume`, and the libraries of the manager, in the branches of all known releases. The libraries
//! contain code of kube-apiserver and kubelets that a manager never calls; its gates are left out.

/// The effect of a gate on Steersman.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Both states have upstream's effect.
    Acts,
    /// Steersman always behaves as with this state, for this reason.
    Always(bool, &'static str),
    /// Both states are the same in upstream, too, for this reason.
    Same(&'static str),
    /// No known release lets a user change it.
    Locked,
}

impl Effect {
    /// The state that the behaviour corresponds to, unless the gate acts.
    pub fn fixed_state(self) -> Option<bool> {
        match self {
            Self::Acts | Self::Same(_) | Self::Locked => None,
            Self::Always(state, _) => Some(state),
        }
    }
}

use Effect::{Acts, Always, Locked, Same};

/// The reason for gates of upstream's client library.
const CLIENT: &str = "about upstream's client library";
/// The reason for the gates of stale caches.
const OWN_WRITES: &str = "every sync waits until its cache has the controller's own writes";

/// The gates that upstream's manager reads, sorted by name.
// One line per gate keeps this readable as a table.
#[rustfmt::skip]
pub const READ: &[(&str, Effect)] = &[
    ("APIServerIdentity", Acts),
    ("AllowParsingUserUIDFromCertAuth", Acts),
    ("AtomicFIFO", Always(true, CLIENT)),
    ("AuthorizeWithSelectors", Always(true, "the type check of policies knows `fieldSelector` and `labelSelector` of the authorizer")),
    ("CBORServingAndStorage", Always(false, "`/flagz` and `/statusz` are text, JSON or YAML; read since 1.36")),
    ("CSIMigrationPortworx", Locked),
    ("ClientsAllowCARotation", Always(true, "files of authorities are read again when they change")),
    ("ClientsAllowCBOR", Always(false, "requests and answers are JSON")),
    ("ClientsAllowTLSCacheGC", Always(true, CLIENT)),
    ("ClientsPreferCBOR", Always(false, "requests and answers are JSON")),
    ("ClusterTrustBundle", Acts),
    ("ComponentFlagz", Acts),
    ("ComponentStatusz", Acts),
    ("ContextualLogging", Always(true, "each log line has the fields of its controller and object")),
    ("ControllerManagerReleaseLeaderElectionLockOnExit", Always(true, "the Lease is released after the last write")),
    ("CoordinatedLeaderElection", Acts),
    ("CronJobsScheduledAnnotation", Locked),
    ("DRAAdminAccess", Acts),
    ("DRAConsumableCapacity", Always(false, "only selectors of DeviceTaintRules of 1.34 read it")),
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
    ("HonorPVReclaimPolicy", Locked),
    ("InOrderInformers", Acts),
    ("InOrderInformersBatchProcess", Always(true, "the objects of a list enter the cache in one step")),
    ("InPlacePodVerticalScaling", Acts),
    ("InTreePluginPortworxUnregister", Same("`CSIMigrationPortworx` is locked, so the CSI driver has these volumes")),
    ("InformerResourceVersion", Acts),
    ("JobBackoffLimitPerIndex", Locked),
    ("JobManagedBy", Acts),
    ("JobPodReplacementPolicy", Acts),
    ("JobSuccessPolicy", Locked),
    ("LogarithmicScaleDown", Locked),
    ("LoggingAlphaOptions", Acts),
    ("LoggingBetaOptions", Acts),
    ("MaxUnavailableStatefulSet", Acts),
    ("MultiCIDRServiceAllocator", Acts),
    ("MutableSchedulingDirectivesForSuspendedJobs", Acts),
    ("NativeHistograms", Acts),
    ("NodeControllerLeaseCircuitBreaker", Acts),
    ("OrderedNamespaceDeletion", Acts),
    ("PersistentVolumeClaimUnusedSinceTime", Acts),
    ("PodCertificateRequest", Acts),
    ("PodDeletionCost", Acts),
    ("PodIndexLabel", Locked),
    ("PodLevelResources", Acts),
    ("PodObservedGenerationTracking", Acts),
    ("PreferSameTrafficDistribution", Acts),
    ("RecoverVolumeExpansionFailure", Acts),
    ("RemoteRequestHeaderUID", Acts),
    ("SELinuxChangePolicy", Acts),
    ("SELinuxMountReadWriteOncePod", Acts),
    ("SeparateTaintEvictionController", Acts),
    ("ServiceTrafficDistribution", Locked),
    ("SidecarContainers", Locked),
    ("StaleControllerConsistencyDaemonSet", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyHPA", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyJob", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyReplicaSet", Always(true, OWN_WRITES)),
    ("StaleControllerConsistencyStatefulSet", Always(true, OWN_WRITES)),
    ("StatefulSetAutoDeletePVC", Locked),
    ("StatefulSetRecreateStrategy", Acts),
    ("StatefulSetSemanticRevisionComparison", Acts),
    ("StorageVersionAPI", Acts),
    ("StorageVersionMigrator", Acts),
    ("StrictCostEnforcementForVAP", Locked),
    ("TaintTolerationComparisonOperators", Acts),
    ("TopologyAwareHints", Locked),
    ("UnauthenticatedHTTP2DOSMitigation", Acts),
    ("UnlockWhileProcessingFIFO", Always(true, CLIENT)),
    ("VolumeAttributesClass", Acts),
    ("WatchListClient", Acts),
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
    fn locked_gates_are_those_that_no_release_lets_a_user_change() {
        for (name, effect) in READ {
            let gate = Gate::find(name).unwrap();
            let is_free = Release::known().any(|release| gate.is_free_in(release));
            assert_eq!(*effect != Locked, is_free, "{name}");
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
