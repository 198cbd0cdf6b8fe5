//! Validation of updates, in upstream's order.
//!
//! Upstream runs some checks of the metadata more than once, and so does this module. A client
//! therefore sees some errors several times, as with upstream.

use serde_json::Value;
use steersman_releases::Release;

use super::errors::Errors;
use super::{
    autoscaler, certificates, claim, config, content, cron_job, daemon_set, disruption, endpoints,
    job, job_status, migrations, network, persistent_volume, pod, quota, rbac, replicas,
    scheduling, service, slices, small, stateful_set, storage, storage_class,
};
use crate::apimachinery::meta;
use crate::custom;
use crate::fielderror::FieldError;

/// A step of the validation of an update.
#[derive(Clone, Copy)]
enum Step {
    /// The metadata of a new object.
    Meta,
    /// The changes of the metadata.
    MetaUpdate,
    /// The fields outside the metadata.
    Content,
    /// The changes of these fields.
    Changes,
}

/// Errors of an update from `old` to `new` through the main endpoint, or through `subresource`
/// (`status`, `scale`, `finalize`). For `scale` both objects are Scales, and `kind` is `Scale`.
pub fn update(
    release: Release,
    kind: &str,
    subresource: Option<&str>,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut errors = Errors::of(release);
    meta::check_any(new, &mut errors);
    meta::check_update("", new, old, &mut errors);
    match (kind, subresource) {
        ("CertificateSigningRequest", _) => {
            certificate_update(subresource, new, old, &mut errors);
        }
        ("Namespace", Some(subresource)) => {
            meta::check_update(kind, new, old, &mut errors);
            small::namespace_update(subresource, new, &mut errors);
        }
        ("Pod", Some("ephemeralcontainers")) => pod::ephemeral_update(new, old, &mut errors),
        ("Pod", Some("resize")) => pod::resized(new, old, &mut errors),
        (_, Some("status")) => {
            meta::check_update(kind, new, old, &mut errors);
            status_update(kind, new, old, &mut errors);
        }
        (_, Some(_)) => content("Scale", new, &mut errors),
        (_, None) => {
            for step in steps(kind) {
                step.run(kind, new, old, &mut errors);
            }
        }
    }
    errors.into_list()
}

/// The steps of an update through the main endpoint.
/// Upstream: ValidateUpdate in `pkg/registry/*/*/strategy.go`.
fn steps(kind: &str) -> &'static [Step] {
    use Step::{Changes, Content, Meta, MetaUpdate};
    match kind {
        "PersistentVolume" => &[Meta, Content, Meta, Content, Changes],
        "Event" | "PodDisruptionBudget" => &[Content],
        "DaemonSet" => &[MetaUpdate, Changes, Content],
        "DeviceClass" | "ResourceClaim" => &[Meta, MetaUpdate, Content, Changes],
        "ConfigMap" | "IngressClass" | "Secret" | "VolumeAttributesClass" => {
            &[MetaUpdate, Changes, Meta, Content]
        }
        "APIService"
        | "ControllerRevision"
        | "Endpoints"
        | "Ingress"
        | "PersistentVolumeClaim"
        | "Pod"
        | "ServiceAccount" => &[MetaUpdate, Meta, Content, Changes],
        "CSINode"
        | "EndpointSlice"
        | "FlowSchema"
        | "LimitRange"
        | "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "MutatingWebhookConfiguration"
        | "PriorityLevelConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "ValidatingWebhookConfiguration"
        | "VolumeAttachment" => &[Meta, Content, Changes],
        "CSIStorageCapacity"
        | "ClusterRole"
        | "ClusterRoleBinding"
        | "IPAddress"
        | "Job"
        | "Namespace"
        | "Node"
        | "ResourceClaimTemplate"
        | "Role"
        | "RoleBinding"
        | "RuntimeClass"
        | "StorageClass"
        | "StorageVersionMigration" => &[Meta, Content, MetaUpdate, Changes],
        _ => &[MetaUpdate, Content, Changes],
    }
}

impl Step {
    fn run(self, kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
        match self {
            Self::Meta => meta::check(kind, new, errors),
            Self::MetaUpdate => meta::check_update(kind, new, old, errors),
            Self::Content => updated_content(kind, new, old, errors),
            Self::Changes => changes(kind, new, old, errors),
        }
    }
}

