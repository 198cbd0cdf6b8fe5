//! The cached views of dynamic resource allocation: claims for devices, and the devices of drivers.
//!
//! Slices publish up to 128 devices each, with attributes and capacities. Controllers ask for the
//! devices that evict pods, so a view keeps only these, and the names of all devices. Upstream:
//! `k8s.io/api/resource/v1`.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use steersman_values::intern::Sym;
use steersman_values::resource::{
    DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES,
};

use super::wire::{lenient_time, nullable};
use super::{Pod, ResourceList, Toleration, Uid};
use crate::view;

view! {
    /// A claim for devices.
    pub struct ResourceClaim: RESOURCE_CLAIMS, annotations: ResourceClaimAnnotations, keeps document {
        /// `spec`.
        pub spec: ResourceClaimSpec,
        /// `status`.
        pub status: ResourceClaimStatus,
    }

    /// Annotations of a ResourceClaim that controllers read.
    pub struct ResourceClaimAnnotations {
        /// `true` for the claim that the scheduler makes for the extended resources of a pod.
        #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
        pub extended_resource_claim: Option<Sym>,
        /// The claim within a pod for which this one was made from a template.
        #[serde(rename = "resource.kubernetes.io/pod-claim-name")]
        pub pod_claim_name: Option<Sym>,
    }

    /// `spec` of a ResourceClaim.
    pub struct ResourceClaimSpec {
        /// `devices`.
        pub devices: DeviceRequests,
    }

    /// `devices` of the spec.
    pub struct DeviceRequests {
        /// The requests.
        pub requests: Vec<DeviceRequest>,
    }

    /// A request: devices of one class, or alternatives.
    pub struct DeviceRequest {
        /// Devices of one class.
        pub exactly: Option<DeviceCount>,
        /// Alternatives, of which the first available one is allocated.
        pub first_available: Vec<DeviceCount>,
    }

    /// A number of devices of one class.
    pub struct DeviceCount {
        /// Name of the class.
        pub device_class_name: Sym,
        /// `ExactCount` or `All`.
        pub allocation_mode: Sym,
        /// Number of devices for `ExactCount`.
        pub count: i64,
        /// Whether the pods get administrative access, to devices in use as well.
        pub admin_access: bool,
    }

    /// `status` of a ResourceClaim.
    pub struct ResourceClaimStatus {
        /// The allocated devices; unset until the scheduler has allocated them.
        pub allocation: Option<Allocation>,
        /// The pods and other objects that may use the devices.
        pub reserved_for: Vec<ClaimConsumer>,
    }

    /// The devices of a claim.
    pub struct Allocation {
        /// `devices`.
        pub devices: AllocatedDevices,
    }

    /// `devices` of an allocation.
    pub struct AllocatedDevices {
        /// The devices, one per entry.
        pub results: Vec<AllocatedDevice>,
    }

    /// A device of a claim.
    pub struct AllocatedDevice {
        /// Name of the driver.
        pub driver: Sym,
        /// Name of the pool.
        pub pool: Sym,
        /// Name of the device in its pool.
        pub device: Sym,
        /// Whether the claim only observes the device, which others may use.
        pub admin_access: bool,
        /// The capacity that the claim uses of a device which several claims can share.
        pub consumed_capacity: ResourceList,
        /// Tolerations, as the scheduler copied them from the spec of the claim.
        pub tolerations: Vec<Toleration>,
    }

    /// An object that may use the devices of a claim.
    pub struct ClaimConsumer {
        /// API group; empty for the core group.
        pub api_group: Sym,
        /// Plural name of the resource, such as `pods`.
        pub resource: Sym,
        /// Name.
        pub name: Box<str>,
        /// UID.
        pub uid: Option<Uid>,
    }
}

