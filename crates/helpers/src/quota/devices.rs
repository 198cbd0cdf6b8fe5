//! Usage of claims for devices, and the extended resources that stand for classes of devices.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/resource_claims.go`, and `extendedresourcecache` of
//! `k8s.io/dynamic-resource-allocation`.

use std::collections::{HashMap, HashSet};

use steersman_objects::{DeviceClass, DeviceCount, Pod, ResourceClaim, Uid};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::names::{DEVICE_CLASS, DEVICES_OF_CLASS, REQUESTS, is_extended_request};

/// The most devices of one claim. It counts for a request of all devices. Upstream:
/// `AllocationResultsMaxSize`.
const MOST_DEVICES: i64 = 32;

/// The extended resources that classes of devices stand for.
#[derive(Debug, Clone, Default)]
pub struct ExtendedResources {
    /// Extended resource by name of the class.
    by_class: HashMap<Sym, Sym>,
    /// The extended resources of all classes: the ones in their specs, and the implicit ones.
    all: HashSet<Sym>,
}

/// The part of claims for devices in quotas.
#[derive(Debug, Clone)]
pub enum DeviceCounting {
    /// Their number, as of other types: the gate `DynamicResourceAllocation` is off.
    Number,
    /// Their number, and the devices of each class.
    Classes,
    /// Devices count for extended resources, too: the gate `DRAExtendedResource` is on.
    Extended(ExtendedResources),
}

impl DeviceCounting {
    /// Whether claims for devices count for the resource `name` of a quota.
    pub(super) fn handles(&self, name: &str) -> bool {
        match self {
            Self::Number => false,
            Self::Classes => name.ends_with(DEVICES_OF_CLASS),
            Self::Extended(extended) => {
                name.ends_with(DEVICES_OF_CLASS) || extended.counts_devices(name)
            }
        }
    }
}

impl ExtendedResources {
    /// The extended resources of `classes`.
    pub fn of<'a>(classes: impl IntoIterator<Item = &'a DeviceClass>) -> Self {
        let mut known = Self::default();
        for class in classes {
            let name = Sym::new(&class.meta.name);
            known.all.insert(Sym::new(&format!("{DEVICE_CLASS}{name}")));
            if let Some(resource) = &class.spec.extended_resource_name {
                known.all.insert(resource.clone());
                known.by_class.insert(name, resource.clone());
            }
        }
        known
    }

    /// Whether claims for devices count for the resource `name` of a quota.
    fn counts_devices(&self, name: &str) -> bool {
        let requested = name.strip_prefix(REQUESTS);
        is_extended_request(name) && requested.is_some_and(|name| self.all.contains(name))
    }

    /// The names under which quotas count the devices of a class as requests.
    fn requests_of(&self, class: &str) -> impl Iterator<Item = String> {
        let explicit = self.by_class.get(class);
        let explicit = explicit.map(|resource| format!("{REQUESTS}{resource}"));
        [Some(format!("{REQUESTS}{DEVICE_CLASS}{class}")), explicit]
            .into_iter()
            .flatten()
    }
}

/// The usage of a claim for devices. `of_pod` is the usage of its pod, if the claim is the one for the
/// extended resources of that pod: these count once.
pub fn device_usage(
    claim: &ResourceClaim,
    counting: &DeviceCounting,
    of_pod: Option<&Amounts>,
) -> Amounts {
    const COUNT: &str = "count/resourceclaims.resource.k8s.io";
    if matches!(counting, DeviceCounting::Number) {
        return [(Sym::new(COUNT), Quantity::whole(1))]
            .into_iter()
            .collect();
    }
    let mut devices = Amounts::default();
    for request in &claim.spec.devices.requests {
        if request.first_available.is_empty() {
            // A request of a later version has neither member, and counts nothing.
            request
                .exactly
                .iter()
                .for_each(|one| devices.add(&most_devices(one)));
        } else {
            let mut most = Amounts::default();
            for alternative in &request.first_available {
                most.raise_to(&most_devices(alternative));
            }
            devices.add(&most.beyond(&Amounts::default()));
        }
    }
    let mut usage = devices.clone();
    usage.set(COUNT, Quantity::whole(1));
    if let DeviceCounting::Extended(extended) = counting {
        let mut requests = Amounts::default();
        for (name, number) in devices.iter() {
            let class = name.strip_suffix(DEVICES_OF_CLASS).unwrap_or_default();
            for name in extended.requests_of(class) {
                requests.set(&name, number);
            }
        }
        usage.replace(&requests.beyond(of_pod.unwrap_or(&Amounts::default())));
    }
    usage
}

