//! Fields of feature gates that are off by default. The server drops them from requests.
//!
//! release -> its gates -> [`Dropped`] fields -> objects without them
//!
//! Upstream drops them unless the old object has them. Here only loaded objects could have them, and
//! they lose them with the next update. Upstream: the `dropDisabled` functions in `pkg/api` and
//! `pkg/registry`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};
use steersman_releases::Release;

use crate::schema::{self, Struct, Type};

/// Type, field, and feature gate. The gate `DynamicKubeletConfig` is gone, and its fields are kept for
/// old objects.
// One line per field keeps this readable as a table.
#[rustfmt::skip]
const GATED: &[(&str, &str, &str)] = &[
    ("apiextensions.CustomResourceDefinitionCondition", "observedGeneration", "CRDObservedGenerationTracking"),
    ("apiextensions.CustomResourceDefinitionStatus", "observedGeneration", "CRDObservedGenerationTracking"),
    ("apps.DeploymentStatus", "terminatingReplicas", "DeploymentReplicaSetTerminatingReplicas"),
    ("apps.ReplicaSetStatus", "terminatingReplicas", "DeploymentReplicaSetTerminatingReplicas"),
    ("apps.RollingUpdateStatefulSetStrategy", "maxUnavailable", "MaxUnavailableStatefulSet"),
    ("autoscaling.HPAScalingRules", "tolerance", "HPAConfigurableTolerance"),
    ("core.Container", "restartPolicyRules", "ContainerRestartRules"),
    ("core.ContainerStatus", "allocatedResourcesStatus", "ResourceHealthStatus"),
    ("core.EnvVarSource", "fileKeyRef", "EnvFiles"),
    ("core.EphemeralContainer", "restartPolicyRules", "ContainerRestartRules"),
    ("core.Lifecycle", "stopSignal", "ContainerStopSignals"),
    ("core.NodeSpec", "configSource", "DynamicKubeletConfig"),
    ("core.NodeStatus", "config", "DynamicKubeletConfig"),
    ("core.PersistentVolumeClaimSpec", "volumeAttributesClassName", "VolumeAttributesClass"),
    ("core.PersistentVolumeClaimStatus", "currentVolumeAttributesClassName", "VolumeAttributesClass"),
    ("core.PersistentVolumeClaimStatus", "modifyVolumeStatus", "VolumeAttributesClass"),
    ("core.PersistentVolumeSpec", "volumeAttributesClassName", "VolumeAttributesClass"),
    ("core.PodCondition", "observedGeneration", "PodObservedGenerationTracking"),
    ("core.PodSpec", "hostnameOverride", "HostnameOverride"),
    ("core.PodSpec", "resourceClaims", "DynamicResourceAllocation"),
    ("core.PodSpec", "resources", "PodLevelResources"),
    ("core.PodSpec", "schedulingGroup", "GenericWorkload"),
    ("core.PodStatus", "allocatedResources", "InPlacePodLevelResourcesVerticalScaling"),
    ("core.PodStatus", "extendedResourceClaimStatus", "DRAExtendedResource"),
    ("core.PodStatus", "nodeAllocatableResourceClaimStatuses", "DRANodeAllocatableResources"),
    ("core.PodStatus", "observedGeneration", "PodObservedGenerationTracking"),
    ("core.PodStatus", "resourceClaimStatuses", "DynamicResourceAllocation"),
    ("core.PodStatus", "resources", "InPlacePodLevelResourcesVerticalScaling"),
    ("core.ResourceHealth", "message", "ResourceHealthStatusMessage"),
    ("core.ResourceRequirements", "claims", "DynamicResourceAllocation"),
    ("core.VolumeMountStatus", "volumeStatus", "ImageVolumeWithDigest"),
    ("core.VolumeProjection", "clusterTrustBundle", "ClusterTrustBundleProjection"),
    ("core.VolumeProjection", "podCertificate", "PodCertificateRequest"),
    ("discovery.EndpointHints", "forNodes", "PreferSameTrafficDistribution"),
    ("resource.AllocatedDeviceStatus", "shareID", "DRAConsumableCapacity"),
    ("resource.Device", "allNodes", "DRAPartitionableDevices"),
    ("resource.Device", "allowMultipleAllocations", "DRAConsumableCapacity"),
    ("resource.Device", "bindingConditions", "DRADeviceBindingConditions"),
    ("resource.Device", "bindingFailureConditions", "DRADeviceBindingConditions"),
    ("resource.Device", "bindsToNode", "DRADeviceBindingConditions"),
    ("resource.Device", "consumesCounters", "DRAPartitionableDevices"),
    ("resource.Device", "nodeAllocatableResourceMappings", "DRANodeAllocatableResources"),
    ("resource.Device", "nodeName", "DRAPartitionableDevices"),
    ("resource.Device", "nodeSelector", "DRAPartitionableDevices"),
    ("resource.Device", "taints", "DRADeviceTaints"),
    ("resource.DeviceAttribute", "bools", "DRAListTypeAttributes"),
    ("resource.DeviceAttribute", "ints", "DRAListTypeAttributes"),
    ("resource.DeviceAttribute", "strings", "DRAListTypeAttributes"),
    ("resource.DeviceAttribute", "versions", "DRAListTypeAttributes"),
    ("resource.DeviceCapacity", "requestPolicy", "DRAConsumableCapacity"),
    ("resource.DeviceClassSpec", "extendedResourceName", "DRAExtendedResource"),
    ("resource.DeviceConstraint", "distinctAttribute", "DRAConsumableCapacity"),
    ("resource.DeviceRequestAllocationResult", "bindingConditions", "DRADeviceBindingConditions"),
    ("resource.DeviceRequestAllocationResult", "bindingFailureConditions", "DRADeviceBindingConditions"),
    ("resource.DeviceRequestAllocationResult", "consumedCapacity", "DRAConsumableCapacity"),
    ("resource.DeviceRequestAllocationResult", "shareID", "DRAConsumableCapacity"),
    ("resource.DeviceSubRequest", "capacity", "DRAConsumableCapacity"),
    ("resource.DeviceSubRequest", "tolerations", "DRADeviceTaints"),
    ("resource.ExactDeviceRequest", "capacity", "DRAConsumableCapacity"),
    ("resource.ExactDeviceRequest", "tolerations", "DRADeviceTaints"),
    ("resource.ResourceSliceSpec", "perDeviceNodeSelection", "DRAPartitionableDevices"),
    ("resource.ResourceSliceSpec", "sharedCounters", "DRAPartitionableDevices"),
    ("storage.CSIDriverSpec", "nodeAllocatableUpdatePeriodSeconds", "MutableCSINodeAllocatableCount"),
    ("storage.CSIDriverSpec", "preventPodSchedulingIfMissing", "VolumeLimitScaling"),
    ("storage.CSIDriverSpec", "serviceAccountTokenInSecrets", "CSIServiceAccountTokenSecrets"),
    ("storage.VolumeError", "errorCode", "MutableCSINodeAllocatableCount"),
];

