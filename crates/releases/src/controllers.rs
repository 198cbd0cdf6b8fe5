//! Controllers that only some releases have, or only with feature gates.
//!
//! Upstream: `NewControllerDescriptors` and `requiredFeatureGates` in
//! `cmd/kube-controller-manager/app`.

use super::release::Release;

/// Controllers that releases after the oldest known one added, with the minor version of the first
/// release and upstream's pull request.
pub const ADDED: &[(&str, u64, &str)] = &[
    ("podcertificaterequest-cleaner-controller", 34, "#128010"),
    ("podgroup-protection-controller", 36, "#137641"),
    ("resourcepoolstatusrequest-controller", 36, "#137028"),
];

/// Controllers that run only with all of these feature gates.
// One line per controller keeps this readable as a table.
#[rustfmt::skip]
pub const GATED: &[(&str, &[&str])] = &[
    ("device-taint-eviction-controller", &["DynamicResourceAllocation", "DRADeviceTaints"]),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", &["ClusterTrustBundle"]),
    ("podcertificaterequest-cleaner-controller", &["PodCertificateRequest"]),
    ("podgroup-protection-controller", &["GenericWorkload"]),
    ("resourceclaim-controller", &["DynamicResourceAllocation"]),
    ("resourcepoolstatusrequest-controller", &["DRAResourcePoolStatus"]),
    ("selinux-warning-controller", &["SELinuxChangePolicy"]),
    ("service-cidr-controller", &["MultiCIDRServiceAllocator"]),
    ("storage-version-migrator-controller", &["InformerResourceVersion", "StorageVersionMigrator"]),
    ("storageversion-garbage-collector-controller", &["APIServerIdentity", "StorageVersionAPI"]),
    ("taint-eviction-controller", &["SeparateTaintEvictionController"]),
    ("volumeattributesclass-protection-controller", &["VolumeAttributesClass"]),
];

/// The feature gates that the controller called `name` needs.
pub fn gates_of(name: &str) -> &'static [&'static str] {
    let gated = GATED.iter().find(|(gated, _)| *gated == name);
    gated.map_or(&[], |(_, gates)| gates)
}

impl Release {
    /// Whether this release has a controller called `name`, if any release has it.
    pub fn has_controller(self, name: &str) -> bool {
        let added = ADDED.iter().find(|(added, ..)| *added == name);
        added.is_none_or(|(_, since, _)| self.minor() >= *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gate;

    #[test]
    fn controllers_follow_the_release() {
        let cases = [
            ("podcertificaterequest-cleaner-controller", 33, false),
            ("podcertificaterequest-cleaner-controller", 34, true),
            ("podgroup-protection-controller", 35, false),
            ("podgroup-protection-controller", 36, true),
            ("deployment-controller", 33, true),
        ];
        for (name, minor, expected) in cases {
            let release = Release::of_minor(minor);
            assert_eq!(
                release.has_controller(name),
                expected,
                "{name} in 1.{minor}"
            );
        }
        for (name, gates) in GATED {
            assert!(!gates.is_empty(), "{name}");
            for gate in *gates {
                assert!(Gate::find(gate).is_some(), "{gate} of {name}");
            }
        }
    }
}
