//! A minor release of Kubernetes, and its order.

use std::fmt;

/// A release such as `1.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u64,
    minor: u64,
}

impl Release {
    /// The oldest release that Steersman can equal.
    pub const OLDEST: Self = Self::of_minor(33);
    /// The newest release that Steersman can equal.
    pub const NEWEST: Self = Self::of_minor(37);
    /// The release that was held against a real control plane with all tests. It counts while no API server has told its version.
    pub const DEFAULT: Self = Self::of_minor(36);

    /// The release `<major>.<minor>`.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The release `1.<minor>`.
    pub const fn of_minor(minor: u64) -> Self {
        Self::new(1, minor)
    }

    /// The minor number.
    pub fn minor(self) -> u64 {
        self.minor
    }

    /// Major and minor number as texts.
    pub fn parts(self) -> (String, String) {
        (self.major.to_string(), self.minor.to_string())
    }

    /// The previous minor release.
    #[must_use]
    pub fn previous(self) -> Self {
        Self {
            minor: self.minor.saturating_sub(1),
            ..self
        }
    }

    /// Whether the ports of Endpoints and EndpointSlices are ordered by their MD5. Later releases hash
    /// them by FNV-1a with 128 bits.
    pub fn orders_ports_by_md5(self) -> bool {
        self < Self::of_minor(35)
    }

