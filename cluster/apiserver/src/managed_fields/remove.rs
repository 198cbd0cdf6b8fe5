//! Removes fields from an object, and the fields that a manager gives up.
//!
//! Upstream: `typed/remove.go` and `prune` in `merge/update.go` of
//! `sigs.k8s.io/structured-merge-diff/v6`.

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::shape::{Elements, Form, Listing, Mapping, Shape};

/// A whole object of this shape without the fields of `set`.
pub(super) fn without(shape: Shape<'_>, object: Value, set: &FieldSet) -> Value {
    if set.is_empty() {
        return object;
    }
    remove(shape, object, set)
}

/// Removes the fields of `set` from `value`. Null means that nothing is left.
fn remove(shape: Shape<'_>, value: Value, set: &FieldSet) -> Value {
    match (shape.form_of(&value), value) {
        (Form::Map(map), Value::Object(fields)) if !map.is_atomic => in_map(map, fields, set),
        (Form::List(list), Value::Array(items)) if !matches!(list.elements, Elements::Atomic) => {
            in_list(&list, items, set)
        }
        (Form::Map(_) | Form::List(_), _) => Value::Null,
        (Form::Scalar(_), value) => value,
    }
}

fn in_map(map: Mapping<'_>, fields: Map<String, Value>, set: &FieldSet) -> Value {
    let mut left = Map::with_capacity(fields.len());
    let mut was_inside = false;
    for (key, value) in fields {
        let below = set.child(&["f:", &key].concat());
        let shape = map.child(&key).unwrap_or(Shape::Deduced);
        if let Some(value) = kept(shape, value, below, &mut was_inside) {
            left.insert(key, value);
        }
    }
    if left.is_empty() && !was_inside {
        Value::Null
    } else {
        Value::Object(left)
    }
}

fn in_list(list: &Listing<'_>, items: Vec<Value>, set: &FieldSet) -> Value {
    let mut left = Vec::with_capacity(items.len());
    let mut was_inside = false;
    for item in items {
        let name = list.element(&item).ok();
        let below = name.and_then(|name| set.child(&name));
        left.extend(kept(list.item, item, below, &mut was_inside));
    }
    if left.is_empty() && !was_inside {
        Value::Null
    } else {
        Value::Array(left)
    }
}

/// The rest of a value; `None` if the set has the value itself. A container that becomes empty
/// stays as an empty one. `was_inside` becomes true if the set has fields inside the value.
fn kept(
    shape: Shape<'_>,
    value: Value,
    set: Option<&FieldSet>,
    was_inside: &mut bool,
) -> Option<Value> {
    let Some(set) = set else { return Some(value) };
    if set.is_member() {
        return None;
    }
    *was_inside = true;
    let empty = match &value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    };
    Some(match remove(shape, value, set) {
        Value::Null => empty,
        left => left,
    })
}

/// Adds the struct fields on the path to each member of the set.
pub(super) fn with_parents(shape: Shape<'_>, set: &FieldSet) -> FieldSet {
    let mut full = set.clone();
    add_parents(Some(shape), &mut full);
    full
}

fn add_parents(shape: Option<Shape<'_>>, set: &mut FieldSet) {
    for (element, child) in set.children_mut() {
        let below = match element.strip_prefix("f:") {
            Some(key) => {
                if child.has_children() && shape.is_some_and(|shape| shape.is_field(key)) {
                    child.include_here();
                }
                shape.and_then(|shape| shape.child(key))
            }
            None if element.starts_with("k:") => shape.and_then(Shape::item),
            None => None,
        };
        add_parents(below, child);
    }
}
