//! Defaulting of built-in kinds, as data where possible.
//!
//! [`apply`]: normal form -> constants of each type (`constants.txt`) -> rules that depend on other
//! fields (`rules`). The types of pod templates have theirs in
//! [`steersman_runtime::template::defaults`], because controllers need them too. [`on_create`]: additions at creation (`creation`), with the same result
//! whether [`apply`] ran before or not.
//!
//! Upstream: the `defaults.go` files in `pkg/apis`.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use steersman_runtime::template::defaults::{self, Defaults};

use crate::schema::quantity::Quantity;
use crate::schema::{self, Struct, Type, shape};

mod creation;
mod gates;
mod qos;
mod rules;

pub use creation::{on_create, on_update};
pub use qos::qos_class;

/// Annotation with the template generation of a DaemonSet. `apps/v1` has no such field any more.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Constant defaults of all types outside pod templates.
static CONSTANTS: LazyLock<Defaults> =
    LazyLock::new(|| Defaults::parse(include_str!("constants.txt")));

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
    let explicit = explicit_empty_texts(shape, fields);
    defaults::fill(shape.name(), fields);
    CONSTANTS.fill(shape.name(), fields);
    rules::apply(shape.name(), fields);
    for name in explicit {
        fields.insert(name.to_owned(), Value::from(""));
    }
    let mut next = 0;
    for (name, value) in fields {
        let Some(at) = shape.position(name, next) else {
            continue;
        };
        next = at + 1;
        let field = &shape.fields()[at];
        if field.go_type == Some("v1.ResourceList") {
            round_amounts(value);
        }
        fill_value(&field.ty, value);
    }
}

/// Rounds amounts of resources up to thousandths.
fn round_amounts(amounts: &mut Value) {
    for amount in amounts
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
    {
        if let Some(rounded) = amount.as_str().and_then(Quantity::in_thousandths) {
            *amount = Value::from(rounded);
        }
    }
}

/// Fields with an empty text that differs from an absent one. They keep it, and validation decides.
fn explicit_empty_texts(shape: &Struct, fields: &Map<String, Value>) -> Vec<&'static str> {
    let empty = fields.iter().filter(|(_, value)| *value == "");
    empty
        .filter_map(|(name, _)| shape.field(name))
        .filter(|field| field.nullable)
        .map(|field| field.name)
        .collect()
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

#[cfg(test)]
mod tests;