impl ResourceClaimSpec {
    /// Whether a request asks for administrative access. Upstream: `getAdminAccessMetricLabel`.
    pub fn wants_admin_access(&self) -> bool {
        let mut requests = self.devices.requests.iter();
        requests.any(|request| request.exactly.as_ref().is_some_and(|one| one.admin_access))
    }
}

impl ResourceClaim {
    /// Whether this claim from a template was made for `pod`, or for its PodGroup if PodGroups may
    /// have claims. Upstream: `IsForPod`.
    pub fn is_for_pod(&self, pod: &Pod, pod_groups: bool) -> bool {
        if self.meta.is_controlled_by(&pod.meta.uid) {
            return true;
        }
        let owner = self.meta.controller().filter(|_| pod_groups);
        let group = pod.spec.scheduling_group.pod_group_name.as_ref();
        owner.zip(group).is_some_and(|(owner, group)| {
            owner.name == *group
                && owner.kind == *"PodGroup"
                && owner.api_version.starts_with("scheduling.k8s.io/")
        })
    }

    /// Whether the claim is reserved for `pod`, or for its PodGroup if PodGroups may have claims.
    /// Upstream: `IsReservedForPod`.
    pub fn is_reserved_for_pod(&self, pod: &Pod, pod_groups: bool) -> bool {
        let group = pod.spec.scheduling_group.pod_group_name.as_ref();
        let group = group.filter(|_| pod_groups);
        let is_pod_or_group = |consumer: &ClaimConsumer| {
            consumer.uid.as_ref() == Some(&pod.meta.uid)
                || (consumer.is_pod_group() && group.is_some_and(|group| *consumer.name == **group))
        };
        self.status.reserved_for.iter().any(is_pod_or_group)
    }
}

impl ClaimConsumer {
    /// Whether the consumer is a pod.
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == *"pods"
    }

    /// Whether the consumer is a PodGroup.
    pub fn is_pod_group(&self) -> bool {
        self.api_group == *"scheduling.k8s.io" && self.resource == *"podgroups"
    }
}

impl ResourceClaimStatus {
    /// Whether the claim is reserved for the object with this UID.
    pub fn is_reserved_for(&self, uid: &Uid) -> bool {
        let mut consumers = self.reserved_for.iter();
        consumers.any(|consumer| consumer.uid.as_ref() == Some(uid))
    }
}

view! {
    /// The claims that pods get which name this template. The document has the whole `spec`.
    pub struct ResourceClaimTemplate: RESOURCE_CLAIM_TEMPLATES, keeps document {
        /// `spec`.
        pub spec: ResourceClaimTemplateSpec,
    }

    /// `spec` of a ResourceClaimTemplate.
    pub struct ResourceClaimTemplateSpec {
        /// `spec` of the claims.
        pub spec: ResourceClaimSpec,
    }
}

view! {
    /// A part of a pool of devices, which a driver publishes.
    pub struct ResourceSlice: RESOURCE_SLICES {
        /// `spec`.
        pub spec: ResourceSliceSpec,
    }

    /// `spec` of a ResourceSlice.
    pub struct ResourceSliceSpec {
        /// Name of the driver.
        pub driver: Sym,
        /// The pool.
        pub pool: ResourcePool,
        /// The node of the devices, if they are local to one.
        pub node_name: Option<Sym>,
        /// The devices.
        pub devices: SliceDevices,
    }

    /// The pool of a slice.
    pub struct ResourcePool {
        /// Name.
        pub name: Sym,
        /// Generation. Slices with a lower generation than others of the pool are outdated.
        pub generation: i64,
        /// Number of slices of the pool in this generation.
        pub resource_slice_count: i64,
    }
}

