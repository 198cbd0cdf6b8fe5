//! Cached views of API objects: the fields that upstream's controllers read, decoded from the JSON
//! of the API server in one pass.
//!
//! JSON of a list item or watch event -> [`Object::decode`] -> view -> store of an informer
//!
//! Upstream caches the complete Go types of `k8s.io/api`. Complete types would be most of our
//! memory in a large cluster; `docs/decisions/0003-lean-views.md` has the measurements.
//!
//! Controllers never write a view back. They patch the fields that they own. Where upstream PUTs
//! a whole object, the view keeps the served [`Document`], so unknown fields survive the write.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod bootstrap_token;
mod certificate_requests;
mod cluster_info;
mod cluster_role;
mod cluster_trust_bundle;
mod condition_states;
pub mod conditions;
mod controller_revision;
mod cron_job;
mod csi;
mod daemon_set;
mod deployment;
mod device;
mod device_taint_rule;
mod document;
mod endpoint_slice;
mod endpoints;
mod horizontal_pod_autoscaler;
mod job;
mod job_policies;
mod lease;
mod meta;
mod metadata;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_group;
mod pool_slice;
mod pool_status_request;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod root_ca_config_map;
pub mod scheduling;
mod selects;
mod selinux_pod;
mod service;
mod service_account;
mod service_cidr;
mod stateful_set;
mod storage_class;
mod storage_version;
mod storage_version_migration;
mod target_ref;
pub mod template;
mod time;
mod token_secret;
mod validating_admission_policy;
pub mod view;
mod volume_attributes_class;
mod wire;
mod workload;

use std::fmt;
use std::sync::Arc;

