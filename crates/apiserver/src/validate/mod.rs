//! Validation of objects, with the errors of upstream in upstream's order.
//!
//! Objects have the form that [`crate::defaults::apply`] gives them. Upstream runs the metadata
//! checks more than once, and so does this module. A client therefore sees some errors twice, as
//! with upstream. Upstream is `pkg/apis/*/validation`.

use serde_json::Value;

use crate::apimachinery::errors::{self, Errors, at, list};
use crate::apimachinery::{formats, meta};
use crate::custom;
use crate::fielderror::FieldError;

mod autoscaler;
mod certificates;
mod claim;
mod config;
mod cron_job;
mod daemon_set;
mod devices;
mod difference;
mod disruption;
mod endpoints;
mod events;
mod flow_control;
mod fraction;
mod indexes;
mod job;
mod job_status;
mod json;
mod network;
mod persistent_volume;
mod pod;
mod policies;
mod quota;
mod rbac;
mod registration;
mod replicas;
mod scheduling;
mod selector;
mod service;
mod slices;
mod small;
mod stateful_set;
mod storage;
mod storage_class;
mod warnings;
mod webhooks;
mod workload;

pub(crate) use certificates::subject as certificate_subject;
pub(crate) use events::{strict as strict_event, strict_update as strict_event_update};

/// Kinds whose updates upstream validates like new objects, with the finalizers once more.
const REVALIDATED: [&str; 23] = [
    "CSIStorageCapacity",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ControllerRevision",
    "DeviceClass",
    "Endpoints",
    "IPAddress",
    "Ingress",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "StorageClass",
    "VolumeAttributesClass",
];

/// Errors of a new object with defaults.
pub fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check(kind, object, &mut errors);
    meta::finalizer_domains(kind, object, &mut errors);
    content(kind, object, &mut errors);
    if kind == "Ingress" {
        network::ingress_class_agrees(object, &mut errors);
    }
    errors.into_list()
}

/// Errors of an update from `old` to `new` through the main endpoint, or through `subresource`
/// (`status`, `scale`, `finalize`). For `scale` both objects are Scales, and `kind` is `Scale`.
pub fn update(kind: &str, subresource: Option<&str>, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check(kind, new, &mut errors);
    meta::check_update(new, old, &mut errors);
    if REVALIDATED.contains(&kind) {
        let finalizers = list(new, "metadata.finalizers");
        meta::finalizer_names("metadata.finalizers", finalizers, &mut errors);
        meta::finalizer_domains(kind, new, &mut errors);
    }
    meta::finalizer_domains(kind, new, &mut errors);
    match (kind, subresource) {
        ("CertificateSigningRequest", _) => {
            certificates::request(new, &mut errors);
            certificates::request_update(subresource, new, old, &mut errors);
        }
        ("Namespace", _) => {
            meta::check_update(new, old, &mut errors);
            small::namespace_update(subresource, new, &mut errors);
        }
        ("Pod", Some("ephemeralcontainers")) => pod::ephemeral_update(new, old, &mut errors),
        ("Pod", Some("resize")) => pod::resized(new, old, &mut errors),
        (_, Some("status")) => {
            meta::check_update(new, old, &mut errors);
            status_update(kind, new, old, &mut errors);
        }
        (_, Some(_)) => content("Scale", new, &mut errors),
        (_, None) => spec_update(kind, new, old, &mut errors),
    }
    errors.into_list()
}

/// Warnings about a valid new object of a built-in kind, with defaults.
pub fn warnings(kind: &str, object: &Value) -> Vec<String> {
    warnings::create(kind, object)
}

/// Warnings about a valid update of a built-in kind, through the main endpoint or `subresource`.
pub fn update_warnings(
    kind: &str,
    subresource: Option<&str>,
    new: &Value,
    old: &Value,
) -> Vec<String> {
    warnings::update(kind, subresource, new, old)
}

/// Warnings about the finalizers that a custom object gets.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    warnings::finalizers(new, old)
}

