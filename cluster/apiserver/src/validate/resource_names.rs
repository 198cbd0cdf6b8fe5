//! Names of resources, such as `cpu` and `requests.storage`.
//!
//! Upstream: `pkg/apis/core/helper`, and validateResourceName in `pkg/apis/core/validation`.

use super::errors::Errors;
use super::formats;
use crate::apimachinery::path::Path;

pub(super) const HUGE_PAGES: &str = "hugepages-";

/// Resources of containers.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources of quotas with amounts of units that are no objects.
const AMOUNTS: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Resources of quotas that are counted.
const COUNTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Whether Kubernetes defines a resource.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource has a domain of its own.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && formats::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether amounts of a resource are integers.
pub(super) fn is_counted(name: &str) -> bool {
    COUNTS.contains(&name) || is_extended(name)
}

/// Whether Kubernetes defines a resource that quotas can limit.
pub(super) fn is_of_quota(name: &str) -> bool {
    let is_huge = name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-");
    AMOUNTS.contains(&name) || COUNTS.contains(&name) || is_huge
}

/// Checks the name of a resource.
pub(super) fn check(field: &Path<'_>, name: &str, errors: &mut Errors) {
    let complaints = formats::qualified_name(name);
    let is_standard = name == "storage" || is_of_quota(name);
    if complaints.is_empty() && !name.contains('/') && !is_standard {
        let why = "must be a standard resource type or fully qualified";
        errors.invalid(field, name, why);
    }
    errors.complaints(field, name, complaints);
}

/// Checks the name of a resource of containers.
pub(super) fn check_of_container(field: &Path<'_>, name: &str, errors: &mut Errors) {
    if OF_CONTAINERS.contains(&name) {
        return;
    }
    check(field, name, errors);
    if !name.contains('/') {
        if !name.starts_with(HUGE_PAGES) {
            errors.invalid(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        let why = "doesn't follow extended resource name standard";
        errors.invalid(field, name, why);
    }
}
