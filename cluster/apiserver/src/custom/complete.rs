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
    prune_fields(schema, object, "", &mut unknown, Kept::of(schema, true));
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
            let kept = Kept::of(schema, schema.embedded_resource);
            prune_fields(schema, value, path, unknown, kept);
        }
        (Some(schema), Value::Array(items)) if schema.preserves_unknown() => {
            prune_open_list(schema, items, path, unknown);
        }
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

/// Prunes the elements of a list that preserves unknown fields: those of its elements, too, but not the ones
/// further below.
fn prune_open_list(schema: &Schema, items: &mut [Value], path: &str, unknown: &mut Vec<String>) {
    let Some(of_item) = schema.item() else {
        return;
    };
    for (index, item) in items.iter_mut().enumerate() {
        let here = format!("{path}[{index}]");
        match item {
            Value::Array(items) => prune_open_list(of_item, items, &here, unknown),
            item => {
                let kept = Kept {
                    resource: of_item.embedded_resource,
                    unknown: true,
                };
                prune_fields(of_item, item, &here, unknown, kept);
            }
        }
    }
}

/// The fields that an object keeps beside those of its schema.
#[derive(Clone, Copy)]
struct Kept {
    /// `apiVersion`, `kind` and `metadata`.
    resource: bool,
    /// All fields.
    unknown: bool,
}

impl Kept {
    fn of(schema: &Schema, resource: bool) -> Self {
        Self {
            resource,
            unknown: schema.preserves_unknown(),
        }
    }
}

/// Prunes the fields of an object.
fn prune_fields(
    schema: &Schema,
    object: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
    kept: Kept,
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
        if kept.resource && META_FIELDS.contains(&name.as_str()) {
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
            None if kept.unknown => {}
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_that_preserves_unknown_fields_keeps_those_of_its_elements() {
        let field = json!({"type": "object", "properties": {"known": {"type": "object"}}});
        let list = |items: &Value, is_open: bool| {
            let list = json!({
                "type": "array", "items": items, "x-kubernetes-preserve-unknown-fields": is_open
            });
            json!({"type": "object", "properties": {"list": list}})
        };
        let nested = json!({"type": "array", "items": field});
        let element = || json!({"other": 1, "known": {"below": 2}});
        // (why, schema, list, unknown fields)
        let cases = [
            (
                "closed",
                list(&field, false),
                json!([element()]),
                vec!["list[0].known.below", "list[0].other"],
            ),
            (
                "open",
                list(&field, true),
                json!([element()]),
                vec!["list[0].known.below"],
            ),
            (
                "open, of lists",
                list(&nested, true),
                json!([[element()]]),
                vec!["list[0][0].known.below"],
            ),
            (
                "open, without a schema of elements",
                list(&Value::Null, true),
                json!([element()]),
                vec![],
            ),
        ];
        for (why, schema, list, expected) in cases {
            let schema: Schema = serde_json::from_value(schema).unwrap();
            let mut object = json!({ "list": list });
            assert_eq!(prune(&schema, &mut object), expected, "{why}");
        }
    }
}
