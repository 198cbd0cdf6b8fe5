//! Validation of CustomResourceDefinitions, with upstream's messages.
//!
//! Upstream: `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::jsonpath::{JsonPath, names};
use super::names::is_established;
use super::structural;
use crate::apimachinery::errors::{Errors, at, list, text};
use crate::apimachinery::formats::{dns_label, subdomain};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_WARNING: usize = 256;

/// Appends all errors of a definition, except those of its metadata. Versions that an update keeps
/// from `old` are valid already: a check of all schemas would dominate the cost of small updates.
pub(crate) fn check(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = at(definition, "spec");
    let name = text(definition, "metadata.name");
    let wanted = format!("{}.{}", text(spec, "names.plural"), text(spec, "group"));
    if name != wanted {
        errors.invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    check_group(text(spec, "group"), errors);
    match text(spec, "scope") {
        "" => errors.required("spec.scope", ""),
        scope => errors.one_of("spec.scope", scope, &["Cluster", "Namespaced"]),
    }
    check_versions(
        spec,
        old.map_or(&[], |old| list(old, "spec.versions")),
        errors,
    );
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &format!("names.{field}")).is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        }
    }
    check_names("spec.names", at(spec, "names"), errors);
    check_conversion(at(spec, "conversion"), errors);
    if at(spec, "preserveUnknownFields") == &Value::Bool(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid("spec.preserveUnknownFields", true, why);
    }
    check_names(
        "status.acceptedNames",
        at(definition, "status.acceptedNames"),
        errors,
    );
    check_stored_versions(definition, errors);
    check_approval(definition, errors);
}

/// Appends an error for each immutable field that differs from `old`.
pub(crate) fn check_update(new: &Value, old: &Value, errors: &mut Errors) {
    if is_established(old) {
        errors.immutable(new, old, "spec.scope");
        errors.immutable(new, old, "spec.names.kind");
    }
    errors.immutable(new, old, "spec.group");
    errors.immutable(new, old, "spec.names.plural");
}

fn check_group(group: &str, errors: &mut Errors) {
    let problems = subdomain(group);
    match group {
        "" => errors.required("spec.group", ""),
        _ if !problems.is_empty() => errors.invalid("spec.group", group, problems.join(",")),
        _ if !group.contains('.') => errors.invalid(
            "spec.group",
            group,
            "should be a domain with at least one dot",
        ),
        _ => {}
    }
}

fn check_versions(spec: &Value, known: &[Value], errors: &mut Errors) {
    let versions = list(spec, "versions");
    let field = |index: usize, rest: &str| format!("spec.versions[{index}].{rest}");
    for (index, version) in versions.iter().enumerate() {
        if at(version, "schema.openAPIV3Schema").is_null() {
            errors.required(field(index, "schema.openAPIV3Schema"), "");
        }
    }
    let unknown = |(_, version): &(usize, &Value)| !known.contains(version);
    for (index, version) in versions.iter().enumerate().filter(unknown) {
        let name = text(version, "name");
        let problems = dns_label(name);
        if !problems.is_empty() {
            errors.invalid(field(index, "name"), name, problems.join(","));
        }
        check_deprecation(version, &field(index, "deprecationWarning"), errors);
        let schema = at(version, "schema.openAPIV3Schema");
        if !schema.is_null() {
            let with_status = at(version, "subresources.status").is_object();
            // Upstream keeps a schema that all versions share in a field of its own, whose name
            // its messages have.
            let is_shared = versions
                .iter()
                .all(|other| other["schema"] == version["schema"]);
            let place = match is_shared {
                true => "spec.validation.openAPIV3Schema".to_owned(),
                false => field(index, "schema.openAPIV3Schema"),
            };
            if index == 0 || !is_shared {
                structural::check(schema, with_status, &place, errors);
            }
        }
        check_scale(
            at(version, "subresources.scale"),
            &field(index, "subresources.scale"),
            errors,
        );
        for (number, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            check_column(
                column,
                &field(index, &format!("additionalPrinterColumns[{number}]")),
                errors,
            );
        }
        check_selectable(
            list(version, "selectableFields"),
            schema,
            &field(index, "selectableFields"),
            errors,
        );
    }
    let names: BTreeSet<&str> = versions
        .iter()
        .map(|version| text(version, "name"))
        .collect();
    if names.len() < versions.len() {
        errors.invalid(
            "spec.versions",
            json!(versions),
            "must contain unique version names",
        );
    }
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        errors.invalid(
            "spec.versions",
            json!(versions),
            "must have exactly one version marked as storage version",
        );
    }
}

