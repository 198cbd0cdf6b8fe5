//! Parts of resource names.
//!
//! Upstream: `pkg/apis/core/v1/helper`, and the names of resources in `k8s.io/api/core/v1`.

/// Prefix of resource names for requests of pods.
pub(super) const REQUESTS: &str = "requests.";
/// Prefix of resource names for limits of pods.
pub(super) const LIMITS: &str = "limits.";
/// Prefix of resources that stand for a class of devices.
pub(super) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// Suffix of the number of devices of a class.
pub(super) const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Separates the StorageClass from the resource in names of quotas per class.
pub(super) const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Prefix of huge pages of one size.
pub(super) const HUGE_PAGES: &str = "hugepages-";

/// Whether `name` is the name of quotas for requests of an extended resource. Upstream:
/// `isExtendedResourceNameForQuota`.
pub(super) fn is_extended_request(name: &str) -> bool {
    name.strip_prefix(REQUESTS)
        .is_some_and(|requested| !is_native(name) || requested.starts_with(DEVICE_CLASS))
}

/// Whether Kubernetes defines the resource `name`. Upstream: `IsNativeResource`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}
