//! The types of objects that quotas count, and the resource names that each of them decides.
//!
//! Upstream: `MatchingResources` of the evaluators in `pkg/quota/v1/evaluator/core`.

use std::fmt;

use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::devices::DeviceCounting;
use super::names::{HUGE_PAGES, LIMITS, OF_STORAGE_CLASS, REQUESTS, is_extended_request};

/// Resources of containers that Kubernetes defines, besides huge pages.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Core types whose plural name is also the resource name of their number.
const COUNTED_BY_NAME: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// A type of objects that quotas count: group and plural name of a namespaced resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Counted {
    /// API group; empty for core.
    pub group: Sym,
    /// Plural name.
    pub plural: Sym,
    /// `count/<plural>.<group>`.
    count: Sym,
}

impl Counted {
    /// The type of this group and plural name.
    pub fn new(group: &str, plural: &str) -> Self {
        let dot = if group.is_empty() { "" } else { "." };
        Self {
            group: Sym::new(group),
            plural: Sym::new(plural),
            count: Sym::new(&format!("count/{plural}{dot}{group}")),
        }
    }

    /// The type that the resource name `count/<plural>.<group>` counts.
    pub fn of_name(name: &str) -> Option<Self> {
        let counted = name.strip_prefix("count/")?;
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        Some(Self::new(group, plural))
    }

    /// Whether this is the type `plural` of the core group.
    pub fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == *plural
    }

    /// Whether this type is the claims for devices.
    pub fn is_device_claims(&self) -> bool {
        self.group == *"resource.k8s.io" && self.plural == *"resourceclaims"
    }

    /// Whether objects of this type count for the resource `name` of a quota. More than one type
    /// can: pods and claims for devices both count for an extended resource.
    pub fn handles(&self, name: &str, devices: &DeviceCounting) -> bool {
        if self.count == *name {
            return true;
        }
        if self.is_device_claims() {
            return devices.handles(name);
        }
        if !self.group.is_empty() {
            return false;
        }
        match &*self.plural {
            "pods" => {
                let requested = name.strip_prefix(REQUESTS);
                let resource = requested.or_else(|| name.strip_prefix(LIMITS));
                name == "pods"
                    || COMPUTE.contains(&resource.unwrap_or(name))
                    || requested.unwrap_or(name).starts_with(HUGE_PAGES)
                    || is_extended_request(name)
            }
            "services" => matches!(
                name,
                "services" | "services.nodeports" | "services.loadbalancers"
            ),
            "persistentvolumeclaims" => {
                let of_class = name.rsplit_once(OF_STORAGE_CLASS);
                let resource = of_class.map_or(name, |(_, resource)| resource);
                matches!(resource, "persistentvolumeclaims" | "requests.storage")
            }
            plural => COUNTED_BY_NAME.contains(&plural) && plural == name,
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.count.strip_prefix("count/").unwrap_or(&self.count))
    }
}

/// The usage of one object of a type without further rules: its number.
pub fn object_count(of: &Counted) -> Amounts {
    let by_name = of.group.is_empty() && COUNTED_BY_NAME.contains(&&*of.plural);
    let names = [Some(&of.count), by_name.then_some(&of.plural)];
    let one = Quantity::whole(1);
    names
        .into_iter()
        .flatten()
        .map(|name| (name.clone(), one))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestPersistentVolumeClaimEvaluatorMatchingResources`,
    /// `TestServiceEvaluatorMatchesResources`, `TestResourceClaimEvaluatorMatchingResources`.
    #[test]
    fn each_resource_name_belongs_to_its_types() {
        let types = [
            Counted::new("", "pods"),
            Counted::new("", "services"),
            Counted::new("", "persistentvolumeclaims"),
            Counted::new("", "configmaps"),
            Counted::new("apps", "deployments"),
            Counted::new("resource.k8s.io", "resourceclaims"),
        ];
        // (name, types)
        let cases: [(&str, &[&str]); 27] = [
            ("pods", &["pods"]),
            ("count/pods", &["pods"]),
            ("cpu", &["pods"]),
            ("limits.memory", &["pods"]),
            ("requests.ephemeral-storage", &["pods"]),
            ("requests.nvidia.com/gpu", &["pods"]),
            ("requests.deviceclass.resource.kubernetes.io/gpu", &["pods"]),
            ("requests.kubernetes.io/batteries", &[]),
            ("hugepages-2Mi", &["pods"]),
            ("requests.hugepages-2Mi", &["pods"]),
            ("nvidia.com/gpu", &[]),
            ("limits.nvidia.com/gpu", &[]),
            ("services", &["services"]),
            ("services.nodeports", &["services"]),
            ("services.loadbalancers", &["services"]),
            ("configmaps", &["configmaps"]),
            ("count/configmaps", &["configmaps"]),
            ("secrets", &[]),
            ("deployments", &[]),
            ("count/deployments.apps", &["deployments.apps"]),
            ("count/deployments", &[]),
            ("requests.storage", &["persistentvolumeclaims"]),
            ("persistentvolumeclaims", &["persistentvolumeclaims"]),
            (
                "gold.storageclass.storage.k8s.io/requests.storage",
                &["persistentvolumeclaims"],
            ),
            ("gold.storageclass.storage.k8s.io/pods", &[]),
            (
                "gpu.deviceclass.resource.k8s.io/devices",
                &["resourceclaims.resource.k8s.io"],
            ),
            ("storage", &[]),
        ];
        for (name, expected) in cases {
            let handling = types
                .iter()
                .filter(|of| of.handles(name, &DeviceCounting::Classes));
            let handling: Vec<_> = handling.map(ToString::to_string).collect();
            assert_eq!(handling, expected, "{name}");
        }
    }

    #[test]
    fn a_count_names_its_type() {
        let of = |name| Counted::of_name(name).map(|of| of.to_string());
        assert_eq!(of("count/pods").as_deref(), Some("pods"));
        assert_eq!(
            of("count/crontabs.stable.example.com").as_deref(),
            Some("crontabs.stable.example.com")
        );
        assert_eq!(of("pods"), None);
    }
}