    /// Whether a feature gate is refused while another gate that it depends on is off. Upstream:
    /// `defaultKubernetesFeatureGateDependencies`, since 1.35.
    pub fn has_dependencies_of_gates(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether a new autoscaler is synced at once, rather than after one period. Since kubernetes#138294.
    pub fn syncs_new_autoscalers_at_once(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether the update of a StatefulSet with strategy `OnDelete` is complete once all pods are new and ready. Since
    /// kubernetes#136833.
    pub fn completes_updates_by_users(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether the conditions of a StatefulSet, which other clients write, survive the writes of its status. Since
    /// kubernetes#137187.
    pub fn keeps_conditions_of_stateful_sets(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether a StatefulSet with the strategy `Recreate` is left alone while its gate is off. Older releases take the
    /// strategy for a rolling update. Since kubernetes#137187.
    pub fn refuses_recreation_of_stateful_sets(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether each Job of its own gets a Workload, with the gate for it, by its `spec.scheduling`. Older releases have
    /// Workloads for Indexed Jobs whose pods all run at once. Since kubernetes#140188.
    pub fn gives_each_job_a_workload(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether the owner reference of a generated ResourceClaim blocks the deletion of its pod. 1.34 and older set
    /// `blockOwnerDeletion`.
    pub fn generated_claims_block_deletion(self) -> bool {
        self < Self::of_minor(35)
    }

    /// Whether DeviceTaintRules taint the devices of slices, by class and expression too, and have no condition. Since
    /// 1.35, they taint devices of claims by name.
    pub fn applies_device_taint_rules_to_slices(self) -> bool {
        self < Self::of_minor(35)
    }

    /// The names of the metrics of created and of existing ResourceClaims. Changed by kubernetes#138542.
    pub fn claim_metrics(self) -> [&'static str; 2] {
        if self < Self::of_minor(37) {
            [
                "resourceclaim_controller_creates_total",
                "resourceclaim_controller_resource_claims",
            ]
        } else {
            [
                "dynamic_resource_allocation_resourceclaim_creates_total",
                "dynamic_resource_allocation_resource_claims",
            ]
        }
    }

    /// Whether the metric of created ResourceClaims tells pods and PodGroups apart, by labels of the owner. Since
    /// kubernetes#140422.
    pub fn counts_created_claims_by_owner(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether a claim gets the condition `Unused` only once it is bound. In 1.36, the write meets those of the binder.
    /// Since kubernetes#140833.
    pub fn notes_use_of_bound_claims_only(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether an answer about pools counts an allocated device once, and a tainted one as unavailable. It then also has
    /// the partitions and the shared capacity. Since kubernetes#140170.
    pub fn counts_devices_of_pools_once(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// The labels of the metric of existing ResourceClaims. `source` came with 1.35.
    pub fn claim_labels(self) -> &'static [&'static str] {
        const LABELS: &[&str] = &["allocated", "admin_access", "source"];
        let without_source = self < Self::of_minor(35);
        if without_source { &LABELS[..2] } else { LABELS }
    }

    /// Whether the error about autoscalers of the same pods names two of them, rather than all. Since
    /// kubernetes#139142.
    pub fn names_two_ambiguous_autoscalers(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether objects are rewritten in their storage version by merge patches. Older releases apply them, which needs the
    /// right to create objects. Since kubernetes#138874.
    pub fn migrates_storage_by_merge_patches(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether the storage version migrator gives up unknown resources after a minute, and looks at verbs. It also skips
    /// later objects, repeats failed requests and tells the cause of a failure. It needs the feature gate
    /// `InOrderInformers`. Since `v1beta1`.
    pub fn checks_storage_migrations(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether the migrations of a resource run one after the other, and CustomResourceDefinitions show them. 1.35 and
    /// older run all of them at once.
    pub fn admits_storage_migrations(self) -> bool {
        self >= Self::of_minor(36)
    }

    /// Whether a target of an autoscaler leaves the size zero only if the autoscaler brought it there, which the condition
    /// `ScaledToZero` tells. Up to 1.35, managers ask for `minReplicas: 0` alone, and ignore the gate `HPAScaleToZero`.
    pub fn guards_targets_at_zero(self) -> bool {
        self >= Self::of_minor(36)
    }

    /// Whether errors of autoscalers wrap their causes: that of an object's metric names the object first, and an unknown
    /// type of metric counts as a fault of the spec. Since kubernetes#139029.
    pub fn wraps_errors_of_autoscalers(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether the revisions of a StatefulSet are always compared by their meaning. The manager of 1.33 writes revisions in
    /// another form than later ones and Steersman, so the bytes of two equal revisions differ there. Later releases have
    /// the gate `StatefulSetSemanticRevisionComparison`.
    pub fn always_compares_revisions_by_meaning(self) -> bool {
        self < Self::of_minor(34)
    }

    /// Whether the texts of Events about pods and claims of StatefulSets begin with a capital: `Create Pod`. 1.34 and
    /// older write `create Pod`.
    pub fn capitalizes_events_of_stateful_sets(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether a rolling update of a parallel StatefulSet with `maxUnavailable` replaces outdated pods beyond that
    /// limit if they are unavailable anyway. Since kubernetes#137666.
    pub fn replaces_unavailable_pods_of_parallel_sets(self) -> bool {
        self >= Self::of_minor(37)
    }

    /// Whether updates and scale-downs of a StatefulSet wait until ready pods are available, by `minReadySeconds`. 1.33
    /// takes ready pods for healthy. Since kubernetes#130909.
    pub fn awaits_available_pods_of_stateful_sets(self) -> bool {
        self >= Self::of_minor(34)
    }

    /// Whether autoscalers report the use of memory with binary suffixes, such as `Mi`. Since kubernetes#132351.
    pub fn reports_memory_with_binary_suffixes(self) -> bool {
        self >= Self::of_minor(34)
    }

    /// Whether a pod without the container of a metric is an error of the autoscaler. Older releases count a request of
    /// zero for it. Since kubernetes#133415.
    pub fn requires_containers_of_metrics(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether approved CertificateSigningRequests without a certificate are deleted after a day. Since
    /// kubernetes#133116.
    pub fn cleans_approved_requests_without_certificate(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether serviceaccount-token-controller runs whatever `--controllers` says. Since kubernetes#132703.
    pub fn runs_token_controller_always(self) -> bool {
        self >= Self::of_minor(35)
    }

    /// Whether expressions of a ValidatingAdmissionPolicy may use parameters of a kind without a schema. Older releases
    /// report `params` as an undeclared reference. Since 1.36, in `typechecking.go`.
    pub fn declares_params_without_schema(self) -> bool {
        self >= Self::of_minor(36)
    }

    /// The version that the embedded API server of this release tells: the one that was held against
    /// a real server, or the first one of the release.
    pub fn git_version(self) -> String {
        let seen = SEEN.iter().find(|(minor, _)| *minor == self.minor);
        format!("v{self}.{}", seen.map_or(0, |(_, patch)| *patch))
    }

    /// The nearest release that Steersman can equal.
    #[must_use]
    pub fn nearest_known(self) -> Self {
        self.clamp(Self::OLDEST, Self::NEWEST)
    }

    /// All releases that Steersman can equal, newest first.
    pub fn known() -> impl DoubleEndedIterator<Item = Self> + Clone {
        (Self::OLDEST.minor..=Self::NEWEST.minor)
            .rev()
            .map(Self::of_minor)
    }

    /// The same with [`DEFAULT`](Self::DEFAULT) first.
    pub fn preferred() -> impl Iterator<Item = Self> {
        let others = Self::known().filter(|release| *release != Self::DEFAULT);
        std::iter::once(Self::DEFAULT).chain(others)
    }

    /// The release in a version such as `v1.36.2-gke.1`, or in the numbers `1` and `36+`.
    pub fn in_version(version: &str) -> Option<Self> {
        let mut parts = version.trim_start_matches('v').split('.');
        let mut number = || {
            let part = parts.next()?;
            let end = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse().ok()
        };
        let major = number()?;
        let minor = number()?;
        Some(Self { major, minor })
    }
}

/// Minor and patch numbers of the real servers that Steersman was held against.
const SEEN: [(u64, u64); 3] = [(34, 8), (35, 5), (36, 2)];

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_versions() {
        let cases = [
            ("v1.36.2", Some("1.36")),
            ("v1.34.8-eks-1234567", Some("1.34")),
            ("1.35+", Some("1.35")),
            ("1.36", Some("1.36")),
            ("v1.37.0-alpha.2", Some("1.37")),
            ("v0.0.0-master+$Format:%H$", Some("0.0")),
            ("unknown", None),
            ("1", None),
            ("", None),
        ];
        for (version, expected) in cases {
            let found = Release::in_version(version).map(|release| release.to_string());
            assert_eq!(found.as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn unknown_releases_are_replaced_by_the_nearest_known_one() {
        let cases = [
            (Release::of_minor(20), Release::OLDEST),
            (Release::OLDEST, Release::OLDEST),
            (Release::NEWEST, Release::NEWEST),
            (Release::of_minor(99), Release::NEWEST),
            (Release::new(2, 0), Release::NEWEST),
        ];
        for (release, expected) in cases {
            assert_eq!(release.nearest_known(), expected, "{release}");
        }
        assert!(Release::known().is_sorted_by(|a, b| a > b));
        let preferred: Vec<u64> = Release::preferred().map(Release::minor).collect();
        assert_eq!(preferred, [36, 37, 35, 34, 33]);
    }
}