view! {
    /// A class of devices.
    pub struct DeviceClass: DEVICE_CLASSES {
        /// `spec`.
        pub spec: DeviceClassSpec,
    }

    /// `spec` of a DeviceClass.
    pub struct DeviceClassSpec {
        /// The extended resource that requests devices of the class.
        pub extended_resource_name: Option<Sym>,
        /// Expressions that all have to select a device of the class.
        pub selectors: Vec<DeviceSelector>,
    }

    /// A selector of devices.
    pub struct DeviceSelector {
        /// `cel`.
        pub cel: CelDeviceSelector,
    }

    /// A selector of devices by an expression.
    pub struct CelDeviceSelector {
        /// The expression.
        pub expression: Box<str>,
    }
}

view! {
    /// A ResourceSlice with the attributes and capacities of its devices. Other views lack them.
    pub struct PublishedSlice: RESOURCE_SLICES {
        /// `spec`.
        pub spec: PublishedSliceSpec,
    }

    /// `spec` of a ResourceSlice.
    pub struct PublishedSliceSpec {
        /// Name of the driver.
        pub driver: Sym,
        /// The pool.
        pub pool: ResourcePool,
        /// The node of the devices, if they are local to one.
        pub node_name: Option<Sym>,
        /// The devices.
        pub devices: Vec<PublishedDevice>,
    }
}

/// A device with its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PublishedDevice {
    /// Name in the pool.
    #[serde(deserialize_with = "nullable")]
    pub name: Sym,
    /// Attributes by name.
    #[serde(deserialize_with = "nullable")]
    pub attributes: Map<String, Value>,
    /// Capacities by name.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Map<String, Value>,
    /// The taints with the effect `NoExecute`.
    #[serde(deserialize_with = "no_execute")]
    pub taints: Vec<DeviceTaint>,
}

/// The devices of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceDevices {
    /// Names of all devices.
    pub names: Vec<Sym>,
    /// The devices that have taints with the effect `NoExecute`.
    pub tainted: Vec<TaintedDevice>,
}

/// A device with its taints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaintedDevice {
    /// Name in the pool.
    #[serde(deserialize_with = "nullable")]
    pub name: Sym,
    /// The taints with the effect `NoExecute`. At least one.
    #[serde(deserialize_with = "no_execute")]
    pub taints: Vec<DeviceTaint>,
}

/// A taint of a device, with the effect `NoExecute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTaint {
    /// Key.
    pub key: Sym,
    /// Value; empty when unset.
    pub value: Sym,
    /// `timeAdded`, which API servers set.
    pub time_added: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for SliceDevices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tainted = Vec::<TaintedDevice>::deserialize(deserializer)?;
        let names = tainted.iter().map(|device| device.name.clone()).collect();
        tainted.retain(|device| !device.taints.is_empty());
        tainted.shrink_to_fit();
        Ok(Self { names, tainted })
    }
}

