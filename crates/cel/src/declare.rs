//! Types and sizes of the values that an OpenAPI schema allows.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/common/schemas.go`, `DeclType.MaybeAssignTypeName`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::types::{Decl, Field, ListKind, Object, Type, escape};

/// The largest request, which limits every value without a limit of its own.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;
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

/// A node of a schema, without references.
pub trait Schema: Sized {
    /// `type`; empty without one.
    fn kind(&self) -> &str;
    /// `format`; empty without one.
    fn format(&self) -> &str;
    /// `x-kubernetes-int-or-string`.
    fn is_int_or_string(&self) -> bool;
    /// `x-kubernetes-embedded-resource`.
    fn is_embedded_resource(&self) -> bool;
    /// The schema of elements.
    fn item(&self) -> Option<Self>;
    /// The schema in `additionalProperties`.
    fn additional(&self) -> Option<Self>;
    /// `properties`.
    fn properties(&self) -> Vec<(&str, Self)>;
    /// The limits of sizes. Types do not depend on them.
    fn limits(&self) -> Limits {
        Limits::default()
    }
    /// Whether the field `name` is required and has no default.
    fn requires(&self, _name: &str) -> bool {
        false
    }
    /// `x-kubernetes-list-type`.
    fn list_kind(&self) -> ListKind {
        ListKind::Atomic
    }
}

/// The limits of sizes in one node of a schema.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// `maxLength`.
    pub length: Option<u64>,
    /// Bytes of the longest text in `enum`; `None` without `enum`.
    pub longest: Option<u64>,
    /// `maxItems`.
    pub items: Option<u64>,
    /// `maxProperties`.
    pub properties: Option<u64>,
}

/// The declaration of a schema; `None` for values of any type. The root type has the name `name`.
/// `resource` adds `apiVersion`, `kind` and the names in `metadata`.
pub fn declaration(schema: &impl Schema, resource: bool, name: &str) -> Option<Decl> {
    let limits = schema.limits();
    let length = |bytes: u64| limits.length.map(|limit| limit * bytes);
    if schema.is_int_or_string() {
        let max = length(4).unwrap_or(MAX_REQUEST - 2);
        return Some(Decl::simple(Type::Dyn, max, 1));
    }
    let below = |part: &str| format!("{name}.{part}");
    match schema.kind() {
        "array" => {
            let item = schema.item()?;
            let element = declaration(&item, item.is_embedded_resource(), &below("@idx"))?;
            let most = (MAX_REQUEST - 2) / (element.min_size + 1);
            let max = limits.items.unwrap_or(most);
            Some(Decl::list(element, max, schema.list_kind()))
        }
        "object" => {
            if let Some(value) = schema.additional() {
                let value = declaration(&value, value.is_embedded_resource(), &below("@elem"))?;
                // Each entry has a key of at least two bytes and four bytes of punctuation.
                let most = (MAX_REQUEST - 2) / (value.min_size + 6);
                return Some(Decl::map(value, limits.properties.unwrap_or(most)));
            }
            Some(object(schema, resource, name))
        }
        "string" => Some(match schema.format() {
            "byte" => {
                let max = length(1).unwrap_or(MAX_REQUEST - 2);
                Decl::simple(Type::Bytes, max, MIN_TEXT)
            }
            "duration" => Decl::simple(Type::Duration, MAX_DURATION, MIN_DURATION),
            "date" => Decl::simple(Type::Timestamp, DATE, DATE),
            "date-time" => Decl::simple(Type::Timestamp, MAX_DATE_TIME, MIN_DATE_TIME),
            _ => {
                let max = length(4).or(limits.longest).unwrap_or(MAX_REQUEST - 2);
                Decl::simple(Type::Text, max, MIN_TEXT)
            }
        }),
        "boolean" => Some(Decl::simple(Type::Bool, 0, MIN_BOOL)),
        "number" => Some(Decl::simple(Type::Double, 0, MIN_NUMBER)),
        "integer" => Some(Decl::simple(Type::Int, 0, MIN_NUMBER)),
        _ => None,
    }
}

fn object<S: Schema>(schema: &S, resource: bool, name: &str) -> Decl {
    let properties = schema.properties();
    let adds_names = resource && !has_names(&properties);
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    let mut add = |json: &str, escaped: String, decl: Decl| {
        let field = Field {
            json: json.to_owned(),
            decl: Arc::new(decl),
        };
        fields.insert(escaped, field);
    };
    for (json, property) in &properties {
        let escaped = escape(json);
        let below = format!("{name}.{}", escaped.as_deref().unwrap_or(json));
        let Some(decl) = declaration(property, property.is_embedded_resource(), &below) else {
            continue;
        };
        if schema.requires(json) {
            min_size += json.len() as u64 + decl.min_size + 4;
        }
        if let Some(escaped) = escaped {
            add(json, escaped, decl);
        }
    }
    if adds_names {
        let text = || Decl::simple(Type::Text, MAX_REQUEST - 2, MIN_TEXT);
        let names = [("name", text()), ("generateName", text())];
        let metadata = Decl::object(&format!("{name}.metadata"), names);
        for (json, decl) in [
            ("apiVersion", text()),
            ("kind", text()),
            ("metadata", metadata),
        ] {
            add(json, json.to_owned(), decl);
        }
    }
    let object = Object {
        name: name.to_owned(),
        fields,
        open: false,
    };
    Decl::simple(Type::Object(Arc::new(object)), 0, min_size)
}

/// Whether a resource declares its kind, version and names itself.
///
/// Upstream: `WithTypeAndObjectMeta`.
fn has_names<S: Schema>(properties: &[(&str, S)]) -> bool {
    fn has<S: Schema>(properties: &[(&str, S)], wanted: &str, kind: &str) -> bool {
        let mut found = properties.iter().filter(|(name, _)| *name == wanted);
        found.any(|(_, schema)| schema.kind() == kind)
    }
    let names = |metadata: &S| {
        let names = metadata.properties();
        has(&names, "name", "string") && has(&names, "generateName", "string")
    };
    has(properties, "kind", "string")
        && has(properties, "apiVersion", "string")
        && has(properties, "metadata", "object")
        && properties
            .iter()
            .any(|(name, schema)| *name == "metadata" && names(schema))
}