pub use bootstrap_token::{BootstrapToken, BootstrapTokenData, SecretValue, TokenLife};
pub use certificate_requests::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus, IsSet, PodCertificateRequest, SigningRequest,
};
pub use cluster_info::ClusterInfo;
pub use cluster_role::{AggregationRule, ClusterRole, PolicyRule};
pub use cluster_trust_bundle::{
    AlphaClusterTrustBundle, ClusterTrustBundle, ClusterTrustBundleSpec,
};
pub use condition_states::{ConditionState, Conditions};
pub use controller_revision::{ControllerRevision, DataDigest};
pub use cron_job::{ActiveJob, ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus};
pub use csi::{
    CsiDriver, CsiDriverSpec, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec,
    VolumeAttachmentStatus, VolumeError,
};
pub use daemon_set::{DaemonSet, DaemonSetSpec, DaemonSetStatus, DaemonSetStrategy, RollingLimits};
pub use deployment::{
    Deployment, DeploymentSpec, DeploymentStatus, IntOrPercent, PercentError, Strategy,
};
pub use device::{
    AllocatedDevice, AllocatedDevices, Allocation, CelDeviceSelector, ClaimConsumer, DeviceClass,
    DeviceClassSpec, DeviceCount, DeviceRequest, DeviceRequests, DeviceSelector, DeviceTaint,
    PublishedDevice, PublishedSlice, PublishedSliceSpec, ResourceClaim, ResourceClaimAnnotations,
    ResourceClaimSpec, ResourceClaimStatus, ResourceClaimTemplate, ResourceClaimTemplateSpec,
    ResourcePool, ResourceSlice, ResourceSliceSpec, SliceDevices, TaintedDevice,
};
pub use device_taint_rule::{
    DeviceTaintRule, DeviceTaintRuleCondition, DeviceTaintRuleSpec, DeviceTaintRuleStatus,
    DeviceTaintSelector, RuleTaint,
};
pub use document::Document;
pub use endpoint_slice::{
    Addresses, Endpoint, EndpointConditions, EndpointHints, EndpointSlice, EndpointSlicePort,
};
pub use endpoints::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
pub use horizontal_pod_autoscaler::{
    AutoscalerBehavior, AutoscalerSpec, AutoscalerStatus, ContainerResourceMetric,
    CrossVersionReference, ExternalMetric, HorizontalPodAutoscaler, MetricIdentifier,
    MetricSelector, MetricSelectorRequirement, MetricSpec, MetricTarget, ObjectMetric, PodsMetric,
    ResourceMetric, ScalingPolicy, ScalingRules,
};
pub use job::{
    CompletionMode, Job, JobSpec, JobStatus, PodReplacementPolicy, UncountedTerminatedPods,
};
pub use job_policies::{
    OnExitCodes, OnPodCondition, PodFailurePolicy, PodFailurePolicyRule, SuccessPolicy,
    SuccessPolicyRule,
};
pub use lease::{Lease, LeaseSpec};
pub use meta::{Annotations, CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
pub use metadata::ObjectMetadata;
pub use namespace::{Namespace, NamespaceStatus};
pub use node::{
    Allocatable, AttachedVolume, MilliCpu, Node, NodeAnnotations, NodeConditions, NodeSpec,
    NodeStatus, TTL_ANNOTATION, Taint,
};
pub use persistent_volume::{
    CsiSource, HostPathSource, NfsSource, PersistentVolume, StorageAmount, VolumeAnnotations,
    VolumeClaimRef, VolumeSpec, VolumeStatus,
};
pub use persistent_volume_claim::{
    ClaimAnnotations, ClaimResources, ClaimSpec, ClaimStatus, ModifyVolumeStatus,
    PersistentVolumeClaim, VolumeSelector,
};
pub use pod::{
    ActualResources, Container, ContainerPort, JOB_TRACKING, Phase, Pod, PodAffinities,
    PodAffinity, PodAffinityTerm, PodClaimName, PodCondition, PodDetails, PodResourceClaim,
    PodResourceClaimStatus, PodSpec, PodVolume, Present, QosClass, Readiness, ResourceList,
    Resources, SchedulingGroup, TerminatedContainer, Toleration, VolumeSource,
    WeightedPodAffinityTerm, next_availability_check,
};
pub(crate) use pod::{WireNodeSelector, WirePlacement, WireRequirement, WireTemplate, WireTerm};
pub use pod_disruption_budget::{
    BudgetCondition, PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
pub use pod_group::PodGroup;
pub use pool_slice::{
    Amount, Amounts, CounterConsumption, CounterSet, PoolDevice, PoolSlice, PoolSliceSpec,
    TaintEffect, TextAttribute,
};
pub use pool_status_request::{
    PoolStatusCondition, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
};
pub use replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use replication_controller::ReplicationController;
pub use resource_quota::{
    ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopeRequirement, ScopeSelector,
};
pub use root_ca_config_map::{Description, PublishedData, RootCaConfigMap};
pub use selects::Selects;
pub use selinux_pod::{
    AttachableVolumes, ContainerSecurityContext, PodSecurityContext, SelinuxContainer,
    SelinuxOptions, SelinuxPod, SelinuxPodSpec, SelinuxPodStatus, VolumeMount,
};
pub use service::{Service, ServiceAnnotations, ServicePort, ServiceSpec, TargetPort};
pub use service_account::{SecretName, ServiceAccount};
pub use service_cidr::{
    IpAddress, ServiceCidr, ServiceCidrCondition, ServiceCidrSpec, ServiceCidrStatus,
};
pub use stateful_set::{
    ClaimRetention, PodManagement, Retention, StatefulSet, StatefulSetSpec, StatefulSetStatus,
    UpdateStrategy,
};
pub use storage_class::{StorageClass, StorageClassAnnotations};
pub use storage_version::{ServerStorageVersion, StorageVersion, StorageVersionStatus};
pub use storage_version_migration::{
    GroupResource, StorageVersionMigration, StorageVersionMigrationSpec,
    StorageVersionMigrationStatus,
};
pub use target_ref::TargetRef;
pub use time::Time;
pub use token_secret::{Filled, TokenAnnotations, TokenData, TokenSecret};
pub use validating_admission_policy::{
    MatchConstraints, ParamKind, PolicyValidation, PolicyVariable, ResourceRule,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyStatus,
};
pub use volume_attributes_class::VolumeAttributesClass;
pub use wire::{Condition, DecodeError, Identity, Parsed};
pub use workload::{PodGroupTemplate, Workload, WorkloadControllerRef};

use steersman_values::intern::Sym;
use steersman_values::resource::ResourceType;

/// The key of an object: its namespace and name. Queues and stores identify objects by it, as
/// upstream's do by the string of `MetaNamespaceKeyFunc`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key `namespace/name`. An empty namespace means a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Sym::new(namespace),
            name: Arc::from(name),
        }
    }

    /// The key with this text: `namespace/name`, or the name of a cluster-scoped object.
    pub fn of_text(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An object that informers can cache. Each view implements it.
pub trait Object: Send + Sync + Sized + 'static {
    /// The resource that an informer lists and watches.
    const RESOURCE: &'static ResourceType;
    /// The field selector of the lists and watches of an informer; empty for all objects. It keeps
    /// other objects of the resource out of the cache, such as Secrets of users.
    const FIELDS: &'static str = "";
    /// The namespace of those requests, and of the right to send them; `None` for all namespaces.
    const NAMESPACE: Option<&'static str> = None;

    /// Decodes one object from the JSON that the API server sent.
    ///
    /// Fails for malformed JSON, for JSON of another shape, and for a resource version that is not
    /// a decimal number.
    fn decode(json: &[u8]) -> Result<Self, DecodeError>;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// An estimate of the heap memory of this object, in bytes. Strings and lists that many
    /// objects share do not count.
    fn heap_size(&self) -> usize {
        self.meta().name.len()
    }

    /// The key: namespace and name.
    fn key(&self) -> ObjectKey {
        let meta = self.meta();
        ObjectKey {
            namespace: meta.namespace.clone(),
            name: Arc::clone(&meta.name),
        }
    }
}

/// The identity of an object for Events, owner references and log lines. Upstream:
/// `ObjectReference` of `k8s.io/api/core/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectReference {
    /// API version, such as `apps/v1` or `v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Resource version of the referenced copy; empty when unknown.
    pub resource_version: String,
}

impl ObjectReference {
    /// A reference to a cached object.
    pub fn of<T: Object>(object: &T) -> Self {
        let meta = object.meta();
        Self {
            api_version: T::RESOURCE.api_version().into_owned(),
            kind: T::RESOURCE.kind.clone().into_owned(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            resource_version: meta.resource_version.to_string(),
        }
    }
}
