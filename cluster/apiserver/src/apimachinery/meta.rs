//! Metadata of all kinds.
//!
//! Upstream is `apimachinery/pkg/api/validation`.

use std::fmt;

use serde_json::Value;
use steersman_releases::Release;

use super::errors::{Errors, at, list, text};
use super::formats;

/// Most bytes of all annotations of an object.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// The format of names. Namespaces, Services and StatefulSets become parts of DNS names.
fn name_complaints(kind: &str, object: &Value, name: &str, release: Release) -> Vec<String> {
    let part = |path: &str| text(object, path);
    match kind {
        "Service" if !release.enables("RelaxedServiceNameValidation") => formats::dns_label(name),
        "Namespace" | "Service" | "StatefulSet" => formats::label(name),
        "CertificateSigningRequest"
        | "ClusterRole"
        | "ClusterRoleBinding"
        | "PodDisruptionBudget"
        | "Role"
        | "RoleBinding" => formats::path_segment(name),
        "IPAddress" => formats::ip_address(name),
        "APIService" => {
            let required = format!("{}.{}", part("spec.version"), part("spec.group"));
            let mut complaints = formats::path_segment(name);
            if complaints.is_empty() && name != required {
                complaints.push(format!(
                    "must be `spec.version+\".\"+spec.group`: {required:?}"
                ));
            }
            complaints
        }
        "CustomResourceDefinition" => {
            let required = format!("{}.{}", part("spec.names.plural"), part("spec.group"));
            let mut complaints = formats::subdomain(name);
            if name != required {
                complaints.push("must be spec.names.plural+\".\"+spec.group".to_owned());
            }
            complaints
        }
        _ => formats::subdomain(name),
    }
}

/// Checks the metadata of an object. `kind` is empty for custom objects, because a custom kind may
/// have the name of a built-in one.
pub(crate) fn check(kind: &str, object: &Value, errors: &mut Errors) {
    // Upstream: ValidateObjectMetaWithOpts, which leaves the prefix of generated names alone.
    let is_prefix_free = matches!(kind, "DeviceClass" | "ReplicationController");
    let release = errors.release();
    let complaints = |name: &str| {
        let complaints = name_complaints(kind, object, name, release).into_iter();
        // The newer checks of names count bytes.
        let worded = complaints.map(|complaint| {
            if is_prefix_free {
                complaint.replace("253 characters", "253 bytes")
            } else {
                complaint
            }
        });
        worded.collect()
    };
    check_names(object, !is_prefix_free, complaints, errors);
    check_parts(object, errors);
    finalizer_domains(kind, object, errors);
}

/// Checks the metadata of an updated object of any kind, whose own rules come later.
/// Upstream: `apiserver/pkg/registry/rest/update.go`, validateCommonFields.
pub(crate) fn check_any(object: &Value, errors: &mut Errors) {
    check_names(object, true, formats::path_segment, errors);
    check_parts(object, errors);
}

fn check_names(
    object: &Value,
    checks_prefix: bool,
    complaints: impl Fn(&str) -> Vec<String>,
    errors: &mut Errors,
) {
    let prefix = text(object, "metadata.generateName");
    if checks_prefix && !prefix.is_empty() {
        let complaints = complaints(&with_valid_end(prefix));
        errors.complaints("metadata.generateName", prefix, complaints);
    }
    match text(object, "metadata.name") {
        "" => errors.required("metadata.name", "name or generateName is required"),
        name => errors.complaints("metadata.name", name, complaints(name)),
    }
}

/// Checks the metadata besides the names.
fn check_parts(object: &Value, errors: &mut Errors) {
    let metadata = at(object, "metadata");
    errors.non_negative(object, "metadata.generation");
    labels("metadata.labels", at(metadata, "labels"), errors);
    annotations("metadata.annotations", at(metadata, "annotations"), errors);
    owners(at(metadata, "ownerReferences"), errors);
    finalizer_names("metadata.finalizers", list(metadata, "finalizers"), errors);
}