/// Type, field, and minor version of releases that keep the field although its gate is off.
const KEPT: &[(&str, &str, u64)] = &[
    ("resource.DeviceConstraint", "distinctAttribute", 34),
    ("resource.DeviceSubRequest", "tolerations", 34),
    ("resource.ExactDeviceRequest", "tolerations", 34),
];

/// The fields that one release drops.
struct Dropped {
    /// Fields by position of their type in the schema.
    fields: Vec<Vec<&'static str>>,
    /// For each type of the schema, by its position: whether it has a dropped field, at any depth.
    concerned: Vec<bool>,
    image_volumes: bool,
    restart_policies: bool,
}

/// A release is looked up in the schema when its first object comes.
static DROPPED: LazyLock<BTreeMap<Release, OnceLock<Dropped>>> = LazyLock::new(|| {
    Release::known()
        .map(|release| (release, OnceLock::new()))
        .collect()
});

impl Dropped {
    fn of(release: Release) -> Self {
        let is_off = |gate: &str| !release.enables(gate);
        let fields: Vec<Vec<&str>> = schema::all()
            .map(|shape| {
                let own = GATED.iter().filter(|(ty, ..)| *ty == shape.name());
                let kept = |ty, name| KEPT.contains(&(ty, name, release.minor()));
                let dropped = own.filter(|(ty, name, gate)| is_off(gate) && !kept(ty, name));
                dropped.map(|(_, name, _)| *name).collect()
            })
            .collect();
        Self {
            concerned: concerned(&fields),
            fields,
            image_volumes: is_off("ImageVolume"),
            restart_policies: is_off("ContainerRestartRules"),
        }
    }

