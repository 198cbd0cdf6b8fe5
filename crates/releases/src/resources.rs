//! Resources that kube-apiserver serves by default only since one of the known releases.
//!
//! Upstream: `storageForGroup` and `DefaultAPIResourceConfigSource` in `pkg/controlplane`, and the
//! discovery of real servers of 1.34, 1.35 and 1.36.

use super::release::Release;

/// Group and plural of resources, with the minor version of the first release that serves them by
/// default, in the version that later releases have, and upstream's pull request.
// One line per resource keeps this readable as a table.
#[rustfmt::skip]
pub const SERVED_SINCE: &[(&str, &str, u64, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", 36, "#136039"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", 36, "#136039"),
    ("resource.k8s.io", "deviceclasses", 34, "#132706"),
    ("resource.k8s.io", "resourceclaims", 34, "#132706"),
    ("resource.k8s.io", "resourceclaimtemplates", 34, "#132706"),
    ("resource.k8s.io", "resourceslices", 34, "#132706"),
    ("storage.k8s.io", "volumeattributesclasses", 34, "#131549"),
    ("storagemigration.k8s.io", "storageversionmigrations", 37, "#138560"),
];

impl Release {
    /// Whether kube-apiserver of this release serves the resource by default, if the newest known
    /// release does.
    pub fn serves(self, group: &str, plural: &str) -> bool {
        let since = SERVED_SINCE
            .iter()
            .find(|(of, name, ..)| *of == group && *name == plural);
        since.is_none_or(|(_, _, since, _)| self.minor() >= *since)
    }

    /// Whether the feature gate called `gate` is on by default in this release.
    pub fn enables(self, gate: &str) -> bool {
        let gate = crate::Gate::find(gate);
        gate.and_then(|gate| gate.at(self))
            .is_some_and(|spec| spec.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_follow_the_release() {
        let policies = ("admissionregistration.k8s.io", "mutatingadmissionpolicies");
        let claims = ("resource.k8s.io", "resourceclaims");
        let cases = [
            (policies, 35, false),
            (policies, 36, true),
            (policies, 37, true),
            (claims, 33, false),
            (claims, 34, true),
            (("apps", "deployments"), 33, true),
        ];
        for ((group, plural), minor, expected) in cases {
            let found = Release::of_minor(minor).serves(group, plural);
            assert_eq!(found, expected, "{plural} in 1.{minor}");
        }
    }

    #[test]
    fn defaults_of_gates_follow_the_release() {
        let cases = [
            ("DeploymentReplicaSetTerminatingReplicas", 34, false),
            ("DeploymentReplicaSetTerminatingReplicas", 35, true),
            ("GenericWorkload", 34, false),
            ("JobPodReplacementPolicy", 36, true),
            ("DynamicKubeletConfig", 36, false),
        ];
        for (gate, minor, expected) in cases {
            assert_eq!(
                Release::of_minor(minor).enables(gate),
                expected,
                "{gate} in 1.{minor}"
            );
        }
    }
}
