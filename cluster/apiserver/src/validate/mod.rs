//! Validation of objects, with the errors of upstream in upstream's order.
//!
//! Objects have the form that [`crate::defaults::apply`] gives them. Upstream is
//! `pkg/apis/*/validation`.

use serde_json::Value;
use steersman_releases::Release;

use crate::apimachinery::errors::{self, Errors, at};
use crate::apimachinery::path::Path;
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
mod migrations;
mod network;
mod persistent_volume;
mod pod;
mod policies;
mod quota;
mod rbac;
mod registration;
mod replicas;
mod resource_names;
mod scheduling;
mod selector;
mod service;
mod slices;
mod small;
mod stateful_set;
mod storage;
mod storage_class;
mod update;
mod warnings;
mod webhooks;
mod workload;

pub(crate) use certificates::subject as certificate_subject;
pub(crate) use events::{strict as strict_event, strict_update as strict_event_update};
pub(crate) use service::addresses as service_addresses;
pub use update::update;

/// Kinds whose own validation leaves the metadata to the checks of all kinds.
const WITHOUT_METADATA: [&str; 2] = ["Event", "PodDisruptionBudget"];

/// Errors of a new object with defaults. [`common_metadata`] has those of some kinds' metadata.
pub fn create(release: Release, kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::of(release);
    if !WITHOUT_METADATA.contains(&kind) {
        meta::check(kind, object, &mut errors);
    }
    content(kind, object, &mut errors);
    if kind == "Ingress" {
        network::ingress_class_agrees(object, &mut errors);
    }
    errors.into_list()
}

/// Errors in the metadata of a new object that is valid otherwise, for kinds that leave the
/// metadata to the checks of all kinds.
pub fn common_metadata(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if WITHOUT_METADATA.contains(&kind) {
        meta::check_any(object, &mut errors);
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
        "Namespace" => small::namespace(object, errors),
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
            let path = Path::new("spec.metadata");
            pod::claim_metadata(&path, at(object, "spec.metadata"), errors);
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
        "StorageVersionMigration" => migrations::check(object, errors),
        "ServiceCIDR" => network::service_cidr(object, errors),
        "ValidatingAdmissionPolicy" => policies::validating(object, errors),
        "VolumeAttachment" => storage::volume_attachment(object, errors),
        "VolumeAttributesClass" => storage::attributes_class(object, errors),
        _ => {}
    }
}

#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
