//! The structure of values for field management: which parts of a value can have their own manager.
//!
//! It follows the types of built-in kinds and the schemas of custom kinds. Upstream: the schema of
//! structured-merge-diff, with `x-kubernetes-list-type`, `-list-map-keys` and `-map-type`.

use serde_json::Value;

use crate::custom::{ListType, Schema};
use crate::kinds::Resource;
use crate::schema::{self, Field, Struct, Topology, Type};

/// How field sets divide a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// As one field.
    Leaf,
    /// A value without a type: maps divide by key, everything else is one field.
    Free,
    Struct(&'static Struct),
    Map(&'static Type),
    /// A list of scalars; each value is an element.
    Set,
    /// A list of structs that these fields identify.
    Keyed(&'static [&'static str], Option<&'static Struct>),
    /// An object of a custom kind, or an object inside one.
    Custom(&'a Schema),
    /// A list in a custom kind with list map keys.
    CustomKeyed(&'a Schema),
}

impl Resource {
    /// The parts of an object that can have their own field owner.
    pub(crate) fn shape(&self, object: &Value) -> Shape<'_> {
        match self.custom.as_ref().map(|custom| custom.schema()) {
            Some(schema) if schema.is_untyped() => Shape::Free,
            Some(schema) => Shape::Custom(schema),
            None => Shape::of_object(&self.kind, object),
        }
    }

    /// An object before anybody wrote anything into it.
    pub(crate) fn zero(&self, object: &Value) -> Value {
        let built_in = if self.custom.is_none() {
            schema::of_object(&self.kind, object)
        } else {
            None
        };
        built_in.map_or_else(
            || Value::Object(serde_json::Map::new()),
            schema::Struct::zero,
        )
    }
}

impl<'a> Shape<'a> {
    /// The shape of a whole object of a built-in kind.
    pub(crate) fn of_object(kind: &str, object: &Value) -> Self {
        schema::of_object(kind, object).map_or(Shape::Free, Shape::Struct)
    }

    /// The shape of the metadata of any object.
    pub(super) fn metadata() -> Self {
        Shape::Struct(schema::metadata())
    }

    fn of_schema(schema: &'a Schema) -> Self {
        match (schema.list_type, schema.is_object()) {
            (ListType::Set, _) => Shape::Set,
            (ListType::Map, _) => Shape::CustomKeyed(schema),
            (ListType::Atomic, true) if schema.is_atomic_map() => Shape::Leaf,
            (ListType::Atomic, true) => Shape::Custom(schema),
            (ListType::Atomic, false) if schema.preserves_unknown() => Shape::Free,
            (ListType::Atomic, false) => Shape::Leaf,
        }
    }

    fn of_field(field: &'static Field) -> Self {
        match (&field.topology, &field.ty) {
            (Topology::Set, Type::List(_)) => Shape::Set,
            (Topology::Keyed(keys), Type::List(item)) => Shape::Keyed(keys, item.as_struct()),
            (Topology::Granular, ty) => Shape::of_type(ty),
            _ => Shape::Leaf,
        }
    }

    fn of_type(ty: &'static Type) -> Self {
        match ty {
            Type::Map(item) => Shape::Map(item),
            _ => ty
                .as_struct()
                .filter(|shape| !shape.atomic)
                .map_or(Shape::Leaf, Shape::Struct),
        }
    }

    /// The shape of the value under `key`.
    pub(super) fn child(self, key: &str) -> Self {
        match self {
            Shape::Struct(shape) => shape.field(key).map_or(Shape::Free, Shape::of_field),
            Shape::Map(item) => Shape::of_type(item),
            Shape::Free => Shape::Free,
            Shape::Custom(schema) => schema.child(key).map_or(Shape::Free, Shape::of_schema),
            Shape::Leaf | Shape::Set | Shape::Keyed(..) | Shape::CustomKeyed(_) => Shape::Leaf,
        }
    }

    /// Whether the type has a field `key`, or accepts any key.
    pub(super) fn knows(self, key: &str) -> bool {
        match self {
            Shape::Struct(shape) => shape.field(key).is_some(),
            Shape::Custom(schema) => schema.child(key).is_some() || schema.preserves_unknown(),
            _ => true,
        }
    }

    /// The paths of unknown fields inside the value of a built-in field that has one manager, such
    /// as `roleRef`. Fields of all other values have shapes of their own.
    pub(super) fn undeclared(self, key: &str, value: &Value, path: &str) -> Vec<String> {
        let Shape::Struct(shape) = self else {
            return Vec::new();
        };
        match shape.field(key) {
            Some(field) if matches!(Shape::of_field(field), Shape::Leaf) => {
                schema::shape::unknown_fields(&field.ty, value, path)
            }
            _ => Vec::new(),
        }
    }

    /// Whether `key` is a field of the type, in contrast to a key of a map.
    pub(super) fn is_field(self, key: &str) -> bool {
        match self {
            Shape::Struct(shape) => shape.field(key).is_some(),
            Shape::Custom(schema) => schema.property(key).is_some(),
            _ => false,
        }
    }

    /// The shape of the child that an element of a field set names.
    pub(super) fn below(self, element: &str) -> Self {
        match (self, element.strip_prefix("f:")) {
            (_, Some(key)) => self.child(key),
            (_, None) => self.item(),
        }
    }

    /// The shape of the elements of the list.
    pub(super) fn item(self) -> Self {
        match self {
            Shape::Keyed(_, Some(shape)) if !shape.atomic => Shape::Struct(shape),
            Shape::CustomKeyed(list) => list.item().map_or(Shape::Leaf, Shape::of_schema),
            _ => Shape::Leaf,
        }
    }

    pub(super) fn is_map(self, value: &Value) -> bool {
        match self {
            Shape::Free => value.is_object(),
            Shape::Struct(_) | Shape::Map(_) | Shape::Custom(_) => {
                value.is_object() || value.is_null()
            }
            _ => false,
        }
    }

    pub(super) fn is_list(self, value: &Value) -> bool {
        self.names_elements() && (value.is_array() || value.is_null())
    }

    /// Whether field sets name the elements of the list.
    pub(super) fn names_elements(self) -> bool {
        matches!(self, Shape::Set | Shape::Keyed(..) | Shape::CustomKeyed(_))
    }

    /// The fields that identify elements of the list.
    fn keys(self) -> Vec<&'a str> {
        match self {
            Shape::Keyed(keys, _) => keys.to_vec(),
            Shape::CustomKeyed(list) => list.list_keys().collect(),
            _ => Vec::new(),
        }
    }

    /// The default of an absent key, as JSON.
    fn default_of_key(self, key: &str) -> Option<String> {
        match self {
            // `protocol` is the only key of built-in kinds with a declared default. Upstream's
            // schemas give each field that is always written its zero value.
            Shape::Keyed(..) if key == "protocol" => Some("\"TCP\"".to_owned()),
            Shape::Keyed(_, shape) => {
                let field = shape?.field(key).filter(|field| field.always)?;
                Some(field.zero().to_string())
            }
            Shape::CustomKeyed(list) => list
                .item()?
                .property(key)?
                .default_value()
                .map(Value::to_string),
            _ => None,
        }
    }

    /// The first key that an element lacks.
    pub(super) fn missing_key(self, item: &Value) -> &'a str {
        let lacks = |key: &&str| item.get(*key).is_none() && self.default_of_key(key).is_none();
        self.keys().into_iter().find(lacks).unwrap_or_default()
    }

    /// The name of a list element in field sets; `None` if it lacks a key without default.
    pub(super) fn element(self, item: &Value) -> Option<String> {
        if !matches!(self, Shape::Keyed(..) | Shape::CustomKeyed(_)) {
            return Some(format!("v:{item}"));
        }
        let mut keys = self.keys();
        // Upstream sorts the keys of a name, independent of the order in the schema.
        keys.sort_unstable();
        let mut name = String::from("k:{");
        for (at, key) in keys.into_iter().enumerate() {
            let value = match item.get(key) {
                Some(value) => value.to_string(),
                None => self.default_of_key(key)?,
            };
            if at > 0 {
                name.push(',');
            }
            name.push_str(&format!("\"{key}\":{value}"));
        }
        name.push('}');
        Some(name)
    }

    /// The elements with their names; `None` if any element has no name.
    pub(super) fn elements(self, list: &Value) -> Option<Vec<(String, &Value)>> {
        let items = list.as_array().map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .map(|item| Some((self.element(item)?, item)))
            .collect()
    }
}