    fn in_struct(&self, shape: &Struct, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        if !self.concerned[shape.row()] {
            return;
        }
        for name in &self.fields[shape.row()] {
            fields.shift_remove(*name);
        }
        if shape.name() == "core.PodSpec" {
            self.in_pod_spec(fields);
        }
        let mut next = 0;
        for (name, value) in fields {
            if let Some(at) = shape.position(name, next) {
                self.in_value(&shape.fields()[at].ty, value);
                next = at + 1;
            }
        }
    }

    fn in_value(&self, ty: &Type, value: &mut Value) {
        let Some(shape) = ty.innermost_struct() else {
            return;
        };
        match value {
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.in_struct(shape, item)),
            Value::Object(entries) if matches!(ty, Type::Map(_)) => {
                entries
                    .values_mut()
                    .for_each(|value| self.in_struct(shape, value));
            }
            value => self.in_struct(shape, value),
        }
    }

    fn in_pod_spec(&self, spec: &mut Map<String, Value>) {
        if self.image_volumes {
            drop_image_volumes(spec);
        }
        if self.restart_policies {
            drop_restart_policies(spec);
        }
    }
}

/// For each type of the schema, whether it has one of `dropped` fields, at any depth.
fn concerned(dropped: &[Vec<&str>]) -> Vec<bool> {
    let with_own = schema::all().filter(|shape| !dropped[shape.row()].is_empty());
    let mut concerned: HashSet<_> = with_own.map(Struct::name).collect();
    loop {
        let holds_one = |ty: &Type| {
            let inner = ty.innermost_struct();
            inner.is_some_and(|inner| concerned.contains(inner.name()))
        };
        let more: Vec<_> = schema::all()
            .filter(|shape| !concerned.contains(shape.name()))
            .filter(|shape| shape.fields().iter().any(|field| holds_one(&field.ty)))
            .map(Struct::name)
            .collect();
        if more.is_empty() {
            return schema::all()
                .map(|shape| concerned.contains(shape.name()))
                .collect();
        }
        concerned.extend(more);
    }
}

/// The lists of containers in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Drops volumes of images, and their mounts. Upstream: `dropImageVolumes` in `pkg/api/pod`.
fn drop_image_volumes(spec: &mut Map<String, Value>) {
    let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) else {
        return;
    };
    let is_image = |volume: &Value| volume["image"].is_object();
    let images: Vec<Value> = volumes
        .iter()
        .filter(|volume| is_image(volume))
        .map(|volume| volume["name"].clone())
        .collect();
    if images.is_empty() {
        return;
    }
    volumes.retain(|volume| !is_image(volume));
    if volumes.is_empty() {
        spec.shift_remove("volumes");
    }
    for container in containers(spec) {
        let Some(mounts) = container.get_mut("volumeMounts") else {
            continue;
        };
        if let Some(mounts) = mounts.as_array_mut() {
            mounts.retain(|mount| !images.contains(&mount["name"]));
        }
        if *mounts == json!([]) {
            container.shift_remove("volumeMounts");
        }
    }
}

fn containers(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = spec
        .iter_mut()
        .filter(|(name, _)| CONTAINERS.contains(&&***name));
    lists.flat_map(|(_, list)| {
        let items = list.as_array_mut().into_iter().flatten();
        items.filter_map(Value::as_object_mut)
    })
}

/// Drops the restart policies of containers, except for sidecars.
/// Upstream: `dropContainerRestartRules` in `pkg/api/pod`.
fn drop_restart_policies(spec: &mut Map<String, Value>) {
    for name in CONTAINERS {
        let list = spec.get_mut(name).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            let is_sidecar = name == "initContainers" && container["restartPolicy"] == "Always";
            if let Some(fields) = container.as_object_mut().filter(|_| !is_sidecar) {
                fields.shift_remove("restartPolicy");
            }
        }
    }
}