/// The format of finalizers, which all kinds check.
fn finalizer_names(field: &str, finalizers: &[Value], errors: &mut Errors) {
    for finalizer in finalizers {
        let finalizer = finalizer.as_str().unwrap_or("");
        errors.complaints(field, finalizer, formats::qualified_name(finalizer));
    }
    let has = |wanted: &str| finalizers.iter().any(|finalizer| finalizer == wanted);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(
            field,
            finalizers.to_vec(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

/// Requires that finalizers without a domain are standard ones, for the kinds that check it.
fn finalizer_domains(kind: &str, object: &Value, errors: &mut Errors) {
    if !knows_standard_finalizers(kind) {
        return;
    }
    for (index, finalizer) in list(object, "metadata.finalizers").iter().enumerate() {
        let field = format!("metadata.finalizers[{index}]");
        finalizer_domain(field, finalizer.as_str().unwrap_or(""), errors);
    }
}

fn finalizer_domain(field: impl Into<String>, finalizer: &str, errors: &mut Errors) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        errors.invalid(field, finalizer, NO_DOMAIN);
    }
}

/// Whether upstream checks finalizers of the kind with the names that need no domain
/// (`pkg/apis/core/validation`, ValidateObjectMeta). Other kinds have generic checks only.
fn knows_standard_finalizers(kind: &str) -> bool {
    !matches!(
        kind,
        "" | "APIService"
            | "CustomResourceDefinition"
            | "Lease"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding"
            | "MutatingWebhookConfiguration"
            | "PodDisruptionBudget"
            | "RuntimeClass"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "ValidatingWebhookConfiguration"
    )
}

/// The prefix of a generated name, with a valid last character. A prefix may end in `-`, unlike a
/// name.
pub(crate) fn with_valid_end(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_owned(),
    }
}

/// Checks the metadata fields that an update cannot change. `kind` is empty for custom objects, and
/// for the checks of all kinds.
pub(crate) fn check_update(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    if !at(old, "metadata.deletionTimestamp").is_null() {
        no_new_finalizers(new, old, errors);
    }
    let generation = |object: &Value| at(object, "metadata.generation").as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        errors.invalid(
            "metadata.generation",
            generation(new),
            "must not be decremented",
        );
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        errors.immutable(new, old, &format!("metadata.{field}"));
    }
    let metadata = at(new, "metadata");
    labels("metadata.labels", at(metadata, "labels"), errors);
    annotations("metadata.annotations", at(metadata, "annotations"), errors);
    owners(at(metadata, "ownerReferences"), errors);
    finalizer_domains(kind, new, errors);
}

fn no_new_finalizers(new: &Value, old: &Value, errors: &mut Errors) {
    let before = list(old, "metadata.finalizers");
    let added: Vec<String> = list(new, "metadata.finalizers")
        .iter()
        .filter(|finalizer| !before.contains(finalizer))
        .map(|finalizer| format!("{:?}", finalizer.as_str().unwrap_or("")))
        .collect();
    if !added.is_empty() {
        let added = added.join(", ");
        errors.forbidden(
            "metadata.finalizers",
            format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added}}}"),
        );
    }
}

pub(crate) fn labels(field: impl fmt::Display, labels: &Value, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.complaints(&field, key, formats::qualified_name(key));
        let value = value.as_str().unwrap_or("");
        errors.complaints(&field, value, formats::label_value(value));
    }
}

pub(crate) fn annotations(field: impl fmt::Display, annotations: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        errors.complaints(&field, key, formats::qualified_name(&key.to_lowercase()));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATION_BYTES {
        errors.too_long(field.to_string(), MAX_ANNOTATION_BYTES);
    }
}

/// Checks a finalizer of a Namespace's spec.
pub(crate) fn namespace_finalizer(field: &str, finalizer: &str, errors: &mut Errors) {
    errors.complaints(field, finalizer, formats::qualified_name(finalizer));
    finalizer_domain(field, finalizer, errors);
}

/// Checks the owner references, of which at most one is the controller.
fn owners(references: &Value, errors: &mut Errors) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in references.as_array().into_iter().flatten() {
        let api_version = text(reference, "apiVersion");
        if api_version.rsplit('/').next().unwrap_or("").is_empty() {
            errors.invalid(
                format!("{FIELD}.apiVersion"),
                api_version,
                "version must not be empty",
            );
        }
        for field in ["kind", "name", "uid"] {
            if text(reference, field).is_empty() {
                errors.invalid(format!("{FIELD}.{field}"), "", "must not be empty");
            }
        }
        if api_version == "v1" && text(reference, "kind") == "Event" {
            errors.invalid(
                FIELD,
                reference.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if at(reference, "controller") == &Value::Bool(true) {
            let this = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => errors.invalid(
                    FIELD,
                    references.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ),
            }
        }
    }
}
