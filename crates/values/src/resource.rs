//! Resource types and their paths at the API server.
//!
//! A [`ResourceType`] holds the data of upstream's `meta.RESTMapping`: group, version, kind, plural
//! name and scope. The statics below are the types that controllers read or write by name;
//! the client's discovery finds the others.

use std::borrow::Cow;
use std::fmt;

/// A served resource, with all that a watch, a path and an owner reference contain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceType {
    /// API group; empty for core.
    pub group: Cow<'static, str>,
    /// API version, such as `v1`.
    pub version: Cow<'static, str>,
    /// Kind, such as `ReplicaSet`.
    pub kind: Cow<'static, str>,
    /// Plural name in paths, such as `replicasets`.
    pub plural: Cow<'static, str>,
    /// True if objects of this type are in namespaces, false if they are cluster-scoped.
    pub namespaced: bool,
}

impl ResourceType {
    /// A type of any group, such as a custom resource.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced,
        }
    }

    const fn builtin(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self::new(group, "v1", kind, plural, namespaced)
    }

    /// Whether API servers may lack the type, so that nothing else may wait for its cache.
    ///
    /// These are alpha and beta types, the types of dynamic resource allocation, and
    /// VolumeAttributesClasses. Servers before 1.34 lack the `v1` of the latter two.
    pub fn is_optional(&self) -> bool {
        self.group == DEVICES
            || self.version != "v1"
            || self.plural == VOLUME_ATTRIBUTES_CLASSES.plural
    }

    /// The other versions in which releases serve the type, best first; empty if there are none, or
    /// if this is not the version that controllers name.
    pub fn other_versions(&self) -> &'static [OtherVersion] {
        let named = SERVED_DIFFERENTLY.iter().find(|named| named.0 == self);
        named.map_or(&[], |(_, _, others)| others)
    }

    /// `v1` or `apps/v1`, as in `apiVersion`.
    pub fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            Cow::Borrowed(&self.version)
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.plural)
        } else {
            write!(f, "{}.{}", self.plural, self.group)
        }
    }
}

/// Another version of a type, in which some releases serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version, such as `v1beta1`.
    pub version: &'static str,
    /// The releases for which controllers use it, such as `1.37`.
    pub releases: &'static str,
    /// The pull request of upstream that brought it.
    pub change: &'static str,
}

const fn in_releases(
    releases: &'static str,
    version: &'static str,
    change: &'static str,
) -> OtherVersion {
    OtherVersion {
        version,
        releases,
        change,
    }
}

/// Pull requests that brought the version which controllers name, or another one for several types.
const WORKLOADS_V1ALPHA2: &str = "#136976";
const WORKLOADS_V1ALPHA3: &str = "#138572";
const WORKLOADS_V1BETA1: &str = "#140184";
const DEVICES_V1: &str = "#132706";
const DEVICES_V1BETA2: &str = "#129970";

/// Types whose version depends on the release, as controllers name them. Each has the pull request of this version, and
/// the other versions with the same fields, as far as controllers use them. `PodGroup` and `StorageVersionMigration` of
/// `steersman_objects` know the fields that differ.
///
/// Upstream: `k8s.io/api` of 1.33 to 1.37.
// One line per type keeps this readable as a table.
#[rustfmt::skip]
pub static SERVED_DIFFERENTLY: [(&ResourceType, &str, &[OtherVersion]); 10] = [
    (&WORKLOADS, WORKLOADS_V1ALPHA2, &[in_releases("1.37", "v1beta1", WORKLOADS_V1BETA1), in_releases("1.37", "v1alpha3", WORKLOADS_V1ALPHA3)]),
    (&POD_GROUPS, WORKLOADS_V1ALPHA2, &[in_releases("1.37", "v1beta1", WORKLOADS_V1BETA1), in_releases("1.37", "v1alpha3", WORKLOADS_V1ALPHA3)]),
    (&POD_CERTIFICATE_REQUESTS, "#134624", &[in_releases("1.37", "v1", "#139579"), in_releases("1.34", "v1alpha1", "#128010")]),
    (&STORAGE_VERSION_MIGRATIONS, "#134784", &[in_releases("1.37", "v1", "#138560"), in_releases("1.33 and 1.34", "v1alpha1", "#123344")]),
    (&VOLUME_ATTRIBUTES_CLASSES, "#131549", &[in_releases("1.33", "v1beta1", "#126145")]),
    (&RESOURCE_CLAIMS, DEVICES_V1, &[in_releases("1.33", "v1beta2", DEVICES_V1BETA2)]),
    (&RESOURCE_CLAIM_TEMPLATES, DEVICES_V1, &[in_releases("1.33", "v1beta2", DEVICES_V1BETA2)]),
    (&RESOURCE_SLICES, DEVICES_V1, &[in_releases("1.33", "v1beta2", DEVICES_V1BETA2)]),
    (&DEVICE_CLASSES, DEVICES_V1, &[in_releases("1.33", "v1beta2", DEVICES_V1BETA2)]),
    (&DEVICE_TAINT_RULES, "#137170", &[in_releases("1.37", "v1", "#138676"), in_releases("1.33 to 1.35", "v1alpha3", "#130447")]),
];

