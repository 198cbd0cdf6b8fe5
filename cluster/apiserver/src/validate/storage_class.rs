//! StorageClasses.
//!
//! Upstream: `ValidateStorageClass` in `pkg/apis/storage/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, list, text};
use super::formats;
use super::pod::warnings::deprecated_label;
use crate::apimachinery::path::Path;

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;
const TOPOLOGIES: Path<'static> = Path::new("allowedTopologies");

/// Checks a StorageClass.
pub(super) fn check(class: &Value, errors: &mut Errors) {
    match text(class, "provisioner") {
        "" => errors.required("provisioner", ""),
        name => {
            let name = name.to_lowercase();
            errors.complaints("provisioner", &name, formats::qualified_name(&name));
        }
    }
    parameters(class, errors);
    let policy = text(class, "reclaimPolicy");
    if !policy.is_empty() {
        errors.one_of("reclaimPolicy", policy, &["Delete", "Retain"]);
    }
    match class["volumeBindingMode"].as_str() {
        None => errors.required("volumeBindingMode", ""),
        Some(mode) => errors.one_of(
            "volumeBindingMode",
            mode,
            &["Immediate", "WaitForFirstConsumer"],
        ),
    }
    topologies(class, errors);
}

fn parameters(class: &Value, errors: &mut Errors) {
    let Some(parameters) = class["parameters"].as_object() else {
        return;
    };
    if parameters.len() > MAX_PARAMETERS {
        return errors.too_long("parameters", MAX_PARAMETERS);
    }
    let mut bytes = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.invalid("parameters", "", "field can not be empty.");
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_PARAMETER_BYTES {
        errors.too_long("parameters", MAX_PARAMETER_BYTES);
    }
}

/// Checks the topologies, of which no two are the same.
fn topologies(class: &Value, errors: &mut Errors) {
    let mut seen: Vec<Vec<(&str, HashSet<&str>)>> = Vec::new();
    let topologies = list(class, "allowedTopologies");
    for (index, topology) in topologies.iter().enumerate() {
        let path = TOPOLOGIES.index(index);
        let terms = expressions(&path.child("matchLabelExpressions"), topology, errors);
        let is_same = |other: &Vec<(&str, HashSet<&str>)>| {
            other.len() == terms.len() && terms.iter().all(|term| other.contains(term))
        };
        // Upstream compares with a list that has empty topologies in place of later ones.
        let unseen = if terms.is_empty() {
            topologies.len() - index
        } else {
            0
        };
        for _ in 0..seen.iter().filter(|other| is_same(other)).count() + unseen {
            errors.duplicate(path.child("matchLabelExpressions"), "");
        }
        seen.push(terms);
    }
}

/// Checks the expressions of a topology, and returns keys and values.
fn expressions<'a>(
    path: &Path<'_>,
    topology: &'a Value,
    errors: &mut Errors,
) -> Vec<(&'a str, HashSet<&'a str>)> {
    let mut terms: Vec<(&str, HashSet<&str>)> = Vec::new();
    for (index, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
        let path = path.index(index);
        let values_path = path.child("values");
        let given = list(expression, "values");
        if given.is_empty() {
            errors.required(values_path, "");
        }
        let mut values = HashSet::new();
        for (index, value) in given.iter().filter_map(Value::as_str).enumerate() {
            if !values.insert(value) {
                errors.duplicate(values_path.index(index), value);
            }
        }
        let key = text(expression, "key");
        errors.complaints(path.child("key"), key, formats::qualified_name(key));
        match terms.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => {
                errors.duplicate(path.child("key"), key);
                *known = values;
            }
            None => terms.push((key, values)),
        }
    }
    terms
}

/// Checks that an update changes none of the fixed fields. Upstream: `ValidateStorageClassUpdate`.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    for field in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        errors.immutable(new, old, field);
    }
}

/// Warnings about labels in the topologies that have newer names.
pub(super) fn warnings(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, topology) in list(class, "allowedTopologies").iter().enumerate() {
        let path = TOPOLOGIES.index(index);
        let path = path.child("matchLabelExpressions");
        for (index, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            if let Some(message) = deprecated_label(text(expression, "key")) {
                let path = path.index(index);
                warnings.push(format!("{}: {message}", path.child("key")));
            }
        }
    }
    warnings
}
