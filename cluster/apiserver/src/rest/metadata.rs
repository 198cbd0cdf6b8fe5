//! The metadata that the server sets: identity, times, generation, and the deletion fields.
//!
//! Upstream is `apiserver/pkg/registry/rest/{create,update,meta}.go`.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Map, Value};

use crate::fielderror::{FieldError, Problem};
use crate::kinds::{Generation, Resource};

/// Fields that an update copies from the stored object, instead of from the body.
const KEPT: &[&str] = &["creationTimestamp", "generation", "selfLink"];

/// `metadata` of an object, which is created if it is missing.
pub(super) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"]
        .as_object_mut()
        .expect("it was made an object above")
}

/// A text field of `metadata`; empty if missing.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// A time in the form of the API, in whole seconds.
pub(super) fn time(at: Timestamp) -> Value {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    Value::from(PRINTER.timestamp_to_string(&at))
}

/// Sets UID, creation time and generation of a new object.
pub(super) fn begin(resource: &Resource, object: &mut Value, uid: String, now: Timestamp) {
    let metadata = of(object);
    metadata.remove("resourceVersion");
    metadata.insert("uid".to_owned(), Value::from(uid));
    metadata.insert("creationTimestamp".to_owned(), time(now));
    let starts = !matches!(
        resource.generation,
        Generation::Unmanaged | Generation::SpecFromNone
    );
    if starts {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
}

/// Removes the metadata of an earlier life from an object to create. Upstream calls it for a POST only, so an apply or
/// a PUT can create an object that is terminating: `WipeObjectMetaSystemFields` of
/// `apiserver/pkg/registry/rest`.
pub(super) fn wipe(object: &mut Value) {
    let metadata = of(object);
    for field in [
        "creationTimestamp",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(field);
    }
}

/// Restores the metadata that an update cannot change.
pub(super) fn carry_over(new: &mut Value, old: &Value) {
    let before = &old["metadata"];
    let metadata = of(new);
    for field in KEPT {
        match before.get(field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
    // An update cannot undo a deletion. Validation rejects a changed `deletionTimestamp`.
    if let Some(since) = before.get("deletionTimestamp") {
        metadata.insert("deletionTimestamp".to_owned(), since.clone());
    }
    for field in ["name", "namespace", "uid", "deletionGracePeriodSeconds"] {
        if metadata.get(field).is_none_or(Value::is_null) {
            match before.get(field) {
                Some(value) => metadata.insert(field.to_owned(), value.clone()),
                None => metadata.remove(field),
            };
        }
    }
}

/// Whether the change from `old` to `new` increases the generation of this resource.
pub(super) fn generation_grows(resource: &Resource, new: &Value, old: &Value) -> bool {
    match resource.generation {
        Generation::Unmanaged | Generation::One => false,
        Generation::Spec | Generation::SpecFromNone => new.get("spec") != old.get("spec"),
        Generation::SpecAndAnnotations => {
            new.get("spec") != old.get("spec")
                || new["metadata"].get("annotations") != old["metadata"].get("annotations")
        }
        Generation::Content | Generation::ContentAndStatus => {
            let with_status = resource.generation == Generation::ContentAndStatus;
            let content = |value: &Value| -> Map<String, Value> {
                let aside = |key: &str| {
                    matches!(key, "kind" | "apiVersion" | "metadata")
                        || (key == "status" && !with_status)
                };
                let fields = value.as_object().into_iter().flatten();
                fields
                    .filter(|(key, _)| !aside(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            content(new) != content(old)
        }
    }
}

/// Increases the generation of a changed object.
pub(super) fn advance_generation(resource: &Resource, object: &mut Value) {
    let metadata = of(object);
    if resource.generation == Generation::SpecFromNone && !metadata.contains_key("generation") {
        metadata.insert("generation".to_owned(), Value::from(1));
    } else {
        grow_generation(object);
    }
}

/// Increases the generation, if the object has one.
pub(super) fn grow_generation(object: &mut Value) {
    let metadata = of(object);
    if let Some(generation) = metadata
        .get("generation")
        .and_then(Value::as_i64)
        .filter(|generation| *generation > 0)
    {
        metadata.insert("generation".to_owned(), Value::from(generation + 1));
    }
}

/// `metadata.finalizers`.
pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Sets the finalizers. An empty list removes the field.
pub(super) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = of(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), Value::from(finalizers));
    }
}

/// The error for finalizers that an update adds to a terminating object.
pub(super) fn new_finalizers_while_deleting(new: &Value, old: &Value) -> Option<FieldError> {
    old["metadata"].get("deletionTimestamp")?;
    let known = finalizers(old);
    let added: Vec<String> = finalizers(new)
        .iter()
        .filter(|name| !known.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    if added.is_empty() {
        return None;
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    Some(FieldError {
        field: "metadata.finalizers".to_owned(),
        problem: Problem::Forbidden(why),
    })
}

/// Whether an update removes a terminating object, because its finalizers and its grace period are
/// gone.
pub(super) fn is_finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata.get("deletionTimestamp").is_some()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && finalizers(object).is_empty()
        && (object["kind"] != "Namespace"
            || object["apiVersion"] != "v1"
            || object["spec"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use serde_json::json;

    #[test]
    fn generation_grows_for_the_fields_of_its_kind() {
        let registry = Registry::built_in();
        let base = json!({"metadata": {"labels": {"a": "1"}, "annotations": {"a": "1"}}, "spec": {"x": 1}, "template": {"x": 1}, "status": {"y": 1}});
        let with = |pointer: &str| {
            let mut changed = base.clone();
            *changed.pointer_mut(pointer).unwrap() = json!("changed");
            changed
        };
        // (plural, group, changed field, grows)
        let cases = [
            ("apps", "deployments", "/spec/x", true),
            ("apps", "deployments", "/metadata/annotations/a", true),
            ("apps", "deployments", "/metadata/labels/a", false),
            ("apps", "replicasets", "/metadata/annotations/a", false),
            ("apps", "replicasets", "/spec/x", true),
            ("apps", "replicasets", "/status/y", false),
            ("", "configmaps", "/spec/x", false),
            ("", "podtemplates", "/template/x", true),
            ("storage.k8s.io", "csidrivers", "/spec/x", true),
            ("storage.k8s.io", "csidrivers", "/metadata/labels/a", false),
            ("", "podtemplates", "/metadata/labels/a", false),
            ("discovery.k8s.io", "endpointslices", "/spec/x", true),
            (
                "discovery.k8s.io",
                "endpointslices",
                "/metadata/labels/a",
                false,
            ),
        ];
        for (group, plural, pointer, grows) in cases {
            let resource = &registry.find(group, "v1", plural).unwrap().resource;
            assert_eq!(
                generation_grows(resource, &with(pointer), &base),
                grows,
                "{plural} {pointer}"
            );
        }
    }
}
