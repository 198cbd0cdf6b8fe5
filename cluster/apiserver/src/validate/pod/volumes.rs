//! Volumes of pods.
//!
//! Upstream: `ValidateVolumes` and `validateVolumeSource`.

use std::collections::HashMap;

use serde_json::Value;

use super::volume_sources::{
    LONG_PORTAL, Rule, Source, aws_disk, azure_disk, csi_driver, fibre_channel, flex, flocker,
    gce_disk, host_path, is_long_portal, iscsi, key_to_path, mode, monitors, nfs, quobyte, rbd,
    required, secret_ref, storage_os,
};
use super::{Errors, Path, containers, formats, list, meta, mounts, projected, text};
use crate::schema::quantity::Quantity;
use crate::validate::claim;

/// The sources in upstream's order. Names in errors are upstream's, also where they are misspelled.
const SOURCES: [Source; 30] = [
    Source::check("emptyDir", empty_dir),
    Source::check("hostPath", host_path),
    Source::check("gitRepo", git_repo),
    Source::spelled(
        "gcePersistentDisk",
        "persistentDisk",
        "gcePersistentDisk",
        Rule::Check(gce_disk),
    ),
    Source::check("awsElasticBlockStore", aws_disk),
    Source::check("secret", secret),
    Source::check("nfs", nfs),
    Source::check("iscsi", |path, source, errors| {
        iscsi(path, source, None, errors)
    }),
    Source::required("glusterfs", &["endpoints", "path"]),
    Source::check("flocker", flocker),
    Source::required("persistentVolumeClaim", &["claimName"]),
    Source::check("rbd", rbd),
    Source::check("cinder", cinder),
    Source::spelled("cephfs", "cephfs", "cephFS", Rule::Check(monitors)),
    Source::check("quobyte", quobyte),
    Source::spelled(
        "downwardAPI",
        "downwardAPI",
        "downwarAPI",
        Rule::Check(projected::downward),
    ),
    Source::check("fc", fibre_channel),
    Source::check("flexVolume", flex),
    Source::check("configMap", config_map),
    Source::required("azureFile", &["secretName", "shareName"]),
    Source::required("vsphereVolume", &["volumePath"]),
    Source::required("photonPersistentDisk", &["pdID"]),
    Source::required("portworxVolume", &["volumeID"]),
    Source::check("azureDisk", azure_disk),
    Source::check("storageos", |path, source, errors| {
        storage_os(path, source, errors);
        secret_ref(path, source, &["name"], errors);
    }),
    Source::check("projected", projected::check),
    Source::required("scaleIO", &["gateway", "system", "volumeName"]),
    Source::check("csi", csi),
    Source::check("ephemeral", ephemeral),
    Source::check("image", |path, source, errors| {
        containers::pull_policy(
            &path.child("pullPolicy"),
            text(source, "pullPolicy"),
            errors,
        );
    }),
];

