//! Pruning of unknown fields, and defaulting, by the schema of a custom kind.
//!
//! Upstream: `pkg/apiserver/schema/pruning` and `.../defaulting` of apiextensions-apiserver.

use serde_json::{Map, Value};

use super::schema::Schema;
use crate::schema::typed_form;

/// The fields of every object, independent of its schema.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes fields that the schema does not know from a whole object. Returns their paths, such as
/// `spec.list[0].field`, sorted.
pub(super) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_fields(schema, object, "", &mut unknown, true);
    if let Some(metadata) = object.get_mut("metadata") {
        unknown.extend(typed_form::prune_metadata(metadata, "metadata"));
    }
    unknown.sort();
    unknown
}

/// Prunes a value inside an object.
pub(super) fn prune_part(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_value(Some(schema), value, "", &mut unknown);
    unknown
}

/// Prunes a value. Without a schema, all fields below are unknown.
fn prune_value(schema: Option<&Schema>, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match (schema, &mut *value) {
        (Some(schema), Value::Object(_)) => {
            prune_fields(schema, value, path, unknown, schema.embedded_resource)
        }
        // A list without an item schema keeps its elements if unknown fields are preserved.
        (Some(schema), Value::Array(_))
            if schema.item().is_none() && schema.preserves_unknown() => {}
        (Some(schema), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(schema.item(), item, &format!("{path}[{index}]"), unknown);
            }
        }
        (None, Value::Object(fields)) => {
            unknown.extend(fields.keys().map(|name| format!("{path}.{name}")));
            fields.clear();
        }
        (None, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(None, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Prunes the fields of an object. `is_resource` keeps `apiVersion`, `kind` and `metadata`.
fn prune_fields(
    schema: &Schema,
    object: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
    is_resource: bool,
) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.retain(|name, value| {
        let here = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        if is_resource && META_FIELDS.contains(&name.as_str()) {
            if name == "metadata" && !path.is_empty() {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                unknown.extend(typed_form::prune_metadata(value, &here));
                typed_form::normalize_metadata(value);
            }
            return true;
        }
        match schema.child(name) {
            Some(child) => prune_value(Some(child), value, &here, unknown),
            None if schema.preserves_unknown() => {}
            None => {
                unknown.push(here);
                return false;
            }
        }
        true
    });
}

/// Removes nulls that the schema forbids, unless a default replaces them.
pub(super) fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let child = schema.child(name).filter(|_| value.is_null());
                child.is_none_or(|child| child.nullable || child.default.is_some())
            });
            for (name, value) in fields {
                if let Some(child) = schema.child(name) {
                    drop_nulls(child, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = schema.item() {
                items.iter_mut().for_each(|value| drop_nulls(item, value));
            }
        }
        _ => {}
    }
}

/// Sets defaults. Idempotent.
pub(super) fn set_defaults(schema: &Schema, object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        typed_form::normalize_metadata(metadata);
    }
    fill(schema, object);
}

/// Sets defaults from the outside in, so that a default object gets the defaults of its own fields.
fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && fields
                        .get(name)
                        .is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(child) = schema.child(name) {
                    fill_or_default(child, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = schema.item() {
                items
                    .iter_mut()
                    .for_each(|value| fill_or_default(item, value));
            }
        }
        _ => {}
    }
}

/// Sets the default in place of a null that the schema forbids.
fn fill_or_default(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    fill(schema, value);
}
