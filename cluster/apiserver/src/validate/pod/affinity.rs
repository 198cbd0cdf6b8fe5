//! Affinity to nodes and pods.
//!
//! Upstream: `validateAffinity` and `ValidateNodeSelector`.

use std::collections::HashSet;

use serde_json::Value;

use super::{Errors, Path, at, formats, list, number, selector, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the affinity of a pod.
pub(super) fn check(path: &Path<'_>, affinity: &Value, errors: &mut Errors) {
    let of_node = &affinity["nodeAffinity"];
    if !of_node.is_null() {
        node_affinity(&path.child("nodeAffinity"), of_node, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(kind);
        let required = path.child(REQUIRED);
        for (index, term) in list(&affinity[kind], REQUIRED).iter().enumerate() {
            pod_term(&required.index(index), term, errors);
        }
        let preferred = path.child(PREFERRED);
        for (index, weighted) in list(&affinity[kind], PREFERRED).iter().enumerate() {
            let path = preferred.index(index);
            weight(&path, weighted, errors);
            let term = &weighted["podAffinityTerm"];
            pod_term(&path.child("podAffinityTerm"), term, errors);
        }
    }
}

fn node_affinity(path: &Path<'_>, affinity: &Value, errors: &mut Errors) {
    let required = &affinity[REQUIRED];
    if !required.is_null() {
        node_selector(&path.child(REQUIRED), required, errors);
    }
    let path = path.child(PREFERRED);
    for (index, weighted) in list(affinity, PREFERRED).iter().enumerate() {
        let path = path.index(index);
        weight(&path, weighted, errors);
        // Here a wrong value is only a warning.
        let preference = &weighted["preference"];
        node_term(&path.child("preference"), preference, false, errors);
    }
}

fn weight(path: &Path<'_>, term: &Value, errors: &mut Errors) {
    let weight = number(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(path.child("weight"), weight, "must be in the range 1-100");
    }
}

/// Checks a selector of nodes.
pub(in super::super) fn node_selector(path: &Path<'_>, selector: &Value, errors: &mut Errors) {
    let path = path.child("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(&path.index(index), term, true, errors);
    }
}

fn node_term(path: &Path<'_>, term: &Value, checks_values: bool, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        label_requirement(
            &expressions.index(index),
            requirement,
            checks_values,
            errors,
        );
    }
    let fields = path.child("matchFields");
    for (index, requirement) in list(term, "matchFields").iter().enumerate() {
        field_requirement(&fields.index(index), requirement, errors);
    }
}

fn label_requirement(path: &Path<'_>, requirement: &Value, checks: bool, errors: &mut Errors) {
    let values_path = path.child("values");
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => errors.required(
            values_path,
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
            values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => errors.required(
            values_path,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(
            path.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
    let key = text(requirement, "key");
    errors.complaints(path.child("key"), key, formats::qualified_name(key));
    if checks {
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = values_path.index(index);
            errors.complaints(path, value, formats::label_value(value));
        }
    }
}

fn field_requirement(path: &Path<'_>, requirement: &Value, errors: &mut Errors) {
    let values_path = path.child("values");
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.len() != 1 => errors.required(
            values_path,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        other => errors.invalid(
            path.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        return errors.invalid(path.child("key"), key, "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        errors.complaints(values_path.index(index), value, formats::subdomain(value));
    }
}

fn pod_term(path: &Path<'_>, term: &Value, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        let wanted = &term[field];
        if !wanted.is_null() {
            selector::check(&path.child(field).to_string(), wanted, errors);
        }
    }
    for name in list(term, "namespaces") {
        let name = name.as_str().unwrap_or_default();
        // Upstream's path is in the singular.
        errors.complaints(path.child("namespace"), name, formats::label(name));
    }
    label_keys(path, term, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(path.child("topologyKey"), "can not be empty");
    }
    errors.complaints(path.child("topologyKey"), key, formats::qualified_name(key));
}

/// Checks the label keys of the pod itself that a term adds to its selector.
/// Upstream: `ValidateMatchLabelKeysAndMismatchLabelKeys`.
pub(super) fn label_keys(path: &Path<'_>, term: &Value, errors: &mut Errors) {
    let wanted = &term["labelSelector"];
    let keys =
        |field: &str| -> Vec<&str> { list(term, field).iter().filter_map(Value::as_str).collect() };
    let matching = keys("matchLabelKeys");
    let other = keys("mismatchLabelKeys");
    for (field, keys) in [("matchLabelKeys", &matching), ("mismatchLabelKeys", &other)] {
        let path = path.child(field);
        if wanted.is_null() && !keys.is_empty() {
            errors.forbidden(path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.complaints(path.index(index), key, formats::qualified_name(key));
        }
    }
    // The server itself adds an expression for each key. A second one is from the client.
    let labels = at(wanted, "matchLabels").as_object();
    let mut selected: HashSet<&str> = labels
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    for expression in list(wanted, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(index) = matching.iter().rposition(|of_pod| *of_pod == key)
            && selected.contains(key)
        {
            errors.invalid(
                path.index(index),
                key,
                "exists in both matchLabelKeys and labelSelector",
            );
        }
        selected.insert(key);
    }
    let path = path.child("matchLabelKeys");
    for (index, key) in matching.iter().enumerate() {
        if other.contains(key) {
            errors.invalid(
                path.index(index),
                *key,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            );
        }
    }
}
