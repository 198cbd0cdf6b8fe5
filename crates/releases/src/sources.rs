//! The change of upstream that each feature gate comes from.
//!
//! The enhancement proposal, by `kep:` at the gate's declaration or by the gate's name in `kep.yaml`. Gates without a
//! proposal have the pull request that declared them.

/// The gates of [`READ`](crate::READ) with their proposal or pull request, sorted by name.
// One line per gate keeps this readable as a table.
#[rustfmt::skip]
const SOURCES: &[(&str, &str)] = &[
    ("APIServerIdentity", "KEP-1965"),
    ("AllowParsingUserUIDFromCertAuth", "#127897"),
    ("AtomicFIFO", "KEP-5647"),
    ("AuthorizeWithSelectors", "KEP-4601"),
    ("CBORServingAndStorage", "KEP-4222"),
    ("CSIMigrationPortworx", "KEP-2589"),
    ("ClientsAllowCARotation", "#132922"),
    ("ClientsAllowCBOR", "KEP-4222"),
    ("ClientsAllowTLSCacheGC", "#136355"),
    ("ClientsPreferCBOR", "KEP-4222"),
    ("ClusterTrustBundle", "KEP-3257"),
    ("ComponentFlagz", "KEP-4828"),
    ("ComponentStatusz", "KEP-4827"),
    ("ContextualLogging", "KEP-3077"),
    ("ControllerManagerReleaseLeaderElectionLockOnExit", "KEP-5366"),
    ("CoordinatedLeaderElection", "KEP-4355"),
    ("CronJobsScheduledAnnotation", "KEP-4026"),
    ("DRAAdminAccess", "KEP-5018"),
    ("DRAConsumableCapacity", "KEP-5075"),
    ("DRADeviceTaintRules", "KEP-5055"),
    ("DRADeviceTaints", "KEP-5055"),
    ("DRAExtendedResource", "KEP-5004"),
    ("DRAPrioritizedList", "KEP-4816"),
    ("DRAResourcePoolStatus", "KEP-5677"),
    ("DRAWorkloadResourceClaims", "KEP-5729"),
    ("DeploymentReplicaSetTerminatingReplicas", "KEP-3973"),
    ("DynamicResourceAllocation", "KEP-4381"),
    ("GenericWorkload", "KEP-4671"),
    ("HPAConfigurableTolerance", "KEP-4951"),
    ("HPAGeneration", "#138228"),
    ("HPAOptimizedSelectorStore", "#139142"),
    ("HPAScaleToZero", "KEP-2021"),
    ("HonorPVReclaimPolicy", "KEP-2644"),
    ("InOrderInformers", "#129568"),
    ("InOrderInformersBatchProcess", "#132240"),
    ("InPlacePodVerticalScaling", "KEP-1287"),
    ("InTreePluginPortworxUnregister", "KEP-2589"),
    ("InformerResourceVersion", "#123344"),
    ("JobBackoffLimitPerIndex", "KEP-3850"),
    ("JobManagedBy", "KEP-4368"),
    ("JobPodReplacementPolicy", "KEP-3939"),
    ("JobSuccessPolicy", "KEP-3998"),
    ("LogarithmicScaleDown", "KEP-2185"),
    ("LoggingAlphaOptions", "#105797"),
    ("LoggingBetaOptions", "#105797"),
    ("MaxUnavailableStatefulSet", "KEP-961"),
    ("MultiCIDRServiceAllocator", "KEP-1880"),
    ("MutableSchedulingDirectivesForSuspendedJobs", "KEP-5440"),
    ("NativeHistograms", "KEP-5808"),
    ("NodeControllerLeaseCircuitBreaker", "#138698"),
    ("OrderedNamespaceDeletion", "KEP-5080"),
    ("PersistentVolumeClaimUnusedSinceTime", "KEP-5541"),
    ("PodCertificateRequest", "KEP-4317"),
    ("PodDeletionCost", "KEP-2255"),
    ("PodIndexLabel", "KEP-4017"),
    ("PodLevelResources", "KEP-2837"),
    ("PodObservedGenerationTracking", "KEP-5067"),
    ("PreferSameTrafficDistribution", "KEP-3015"),
    ("RecoverVolumeExpansionFailure", "KEP-1790"),
    ("RemoteRequestHeaderUID", "#129081"),
    ("SELinuxChangePolicy", "KEP-1710"),
    ("SELinuxMountReadWriteOncePod", "KEP-1710"),
    ("SeparateTaintEvictionController", "KEP-3902"),
    ("ServiceTrafficDistribution", "KEP-4444"),
    ("SidecarContainers", "KEP-753"),
    ("StaleControllerConsistencyDaemonSet", "KEP-5647"),
    ("StaleControllerConsistencyHPA", "KEP-5647"),
    ("StaleControllerConsistencyJob", "KEP-5647"),
    ("StaleControllerConsistencyReplicaSet", "KEP-5647"),
    ("StaleControllerConsistencyStatefulSet", "KEP-5647"),
    ("StatefulSetAutoDeletePVC", "KEP-1847"),
    ("StatefulSetRecreateStrategy", "KEP-3541"),
    ("StatefulSetSemanticRevisionComparison", "#135017"),
    ("StorageVersionAPI", "KEP-2339"),
    ("StorageVersionMigrator", "KEP-4192"),
    ("StrictCostEnforcementForVAP", "#124675"),
    ("TaintTolerationComparisonOperators", "KEP-5471"),
    ("TopologyAwareHints", "KEP-2433"),
    ("UnauthenticatedHTTP2DOSMitigation", "#121120"),
    ("UnlockWhileProcessingFIFO", "KEP-5647"),
    ("VolumeAttributesClass", "KEP-3751"),
    ("WatchListClient", "KEP-3157"),
    ("WorkloadWithJob", "KEP-5547"),
];

/// The change of upstream that the gate called `name` comes from; `None` if the table lacks the gate.
pub fn source(name: &str) -> Option<&'static str> {
    let at = SOURCES.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(SOURCES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::READ;

    #[test]
    fn each_gate_that_is_read_has_a_source() {
        let read: Vec<_> = READ.iter().map(|(name, _)| *name).collect();
        let with_source: Vec<_> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(with_source, read);
    }

    #[test]
    fn sources_name_a_proposal_or_a_pull_request() {
        for (name, source) in SOURCES {
            let number = ["KEP-", "#"]
                .iter()
                .find_map(|mark| source.strip_prefix(mark));
            let is_number = number.is_some_and(|number| number.parse::<u32>().is_ok());
            assert!(is_number, "{name}: {source}");
        }
    }
}
