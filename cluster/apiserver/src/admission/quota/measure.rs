//! The usage of objects, by the rules that the quota controller has, too.

use std::sync::Arc;

use serde_json::Value;
use steersman_helpers::quota::{
    Amounts, ClaimCounting, Counted, DeviceCounting, ExtendedResources, PodCounting, Scoped,
    Scopes, Tally, claim_usage, device_usage, is_extended_resource_claim_of, object_count,
    pod_of_extended_resources, pod_usage, service_usage,
};
use steersman_objects::{
    DeviceClass, Object, PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuota, Service,
};

use crate::Server;

/// The types that count for more than `count/...`: group and plural name.
const WITH_OTHER_NAMES: [(&str, &str); 8] = [
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "secrets"),
    ("", "services"),
    ("resource.k8s.io", "resourceclaims"),
];

/// An object, as far as its usage depends on it.
pub(super) enum View {
    Pod(Box<Pod>),
    Service(Service),
    Claim(Box<PersistentVolumeClaim>),
    DeviceClaim(ResourceClaim),
    /// An object of a type that is counted only by number.
    Other,
}

impl View {
    pub(super) fn of(of: &Counted, object: &Value) -> Self {
        let text = || object.to_string();
        let view = if of.is_core("pods") {
            view(&text(), |pod| Self::Pod(Box::new(pod)))
        } else if of.is_core("services") {
            view(&text(), Self::Service)
        } else if of.is_core("persistentvolumeclaims") {
            view(&text(), |claim| Self::Claim(Box::new(claim)))
        } else if of.is_device_claims() {
            view(&text(), Self::DeviceClaim)
        } else {
            None
        };
        // Validated objects can be decoded.
        view.unwrap_or(Self::Other)
    }

    pub(super) fn scoped(&self, counting: ClaimCounting) -> Scoped<'_> {
        match self {
            Self::Pod(pod) => Scoped::Pod(pod),
            Self::Claim(claim) => Scoped::of_claim(claim, counting),
            Self::Service(_) | Self::DeviceClaim(_) | Self::Other => Scoped::Other,
        }
    }
}

fn view<T: Object>(text: &str, make: impl FnOnce(T) -> View) -> Option<View> {
    T::decode(text.as_bytes()).ok().map(make)
}

impl Server {
    /// The usage of one object.
    pub(super) fn usage(&self, of: &Counted, object: &View, namespace: &str) -> Amounts {
        match object {
            View::Pod(pod) => pod_usage(pod, self.pod_counting()),
            View::Service(service) => service_usage(service),
            View::Claim(claim) => claim_usage(claim, self.claim_counting()),
            View::DeviceClaim(claim) => {
                let pod = pod_of_extended_resources(claim);
                let pod = pod.and_then(|_| self.pod_of(claim, namespace));
                let of_pod = pod.filter(|pod| {
                    let others = self.all_in::<ResourceClaim>(namespace);
                    let others = others.iter().map(|other| &**other);
                    is_extended_resource_claim_of(claim, pod, others)
                });
                let of_pod = of_pod.map(|pod| pod_usage(&pod, self.pod_counting()));
                device_usage(claim, &self.device_counting(), of_pod.as_ref())
            }
            View::Other => object_count(of),
        }
    }

    /// The pod that controls a claim.
    fn pod_of(&self, claim: &ResourceClaim, namespace: &str) -> Option<Arc<Pod>> {
        self.pod_named(&claim.meta.controller()?.name, namespace)
    }

    fn pod_named(&self, name: &str, namespace: &str) -> Option<Arc<Pod>> {
        let entry = self.registry.find("", "v1", "pods")?;
        let pod = entry.store.get(&format!("{namespace}/{name}"))?;
        Pod::decode(&pod.json()).ok().map(Arc::new)
    }

    fn pod_counting(&self) -> PodCounting {
        PodCounting {
            now: self.clock.now(),
            pod_level_resources: self.release().enables("PodLevelResources"),
            status_resources: self.release().enables("InPlacePodVerticalScaling"),
        }
    }

    /// The rules for claims in this release.
    pub(super) fn claim_counting(&self) -> ClaimCounting {
        ClaimCounting {
            allocated_storage: self.release().enables("RecoverVolumeExpansionFailure"),
            attributes_classes: self.release().enables("VolumeAttributesClass"),
        }
    }

    /// The rules for claims for devices in this release, with all classes of devices.
    pub(super) fn device_counting(&self) -> DeviceCounting {
        if !self.release().enables("DRAExtendedResource") {
            return DeviceCounting::Classes;
        }
        let classes = self.all_in::<DeviceClass>("");
        DeviceCounting::Extended(ExtendedResources::of(classes.iter().map(|class| &**class)))
    }

    /// All objects of type `T` in a namespace, or in the cluster if it is empty.
    fn all_in<T: Object>(&self, namespace: &str) -> Vec<Arc<T>> {
        let resource = T::RESOURCE;
        let entry = self
            .registry
            .find_in_group(&resource.group, &resource.plural);
        let Some(entry) = entry.filter(|entry| !entry.store.is_empty()) else {
            return Vec::new();
        };
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let objects = entry.store.list(&self.revisions, &prefix).objects;
        let decoded = objects
            .iter()
            .filter_map(|object| T::decode(&object.json()).ok());
        decoded.map(Arc::new).collect()
    }

    /// Usage of all resources that a quota limits. A limited resource without usage is 0.
    pub(super) fn used(&self, quota: &ResourceQuota) -> Amounts {
        let hard = &quota.spec.hard;
        let scopes = Scopes::of(&quota.spec);
        let namespace = &*quota.meta.namespace;
        let devices = self.device_counting();
        let named = hard.keys().filter_map(|name| Counted::of_name(name));
        let others = WITH_OTHER_NAMES.map(|(group, plural)| Counted::new(group, plural));
        let mut types: Vec<Counted> = named.chain(others).collect();
        // A quota may name thousands of types. Each step below compares one with all names.
        types.retain(|of| {
            let found = self.registry.find_in_group(&of.group, &of.plural);
            found.is_some()
        });
        types.sort();
        types.dedup();
        let mut used = Amounts::default();
        for of in types {
            let Some(tally) = Tally::of(&of, hard.keys(), &scopes, &devices) else {
                continue;
            };
            used.add(&if of.is_core("pods") {
                tally.pods(&self.all_in(namespace), self.pod_counting())
            } else if of.is_core("services") {
                tally.services(&self.all_in(namespace))
            } else if of.is_core("persistentvolumeclaims") {
                tally.claims(&self.all_in(namespace), self.claim_counting())
            } else if of.is_device_claims() {
                tally.device_claims(
                    &self.all_in(namespace),
                    &devices,
                    |name| self.pod_named(name, namespace),
                    self.pod_counting(),
                )
            } else if let Some(number) = self.number_in(&of, namespace) {
                tally.objects(&of, number)
            } else {
                continue;
            });
        }
        used
    }

    /// The number of objects of a type in a namespace; `None` for a type that quotas cannot count.
    fn number_in(&self, of: &Counted, namespace: &str) -> Option<usize> {
        let entry = self.registry.find_in_group(&of.group, &of.plural)?;
        let prefix = format!("{namespace}/");
        let list = || entry.store.list(&self.revisions, &prefix).objects.len();
        entry.resource.namespaced.then(list)
    }
}
