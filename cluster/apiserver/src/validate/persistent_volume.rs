//! PersistentVolumes.
//!
//! Upstream: `ValidatePersistentVolume` in `pkg/apis/core/validation`, `checkMountOption` in
//! `pkg/volume/validation`, and `pkg/api/persistentvolume/util.go`.

use serde_json::Value;

use super::difference::difference;
use super::errors::{Errors, at, list, text};
use super::pod::volume_sources::{
    Rule, Source, aws_disk, azure_disk, csi_driver, fibre_channel, flex, flocker, gce_disk,
    host_path, iscsi, monitors, nfs, quobyte, rbd, required, secret_ref, storage_os,
};
use super::pod::{self, warnings::selector_terms};
use super::{claim, formats};
use crate::apimachinery::path::Path;
use crate::schema::internal;
use crate::schema::quantity::Quantity;

static SPEC: Path<'static> = Path::new("spec");
const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The sources in upstream's order. Names in errors are upstream's, also where they are misspelled.
const SOURCES: [Source; 22] = [
    Source::check("hostPath", host_path),
    Source::spelled(
        "gcePersistentDisk",
        "persistentDisk",
        "gcePersistentDisk",
        Rule::Check(gce_disk),
    ),
    Source::check("awsElasticBlockStore", aws_disk),
    Source::check("glusterfs", glusterfs),
    Source::check("flocker", flocker),
    Source::check("nfs", nfs),
    Source::check("rbd", rbd),
    Source::check("quobyte", quobyte),
    Source::spelled("cephfs", "cephfs", "cephFS", Rule::Check(monitors)),
    // Its check needs the name of the volume, and so has a place of its own.
    Source::required("iscsi", &[]),
    Source::check("cinder", |path, source, errors| {
        required(path, source, &["volumeID"], errors);
        secret_ref(path, source, &["name", "namespace"], errors);
    }),
    Source::check("fc", fibre_channel),
    Source::check("flexVolume", flex),
    Source::check("azureFile", azure_file),
    Source::required("vsphereVolume", &["volumePath"]),
    Source::required("photonPersistentDisk", &["pdID"]),
    Source::required("portworxVolume", &["volumeID"]),
    Source::check("azureDisk", azure_disk),
    Source::required("scaleIO", &["gateway", "system", "volumeName"]),
    Source::check("local", local),
    Source::check("storageos", |path, source, errors| {
        storage_os(path, source, errors);
        secret_ref(path, source, &["name", "namespace"], errors);
    }),
    Source::check("csi", csi),
];

/// Sources whose mounts can have options.
const MOUNTED: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Checks a PersistentVolume.
pub(super) fn check(volume: &Value, errors: &mut Errors) {
    let spec = &volume["spec"];
    access_modes(spec, errors);
    capacity(spec, errors);
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        errors.one_of("spec.persistentVolumeReclaimPolicy", policy, &POLICIES);
    }
    node_affinity(&spec["nodeAffinity"], errors);
    sources(spec, text(volume, "metadata.name"), errors);
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.complaints("spec.storageClassName", class, formats::subdomain(class));
    }
    if let Some(mode) = spec["volumeMode"].as_str() {
        errors.one_of("spec.volumeMode", mode, &["Block", "Filesystem"]);
    }
    attributes_class(spec, errors);
    let can_have_options = MOUNTED.iter().any(|source| !spec[*source].is_null());
    if !can_have_options && !at(volume, "metadata.annotations")[MOUNT_OPTIONS].is_null() {
        errors.forbidden(
            format!("metadata.annotations.{MOUNT_OPTIONS}"),
            "may not specify mount options for this volume type",
        );
    }
}

fn access_modes(spec: &Value, errors: &mut Errors) {
    if list(spec, "accessModes").is_empty() {
        errors.required("spec.accessModes", "");
    }
    claim::access_modes("spec.accessModes", list(spec, "accessModes"), errors);
}

