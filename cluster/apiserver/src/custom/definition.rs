//! Validation of CustomResourceDefinitions, with upstream's messages.
//!
//! Upstream: `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::names::{APPROVAL, has_invalid_bundle, is_established, is_protected};
use super::versions::Versions;
use crate::apimachinery::errors::{Errors, at, list, text};
use crate::apimachinery::formats::{dns_label, subdomain};
use crate::apimachinery::webhook_client;

/// Appends all errors of a definition, except those of its metadata. Versions that an update keeps
/// from `old` are valid already: a check of all schemas would dominate the cost of small updates.
pub(crate) fn check(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = at(definition, "spec");
    check_group(text(spec, "group"), errors);
    match text(spec, "scope") {
        "" => errors.required("spec.scope", ""),
        scope => errors.one_of("spec.scope", scope, &["Cluster", "Namespaced"]),
    }
    let versions = Versions {
        all: list(spec, "versions"),
        known: old.map_or(&[], |old| list(old, "spec.versions")),
    };
    versions.check(errors);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &format!("names.{field}")).is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        }
    }
    check_names("spec.names", at(spec, "names"), errors);
    versions.check_shared(errors);
    // A bundle that was unusable before may stay so, and then keeps the kind from being established.
    let has_new_fault = has_invalid_bundle(definition)
        && old.is_some_and(|old| is_established(old) && !has_invalid_bundle(old));
    check_conversion(at(spec, "conversion"), has_new_fault, errors);
    if let Some(old) = old {
        check_immutable(definition, old, errors);
    }
    check_names(
        "status.acceptedNames",
        at(definition, "status.acceptedNames"),
        errors,
    );
    check_stored_versions(definition, errors);
    check_approval(definition, errors);
    if at(spec, "preserveUnknownFields") == &Value::Bool(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid("spec.preserveUnknownFields", true, why);
    }
}

/// Appends an error for each immutable field that differs from `old`.
fn check_immutable(new: &Value, old: &Value, errors: &mut Errors) {
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

fn check_conversion(conversion: &Value, has_new_fault: bool, errors: &mut Errors) {
    let field = |name: &str| format!("spec.conversion.{name}");
    match text(conversion, "strategy") {
        "" => errors.required(field("strategy"), ""),
        strategy => errors.one_of(field("strategy"), strategy, &["None", "Webhook"]),
    }
    let client = at(conversion, "webhook.clientConfig");
    let reviews = list(conversion, "webhook.conversionReviewVersions");
    if text(conversion, "strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if !client.is_null() {
            errors.forbidden(field("webhookClientConfig"), why);
        }
        if !reviews.is_empty() {
            errors.forbidden(field("conversionReviewVersions"), why);
        }
        return;
    }
    if client.is_null() {
        let why = "required when strategy is set to Webhook";
        errors.required(field("webhookClientConfig"), why);
    } else {
        webhook_client::check(&field("webhookClientConfig"), client, errors);
        if has_new_fault {
            let why = "unable to load root certificates: unable to parse bytes as PEM block";
            let bundle = text(client, "caBundle");
            errors.invalid(field("webhookClientConfig.caBundle"), bundle, why);
        }
    }
    check_reviews(&field("conversionReviewVersions"), reviews, errors);
}

/// Checks the versions of ConversionReview that a webhook understands.
fn check_reviews(field: &str, versions: &[Value], errors: &mut Errors) {
    const KNOWN: [&str; 2] = ["v1", "v1beta1"];
    if versions.is_empty() {
        return errors.required(field, "");
    }
    let names: Vec<&str> = versions.iter().filter_map(Value::as_str).collect();
    for (index, name) in names.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if names[..index].contains(name) {
            errors.invalid(field, *name, "duplicate version");
        } else {
            errors.complaints(field, name, dns_label(name));
        }
    }
    if !names.iter().any(|name| KNOWN.contains(name)) {
        let why = format!("must include at least one of {}", KNOWN.join(", "));
        errors.invalid(field, versions.to_vec(), why);
    }
}

/// Every version that may still have stored objects must remain in the definition.
fn check_stored_versions(definition: &Value, errors: &mut Errors) {
    const FIELD: &str = "status.storedVersions";
    let stored = list(definition, FIELD);
    if stored.is_empty() {
        return errors.invalid(FIELD, Value::Null, "must have at least one stored version");
    }
    let versions = list(definition, "spec.versions");
    for (index, version) in versions.iter().enumerate() {
        // A name counts for the first version that has it.
        let is_repeated = versions[..index]
            .iter()
            .any(|other| other["name"] == version["name"]);
        if version["storage"] == true && (is_repeated || !stored.contains(&version["name"])) {
            let why = format!("must have the storage version {}", text(version, "name"));
            errors.invalid(FIELD, stored.to_vec(), why);
        }
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

/// The kinds of protected groups need an annotation that names the API review.
fn check_approval(definition: &Value, errors: &mut Errors) {
    let approval = definition["metadata"]["annotations"][APPROVAL].as_str();
    let field = format!("metadata.annotations[{APPROVAL}]");
    match approval {
        _ if !is_protected(text(definition, "spec.group")) => {}
        None => errors.required(field, "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"),
        Some(approval) if approval.starts_with("unapproved") || approval.starts_with("https://") => {}
        Some(approval) => errors.invalid(field, approval, "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `conversion_cases.json` has `spec.conversion` of definitions with the port of its Service, and
    /// the errors of kube-apiserver 1.36.2.
    #[test]
    fn conversions_are_refused_as_recorded() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("conversion_cases.json")).unwrap();
        for case in &cases {
            let mut errors = Errors::default();
            check_conversion(at(case, "conversion"), false, &mut errors);
            let found: Vec<String> = errors
                .into_list()
                .iter()
                .map(|error| format!("{}: {}", error.field, error.detail()))
                .collect();
            let expected = list(case, "errors");
            assert_eq!(found, expected, "{case}");
        }
    }
}
