//! Projected volumes and files of the downward API.
//!
//! Upstream: `validateProjectionSources` and `validateDownwardAPIVolumeSource`.

use std::collections::HashSet;

use serde_json::Value;

use super::env::{object_field, resource_field};
use super::mounts::local_not_reserved;
use super::volume_sources::{key_to_path, mode};
use super::{Errors, Path, list, text};

/// Shortest and longest expiry of projected ServiceAccount tokens.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Fields of a pod that a file can have as its content.
const FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Checks a volume of the downward API. Upstream's paths lack the index of the file.
pub(super) fn downward(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    mode(&path.child("defaultMode"), &source["defaultMode"], errors);
    for file in list(source, "items") {
        downward_file(path, file, errors);
    }
}

fn downward_file(path: &Path<'_>, file: &Value, errors: &mut Errors) {
    let name = text(file, "path");
    if name.is_empty() {
        errors.required(path.child("path"), "");
    }
    local_not_reserved(&path.child("path"), name, errors);
    let field = &file["fieldRef"];
    let resource = &file["resourceFieldRef"];
    if !field.is_null() {
        object_field(&path.child("fieldRef"), field, &FIELDS, errors);
        if !resource.is_null() {
            errors.invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if !resource.is_null() {
        resource_field(&path.child("resourceFieldRef"), resource, true, errors);
    } else {
        errors.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    mode(&path.child("mode"), &file["mode"], errors);
}

/// Checks a projected volume. ClusterTrustBundles and certificates are behind gates that are off.
pub(super) fn check(path: &Path<'_>, source: &Value, errors: &mut Errors) {
    mode(&path.child("defaultMode"), &source["defaultMode"], errors);
    let sources_path = path.child("sources");
    let mut files = HashSet::new();
    for (index, source) in list(source, "sources").iter().enumerate() {
        let source_path = sources_path.index(index);
        let mut given = 0;
        for kind in ["secret", "configMap"] {
            let from = &source[kind];
            if from.is_null() {
                continue;
            }
            given += 1;
            let kind_path = source_path.child(kind);
            let name = text(from, "name");
            if name.is_empty() {
                errors.required(kind_path.child("name"), "");
            }
            let items = kind_path.child("items");
            for (index, item) in list(from, "items").iter().enumerate() {
                key_to_path(&items.index(index), item, errors);
                unique(path, &mut files, text(item, "path"), name, errors);
            }
        }
        let downward = &source["downwardAPI"];
        if !downward.is_null() {
            given += 1;
            for file in list(downward, "items") {
                downward_file(&source_path.child("downwardAPI"), file, errors);
                let name = text(file, "path");
                unique(path, &mut files, name, name, errors);
            }
        }
        let token = &source["serviceAccountToken"];
        if !token.is_null() {
            given += 1;
            account_token(path, &source_path, token, errors);
        }
        if given > 1 {
            errors.forbidden(
                source_path,
                "may not specify more than 1 volume type per source",
            );
        }
    }
}

/// Adds the file `path` of a volume. An error shows the text `shown`.
fn unique<'a>(
    field: &Path<'_>,
    files: &mut HashSet<&'a str>,
    path: &'a str,
    shown: &str,
    errors: &mut Errors,
) {
    if !path.is_empty() && !files.insert(path) {
        errors.invalid(field, shown, "conflicting duplicate paths");
    }
}

/// Checks expiry and path of a token. Upstream's path of the latter lacks the source.
fn account_token(volume: &Path<'_>, source: &Path<'_>, token: &Value, errors: &mut Errors) {
    let seconds = token["expirationSeconds"].as_i64().unwrap_or(0);
    let complaint = match seconds {
        ..MIN_TOKEN_SECONDS => Some("may not specify a duration less than 10 minutes"),
        MIN_TOKEN_SECONDS..=MAX_TOKEN_SECONDS => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(complaint) = complaint {
        errors.invalid(
            source.child("serviceAccountToken.expirationSeconds"),
            seconds,
            complaint,
        );
    }
    match text(token, "path") {
        "" => errors.required(volume.child("path"), ""),
        path => local_not_reserved(&volume.child("path"), path, errors),
    }
}

/// Forbids tokens in the volumes of a pod without a ServiceAccount.
pub(super) fn no_account_tokens(path: &Path<'_>, volumes: &[Value], errors: &mut Errors) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("projected.sources");
        for (index, source) in list(&volume["projected"], "sources").iter().enumerate() {
            if !source["serviceAccountToken"].is_null() {
                errors.forbidden(
                    path.index(index).child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                );
            }
        }
    }
}