/// Checks the fields outside the metadata. Some kinds have other rules for updates, and some check
/// changes only.
fn updated_content(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    match kind {
        "ControllerRevision" => errors.non_negative(new, "revision"),
        "CronJob" => cron_job::check(new, Some(old), errors),
        "CustomResourceDefinition" => custom::definition::check(new, Some(old), errors),
        "EndpointSlice" => endpoints::slice(new, Some(old), errors),
        "Endpoints" => endpoints::check(new, Some(old), errors),
        "HorizontalPodAutoscaler" => autoscaler::check(new, Some(old), errors),
        "Job" => job::job(new, job::has_prefixed_labels(old), errors),
        "NetworkPolicy" => network::policy(new, Some(old), errors),
        "Pod" => pod::update(new, old, errors),
        "PriorityClass" | "ResourceClaim" => {}
        "ResourceSlice" => slices::check(new, Some(old), errors),
        "Service" => service::update(new, old, errors),
        "ServiceCIDR" => network::service_cidr_update(new, old, errors),
        "StatefulSet" => stateful_set::update(new, old, errors),
        _ => content(kind, new, errors),
    }
}

/// Checks the fields that cannot change, and the changes that depend on the old value.
fn changes(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    match kind {
        "CSIDriver" => storage::csi_driver_update(new, old, errors),
        "CSINode" => storage::csi_node_update(new, old, errors),
        "CSIStorageCapacity" => {
            errors.immutable_struct("meta.LabelSelector", new, old, "nodeTopology");
            errors.immutable(new, old, "storageClassName");
        }
        "ClusterRoleBinding" | "RoleBinding" => rbac::role_unchanged(new, old, errors),
        "ConfigMap" => config::immutable_data(new, old, errors),
        "ControllerRevision" => errors.immutable(new, old, "data"),
        "DaemonSet" | "Deployment" | "ReplicaSet" => {
            errors.immutable_struct("meta.LabelSelector", new, old, "spec.selector");
        }
        "EndpointSlice" => errors.immutable(new, old, "addressType"),
        "IPAddress" => {
            errors.immutable_struct("networking.ParentReference", new, old, "spec.parentRef");
        }
        "IngressClass" => errors.immutable(new, old, "spec.controller"),
        "Job" => job::update(new, old, errors),
        "Node" => small::node_update(new, old, errors),
        "PersistentVolume" => persistent_volume::update(new, old, errors),
        "PersistentVolumeClaim" => claim::update(new, old, errors),
        "PriorityClass" => scheduling::priority_class_update(new, old, errors),
        "ResourceClaim" => {
            errors.immutable_struct("resource.ResourceClaimSpec", new, old, "spec");
        }
        "ResourceClaimTemplate" => {
            errors.immutable_struct("resource.ResourceClaimTemplateSpec", new, old, "spec");
        }
        "ResourceQuota" => quota::scopes_unchanged(new, old, errors),
        "RuntimeClass" => errors.immutable(new, old, "handler"),
        "Secret" => {
            errors.immutable(new, old, "type");
            config::immutable_data(new, old, errors);
        }
        "StorageClass" => storage_class::update(new, old, errors),
        "StorageVersionMigration" => {
            errors.immutable_struct(
                "storagemigration.StorageVersionMigrationSpec",
                new,
                old,
                "spec",
            );
        }
        "VolumeAttachment" => {
            errors.immutable_struct("storage.VolumeAttachmentSpec", new, old, "spec");
        }
        "VolumeAttributesClass" => storage::attributes_class_update(new, old, errors),
        _ => {}
    }
}

/// The steps of a CertificateSigningRequest, which are those of all its endpoints.
fn certificate_update(subresource: Option<&str>, new: &Value, old: &Value, errors: &mut Errors) {
    const KIND: &str = "CertificateSigningRequest";
    meta::check(KIND, new, errors);
    content(KIND, new, errors);
    meta::check_update(KIND, new, old, errors);
    certificates::request_update(subresource, new, old, errors);
}

fn status_update(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    match kind {
        "DaemonSet" => daemon_set::status(new, old, errors),
        "Deployment" => replicas::deployment_status(new, old, errors),
        "Job" => job_status::update(new, old, errors),
        "ReplicaSet" | "ReplicationController" => replicas::replica_set_status(new, errors),
        "PersistentVolumeClaim" => claim::status_update(new, errors),
        "Pod" => pod::status_update(new, old, errors),
        "Service" => service::status_update(new, old, errors),
        "StatefulSet" => replicas::stateful_set_status(new, old, errors),
        "StorageVersionMigration" => migrations::status_update(new, old, errors),
        "PodDisruptionBudget" => disruption::disruption_budget_status(new, errors),
        "ResourceClaim" => small::resource_claim_status(new, old, errors),
        _ => {}
    }
}