fn capacity(spec: &Value, errors: &mut Errors) {
    const FIELD: Path<'static> = Path::new("spec.capacity");
    let amounts = &spec["capacity"];
    let count = amounts.as_object().map_or(0, |amounts| amounts.len());
    if count == 0 {
        errors.required(FIELD, "");
    }
    if amounts["storage"].is_null() || count > 1 {
        errors.not_supported(FIELD, amounts.clone(), &["storage"]);
    }
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let text = amount.as_str().unwrap_or_default();
        let Some(amount) = Quantity::parse(text) else {
            continue;
        };
        if amount.units() < 0 {
            let units = i64::try_from(amount.units()).unwrap_or(i64::MIN);
            errors.invalid(FIELD.key(name), units, "must be a valid resource quantity");
        }
        if amount.is_negative() || amount.is_zero() {
            errors.invalid(FIELD.key(name), text, "must be greater than zero");
        }
    }
}

fn node_affinity(affinity: &Value, errors: &mut Errors) {
    const FIELD: Path<'static> = Path::new("spec.nodeAffinity.required");
    if affinity.is_null() {
        return;
    }
    let required = &affinity["required"];
    if required.is_null() {
        return errors.required(FIELD, "must specify required node constraints");
    }
    pod::node_selector(&FIELD, required, errors);
}

fn sources(spec: &Value, name: &str, errors: &mut Errors) {
    let mut found = 0;
    for kind in &SOURCES {
        let source = &spec[kind.name];
        if source.is_null() {
            continue;
        }
        // Upstream does not forbid this source as a second one.
        let is_second = found > 0 && kind.name != "flexVolume";
        kind.apply(&SPEC, source, is_second, errors);
        if !is_second && kind.name == "iscsi" {
            iscsi(&SPEC.child("iscsi"), source, Some(name), errors);
        }
        if !is_second && kind.name == "local" && spec["nodeAffinity"].is_null() {
            errors.required("spec.nodeAffinity", "Local volume requires node affinity");
        }
        found += 1;
    }
    if found == 0 {
        errors.required("spec", "must specify a volume type");
    }
    let path = text(&spec["hostPath"], "path");
    let is_root = path.starts_with('/') && path.trim_matches(['/', '.']).is_empty();
    if is_root && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        errors.forbidden(
            "spec.persistentVolumeReclaimPolicy",
            "may not be 'recycle' for a hostPath mount of '/'",
        );
    }
}

fn attributes_class(spec: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.volumeAttributesClassName";
    let Some(class) = spec["volumeAttributesClassName"].as_str() else {
        return;
    };
    if class.is_empty() {
        errors.required(FIELD, "an empty string is disallowed");
    } else {
        errors.complaints(FIELD, class, formats::subdomain(class));
    }
    if spec["csi"].is_null() {
        errors.required(
            "spec.csi",
            "has to be specified when using volumeAttributesClassName",
        );
    }
}

fn glusterfs(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["endpoints", "path"], errors);
    let path = path.child("endpointsNamespace");
    match source["endpointsNamespace"].as_str() {
        None => {}
        Some("") => errors.invalid(
            path,
            "",
            "if the endpointnamespace is set, it must be a valid namespace name",
        ),
        Some(namespace) => errors.complaints(path, namespace, formats::label(namespace)),
    }
}

fn azure_file(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["secretName", "shareName"], errors);
    if source["secretNamespace"] == "" {
        errors.required(path.child("secretNamespace"), "");
    }
}

fn local(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    match text(source, "path") {
        "" => errors.required(path.child("path"), ""),
        target => pod::no_backsteps(&path.child("path"), target, errors),
    }
}

fn csi(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    csi_driver(&path.child("driver"), text(source, "driver"), errors);
    required(path, source, &["volumeHandle"], errors);
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let reference = &source[field];
        if reference.is_null() {
            continue;
        }
        let path = path.child(field);
        match text(reference, "name") {
            "" => errors.required(path.child("name"), ""),
            name => errors.complaints(path.child("name"), name, formats::subdomain(name)),
        }
        match text(reference, "namespace") {
            "" => errors.required(path.child("namespace"), ""),
            name => errors.complaints(path.child("namespace"), name, formats::label(name)),
        }
    }
}

