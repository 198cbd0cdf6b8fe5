//! Validation of objects, with the errors of upstream in upstream's order.
//!
//! Objects have the form that [`crate::defaults::apply`] gives them. Upstream runs the metadata
//! checks more than once, and so does this module. A client therefore sees some errors twice, as
//! with upstream. Upstream is `pkg/apis/*/validation`.

use serde_json::Value;

use crate::apimachinery::errors::{self, Errors, at};
use crate::apimachinery::{formats, meta};
use crate::custom;
use crate::fielderror::FieldError;

mod autoscaler;
mod certificates;
mod claim;
mod cron_job;
mod daemon_set;
mod disruption;
mod indexes;
mod job;
mod job_status;
mod pod;
mod pod_spec;
mod pod_update;
mod rbac;
mod replicas;
mod selector;
mod small;
mod stateful_set;
mod warnings;
mod workload;

pub(crate) use certificates::organizations;
pub(crate) use warnings::of_custom as custom_warnings;

/// Errors of a new object with defaults.
pub fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check(kind, object, &mut errors);
    content(kind, object, &mut errors);
    errors.into_list()
}

/// Errors of an update from `old` to `new` through the main endpoint, or through `subresource`
/// (`status`, `scale`, `finalize`). For `scale` both objects are Scales, and `kind` is `Scale`.
pub fn update(kind: &str, subresource: Option<&str>, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check(kind, new, &mut errors);
    meta::check_update(new, old, &mut errors);
    match (kind, subresource) {
        ("CertificateSigningRequest", _) => {
            certificates::request(new, &mut errors);
            certificates::request_update(subresource, new, old, &mut errors);
        }
        ("Namespace", _) => {
            meta::check_update(new, old, &mut errors);
            small::namespace_update(subresource, new, &mut errors);
        }
        (_, Some("status")) => {
            meta::check_update(new, old, &mut errors);
            status_update(kind, new, old, &mut errors);
        }
        (_, Some(_)) => content("Scale", new, &mut errors),
        (_, None) => spec_update(kind, new, old, &mut errors),
    }
    errors.into_list()
}

/// Warnings about a new object, or about its update from `old` through the main endpoint.
pub fn warnings(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = warnings::of_object(kind, object, old);
    found.extend(match kind {
        "Pod" => pod_spec::warnings("spec", errors::at(object, "spec")),
        "DaemonSet"
        | "Deployment"
        | "Job"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet" => pod_spec::warnings(
            "spec.template.spec",
            errors::at(object, "spec.template.spec"),
        ),
        _ => Vec::new(),
    });
    found
}

/// Errors outside the metadata.
fn content(kind: &str, object: &Value, errors: &mut Errors) {
    match kind {
        "CertificateSigningRequest" => certificates::request(object, errors),
        "ConfigMap" => small::config_map(object, errors),
        "ControllerRevision" => small::revision(object, errors),
        "CronJob" => cron_job::check(object, None, errors),
        "CustomResourceDefinition" => custom::definition::check(object, None, errors),
        "DaemonSet" => daemon_set::check(object, errors),
        "Deployment" => workload::deployment(object, errors),
        "Event" => small::event(object, errors),
        "HorizontalPodAutoscaler" => autoscaler::check(object, errors),
        "Job" => job::job(object, true, errors),
        "Lease" => small::lease(object, errors),
        "Node" => small::node(object, errors),
        "PersistentVolumeClaim" => claim::spec("spec", at(object, "spec"), errors),
        "Pod" => pod::pod(object, errors),
        "PodDisruptionBudget" => disruption::disruption_budget(object, errors),
        "ClusterRole" | "Role" => rbac::role(kind, object, errors),
        "ClusterRoleBinding" | "RoleBinding" => rbac::binding(kind, object, errors),
        "ReplicaSet" => workload::replica_set(object, errors),
        "ReplicationController" => workload::replication_controller(object, errors),
        "Scale" => errors.non_negative(object, "spec.replicas"),
        "Secret" => small::secret(object, errors),
        "Service" => small::service(object, errors),
        "StatefulSet" => stateful_set::check(object, None, errors),
        _ => {}
    }
}

/// Checks of the main endpoint, in upstream's order of immutable fields and content.
fn spec_update(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    meta::check_update(new, old, errors);
    match kind {
        "ConfigMap" => small::immutable_data(new, old, errors),
        "Secret" => {
            errors.immutable(new, old, "type");
            small::immutable_data(new, old, errors);
        }
        "Pod" => return pod_update::pod_update(new, old, errors),
        "Node" => {
            content(kind, new, errors);
            return small::node_update(new, old, errors);
        }
        "CustomResourceDefinition" => {
            custom::definition::check_update(new, old, errors);
            return custom::definition::check(new, Some(old), errors);
        }
        "Service" => small::cluster_ip_unchanged(new, old, errors),
        "StatefulSet" => return stateful_set::update(new, old, errors),
        "CronJob" => return cron_job::check(new, Some(old), errors),
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
        "ControllerRevision" => errors.immutable(new, old, "data"),
        "Deployment" | "ReplicaSet" => errors.immutable(new, old, "spec.selector"),
        "PersistentVolumeClaim" => claim::update(new, old, errors),
        "ResourceClaim" => errors.immutable(new, old, "spec"),
        "ResourceSlice" => small::resource_slice_update(new, old, errors),
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
        "Pod" => pod_update::pod_status(new, old, errors),
        "StatefulSet" => replicas::stateful_set_status(new, old, errors),
        "PodDisruptionBudget" => disruption::disruption_budget_status(new, errors),
        "ResourceClaim" => small::resource_claim_status(new, old, errors),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
