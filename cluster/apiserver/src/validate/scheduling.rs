//! PriorityClasses and RuntimeClasses.
//!
//! Upstream is `pkg/apis/scheduling/validation` and `pkg/apis/node/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::pod::{resources, tolerations};
use super::{formats, meta};
use crate::apimachinery::path::Path;
use crate::schema::internal;

/// Highest priority of pods that do not belong to the system.
const HIGHEST: i64 = 1_000_000_000;
/// Start of the names of the system's classes.
const SYSTEM: &str = "system-";
/// The system's classes.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

pub(super) fn priority_class(object: &Value, errors: &mut Errors) {
    let name = text(object, "metadata.name");
    let value = at(object, "value").as_i64().unwrap_or(0);
    if name.starts_with(SYSTEM) {
        if let Some(why) = not_of_the_system(object, name, value) {
            errors.forbidden(
                "metadata.name",
                format!(
                    "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {why}"
                ),
            );
        }
    } else if value > HIGHEST {
        errors.forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {HIGHEST}"),
        );
    }
    if let Some(policy) = at(object, "preemptionPolicy").as_str() {
        match policy {
            "" => errors.required("preemptionPolicy", ""),
            "Never" | "PreemptLowerPriority" => {}
            other => errors.not_supported(
                "preemptionPolicy",
                other,
                &["PreemptLowerPriority", "Never"],
            ),
        }
    }
}

/// The reason why a class is none of the system's classes.
fn not_of_the_system(object: &Value, name: &str, value: i64) -> Option<String> {
    let Some((_, known)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if *known != value {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    let is_default = at(object, "globalDefault") == &Value::Bool(true);
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

pub(super) fn priority_class_update(new: &Value, old: &Value, errors: &mut Errors) {
    if at(new, "value") != at(old, "value") {
        errors.forbidden("value", "may not be changed in an update.");
    }
    errors.immutable(new, old, "preemptionPolicy");
}

pub(super) fn runtime_class(object: &Value, errors: &mut Errors) {
    let handler = text(object, "handler");
    errors.required_format("handler".to_owned(), handler, formats::label);
    let overhead = at(object, "overhead");
    if !overhead.is_null() {
        resources::overhead(&Path::new("overhead"), at(overhead, "podFixed"), errors);
    }
    let scheduling = at(object, "scheduling");
    meta::labels(
        "scheduling.nodeSelector",
        at(scheduling, "nodeSelector"),
        errors,
    );
    let field = Path::new("scheduling.tolerations");
    let wanted = list(scheduling, "tolerations");
    tolerations(&field, wanted, errors);
    let mut seen = HashSet::new();
    for (index, toleration) in wanted.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|name| text(toleration, name));
        if !seen.insert(key) {
            errors.duplicate(
                field.index(index).to_string(),
                internal::form("core.Toleration", toleration),
            );
        }
    }
}
