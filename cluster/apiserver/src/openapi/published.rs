//! The tables of upstream's published types, where they differ from the table of types.

use serde_json::{Value, json};

use crate::schema::descriptions::Described;
use crate::schema::{Field, Struct, Type};

/// (type, field, value): upstream's published defaults, where they differ from the zero of the
/// field's type.
const DEFAULTS: [(&str, &str, &str); 24] = [
    ("autoscalingv1.ScaleSpec", "replicas", "0"),
    ("core.AzureDiskVolumeSource", "cachingMode", "ReadWrite"),
    ("core.AzureDiskVolumeSource", "fsType", "ext4"),
    ("core.AzureDiskVolumeSource", "kind", "Shared"),
    ("core.AzureDiskVolumeSource", "readOnly", "false"),
    ("core.ContainerPort", "protocol", "TCP"),
    ("core.FileKeySelector", "optional", "false"),
    ("core.GRPCAction", "service", ""),
    (
        "core.ISCSIPersistentVolumeSource",
        "iscsiInterface",
        "default",
    ),
    ("core.ISCSIVolumeSource", "iscsiInterface", "default"),
    (
        "core.RBDPersistentVolumeSource",
        "keyring",
        "/etc/ceph/keyring",
    ),
    ("core.RBDPersistentVolumeSource", "pool", "rbd"),
    ("core.RBDPersistentVolumeSource", "user", "admin"),
    ("core.RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("core.RBDVolumeSource", "pool", "rbd"),
    ("core.RBDVolumeSource", "user", "admin"),
    ("core.ReplicationControllerSpec", "minReadySeconds", "0"),
    ("core.ReplicationControllerSpec", "replicas", "1"),
    ("core.ScaleIOPersistentVolumeSource", "fsType", "xfs"),
    (
        "core.ScaleIOPersistentVolumeSource",
        "storageMode",
        "ThinProvisioned",
    ),
    ("core.ScaleIOVolumeSource", "fsType", "xfs"),
    ("core.ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("core.ServicePort", "protocol", "TCP"),
    ("resource.DeviceToleration", "operator", "Equal"),
];

/// The published default of a field. Without one, a field that is always written has the zero of
/// its type.
pub(super) fn default_of(holder: &str, field: &Field) -> Option<Value> {
    let published = DEFAULTS
        .iter()
        .find(|(shape, name, _)| *shape == holder && *name == field.name);
    if let Some((.., text)) = published {
        let is_text = field.ty == Type::Text;
        return Some(if is_text {
            json!(text)
        } else {
            serde_json::from_str(text).unwrap_or_default()
        });
    }
    match field.ty {
        _ if is_nameless(holder, field.name) => Some(json!("")),
        _ if !field.always || field.nullable => None,
        Type::Struct(_) => Some(json!({})),
        Type::Text | Type::Int32 | Type::Int64 | Type::Float | Type::Bool => Some(field.zero()),
        _ => None,
    }
}

/// The group versions that kube-apiserver 1.36 knows, served or not. Each has the common kinds.
const KNOWN: [(&str, &[&str]); 26] = [
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    (
        "admissionregistration.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
    ),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1", "v1beta1", "v1beta2", "v1beta3"],
    ),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

/// The groups and versions of [`KNOWN`].
pub(super) fn group_versions() -> Vec<(&'static str, &'static str)> {
    let groups = KNOWN.iter();
    let all =
        groups.flat_map(|(group, versions)| versions.iter().map(|version| (*group, *version)));
    all.collect()
}

/// (type, field, type in OpenAPI): fields that hold any JSON. In lists and maps, the type is that of the elements.
const OPEN: [(&str, &str, &str); 12] = [
    (
        "apiextensions.JSONSchemaProps",
        "additionalItems",
        "apiextensions.JSONSchemaPropsOrBool",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "additionalProperties",
        "apiextensions.JSONSchemaPropsOrBool",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "default",
        "apiextensions.JSON",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "dependencies",
        "apiextensions.JSONSchemaPropsOrStringArray",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "enum",
        "apiextensions.JSON",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "example",
        "apiextensions.JSON",
    ),
    (
        "apiextensions.JSONSchemaProps",
        "items",
        "apiextensions.JSONSchemaPropsOrArray",
    ),
    ("apps.ControllerRevision", "data", "runtime.RawExtension"),
    ("meta.ManagedFieldsEntry", "fieldsV1", "meta.FieldsV1"),
    ("meta.WatchEvent", "object", "runtime.RawExtension"),
    (
        "resource.AllocatedDeviceStatus",
        "data",
        "runtime.RawExtension",
    ),
    (
        "resource.OpaqueDeviceConfiguration",
        "parameters",
        "runtime.RawExtension",
    ),
];

/// The type of a field that holds any JSON.
pub(super) fn open_type(holder: &Struct, field: &Field) -> Option<&'static str> {
    let mut rows = OPEN.iter();
    let own = rows.find(|(shape, name, _)| *shape == holder.name() && *name == field.name);
    own.map(|(.., open)| *open)
}

/// (type, discriminator, members): types of which one member is set. The name of a member in Go is its name here
/// with a capital letter.
const UNIONS: [(&str, Option<&str>, &[&str]); 6] = [
    ("core.AppArmorProfile", Some("type"), &["localhostProfile"]),
    ("core.PodSchedulingGroup", None, &["podGroupName"]),
    ("core.SeccompProfile", Some("type"), &["localhostProfile"]),
    ("flowcontrol.LimitResponse", Some("type"), &["queuing"]),
    (
        "flowcontrol.PriorityLevelConfigurationSpec",
        Some("type"),
        &["exempt", "limited"],
    ),
    (
        "flowcontrol.Subject",
        Some("kind"),
        &["group", "serviceAccount", "user"],
    ),
];

/// The extension `x-kubernetes-unions` of a type.
pub(super) fn unions(shape: &Struct) -> Option<Value> {
    let mut rows = UNIONS.iter();
    let (_, discriminator, members) = rows.find(|(name, ..)| *name == shape.name())?;
    let mut union = json!({});
    if let Some(discriminator) = discriminator {
        union["discriminator"] = json!(discriminator);
    }
    for member in *members {
        let mut letters = member.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let name: String = first.into_iter().chain(letters).collect();
        union["fields-to-discriminateBy"][*member] = json!(name);
    }
    Some(json!([union]))
}

/// (type, field, extension, value): marks of upstream's types that its code for server-side apply ignores. An empty
/// value takes a mark away.
const MARKS: [(&str, &str, &str, &str); 4] = [
    (
        "apiregistration.APIServiceSpec",
        "caBundle",
        "x-kubernetes-list-type",
        "atomic",
    ),
    (
        "core.PersistentVolumeClaimStatus",
        "allocatedResourceStatuses",
        "x-kubernetes-map-type",
        "granular",
    ),
    (
        "core.PersistentVolumeSpec",
        "claimRef",
        "x-kubernetes-map-type",
        "granular",
    ),
    ("meta.APIResource", "verbs", "x-kubernetes-list-type", ""),
];

/// Corrects the extensions of a field.
pub(super) fn correct(holder: &Struct, field: &Field, schema: &mut Value) {
    let rows = MARKS.iter();
    let own = rows.filter(|(shape, name, ..)| *shape == holder.name() && *name == field.name);
    for (.., extension, value) in own {
        if !value.is_empty() {
            schema[*extension] = json!(value);
        } else if let Some(keywords) = schema.as_object_mut() {
            keywords.remove(*extension);
        }
    }
}

/// Types with an optional `name`, for upstream's backward compatibility.
const NAMELESS: [&str; 8] = [
    "core.ConfigMapEnvSource",
    "core.ConfigMapKeySelector",
    "core.ConfigMapProjection",
    "core.ConfigMapVolumeSource",
    "core.LocalObjectReference",
    "core.SecretEnvSource",
    "core.SecretKeySelector",
    "core.SecretProjection",
];

fn is_nameless(holder: &str, field: &str) -> bool {
    field == "name" && NAMELESS.contains(&holder)
}

/// (type, field): required fields that are optional in Rust.
const REQUIRED: [(&str, &str); 2] = [("core.Event", "metadata"), ("events.Event", "eventTime")];

/// Whether a type requires a field.
pub(super) fn requires(holder: &Struct, described: Option<&Described>, name: &str) -> bool {
    if REQUIRED.contains(&(holder.name(), name)) {
        return true;
    }
    let is_optional = name == "metadata" || is_nameless(holder.name(), name);
    !is_optional && described.is_some_and(|described| described.requires(name))
}