fn check_deprecation(version: &Value, field: &str, errors: &mut Errors) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    if version["deprecated"] != true {
        errors.invalid(field, warning, "can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING {
        errors.invalid(field, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(field, warning, "must not be an empty string");
    }
    if let Some((index, _)) = warning
        .char_indices()
        .find(|(_, letter)| letter.is_control())
    {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.invalid(field, warning, why);
    }
}

/// Replica paths must be plain paths into spec or status.
fn check_scale(scale: &Value, field: &str, errors: &mut Errors) {
    if scale.is_null() {
        return;
    }
    let mut path = |name: &str, parts: &[&str]| {
        let field = format!("{field}.{name}");
        match text(scale, name) {
            "" if name == "labelSelectorPath" => {}
            "" => errors.required(field, ""),
            path if names(path).is_none() => {
                errors.invalid(
                    field,
                    path,
                    "should be a json path in dot notation without arrays",
                );
            }
            path if !parts.iter().any(|part| path.starts_with(part)) => {
                let why = match parts {
                    [only] => format!("should be a json path under {only}"),
                    _ => "should be a json path under either .status or .spec".to_owned(),
                };
                errors.invalid(field, path, why);
            }
            _ => {}
        }
    };
    path("specReplicasPath", &[".spec."]);
    path("statusReplicasPath", &[".status."]);
    path("labelSelectorPath", &[".status.", ".spec."]);
}

fn check_column(column: &Value, field: &str, errors: &mut Errors) {
    if text(column, "name").is_empty() {
        errors.required(format!("{field}.name"), "");
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(column, "type") {
        "" => errors.required(format!("{field}.type"), &types),
        kind if !COLUMN_TYPES.contains(&kind) => {
            errors.invalid(format!("{field}.type"), kind, types)
        }
        _ => {}
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.invalid(format!("{field}.format"), format, why);
    }
    match text(column, "jsonPath") {
        "" => errors.required(format!("{field}.JSONPath"), ""),
        path if !path.starts_with('.') || JsonPath::parse(path).is_none() => {
            errors.invalid(format!("{field}.JSONPath"), path, "is an invalid JSONPath");
        }
        _ => {}
    }
}

/// Selectable fields must be scalars that the schema declares outside of metadata.
fn check_selectable(fields: &[Value], schema: &Value, field: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let field = format!("{field}[{index}].jsonPath");
        let path = text(selectable, "jsonPath");
        if path.is_empty() {
            errors.required(field, "");
            continue;
        }
        let found = names(path).and_then(|names| {
            names
                .iter()
                .try_fold(schema, |at, name| at["properties"].get(*name))
        });
        let Some(found) = found else {
            errors.invalid(
                field,
                path,
                "is an invalid path: does not refer to a valid field",
            );
            continue;
        };
        if path.starts_with(".metadata") {
            errors.invalid(&field, path, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                       allowed.";
            errors.invalid(&field, path, why);
        }
        if !seen.insert(path) {
            errors.duplicate(field, path);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.too_many(field, seen.len(), MAX_SELECTABLE_FIELDS);
    }
}

fn check_names(field: &str, names: &Value, errors: &mut Errors) {
    for name in ["plural", "singular"] {
        let value = text(names, name);
        let problems = dns_label(value);
        if !value.is_empty() && !problems.is_empty() {
            errors.invalid(format!("{field}.{name}"), value, problems.join(","));
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        let problems = dns_label(&value.to_lowercase());
        if !value.is_empty() && !problems.is_empty() {
            let why = format!(
                "may have mixed case, but should otherwise match: {}",
                problems.join(",")
            );
            errors.invalid(format!("{field}.{name}"), value, why);
        }
    }
    for entries in ["shortNames", "categories"] {
        if entries == "categories"
            && !text(names, "kind").is_empty()
            && text(names, "kind") == text(names, "listKind")
        {
            errors.invalid(
                format!("{field}.listKind"),
                text(names, "listKind"),
                "kind and listKind may not be the same",
            );
        }
        for (index, name) in list(names, entries).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let problems = dns_label(name);
            if !problems.is_empty() {
                errors.invalid(
                    format!("{field}.{entries}[{index}]"),
                    name,
                    problems.join(","),
                );
            }
        }
    }
}

fn check_conversion(conversion: &Value, errors: &mut Errors) {
    let field = |name: &str| format!("spec.conversion.{name}");
    match text(conversion, "strategy") {
        "" => errors.required(field("strategy"), ""),
        "Webhook" if at(conversion, "webhook.clientConfig").is_null() => {
            errors.required(
                field("webhookClientConfig"),
                "required when strategy is set to Webhook",
            );
        }
        "None" if !at(conversion, "webhook").is_null() => {
            errors.forbidden(
                field("webhookClientConfig"),
                "should not be set when strategy is not set to Webhook",
            );
        }
        strategy => errors.one_of(field("strategy"), strategy, &["None", "Webhook"]),
    }
}

/// Every version that may still have stored objects must remain in the definition.
fn check_stored_versions(definition: &Value, errors: &mut Errors) {
    const FIELD: &str = "status.storedVersions";
    let stored = list(definition, FIELD);
    if stored.is_empty() {
        return errors.invalid(
            FIELD,
            json!(stored),
            "must have at least one stored version",
        );
    }
    let versions = list(definition, "spec.versions");
    for version in versions
        .iter()
        .filter(|version| version["storage"] == true && !stored.contains(&version["name"]))
    {
        errors.invalid(
            FIELD,
            json!(stored),
            format!("must have the storage version {}", text(version, "name")),
        );
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let shown = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            errors.invalid(format!("{FIELD}[{index}]"), shown, why);
        }
    }
}

/// Groups under `k8s.io` and `kubernetes.io` are protected. Their kinds need an annotation that
/// names the API review.
fn check_approval(definition: &Value, errors: &mut Errors) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(definition, "spec.group");
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group == *domain
            || group
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    });
    let approval = definition["metadata"]["annotations"][ANNOTATION].as_str();
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        _ if !protected => {}
        None => errors.required(field, "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"),
        Some(approval) if approval.starts_with("unapproved") || approval.starts_with("https://") => {}
        Some(approval) => errors.invalid(field, approval, "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"),
    }
}