/// The API group of dynamic resource allocation.
const DEVICES: &str = "resource.k8s.io";

const fn device(kind: &'static str, plural: &'static str, namespaced: bool) -> ResourceType {
    ResourceType::builtin(DEVICES, kind, plural, namespaced)
}

/// core/v1 pods.
pub static PODS: ResourceType = ResourceType::builtin("", "Pod", "pods", true);
/// core/v1 nodes.
pub static NODES: ResourceType = ResourceType::builtin("", "Node", "nodes", false);
/// core/v1 services.
pub static SERVICES: ResourceType = ResourceType::builtin("", "Service", "services", true);
/// core/v1 endpoints.
pub static ENDPOINTS: ResourceType = ResourceType::builtin("", "Endpoints", "endpoints", true);
/// discovery.k8s.io/v1 endpointslices.
pub static ENDPOINT_SLICES: ResourceType =
    ResourceType::builtin("discovery.k8s.io", "EndpointSlice", "endpointslices", true);
/// networking.k8s.io/v1 servicecidrs.
pub static SERVICE_CIDRS: ResourceType =
    ResourceType::builtin("networking.k8s.io", "ServiceCIDR", "servicecidrs", false);
/// networking.k8s.io/v1 ipaddresses.
pub static IP_ADDRESSES: ResourceType =
    ResourceType::builtin("networking.k8s.io", "IPAddress", "ipaddresses", false);
/// networking.k8s.io/v1 ingresses.
pub static INGRESSES: ResourceType =
    ResourceType::builtin("networking.k8s.io", "Ingress", "ingresses", true);
/// networking.k8s.io/v1 ingressclasses.
pub static INGRESS_CLASSES: ResourceType =
    ResourceType::builtin("networking.k8s.io", "IngressClass", "ingressclasses", false);
/// core/v1 events.
pub static EVENTS: ResourceType = ResourceType::builtin("", "Event", "events", true);
/// core/v1 namespaces.
pub static NAMESPACES: ResourceType = ResourceType::builtin("", "Namespace", "namespaces", false);
/// core/v1 replicationcontrollers.
pub static REPLICATION_CONTROLLERS: ResourceType =
    ResourceType::builtin("", "ReplicationController", "replicationcontrollers", true);
/// apps/v1 daemonsets.
pub static DAEMON_SETS: ResourceType =
    ResourceType::builtin("apps", "DaemonSet", "daemonsets", true);
/// apps/v1 deployments.
pub static DEPLOYMENTS: ResourceType =
    ResourceType::builtin("apps", "Deployment", "deployments", true);
/// apps/v1 replicasets.
pub static REPLICA_SETS: ResourceType =
    ResourceType::builtin("apps", "ReplicaSet", "replicasets", true);
/// batch/v1 jobs.
pub static JOBS: ResourceType = ResourceType::builtin("batch", "Job", "jobs", true);
/// batch/v1 cronjobs.
pub static CRON_JOBS: ResourceType = ResourceType::builtin("batch", "CronJob", "cronjobs", true);
/// apps/v1 statefulsets.
pub static STATEFUL_SETS: ResourceType =
    ResourceType::builtin("apps", "StatefulSet", "statefulsets", true);
/// apps/v1 controllerrevisions.
pub static CONTROLLER_REVISIONS: ResourceType =
    ResourceType::builtin("apps", "ControllerRevision", "controllerrevisions", true);
