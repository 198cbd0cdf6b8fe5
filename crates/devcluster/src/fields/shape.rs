//! What of a value can have an owner of its own, after the types of the built-in kinds.

use serde_json::Value;

use crate::schema::{self, Field, Struct, Topology, Type};

/// How a value is taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
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
}

impl Shape {
    /// Of a whole object.
    pub(super) fn of_object(kind: &str, object: &Value) -> Shape {
        schema::of_object(kind, object).map_or(Shape::Free, Shape::Struct)
    }

    fn of_field(field: &'static Field) -> Shape {
        match (&field.topology, &field.ty) {
            (Topology::Set, Type::List(_)) => Shape::Set,
            (Topology::Keyed(keys), Type::List(item)) => Shape::Keyed(keys, item.as_struct()),
            (Topology::Granular, ty) => Shape::of_type(ty),
            _ => Shape::Leaf,
        }
    }

    fn of_type(ty: &'static Type) -> Shape {
        match ty {
            Type::Map(item) => Shape::Map(item),
            _ => ty.as_struct().filter(|shape| !shape.atomic).map_or(Shape::Leaf, Shape::Struct),
        }
    }

    /// Of the value under `key`.
    pub(super) fn child(self, key: &str) -> Shape {
        match self {
            Shape::Struct(shape) => shape.field(key).map_or(Shape::Free, Shape::of_field),
            Shape::Map(item) => Shape::of_type(item),
            Shape::Free => Shape::Free,
            Shape::Leaf | Shape::Set | Shape::Keyed(..) => Shape::Leaf,
        }
    }

    /// Of the value of the child named by an element of a field set.
    pub(super) fn below(self, element: &str) -> Shape {
        match (self, element.strip_prefix("f:")) {
            (_, Some(key)) => self.child(key),
            (_, None) => self.item(),
        }
    }

    /// Of the elements of the list.
    pub(super) fn item(self) -> Shape {
        match self {
            Shape::Keyed(_, Some(shape)) if !shape.atomic => Shape::Struct(shape),
            _ => Shape::Leaf,
        }
    }

    pub(super) fn is_map(self, value: &Value) -> bool {
        match self {
            Shape::Free => value.is_object(),
            Shape::Struct(_) | Shape::Map(_) => value.is_object() || value.is_null(),
            _ => false,
        }
    }

    pub(super) fn is_list(self, value: &Value) -> bool {
        matches!(self, Shape::Set | Shape::Keyed(..)) && (value.is_array() || value.is_null())
    }

    /// The name of an element of the list, as field sets have it; `None` for one without its keys.
    pub(super) fn element(self, item: &Value) -> Option<String> {
        let Shape::Keyed(keys, _) = self else {
            return Some(format!("v:{item}"));
        };
        let mut name = String::from("k:{");
        for (at, key) in keys.iter().enumerate() {
            let value = match item.get(key) {
                Some(value) => value.to_string(),
                // The only key that has a default.
                None if *key == "protocol" => "\"TCP\"".to_owned(),
                None => return None,
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
        items.iter().map(|item| Some((self.element(item)?, item))).collect()
    }
}
