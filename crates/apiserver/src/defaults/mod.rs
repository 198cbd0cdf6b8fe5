//! Defaulting of built-in kinds, as data where possible.
//!
//! [`apply`]: normal form -> constants of each type (`constants.txt`) -> rules that depend on other
//! fields (`rules`). [`on_create`]: additions at creation (`creation`), with the same result
//! whether [`apply`] ran before or not.
//!
//! Upstream: the `defaults.go` files in `pkg/apis`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::schema::{self, Struct, Type, shape};

mod creation;
mod qos;
mod rules;

pub use creation::{on_create, on_update};
pub use qos::qos_class;

/// Constant defaults by type name.
static CONSTANTS: LazyLock<HashMap<&'static str, Vec<Constant>>> =
    LazyLock::new(|| parse(include_str!("constants.txt")));

/// One constant default of a field.
struct Constant {
    field: &'static str,
    value: Value,
    /// The constant applies only if this other field has this text.
    condition: Option<(&'static str, &'static str)>,
}

/// Sets the defaults of an object of built-in kind `kind`, and brings it into the form that the
/// server writes (see [`shape::normalize`]). Idempotent. Kinds without a shape stay unchanged.
pub fn apply(kind: &str, object: &mut Value) {
    let Some(shape) = schema::of_object(kind, object) else {
        return;
    };
    shape::normalize(kind, object);
    fill(shape, object);
    shape::normalize(kind, object);
}

/// Sets the defaults of an object and of everything below it.
fn fill(shape: &Struct, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    for constant in CONSTANTS.get(shape.name()).into_iter().flatten() {
        constant.fill(fields);
    }
    rules::apply(shape.name(), fields);
    for (name, value) in fields {
        if let Some(field) = shape.field(name) {
            fill_value(&field.ty, value);
        }
    }
}

fn fill_value(ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| fill_value(item, value))
        }
        (Type::Map(item), Value::Object(entries)) => entries
            .values_mut()
            .for_each(|value| fill_value(item, value)),
        (Type::Struct(_), value) => {
            if let Some(shape) = ty.as_struct() {
                fill(shape, value);
            }
        }
        _ => {}
    }
}

impl Constant {
    fn fill(&self, fields: &mut Map<String, Value>) {
        let applies = self
            .condition
            .is_none_or(|(other, text)| fields.get(other).and_then(Value::as_str) == Some(text));
        if applies && is_unset(fields, self.field) {
            fields.insert(self.field.to_owned(), self.value.clone());
        }
    }
}

/// Whether a field is absent, or has the empty value that the server writes for it.
fn is_unset(fields: &Map<String, Value>, name: &str) -> bool {
    fields
        .get(name)
        .is_none_or(|value| value.is_null() || value == "")
}

/// Parses the table. A broken table is a defect of this crate, so it panics.
fn parse(text: &'static str) -> HashMap<&'static str, Vec<Constant>> {
    let mut constants: HashMap<&'static str, Vec<Constant>> = HashMap::new();
    let mut current = "";
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let Some(entry) = line.strip_prefix(' ') else {
            current = line;
            continue;
        };
        let (entry, condition) = match entry.split_once(" if ") {
            Some((entry, condition)) => (entry, condition.split_once('=')),
            None => (entry, None),
        };
        let (field, value) = entry.split_once(' ').expect("a field and its value");
        let value = serde_json::from_str(value).expect("values are JSON");
        constants.entry(current).or_default().push(Constant {
            field,
            value,
            condition,
        });
    }
    constants
}

#[cfg(test)]
mod tests;