/// The most devices that a request can get. An unknown mode, possible after a downgrade, counts
/// nothing.
fn most_devices(request: &DeviceCount) -> Amounts {
    let number = match &*request.allocation_mode {
        "ExactCount" => request.count,
        "All" => MOST_DEVICES,
        _ => 0,
    };
    let name = format!("{}{DEVICES_OF_CLASS}", request.device_class_name);
    [(Sym::new(&name), Quantity::whole(number))]
        .into_iter()
        .collect()
}

/// The UID of the pod whose extended resources `claim` is for, by its annotation and its controller
/// reference.
pub fn pod_of_extended_resources(claim: &ResourceClaim) -> Option<&Uid> {
    if claim.annotations.extended_resource_claim.as_deref() != Some("true") {
        return None;
    }
    let owner = claim.meta.controller()?;
    (owner.kind == *"Pod" && owner.api_version == *"v1").then_some(&owner.uid)
}

/// Whether `claim` is the one for the extended resources of `pod`. `others` are claims of the
/// namespace: if the pod does not name its claim, its oldest one counts. Upstream:
/// `getVerifiedPodUsage`.
pub fn is_extended_resource_claim_of<'a>(
    claim: &ResourceClaim,
    pod: &Pod,
    others: impl IntoIterator<Item = &'a ResourceClaim>,
) -> bool {
    if pod_of_extended_resources(claim) != Some(&pod.meta.uid) {
        return false;
    }
    if let Some(named) = &pod.details().extended_resource_claim {
        return *named == *claim.meta.name;
    }
    let age = |claim: &'a ResourceClaim| (claim.meta.created, &claim.meta.name);
    let own = (claim.meta.created, &claim.meta.name);
    others
        .into_iter()
        .filter(|other| pod_of_extended_resources(other) == Some(&pod.meta.uid))
        .all(|other| age(other) >= own)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::Object;

    use super::*;

    fn decode<T: Object>(object: Value) -> T {
        T::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn extended_resources_count_with_their_classes() {
        let class = |name: &str, resource: Value| -> DeviceClass {
            decode(json!({"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}))
        };
        let classes = [
            class("gpu", json!("example.com/gpu")),
            class("nic", json!(null)),
        ];
        let extended = ExtendedResources::of(&classes);
        // (name, counted)
        let cases = [
            ("requests.example.com/gpu", true),
            ("requests.example.com/nic", false),
            ("requests.deviceclass.resource.kubernetes.io/gpu", true),
            ("requests.deviceclass.resource.kubernetes.io/nic", true),
            ("requests.deviceclass.resource.kubernetes.io/tpu", false),
            ("example.com/gpu", false),
            ("requests.cpu", false),
        ];
        for (name, counted) in cases {
            assert_eq!(extended.counts_devices(name), counted, "{name}");
        }
    }

    #[test]
    fn one_claim_of_a_pod_is_for_its_extended_resources() {
        let claim = |name: &str, created: &str, uid: &str| -> ResourceClaim {
            let owner = json!({
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true,
            });
            decode(json!({"metadata": {
                "name": name, "namespace": "n", "creationTimestamp": created,
                "ownerReferences": [owner],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            }}))
        };
        let pod = |named: Value| -> Pod {
            decode(json!({
                "metadata": {"name": "p", "namespace": "n", "uid": "u"},
                "status": {"extendedResourceClaimStatus": named},
            }))
        };
        let early = "2026-01-01T00:00:00Z";
        let late = "2026-01-01T00:00:01Z";
        let all = [
            claim("b", early, "u"),
            claim("c", early, "u"),
            claim("a", late, "u"),
            claim("other", early, "v"),
        ];
        let of = |pod: Pod| -> Vec<&str> {
            let own = all
                .iter()
                .filter(|one| is_extended_resource_claim_of(one, &pod, &all));
            own.map(|one| &*one.meta.name).collect()
        };
        assert_eq!(of(pod(Value::Null)), ["b"], "the oldest, by name");
        assert_eq!(of(pod(json!({"resourceClaimName": "a"}))), ["a"]);
    }
}
