//! Defaulting of built-in kinds, as data where possible.
//!
//! [`apply`]: normal form -> constants of each type (`constants.txt`) -> rules that depend on other
//! fields (`rules`) -> normal form. Constants, rules and the second form are one walk. The types of pod
//! templates have their defaults in [`steersman_objects::template::defaults`], because controllers need
//! them too. [`on_create`]: additions at creation (`creation`), with the same result whether [`apply`]
//! ran before or not.
//!
//! Upstream: the `defaults.go` files in `pkg/apis`.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use steersman_objects::template::defaults::{self, Constant, Defaults, Rule};
use steersman_releases::Release;

use crate::schema::quantity::Quantity;
use crate::schema::{self, Struct, typed_form};

mod creation;
mod gates;
mod qos;
mod rules;

pub(crate) use creation::{Incomplete, begin_create, end_create};
pub use creation::{on_create, on_update};
pub(crate) use gates::drop_disabled;
pub use qos::qos_class;

/// Annotation with the template generation of a DaemonSet. `apps/v1` has no such field any more.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Constant defaults of all types outside pod templates.
static CONSTANTS: LazyLock<Defaults> =
    LazyLock::new(|| Defaults::parse(include_str!("constants.txt")));

/// Sets the defaults of an object of built-in kind `kind`, and brings it into the form that the
/// server of `release` writes (see [`typed_form::normalize`]), apart from empty lists and maps, which
/// stay. Idempotent.
/// Kinds without a shape stay unchanged.
pub fn apply(release: Release, kind: &str, object: &mut Value) {
    let Some(shape) = schema::of_object(kind, object) else {
        return;
    };
    // Adds the mandatory structs, which get defaults, too.
    typed_form::normalize_sent(kind, object);
    typed_form::normalize_changed(shape, object, fill);
    gates::set_enabled(release, kind, object);
}

/// The constants of a type, and the rule after them.
type Step = (&'static [Constant], Option<Rule>);

/// For each type of the schema, by its position: the steps for types of pod templates and for all
/// types. Types without defaults have `None`.
static STEPS: LazyLock<Vec<Option<[Step; 2]>>> =
    LazyLock::new(|| schema::all().map(steps).collect());

fn steps(shape: &Struct) -> Option<[Step; 2]> {
    let name = shape.name();
    let steps = [
        (defaults::POD_TEMPLATE.of(name), defaults::rule(name)),
        (CONSTANTS.of(name), rules::of(name)),
    ];
    let is_empty = |(constants, rule): &Step| constants.is_empty() && rule.is_none();
    (!steps.iter().all(is_empty)).then_some(steps)
}

/// Sets the defaults of one struct. Its rule may change structs below it, so outer structs come first.
fn fill(shape: &Struct, fields: &mut Map<String, Value>) {
    if let Some(steps) = &STEPS[shape.row()] {
        let explicit = explicit_empty_texts(shape, fields);
        for (constants, rule) in steps {
            constants.iter().for_each(|constant| constant.fill(fields));
            if let Some(rule) = rule {
                rule(fields);
            }
        }
        for name in explicit {
            fields.insert(name.to_owned(), Value::from(""));
        }
    }
    for amounts in shape.resource_lists() {
        if let Some(amounts) = fields.get_mut(*amounts) {
            round_amounts(amounts);
        }
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

#[cfg(test)]
mod tests;
