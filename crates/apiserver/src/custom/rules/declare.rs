//! Types and sizes of the values that a schema allows.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/common/schemas.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::schema::{ListType, Schema};
use crate::cel::types::{Decl, Field, ListKind, Object, Type, escape};

/// The largest request, which limits every value without a limit of its own.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// Bytes of an empty text.
const MIN_TEXT: u64 = 2;
const MIN_BOOL: u64 = 4;
const MIN_NUMBER: u64 = 1;
/// Bytes of `"0s"`, and of the longest duration.
const MIN_DURATION: u64 = 3;
const MAX_DURATION: u64 = 32;
const DATE: u64 = 12;
const MIN_DATE_TIME: u64 = 21;
const MAX_DATE_TIME: u64 = 32;

/// The declaration of a schema; `None` for values of any type. `resource` adds `apiVersion`,
/// `kind` and the names in `metadata`.
pub(super) fn schema(schema: &Schema, resource: bool) -> Option<Decl> {
    named(schema, resource, "object")
}

/// The declaration of a property: the part of its parent's, or its own if no expression can name
/// it.
pub(super) fn property(parent: &Decl, name: &str, node: &Schema) -> Option<Arc<Decl>> {
    match escape(name) {
        Some(escaped) => parent.field(&escaped).cloned(),
        None => schema(node, node.embedded_resource).map(Arc::new),
    }
}

fn named(schema: &Schema, resource: bool, name: &str) -> Option<Decl> {
    let length = |limit: Option<usize>, bytes: u64| limit.map(|limit| limit as u64 * bytes);
    if schema.int_or_string {
        let max = length(schema.max_length, 4).unwrap_or(MAX_REQUEST - 2);
        return Some(Decl::simple(Type::Dyn, max, 1));
    }
    let below = |part: &str| format!("{name}.{part}");
    match &*schema.kind {
        "array" => {
            let item = schema.item()?;
            let element = named(item, item.embedded_resource, &below("@idx"))?;
            let most = (MAX_REQUEST - 2) / (element.min_size + 1);
            let max = schema.max_items.map_or(most, |max| max as u64);
            let kind = match schema.list_type {
                ListType::Atomic => ListKind::Atomic,
                ListType::Set => ListKind::Set,
                ListType::Map => ListKind::Map(schema.list_keys().map(str::to_owned).collect()),
            };
            Some(Decl::list(element, max, kind))
        }
        "object" => {
            if let Some(value) = schema.additional() {
                let value = named(value, value.embedded_resource, &below("@elem"))?;
                // Each entry has a key of at least two bytes and four bytes of punctuation.
                let most = (MAX_REQUEST - 2) / (value.min_size + 6);
                let max = schema.max_properties.map_or(most, |max| max as u64);
                return Some(Decl::map(value, max));
            }
            Some(object(schema, resource, name))
        }
        "string" => Some(match &*schema.format {
            "byte" => {
                let max = length(schema.max_length, 1).unwrap_or(MAX_REQUEST - 2);
                Decl::simple(Type::Bytes, max, MIN_TEXT)
            }
            "duration" => Decl::simple(Type::Duration, MAX_DURATION, MIN_DURATION),
            "date" => Decl::simple(Type::Timestamp, DATE, DATE),
            "date-time" => Decl::simple(Type::Timestamp, MAX_DATE_TIME, MIN_DATE_TIME),
            _ => {
                let allowed = schema.allowed.iter().filter_map(|value| value.as_str());
                let max = match length(schema.max_length, 4) {
                    Some(max) => max,
                    None if schema.allowed.is_empty() => MAX_REQUEST - 2,
                    None => allowed.map(|text| text.len() as u64).max().unwrap_or(0),
                };
                Decl::simple(Type::Text, max, MIN_TEXT)
            }
        }),
        "boolean" => Some(Decl::simple(Type::Bool, 0, MIN_BOOL)),
        "number" => Some(Decl::simple(Type::Double, 0, MIN_NUMBER)),
        "integer" => Some(Decl::simple(Type::Int, 0, MIN_NUMBER)),
        _ => None,
    }
}

fn object(schema: &Schema, resource: bool, name: &str) -> Decl {
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    let mut add = |json: &str, decl: Decl| {
        if let Some(escaped) = escape(json) {
            let field = Field {
                json: json.to_owned(),
                decl: Arc::new(decl),
            };
            fields.insert(escaped, field);
        }
    };
    for (json, property) in &schema.properties {
        let below = format!("{name}.{json}");
        let Some(decl) = named(property, property.embedded_resource, &below) else {
            continue;
        };
        if schema.required.contains(json) && property.default.is_none() {
            min_size += json.len() as u64 + decl.min_size + 4;
        }
        add(json, decl);
    }
    if resource {
        let text = || Decl::simple(Type::Text, MAX_REQUEST - 2, MIN_TEXT);
        add("apiVersion", text());
        add("kind", text());
        let names = [("name", text()), ("generateName", text())];
        add("metadata", Decl::object(&format!("{name}.metadata"), names));
    }
    let object = Object {
        name: name.to_owned(),
        fields,
        open: false,
    };
    Decl::simple(Type::Object(Arc::new(object)), u64::MAX, min_size)
}