fn no_execute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DeviceTaint>, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Wire {
        #[serde(deserialize_with = "nullable")]
        key: Sym,
        #[serde(deserialize_with = "nullable")]
        value: Sym,
        #[serde(deserialize_with = "nullable")]
        effect: Sym,
        #[serde(deserialize_with = "lenient_time")]
        time_added: Option<Timestamp>,
    }
    let taints: Vec<Wire> = nullable(deserializer)?;
    let evicting = taints
        .into_iter()
        .filter(|wire| wire.effect == *"NoExecute");
    Ok(evicting
        .map(|wire| DeviceTaint {
            key: wire.key,
            value: wire.value,
            time_added: wire.time_added,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn decode<T: Object>(json: Value) -> T {
        T::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_slice_keeps_the_devices_whose_taints_evict_pods() {
        let time = "2026-01-02T03:04:05Z";
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let slice: ResourceSlice = decode(json!({
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "n",
                "pool": {"name": "n", "generation": 3, "resourceSliceCount": 1},
                "devices": [
                    {"name": "plain", "attributes": {"model": {"string": "a"}}},
                    {"name": "null", "taints": null},
                    {"name": "other", "taints": [taint("a", "NoSchedule"), taint("b", "None")]},
                    {"name": "evicting", "taints": [
                        taint("a", "NoSchedule"),
                        {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": time},
                        {"key": "l", "effect": "NoExecute", "timeAdded": null},
                    ]},
                ],
            },
        }));
        assert_eq!(
            (&*slice.spec.driver, slice.spec.pool.generation),
            ("gpu.example.com", 3)
        );
        assert_eq!(slice.spec.node_name, Some(Sym::new("n")));
        let taint = |key: &str, value: &str, time: Option<&str>| DeviceTaint {
            key: Sym::new(key),
            value: Sym::new(value),
            time_added: time.map(|time| time.parse().unwrap()),
        };
        let expected = TaintedDevice {
            name: Sym::new("evicting"),
            taints: vec![taint("k", "v", Some(time)), taint("l", "", None)],
        };
        assert_eq!(slice.spec.devices.tainted, [expected]);
        let names = ["plain", "null", "other", "evicting"];
        assert_eq!(slice.spec.devices.names, names);
        let empty: ResourceSlice = decode(json!({
            "metadata": {"name": "s"}, "spec": {"pool": null, "devices": null, "nodeName": null},
        }));
        assert_eq!(empty.spec, ResourceSliceSpec::default());
    }

    #[test]
    fn a_claim_keeps_its_devices_and_consumers() {
        let toleration =
            json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let device = json!({"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": [toleration]});
        let requests = json!([
            {"name": "a", "firstAvailable": [{"deviceClassName": "gpu", "count": 2}]},
            {"name": "b", "exactly": {"deviceClassName": "gpu", "adminAccess": true}},
        ]);
        let annotations = json!({
            "resource.kubernetes.io/pod-claim-name": "gpu",
            "resource.kubernetes.io/extended-resource-claim": "true",
        });
        let claim: ResourceClaim = decode(json!({
            "metadata": {"name": "c", "namespace": "shop", "annotations": annotations},
            "spec": {"devices": {"requests": requests}},
            "status": {
                "allocation": {"devices": {"results": [device]}, "nodeSelector": {}},
                "reservedFor": [
                    {"resource": "pods", "name": "web-0", "uid": "u"},
                    {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "v"},
                ],
            },
        }));
        assert!(claim.spec.wants_admin_access());
        assert_eq!(claim.spec.devices.requests[0].first_available[0].count, 2);
        let pod_claim = claim.annotations.pod_claim_name.as_deref();
        assert_eq!(pod_claim, Some("gpu"));
        assert_eq!(
            claim.annotations.extended_resource_claim.as_deref(),
            Some("true")
        );
        assert!(claim.status.is_reserved_for(&Uid::new("u")));
        assert!(!claim.status.is_reserved_for(&Uid::new("w")));
        let allocation = claim.status.allocation.unwrap();
        let device = &allocation.devices.results[0];
        assert_eq!(
            [&*device.driver, &*device.pool, &*device.device],
            ["d", "p", "x"]
        );
        assert_eq!(device.tolerations[0].toleration_seconds, Some(5));
        let consumers: Vec<_> = claim
            .status
            .reserved_for
            .iter()
            .map(|of| (&*of.api_group, &*of.resource, &*of.name, of.uid.clone()))
            .collect();
        let kinds = claim.status.reserved_for.iter();
        let kinds: Vec<_> = kinds.map(|of| (of.is_pod(), of.is_pod_group())).collect();
        assert_eq!(kinds, [(true, false), (false, true)]);
        let u = Some(Uid::new("u"));
        let v = Some(Uid::new("v"));
        assert_eq!(
            consumers,
            [
                ("", "pods", "web-0", u),
                ("scheduling.k8s.io", "podgroups", "g", v)
            ]
        );
        for status in [
            json!(null),
            json!({"allocation": null, "reservedFor": null}),
        ] {
            let claim: ResourceClaim = decode(json!({"metadata": {"name": "c"}, "status": status}));
            assert_eq!(claim.status, ResourceClaimStatus::default());
        }
    }
}
