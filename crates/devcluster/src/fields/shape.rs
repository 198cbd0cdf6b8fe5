//! What of a value can have an owner of its own, after the types of the built-in kinds and the
//! schemas of custom ones.

use serde_json::Value;

use crate::custom::{ListType, Schema};
use crate::schema::{self, Field, Struct, Topology, Type};

/// How a value is taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// Not at all.
    Leaf,
    /// Maps by their keys, everything else not: values without a type.
    Free,
    Struct(&'static Struct),
    Map(&'static Type),
    /// A list of scalars that are there or not.
    Set,
    /// A list of structs that are told apart by these fields.
    Keyed(&'static [&'static str], Option<&'static Struct>),
    /// An object of a custom kind, or in one.
    Custom(&'a Schema),
    /// A list in an object of a custom kind whose elements are told apart by the list's keys.
    CustomKeyed(&'a Schema),
}

impl<'a> Shape<'a> {
    /// Of a whole object of a built-in kind.
    pub(crate) fn of_object(kind: &str, object: &Value) -> Self {
        schema::of_object(kind, object).map_or(Shape::Free, Shape::Struct)
    }

    /// Of the metadata of any object.
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

    /// Of the value under `key`.
    pub(super) fn child(self, key: &str) -> Self {
        match self {
            Shape::Struct(shape) => shape.field(key).map_or(Shape::Free, Shape::of_field),
            Shape::Map(item) => Shape::of_type(item),
            Shape::Free => Shape::Free,
            Shape::Custom(schema) => schema.child(key).map_or(Shape::Free, Shape::of_schema),
            Shape::Leaf | Shape::Set | Shape::Keyed(..) | Shape::CustomKeyed(_) => Shape::Leaf,
        }
    }

    /// Whether a value under `key` is one that objects of the type can have.
    pub(super) fn knows(self, key: &str) -> bool {
        match self {
            Shape::Struct(shape) => shape.field(key).is_some(),
            Shape::Custom(schema) => schema.child(key).is_some() || schema.preserves_unknown(),
            _ => true,
        }
    }

    /// Whether `key` is a field of the type, rather than a key that somebody chose.
    pub(super) fn is_field(self, key: &str) -> bool {
        match self {
            Shape::Struct(shape) => shape.field(key).is_some(),
            Shape::Custom(schema) => schema.property(key).is_some(),
            _ => false,
        }
    }

    /// Of the value of the child named by an element of a field set.
    pub(super) fn below(self, element: &str) -> Self {
        match (self, element.strip_prefix("f:")) {
            (_, Some(key)) => self.child(key),
            (_, None) => self.item(),
        }
    }

    /// Of the elements of the list.
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

    /// Whether elements of the list have names.
    pub(super) fn names_elements(self) -> bool {
        matches!(self, Shape::Set | Shape::Keyed(..) | Shape::CustomKeyed(_))
    }

    /// The fields that tell elements of the list apart.
    fn keys(self) -> Vec<&'a str> {
        match self {
            Shape::Keyed(keys, _) => keys.to_vec(),
            Shape::CustomKeyed(list) => list.list_keys().collect(),
            _ => Vec::new(),
        }
    }

    /// What an absent key stands for.
    fn default_of_key(self, key: &str) -> Option<String> {
        match self {
            // The only key of built-in kinds that has a default.
            Shape::Keyed(..) => (key == "protocol").then(|| "\"TCP\"".to_owned()),
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

    /// The name of an element of the list, as field sets have it; `None` for one without its keys.
    pub(super) fn element(self, item: &Value) -> Option<String> {
        if !matches!(self, Shape::Keyed(..) | Shape::CustomKeyed(_)) {
            return Some(format!("v:{item}"));
        }
        let mut keys = self.keys();
        // Upstream writes the keys of a name in this order, whatever the order in the schema is.
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

    /// The elements with their names; `None` when one has none.
    pub(super) fn elements(self, list: &Value) -> Option<Vec<(String, &Value)>> {
        let items = list.as_array().map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .map(|item| Some((self.element(item)?, item)))
            .collect()
    }
}