/// core/v1 persistentvolumeclaims.
pub static PERSISTENT_VOLUME_CLAIMS: ResourceType =
    ResourceType::builtin("", "PersistentVolumeClaim", "persistentvolumeclaims", true);
/// core/v1 persistentvolumes.
pub static PERSISTENT_VOLUMES: ResourceType =
    ResourceType::builtin("", "PersistentVolume", "persistentvolumes", false);
/// storage.k8s.io/v1 storageclasses.
pub static STORAGE_CLASSES: ResourceType =
    ResourceType::builtin("storage.k8s.io", "StorageClass", "storageclasses", false);
/// storage.k8s.io/v1 csidrivers.
pub static CSI_DRIVERS: ResourceType =
    ResourceType::builtin("storage.k8s.io", "CSIDriver", "csidrivers", false);
/// storage.k8s.io/v1 volumeattachments.
pub static VOLUME_ATTACHMENTS: ResourceType = ResourceType::builtin(
    "storage.k8s.io",
    "VolumeAttachment",
    "volumeattachments",
    false,
);
/// storage.k8s.io/v1 volumeattributesclasses.
pub static VOLUME_ATTRIBUTES_CLASSES: ResourceType = ResourceType::builtin(
    "storage.k8s.io",
    "VolumeAttributesClass",
    "volumeattributesclasses",
    false,
);
/// scheduling.k8s.io/v1alpha2 workloads. API servers have them only on request.
pub static WORKLOADS: ResourceType = ResourceType::new(
    "scheduling.k8s.io",
    "v1alpha2",
    "Workload",
    "workloads",
    true,
);
/// scheduling.k8s.io/v1alpha2 podgroups. API servers have them only on request.
pub static POD_GROUPS: ResourceType = ResourceType::new(
    "scheduling.k8s.io",
    "v1alpha2",
    "PodGroup",
    "podgroups",
    true,
);
/// coordination.k8s.io/v1 leases.
pub static LEASES: ResourceType =
    ResourceType::builtin("coordination.k8s.io", "Lease", "leases", true);
/// coordination.k8s.io/v1beta1 leasecandidates. API servers have them only on request.
pub static LEASE_CANDIDATES: ResourceType = ResourceType::new(
    "coordination.k8s.io",
    "v1beta1",
    "LeaseCandidate",
    "leasecandidates",
    true,
);
/// core/v1 configmaps.
pub static CONFIG_MAPS: ResourceType = ResourceType::builtin("", "ConfigMap", "configmaps", true);
/// core/v1 secrets.
pub static SECRETS: ResourceType = ResourceType::builtin("", "Secret", "secrets", true);
/// core/v1 resourcequotas.
pub static RESOURCE_QUOTAS: ResourceType =
    ResourceType::builtin("", "ResourceQuota", "resourcequotas", true);
/// core/v1 serviceaccounts.
pub static SERVICE_ACCOUNTS: ResourceType =
    ResourceType::builtin("", "ServiceAccount", "serviceaccounts", true);
/// policy/v1 poddisruptionbudgets.
pub static POD_DISRUPTION_BUDGETS: ResourceType = ResourceType::builtin(
    "policy",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    true,
);
/// autoscaling/v2 horizontalpodautoscalers.
pub static HORIZONTAL_POD_AUTOSCALERS: ResourceType = ResourceType {
    group: Cow::Borrowed("autoscaling"),
    version: Cow::Borrowed("v2"),
    kind: Cow::Borrowed("HorizontalPodAutoscaler"),
    plural: Cow::Borrowed("horizontalpodautoscalers"),
    namespaced: true,
};
/// resource.k8s.io/v1 resourceclaims.
pub static RESOURCE_CLAIMS: ResourceType = device("ResourceClaim", "resourceclaims", true);
/// resource.k8s.io/v1 resourceclaimtemplates.
pub static RESOURCE_CLAIM_TEMPLATES: ResourceType =
    device("ResourceClaimTemplate", "resourceclaimtemplates", true);
