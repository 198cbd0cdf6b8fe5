//! Types that are unions in JSON, and messages in protobuf.

use serde_json::{Map, Value};

use super::{Field, Struct, Type};

/// Name of the type of schemas.
pub(super) const SCHEMA: &str = "apiextensions.JSONSchemaProps";

/// The types with members of other types in JSON than in protobuf.
///
/// Upstream: `apiextensions/v1/marshal.go` of apiextensions-apiserver.
#[derive(Debug, Clone, Copy)]
pub(super) enum Union {
    /// A schema, or a boolean.
    Bool,
    /// A schema, or a list of schemas.
    List,
    /// A schema, or a list of texts.
    Texts,
}

impl Union {
    /// The union that `field` of `shape` is, or that its entries are.
    pub(super) fn of(shape: &Struct, field: &Field) -> Option<Self> {
        if shape.name() != SCHEMA {
            return None;
        }
        match field.name {
            "additionalProperties" | "additionalItems" => Some(Self::Bool),
            "items" => Some(Self::List),
            "dependencies" => Some(Self::Texts),
            _ => None,
        }
    }
}

/// The schemas in `value`, if `field` of `shape` is a union of schemas and other values. They have
/// the type `shape` again.
pub(super) fn schemas_in<'a>(
    shape: &Struct,
    field: &Field,
    value: &'a mut Value,
) -> Vec<&'a mut Map<String, Value>> {
    if Union::of(shape, field).is_none() {
        return Vec::new();
    }
    let is_map = matches!(field.ty, Type::Map(_));
    match value {
        Value::Object(fields) => {
            if is_map {
                fields
                    .values_mut()
                    .filter_map(Value::as_object_mut)
                    .collect()
            } else {
                vec![fields]
            }
        }
        Value::Array(items) => items.iter_mut().filter_map(Value::as_object_mut).collect(),
        _ => Vec::new(),
    }
}
