//! Volume mounts and devices of containers, and the rules of paths.
//!
//! Upstream: `ValidateVolumeMounts` and `ValidateVolumeDevices`.

use std::collections::HashSet;

use serde_json::Value;

use super::context::Pod;
use super::{Errors, Path, is_true, list, text};

/// A list of places where a container has volumes, and the field with the path of each place.
struct Places {
    list: &'static str,
    target: &'static str,
}

const MOUNTS: Places = Places {
    list: "volumeMounts",
    target: "mountPath",
};
const DEVICES: Places = Places {
    list: "volumeDevices",
    target: "devicePath",
};

/// Checks mounts and devices of the container at `path`.
pub(super) fn check(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    let mounts = list(container, "volumeMounts");
    let devices = list(container, "volumeDevices");
    if !mounts.is_empty() {
        volume_mounts(&path.child("volumeMounts"), container, pod, errors);
    }
    if !devices.is_empty() {
        volume_devices(&path.child("volumeDevices"), container, pod, errors);
    }
}

fn volume_mounts(list_path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(mount, "name");
        let target = text(mount, "mountPath");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if !pod.volumes.contains_key(name) {
            errors.not_found(path.child("name"), name);
        }
        if target.is_empty() {
            errors.required(path.child("mountPath"), "");
        }
        if !paths.insert(target) {
            errors.invalid(path.child("mountPath"), target, "must be unique");
        }
        not_among(&DEVICES, container, (&path, &MOUNTS), mount, errors);
        // Upstream's paths of the following fields lack the index.
        let sub_path = text(mount, "subPath");
        let expression = text(mount, "subPathExpr");
        if !sub_path.is_empty() {
            local_descending(&list_path.child("subPath"), sub_path, errors);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                errors.invalid(
                    path.child("subPathExpr"),
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            local_descending(&list_path.child("subPathExpr"), expression, errors);
        }
        propagation(
            &list_path.child("mountPropagation"),
            mount,
            container,
            errors,
        );
        recursive_read_only(&list_path.child("recursiveReadOnly"), mount, errors);
    }
}

fn propagation(path: &Path<'_>, mount: &Value, container: &Value, errors: &mut Errors) {
    let Some(propagation) = mount["mountPropagation"].as_str() else {
        return;
    };
    errors.one_of(
        path,
        propagation,
        &["Bidirectional", "HostToContainer", "None"],
    );
    if propagation == "Bidirectional" && !is_true(&container["securityContext"], "privileged") {
        errors.forbidden(
            path,
            "Bidirectional mount propagation is available only to privileged containers",
        );
    }
}

fn recursive_read_only(path: &Path<'_>, mount: &Value, errors: &mut Errors) {
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !is_true(mount, "readOnly") {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount["mountPropagation"]
                .as_str()
                .is_some_and(|mode| mode != "None")
            {
                errors.forbidden(
                    path,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        Some(other) => {
            errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

fn volume_devices(list_path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    let mut paths = HashSet::new();
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = list_path.index(index);
        let name = text(device, "name");
        let target = text(device, "devicePath");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(path.child("name"), name, "must be unique");
        }
        match pod.volumes.get(name) {
            None => errors.not_found(path.child("name"), name),
            Some(volume)
                if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() =>
            {
                errors.invalid(
                    path.child("name"),
                    name,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(path.child("devicePath"), "");
        }
        if paths.contains(target) {
            errors.invalid(path.child("devicePath"), target, "must be unique");
        }
        if has_backsteps(target) {
            errors.invalid(
                path.child("devicePath"),
                target,
                "can not contain backsteps ('..')",
            );
        } else {
            paths.insert(target);
        }
        not_among(&MOUNTS, container, (&path, &DEVICES), device, errors);
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

/// Checks that another list of the container has neither the volume nor the path of `item`, which
/// is at `own`.
fn not_among(
    other: &Places,
    container: &Value,
    own: (&Path<'_>, &Places),
    item: &Value,
    errors: &mut Errors,
) {
    let others = list(container, other.list);
    let has = |field: &str, value: &str| others.iter().any(|other| text(other, field) == value);
    let (path, own) = own;
    let name = text(item, "name");
    let target = text(item, own.target);
    if has("name", name) {
        let why = format!("must not already exist in {}", other.list);
        errors.invalid(path.child("name"), name, why);
    }
    if has(other.target, target) {
        let why = format!("must not already exist as a path in {}", other.list);
        errors.invalid(path.child(own.target), target, why);
    }
}

fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path without `..`.
pub(in super::super) fn no_backsteps(field: &Path<'_>, path: &str, errors: &mut Errors) {
    if has_backsteps(path) {
        errors.invalid(field, path, "must not contain '..'");
    }
}

/// A relative path without `..`.
pub(super) fn local_descending(field: &Path<'_>, path: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(field, path, "must be a relative path");
    }
    no_backsteps(field, path, errors);
}

/// A relative path whose name does not start with `..`, as the node keeps those for itself.
pub(super) fn local_not_reserved(field: &Path<'_>, path: &str, errors: &mut Errors) {
    local_descending(field, path, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(field, path, "must not start with '..'");
    }
}