/// resource.k8s.io/v1alpha3 resourcepoolstatusrequests. API servers have them only on request.
pub static RESOURCE_POOL_STATUS_REQUESTS: ResourceType = ResourceType::new(
    DEVICES,
    "v1alpha3",
    "ResourcePoolStatusRequest",
    "resourcepoolstatusrequests",
    false,
);
/// resource.k8s.io/v1 resourceslices.
pub static RESOURCE_SLICES: ResourceType = device("ResourceSlice", "resourceslices", false);
/// resource.k8s.io/v1 deviceclasses.
pub static DEVICE_CLASSES: ResourceType = device("DeviceClass", "deviceclasses", false);
/// resource.k8s.io/v1beta2 devicetaintrules. API servers have them only on request.
pub static DEVICE_TAINT_RULES: ResourceType = ResourceType::new(
    DEVICES,
    "v1beta2",
    "DeviceTaintRule",
    "devicetaintrules",
    false,
);
/// rbac.authorization.k8s.io/v1 clusterroles.
pub static CLUSTER_ROLES: ResourceType = ResourceType::builtin(
    "rbac.authorization.k8s.io",
    "ClusterRole",
    "clusterroles",
    false,
);
/// certificates.k8s.io/v1beta1 clustertrustbundles.
pub static CLUSTER_TRUST_BUNDLES: ResourceType = trust_bundles("v1beta1");
/// certificates.k8s.io/v1alpha1 clustertrustbundles.
pub static ALPHA_CLUSTER_TRUST_BUNDLES: ResourceType = trust_bundles("v1alpha1");

const fn trust_bundles(version: &'static str) -> ResourceType {
    let kind = "ClusterTrustBundle";
    let plural = "clustertrustbundles";
    ResourceType::new("certificates.k8s.io", version, kind, plural, false)
}

/// certificates.k8s.io/v1 certificatesigningrequests.
pub static CERTIFICATE_SIGNING_REQUESTS: ResourceType = ResourceType::builtin(
    "certificates.k8s.io",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    false,
);
/// certificates.k8s.io/v1beta1 podcertificaterequests. API servers have them only on request.
pub static POD_CERTIFICATE_REQUESTS: ResourceType = ResourceType::new(
    "certificates.k8s.io",
    "v1beta1",
    "PodCertificateRequest",
    "podcertificaterequests",
    true,
);
/// authentication.k8s.io/v1 tokenreviews.
pub static TOKEN_REVIEWS: ResourceType = ResourceType::builtin(
    "authentication.k8s.io",
    "TokenReview",
    "tokenreviews",
    false,
);
/// authorization.k8s.io/v1 subjectaccessreviews.
pub static SUBJECT_ACCESS_REVIEWS: ResourceType = ResourceType::builtin(
    "authorization.k8s.io",
    "SubjectAccessReview",
    "subjectaccessreviews",
    false,
);
/// Reviews of the sender's own rights. A review is never stored.
pub static SELF_SUBJECT_ACCESS_REVIEWS: ResourceType = ResourceType::builtin(
    "authorization.k8s.io",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    false,
);
/// apiextensions.k8s.io/v1 customresourcedefinitions.
pub static CUSTOM_RESOURCE_DEFINITIONS: ResourceType = ResourceType::builtin(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    false,
);
/// internal.apiserver.k8s.io/v1alpha1 storageversions. API servers have them only on request.
pub static STORAGE_VERSIONS: ResourceType = ResourceType::new(
    "internal.apiserver.k8s.io",
    "v1alpha1",
    "StorageVersion",
    "storageversions",
    false,
);
/// storagemigration.k8s.io/v1beta1 storageversionmigrations. API servers have them only on request.
pub static STORAGE_VERSION_MIGRATIONS: ResourceType = ResourceType::new(
    "storagemigration.k8s.io",
    "v1beta1",
    "StorageVersionMigration",
    "storageversionmigrations",
    false,
);
/// admissionregistration.k8s.io/v1 validatingadmissionpolicies.
pub static VALIDATING_ADMISSION_POLICIES: ResourceType = ResourceType::builtin(
    "admissionregistration.k8s.io",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    false,
);
/// The type of an object in an answer with only metadata (`as=PartialObjectMetadata`).
pub static PARTIAL_METADATA: ResourceType = ResourceType::builtin(
    "meta.k8s.io",
    "PartialObjectMetadata",
    "partialobjectmetadata",
    false,
);