/// Errors outside the metadata.
fn content(kind: &str, object: &Value, errors: &mut Errors) {
    match kind {
        "CertificateSigningRequest" => certificates::request(object, errors),
        "APIService" => registration::check(object, errors),
        "CSIDriver" => storage::csi_driver(object, errors),
        "CSINode" => storage::csi_node(object, errors),
        "CSIStorageCapacity" => storage::storage_capacity(object, errors),
        "ConfigMap" => config::config_map(object, errors),
        "ControllerRevision" => small::revision(object, errors),
        "CronJob" => cron_job::check(object, None, errors),
        "CustomResourceDefinition" => custom::definition::check(object, None, errors),
        "DaemonSet" => daemon_set::check(object, errors),
        "Deployment" => workload::deployment(object, errors),
        "EndpointSlice" => endpoints::slice(object, None, errors),
        "Endpoints" => endpoints::check(object, None, errors),
        "Event" => events::check(object, errors),
        "DeviceClass" => devices::class(object, errors),
        "FlowSchema" => flow_control::schema(object, errors),
        "HorizontalPodAutoscaler" => autoscaler::check(object, None, errors),
        "IPAddress" => network::ip_address(object, errors),
        "Ingress" => network::ingress(object, errors),
        "IngressClass" => network::ingress_class(object, errors),
        "Job" => job::job(object, true, errors),
        "Lease" => small::lease(object, errors),
        "LimitRange" => quota::limit_range(object, errors),
        "MutatingAdmissionPolicy" => policies::mutating(object, errors),
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            policies::binding(kind, object, errors);
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            webhooks::configuration(object, errors);
        }
        "Namespace" => {
            meta::finalizer_names("spec.finalizers", list(object, "spec.finalizers"), errors)
        }
        "NetworkPolicy" => network::policy(object, None, errors),
        "Node" => small::node(object, errors),
        "PersistentVolumeClaim" => claim::spec("spec", at(object, "spec"), errors),
        "PersistentVolume" => persistent_volume::check(object, errors),
        "Pod" => pod::create(object, errors),
        "PodTemplate" => pod::template("template", at(object, "template"), errors),
        "PodDisruptionBudget" => disruption::disruption_budget(object, errors),
        "PriorityClass" => scheduling::priority_class(object, errors),
        "PriorityLevelConfiguration" => flow_control::priority_level(object, errors),
        "ClusterRole" | "Role" => rbac::role(kind, object, errors),
        "ClusterRoleBinding" | "RoleBinding" => rbac::binding(kind, object, errors),
        "ReplicaSet" => workload::replica_set(object, errors),
        "ReplicationController" => workload::replication_controller(object, errors),
        "ResourceClaim" => devices::claim("spec", at(object, "spec"), errors),
        "ResourceClaimTemplate" => {
            let metadata = at(object, "spec.metadata");
            meta::annotations(
                "spec.metadata.annotations",
                at(metadata, "annotations"),
                errors,
            );
            meta::labels("spec.metadata.labels", at(metadata, "labels"), errors);
            devices::claim("spec.spec", at(object, "spec.spec"), errors);
        }
        "ResourceQuota" => quota::resource_quota(object, errors),
        "ResourceSlice" => slices::check(object, None, errors),
        "RuntimeClass" => scheduling::runtime_class(object, errors),
        "Scale" => errors.non_negative(object, "spec.replicas"),
        "Secret" => config::secret(object, errors),
        "Service" => service::check(object, None, errors),
        "StatefulSet" => stateful_set::check(object, None, errors),
        "StorageClass" => storage_class::check(object, errors),
        "ServiceCIDR" => network::service_cidr(object, errors),
        "ValidatingAdmissionPolicy" => policies::validating(object, errors),
        "VolumeAttachment" => storage::volume_attachment(object, errors),
        "VolumeAttributesClass" => storage::attributes_class(object, errors),
        _ => {}
    }
}

/// Checks of the main endpoint, in upstream's order of immutable fields and content.
fn spec_update(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    meta::check_update(new, old, errors);
    match kind {
        "ConfigMap" => config::immutable_data(new, old, errors),
        "Secret" => {
            errors.immutable(new, old, "type");
            config::immutable_data(new, old, errors);
        }
        "Pod" => return pod::update(new, old, errors),
        "Node" => {
            content(kind, new, errors);
            return small::node_update(new, old, errors);
        }
        "CustomResourceDefinition" => {
            custom::definition::check_update(new, old, errors);
            return custom::definition::check(new, Some(old), errors);
        }
        "Service" => return service::update(new, old, errors),
        "StatefulSet" => return stateful_set::update(new, old, errors),
        "CronJob" => return cron_job::check(new, Some(old), errors),
        "EndpointSlice" => {
            endpoints::slice(new, Some(old), errors);
            return errors.immutable(new, old, "addressType");
        }
        "Endpoints" => return endpoints::check(new, Some(old), errors),
        "Event" => return events::check(new, errors),
        "HorizontalPodAutoscaler" => return autoscaler::check(new, Some(old), errors),
        "IPAddress" => return errors.immutable(new, old, "spec.parentRef"),
        "IngressClass" => errors.immutable(new, old, "spec.controller"),
        "NetworkPolicy" => return network::policy(new, Some(old), errors),
        "PriorityClass" => return scheduling::priority_class_update(new, old, errors),
        "ResourceClaim" | "ResourceClaimTemplate" => return errors.immutable(new, old, "spec"),
        "ResourceSlice" => return slices::check(new, Some(old), errors),
        "ServiceCIDR" => return network::service_cidr_update(new, old, errors),
        "CSIStorageCapacity" => {
            errors.immutable(new, old, "nodeTopology");
            return errors.immutable(new, old, "storageClassName");
        }
        "VolumeAttributesClass" => storage::attributes_class_update(new, old, errors),
        "DaemonSet" => errors.immutable(new, old, "spec.selector"),
        "Job" => {
            job::job(new, job::has_prefixed_labels(old), errors);
            meta::check_update(new, old, errors);
            return job::update(new, old, errors);
        }
        _ => {}
    }
    content(kind, new, errors);
    match kind {
        "CSIDriver" => storage::csi_driver_update(new, old, errors),
        "CSINode" => storage::csi_node_update(new, old, errors),
        "ControllerRevision" => errors.immutable(new, old, "data"),
        "Deployment" | "ReplicaSet" => errors.immutable(new, old, "spec.selector"),
        "PersistentVolume" => persistent_volume::update(new, old, errors),
        "PersistentVolumeClaim" => claim::update(new, old, errors),
        "StorageClass" => storage_class::update(new, old, errors),
        "RuntimeClass" => errors.immutable(new, old, "handler"),
        "ResourceQuota" => quota::scopes_unchanged(new, old, errors),
        "VolumeAttachment" => errors.immutable(new, old, "spec"),
        "ClusterRoleBinding" | "RoleBinding" => rbac::role_unchanged(new, old, errors),
        _ => {}
    }
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
        "PodDisruptionBudget" => disruption::disruption_budget_status(new, errors),
        "ResourceClaim" => small::resource_claim_status(new, old, errors),
        _ => {}
    }
}

#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
