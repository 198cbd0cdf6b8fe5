//! Checks of configurations against the types of their kind, and the fields that objects have.
//!
//! Upstream: `validate.go` and `tofieldset.go` of `sigs.k8s.io/structured-merge-diff/v6/typed`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steersman_releases::Release;

use super::set::{FieldSet, shown};
use super::shape::{Elements, Form, Listing, Mapping, Scalar, Shape};
use crate::go_format::{printed, type_name};

/// The fields in `config`, a whole object of this shape, with those that identify it. The error tells
/// why it does not fit. Fields that `release` lacks do not fit.
pub(crate) fn declared(
    release: Release,
    shape: Shape<'_>,
    config: &Value,
) -> Result<FieldSet, String> {
    check_in(release, shape, config)?;
    Ok(fields(shape, config))
}

/// Checks that `object` fits its shape, without duplicates in keyed lists and sets.
pub(crate) fn check(shape: Shape<'_>, object: &Value) -> Result<(), String> {
    check_in(Release::NEWEST, shape, object)
}

fn check_in(release: Release, shape: Shape<'_>, object: &Value) -> Result<(), String> {
    let mut checks = Checks {
        release,
        errors: Vec::new(),
    };
    checks.value(shape, object, "");
    let mut errors = checks.errors;
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

/// The errors of one object.
struct Checks {
    release: Release,
    errors: Vec<String>,
}

impl Checks {
    fn error(&mut self, path: &str, why: impl std::fmt::Display) {
        self.errors.push(match path {
            "" => why.to_string(),
            path => format!("{path}: {why}"),
        });
    }

    fn value(&mut self, shape: Shape<'_>, value: &Value, path: &str) {
        match (shape.form_of(value), value) {
            (_, Value::Null) => {}
            (Form::Map(map), Value::Object(_)) => self.map(map, value, path),
            (Form::Map(_), other) => {
                self.error(path, format_args!("expected map, got {}", boxed(other)))
            }
            (Form::List(list), Value::Array(items)) => self.list(&list, items, path),
            (Form::List(_), other) => {
                self.error(path, format_args!("expected list, got {}", boxed(other)));
            }
            (Form::Scalar(scalar), other) => {
                if let Some(why) = unfit(scalar, other) {
                    self.error(path, why);
                }
            }
        }
    }

    /// Upstream visits the fields at random and ends with the first undeclared one, which is the last
    /// error here. Upstream: `visitMapItems` of `structured-merge-diff/typed`.
    fn map(&mut self, map: Mapping<'_>, value: &Value, path: &str) {
        let mut undeclared = None;
        for (key, value) in value.as_object().into_iter().flatten() {
            match map.child(key).filter(|_| map.has(key, self.release)) {
                Some(shape) => self.value(shape, value, &format!("{path}.{key}")),
                None => undeclared = undeclared.or(Some(key)),
            }
        }
        if let Some(key) = undeclared {
            self.error(&format!("{path}.{key}"), "field not declared in schema");
        }
    }

    fn list(&mut self, list: &Listing<'_>, items: &[Value], path: &str) {
        let mut known = HashSet::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if matches!(list.elements, Elements::Atomic) {
                self.value(list.item, item, &format!("{path}[{index}]"));
                continue;
            }
            let name = match list.element(item) {
                Ok(name) => name,
                Err(why) => {
                    self.error(path, format_args!("element {index}: {why}"));
                    return;
                }
            };
            let step = shown(&name);
            if !known.insert(name) {
                self.error(path, format_args!("duplicate entries for key {step}"));
            }
            self.value(list.item, item, &format!("{path}{step}"));
        }
    }
}

/// The reason why a value is no such scalar.
fn unfit(scalar: Scalar, value: &Value) -> Option<String> {
    let is_scalar = !value.is_object() && !value.is_array();
    match scalar {
        Scalar::Numeric if !value.is_number() => Some(format!(
            "expected numeric (int or float), got {}",
            type_name(value)
        )),
        Scalar::Text if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(value)
        )),
        Scalar::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got {}", boxed(value)))
        }
        Scalar::Any if !is_scalar => Some(format!("expected any scalar, got {}", boxed(value))),
        _ => None,
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key:?}:{}", go_syntax(value)))
                .collect();
            fields.sort_unstable();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// A boxed value as Go's `%v` prints it.
fn boxed(value: &Value) -> String {
    format!("&{{{}}}", printed(value))
}

/// The fields of `value`, which fits its shape.
pub(super) fn fields(shape: Shape<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match shape.form_of(value) {
        Form::Map(map) if !map.is_atomic => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let mut below = fields(map.child(key).unwrap_or(Shape::Deduced), value);
                let is_empty = match value {
                    Value::Null => true,
                    Value::Object(fields) => fields.is_empty(),
                    _ => false,
                };
                if is_empty || map.field(key).is_none() {
                    below.include_here();
                }
                set.put(|| ["f:", key].concat(), below);
            }
        }
        Form::List(list) if !matches!(list.elements, Elements::Atomic) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            let mut counts: HashMap<String, usize> = HashMap::with_capacity(items.len());
            let names: Vec<Option<String>> =
                items.iter().map(|item| list.element(item).ok()).collect();
            for name in names.iter().flatten() {
                *counts.entry(name.clone()).or_default() += 1;
            }
            for (item, name) in items.iter().zip(names) {
                let Some(name) = name else { continue };
                // Duplicates are one field.
                let mut below = match counts.get(&name) {
                    Some(1) => fields(list.item, item),
                    _ => FieldSet::default(),
                };
                below.include_here();
                set.put(|| name, below);
            }
        }
        Form::Map(_) | Form::List(_) | Form::Scalar(_) => set.include_here(),
    }
    set
}