/// Drops the fields of an object of built-in kind `kind` whose gates are off in `release`.
pub(crate) fn drop_disabled(release: Release, kind: &str, object: &mut Value) {
    let shape = schema::of_object(kind, object);
    if let Some(shape) = shape
        && let Some(dropped) = DROPPED.get(&release)
    {
        let dropped = dropped.get_or_init(|| Dropped::of(release));
        dropped.in_struct(shape, object);
    }
}

/// Sets the defaults that gates add in newer releases than the default one.
/// Upstream: `SetDefaults_StatefulSet` and `SetDefaults_CSIDriver`.
pub(super) fn set_enabled(release: Release, kind: &str, object: &mut Value) {
    let (path, field, value) = match kind {
        "StatefulSet" if release.enables("MaxUnavailableStatefulSet") => {
            let path = "/spec/updateStrategy/rollingUpdate";
            (path, "maxUnavailable", json!(1))
        }
        "CSIDriver" if release.enables("VolumeLimitScaling") => {
            ("/spec", "preventPodSchedulingIfMissing", json!(false))
        }
        _ => return,
    };
    let holder = object.pointer_mut(path).and_then(Value::as_object_mut);
    if let Some(holder) = holder {
        holder.entry(field).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use steersman_releases::Gate;

    use super::*;

    #[test]
    fn fields_of_disabled_gates_exist() {
        for (ty, name, gate) in GATED {
            let shape = schema::by_name(ty).unwrap();
            assert!(shape.field(name).is_some(), "{ty} has {name}");
            let is_known = Gate::find(gate).is_some() || *gate == "DynamicKubeletConfig";
            assert!(is_known, "{gate}");
        }
    }

    #[test]
    fn fields_of_disabled_gates_are_dropped() {
        let mut set = json!({"spec": {
            "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": 2}},
            "template": {"spec": {"containers": [
                {"lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}},
            ]}},
        }});
        drop_disabled(Release::DEFAULT, "StatefulSet", &mut set);
        assert_eq!(
            set,
            json!({"spec": {
                "updateStrategy": {"rollingUpdate": {"partition": 1}},
                "template": {"spec": {"containers": [
                    {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
                ]}},
            }})
        );
        let mut slice =
            json!({"spec": {"devices": [{"attributes": {"a": {"ints": [1], "int": 1}}}]}});
        drop_disabled(Release::DEFAULT, "ResourceSlice", &mut slice);
        assert_eq!(
            slice,
            json!({"spec": {"devices": [{"attributes": {"a": {"int": 1}}}]}})
        );
    }

    #[test]
    fn each_release_drops_the_fields_of_its_gates() {
        let old = Release::of_minor(34);
        let new = Release::of_minor(35);
        let sent = json!({"spec": {
            "volumes": [{"name": "i", "image": {"reference": "r"}}, {"name": "e", "emptyDir": {}}],
            "containers": [{
                "name": "c",
                "restartPolicy": "Never",
                "volumeMounts": [{"name": "i", "mountPath": "/i"}],
            }],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "hostnameOverride": "h",
        }});
        let after = |release| {
            let mut pod = sent.clone();
            drop_disabled(release, "Pod", &mut pod);
            pod
        };
        assert_eq!(
            after(old),
            json!({"spec": {
                "volumes": [{"name": "e", "emptyDir": {}}],
                "containers": [{"name": "c"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            }})
        );
        assert_eq!(after(new), sent);
        let status = json!({"status": {"replicas": 1, "terminatingReplicas": 1}});
        let after = |release| {
            let mut set = status.clone();
            drop_disabled(release, "ReplicaSet", &mut set);
            set
        };
        assert_eq!(after(old), json!({"status": {"replicas": 1}}));
        assert_eq!(after(new), status);
    }

    #[test]
    fn newer_releases_set_the_defaults_of_their_gates() {
        let mut set = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
        set_enabled(Release::DEFAULT, "StatefulSet", &mut set);
        assert!(
            set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable")
                .is_none()
        );
        set_enabled(Release::of_minor(37), "StatefulSet", &mut set);
        assert_eq!(
            set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"],
            1
        );
    }
}
