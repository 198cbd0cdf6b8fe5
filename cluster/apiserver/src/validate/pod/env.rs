//! Environment variables of containers.
//!
//! Upstream: `ValidateEnv`, `ValidateEnvFrom` and `validateFileKeyRefVolumes`.

use serde_json::Value;

use super::mounts::no_backsteps;
use super::{Errors, Path, each_container, formats, list, meta, text};
use crate::schema::quantity::Quantity;

/// Fields of a pod that a variable can have as its value.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields that exist, but not for variables or files of the downward API.
const OTHER_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

const BYTE_DIVISORS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Checks the variables of a container.
pub(super) fn variables(path: &Path<'_>, variables: &[Value], errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        match text(variable, "name") {
            "" => errors.required(path.child("name"), ""),
            name => errors.complaints(path.child("name"), name, formats::variable(name)),
        }
        let from = &variable["valueFrom"];
        if !from.is_null() {
            let has_value = !text(variable, "value").is_empty();
            value_source(&path.child("valueFrom"), from, has_value, errors);
        }
    }
}

fn value_source(path: &Path<'_>, from: &Value, has_value: bool, errors: &mut Errors) {
    let mut sources = 0;
    let mut source =
        |name: &str, errors: &mut Errors, check: &dyn Fn(&Path<'_>, &Value, &mut Errors)| {
            if !from[name].is_null() {
                sources += 1;
                check(&path.child(name), &from[name], errors);
            }
        };
    source("fieldRef", errors, &|path, from, errors| {
        object_field(path, from, &FIELDS, errors);
    });
    source("resourceFieldRef", errors, &|path, from, errors| {
        resource_field(path, from, false, errors);
    });
    source("configMapKeyRef", errors, &key);
    source("secretKeyRef", errors, &key);
    source("fileKeyRef", errors, &file_key);
    let complaint = match sources {
        0 if errors.release().enables("EnvFiles") => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.invalid(path, "", complaint);
}

/// A path such as `metadata.labels['app']` without its subscript, and the subscript.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (path, subscript) = path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, subscript))
}

/// Checks a reference to a field of the pod. Upstream: `validateObjectFieldSelector`.
pub(super) fn object_field(path: &Path<'_>, from: &Value, supported: &[&str], errors: &mut Errors) {
    let version = text(from, "apiVersion");
    let field = text(from, "fieldPath");
    if version.is_empty() {
        return errors.required(path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(path.child("fieldPath"), "");
    }
    let mut unconvertible = |why: String| {
        let detail = format!("error converting fieldPath: {why}");
        errors.invalid(path.child("fieldPath"), field, detail);
    };
    if version != "v1" {
        return unconvertible(format!("unsupported pod version: {version}"));
    }
    match subscripted(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.complaints(path, &key, formats::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => {
            errors.complaints(path, key, formats::qualified_name(key));
        }
        Some(_) => unconvertible(format!("field label does not support subscript: {field}")),
        None => {
            // An old name that clients of the first releases use.
            let field = if field == "spec.host" {
                "spec.nodeName"
            } else {
                field
            };
            let is_supported = supported.contains(&field);
            if !is_supported && !FIELDS.contains(&field) && !OTHER_FIELDS.contains(&field) {
                return unconvertible(format!("field label not supported: {field}"));
            }
            errors.one_of(path.child("fieldPath"), field, supported);
        }
    }
}

/// Checks a reference to a resource of a container. Files name the container, variables need not.
/// Upstream: `validateContainerResourceFieldSelector`.
pub(super) fn resource_field(path: &Path<'_>, from: &Value, is_file: bool, errors: &mut Errors) {
    let resource = text(from, "resource");
    let is_huge = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if is_file && text(from, "containerName").is_empty() {
        errors.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.child("resource"), "");
    } else if !is_huge {
        errors.one_of(path.child("resource"), resource, &RESOURCES);
    }
    divisor(
        &path.child("divisor"),
        resource,
        text(from, "divisor"),
        errors,
    );
}

fn divisor(path: &Path<'_>, resource: &str, divisor: &str, errors: &mut Errors) {
    let Some(amount) = Quantity::parse(divisor).filter(|amount| !amount.is_zero()) else {
        return;
    };
    let divisor = amount.canonical();
    let noun = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !["1", "1m"].contains(&divisor.as_str()) {
                errors.invalid(
                    path,
                    resource,
                    "only divisor's values 1m and 1 are supported with the cpu resource",
                );
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix)) => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor.as_str()) {
        let detail = format!(
            "only divisor's values {} are supported with the {noun} resource",
            BYTE_DIVISORS.join(", ")
        );
        errors.invalid(path, resource, detail);
    }
}

/// Checks a reference to a key of a ConfigMap or Secret.
fn key(path: &Path<'_>, from: &Value, errors: &mut Errors) {
    let name = text(from, "name");
    let key = text(from, "key");
    errors.complaints(path.child("name"), name, formats::subdomain(name));
    match key {
        "" => errors.required(path.child("key"), ""),
        key => errors.complaints(path.child("key"), key, formats::config_key(key)),
    }
}

/// Checks a reference to a variable in a file.
fn file_key(path: &Path<'_>, from: &Value, errors: &mut Errors) {
    match text(from, "key") {
        "" => errors.required(path.child("key"), ""),
        key => errors.complaints(path.child("key"), key, formats::variable(key)),
    }
    match text(from, "volumeName") {
        "" => errors.required(path.child("volumeName"), ""),
        name => errors.complaints(path.child("volumeName"), name, formats::label(name)),
    }
    match text(from, "path") {
        "" => errors.required(path.child("path"), ""),
        file => no_backsteps(&path.child("path"), file, errors),
    }
}

/// Checks the ConfigMaps and Secrets whose keys become variables.
pub(super) fn sources(path: &Path<'_>, sources: &[Value], errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let entry = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.complaints(entry.child("prefix"), prefix, formats::variable(prefix));
        }
        let mut given = 0;
        for field in ["configMapRef", "secretRef"] {
            if source[field].is_null() {
                continue;
            }
            given += 1;
            let path = entry.child(field);
            match text(&source[field], "name") {
                "" => errors.required(path.child("name"), ""),
                // A name may end like the prefix of generated names.
                name => errors.complaints(
                    path.child("name"),
                    name,
                    formats::subdomain(&meta::with_valid_end(name)),
                ),
            }
        }
        match given {
            0 => errors.invalid(
                path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => errors.invalid(
                path,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// The files of variables are in volumes of type `emptyDir`.
pub(super) fn file_volumes(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    each_container(path, spec, |path, container| {
        let path = path.child("env");
        for (index, variable) in list(container, "env").iter().enumerate() {
            let file = &variable["valueFrom"]["fileKeyRef"];
            if file.is_null() {
                continue;
            }
            let path = path.index(index);
            let path = path.child("valueFrom.fileKeyRef.volumeName");
            let name = text(file, "volumeName");
            let volume = list(spec, "volumes")
                .iter()
                .rfind(|volume| text(volume, "name") == name);
            match volume {
                None => errors.not_found(path, name),
                Some(volume) if volume["emptyDir"].is_null() => {
                    errors.invalid(path, name, "referenced volume must be of type emptyDir")
                }
                Some(_) => {}
            }
        }
    });
}