/// Checks the volumes of a spec, and returns the valid ones by name. `metadata` is that of a pod.
pub(super) fn check<'a>(
    path: &Path<'_>,
    spec: &'a Value,
    metadata: Option<&Value>,
    errors: &mut Errors,
) -> HashMap<&'a str, &'a Value> {
    let volumes = list(spec, "volumes");
    let mut valid = HashMap::with_capacity(volumes.len());
    let pod = metadata.map(|metadata| text(metadata, "name"));
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let name = text(volume, "name");
        let before = errors.len();
        source(&path, volume, pod, errors);
        match name {
            "" => errors.required(path.child("name"), ""),
            name => errors.complaints(path.child("name"), name, formats::label(name)),
        }
        if valid.contains_key(name) {
            errors.duplicate(path.child("name"), name);
        }
        if errors.len() == before {
            valid.insert(name, volume);
        }
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if !claim.is_empty() && created_claims(pod, volumes).any(|name| name == claim) {
            errors.invalid(
                path.child("persistentVolumeClaim.claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    valid
}

/// Names of the claims that the controller creates for ephemeral volumes of a pod.
fn created_claims<'a>(
    pod: Option<&'a str>,
    volumes: &'a [Value],
) -> impl Iterator<Item = String> + 'a {
    let pod = pod.filter(|name| !name.is_empty());
    pod.into_iter().flat_map(move |pod| {
        let ephemeral = volumes
            .iter()
            .filter(|volume| !volume["ephemeral"].is_null());
        ephemeral.map(move |volume| format!("{pod}-{}", text(volume, "name")))
    })
}

/// Checks the source of a volume. `pod` is the name of the pod, if it is one.
fn source(path: &Path<'_>, volume: &Value, pod: Option<&str>, errors: &mut Errors) {
    // Most volumes have a name and one source, so this is shorter than 30 look-ups.
    let fields = volume.as_object().into_iter().flatten();
    let mut given: Vec<(usize, &Value)> = fields
        .filter(|(_, source)| !source.is_null())
        .filter_map(|(name, source)| {
            let place = SOURCES.iter().position(|source| source.name == name)?;
            Some((place, source))
        })
        .collect();
    given.sort_unstable_by_key(|(place, _)| *place);
    let name = text(volume, "name");
    for (count, (place, source)) in given.iter().enumerate() {
        let kind = &SOURCES[*place];
        kind.apply(path, source, count > 0, errors);
        match kind.name {
            "iscsi" => {
                let portal = text(source, "targetPortal");
                if source["initiatorName"].is_string() && is_long_portal(name, portal) {
                    errors.invalid(path.child("name"), name, LONG_PORTAL);
                }
            }
            "ephemeral" if count == 0 => claim_name(path, name, pod, errors),
            "image" if count == 0 && pod.is_some() => {
                required(&path.child("image"), source, &["reference"], errors);
            }
            _ => {}
        }
    }
    if given.is_empty() {
        errors.required(path, "must specify a volume type");
    }
}

/// The name of the claim for an ephemeral volume must be valid.
fn claim_name(path: &Path<'_>, volume: &str, pod: Option<&str>, errors: &mut Errors) {
    if let Some(pod) = pod.filter(|name| !name.is_empty()) {
        let claim = format!("{pod}-{volume}");
        for problem in formats::subdomain(&claim) {
            let detail = format!("PVC name {claim:?}: {problem}");
            errors.invalid(path.child("name"), volume, detail);
        }
    }
}

fn empty_dir(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let limit = source["sizeLimit"].as_str().and_then(Quantity::parse);
    if limit.is_some_and(|limit| limit.is_negative()) {
        errors.forbidden(
            path.child("sizeLimit"),
            "SizeLimit field must be a valid resource quantity",
        );
    }
}

fn git_repo(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["repository"], errors);
    mounts::local_descending(&path.child("directory"), text(source, "directory"), errors);
}

fn secret(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["secretName"], errors);
    files(path, source, errors);
}

fn config_map(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["name"], errors);
    files(path, source, errors);
}

/// Checks permissions and names of the files of a ConfigMap or Secret.
fn files(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    mode(&path.child("defaultMode"), &source["defaultMode"], errors);
    let items = path.child("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        key_to_path(&items.index(index), item, errors);
    }
}

fn cinder(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    required(path, source, &["volumeID"], errors);
    secret_ref(path, source, &["name"], errors);
}

fn csi(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    csi_driver(&path.child("driver"), text(source, "driver"), errors);
    let secret = &source["nodePublishSecretRef"];
    match text(secret, "name") {
        _ if secret.is_null() => {}
        "" => errors.required(path.child("nodePublishSecretRef.name"), ""),
        name => errors.complaints(path.child("name"), name, formats::subdomain(name)),
    }
}

fn ephemeral(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    let template = &source["volumeClaimTemplate"];
    let path = path.child("volumeClaimTemplate");
    if template.is_null() {
        return errors.required(path, "");
    }
    claim_metadata(&path.child("metadata"), &template["metadata"], errors);
    claim::spec(&path.child("spec").to_string(), &template["spec"], errors);
}

/// Checks the metadata that a template gives a claim. Upstream: ValidateTemplateObjectMeta.
pub(in super::super) fn claim_metadata(path: &Path<'_>, metadata: &Value, errors: &mut Errors) {
    meta::annotations(path.child("annotations"), &metadata["annotations"], errors);
    meta::labels(path.child("labels"), &metadata["labels"], errors);
    for field in METADATA_OF_PODS {
        if !metadata[field].is_null() {
            // Upstream lower-cases the first letter of the name in Go.
            let shown = if field == "uid" { "uID" } else { field };
            errors.forbidden(path.child(shown), "cannot be set");
        }
    }
}

/// Metadata of a claim that its controller sets, in upstream's order.
const METADATA_OF_PODS: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