/// Checks the changes of an update. The source of a volume is immutable.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = &new["spec"];
    let before = &old["spec"];
    let of = |spec: &Value| {
        let mut source = spec.clone();
        if let Some(fields) = source.as_object_mut() {
            fields.retain(|name, _| SOURCES.iter().any(|source| source.name == name));
        }
        source
    };
    let mut source = of(spec);
    let old_source = of(before);
    // The secret for a later growth can be added.
    if old_source["csi"].is_object()
        && old_source["csi"]["controllerExpandSecretRef"].is_null()
        && let Some(csi) = source["csi"].as_object_mut()
    {
        csi.shift_remove("controllerExpandSecretRef");
    }
    if source != old_source {
        let difference = difference(&old_source, &source);
        errors.forbidden(
            "spec.persistentvolumesource",
            format!("spec.persistentvolumesource is immutable after creation\n{difference}"),
        );
    }
    if spec["volumeMode"] != before["volumeMode"] {
        errors.invalid(
            "volumeMode",
            spec["volumeMode"].clone(),
            "field is immutable",
        );
    }
    if !before["nodeAffinity"].is_null() && !same_affinity(spec, before) {
        errors.invalid(
            "nodeAffinity",
            internal::form("core.VolumeNodeAffinity", &spec["nodeAffinity"]),
            "field is immutable, except for updating from beta label to GA",
        );
    }
    if !before["volumeAttributesClassName"].is_null() && spec["volumeAttributesClassName"].is_null()
    {
        errors.forbidden(
            "spec.volumeAttributesClassName",
            "update from non-nil value to nil is forbidden",
        );
    }
}

/// Whether the affinity is the same, apart from labels that got their final names.
fn same_affinity(spec: &Value, before: &Value) -> bool {
    const RENAMED: [(&str, &str); 5] = [
        (
            "failure-domain.beta.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
        ),
        (
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        ),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        (
            "beta.kubernetes.io/instance-type",
            "node.kubernetes.io/instance-type",
        ),
    ];
    fn same(now: &Value, old: &Value) -> bool {
        match (now, old) {
            (Value::Object(now), Value::Object(old)) => {
                now.len() == old.len()
                    && old.iter().all(|(name, old)| {
                        now.get(name).is_some_and(|now| {
                            let renamed = name == "key"
                                && RENAMED
                                    .iter()
                                    .any(|(beta, last)| old == beta && now == last);
                            renamed || same(now, old)
                        })
                    })
            }
            (Value::Array(now), Value::Array(old)) => {
                now.len() == old.len() && now.iter().zip(old).all(|(now, old)| same(now, old))
            }
            _ => now == old,
        }
    }
    same(&spec["nodeAffinity"], &before["nodeAffinity"])
}

/// Warnings about a PersistentVolume.
pub(super) fn warnings(volume: &Value) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            MOUNT_OPTIONS,
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ];
    const OLD_SOURCES: [(&str, &str, &str); 6] = [
        (
            "cephfs",
            "cephfs",
            "deprecated in v1.28, non-functional in v1.31+",
        ),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        (
            "scaleIO",
            "scaleIO",
            "deprecated in v1.16, non-functional in v1.22+",
        ),
        (
            "storageos",
            "storageOS",
            "deprecated in v1.22, non-functional in v1.25+",
        ),
        (
            "glusterfs",
            "glusterfs",
            "deprecated in v1.25, non-functional in v1.26+",
        ),
        (
            "rbd",
            "rbd",
            "deprecated in v1.28, non-functional in v1.31+",
        ),
    ];
    let spec = &volume["spec"];
    let annotations = at(volume, "metadata.annotations");
    let mut warnings: Vec<String> = ANNOTATIONS
        .iter()
        .filter(|(key, _)| !annotations[*key].is_null())
        .map(|(key, message)| format!("metadata.annotations[{key}]: {message}"))
        .collect();
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let required = &spec["nodeAffinity"]["required"];
    selector_terms(
        &Path::new("spec.nodeAffinity.required"),
        required,
        &mut warnings,
    );
    for (field, shown, message) in OLD_SOURCES {
        if !spec[field].is_null() {
            warnings.push(format!("spec.{shown}: {message}"));
        }
    }
    warnings
}
