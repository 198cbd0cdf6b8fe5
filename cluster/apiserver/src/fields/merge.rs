//! Merges an applied configuration into the live object, and removes fields of an object.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/typed` (`merge.go`, `remove.go`).

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::shape::Shape;

/// A whole object of this shape with the values of `config`.
pub(crate) fn merged(shape: Shape<'_>, live: &Value, config: &Value) -> Value {
    let mut merged = merge(shape, live, config);
    if let (Some(old), Some(new)) = (live.get("metadata"), config.get("metadata")) {
        // Schemas of custom kinds do not describe the metadata.
        merged["metadata"] = merge(Shape::metadata(), old, new);
    }
    merged
}

/// `live` with the values of `config`.
fn merge(shape: Shape<'_>, live: &Value, config: &Value) -> Value {
    if shape.is_map(live) && shape.is_map(config) {
        let mut merged = live.as_object().cloned().unwrap_or_default();
        for (key, value) in config.as_object().into_iter().flatten() {
            let merged_value = match merged.get(key) {
                Some(live) => merge(shape.child(key), live, value),
                None => value.clone(),
            };
            merged.insert(key.clone(), merged_value);
        }
        return Value::Object(merged);
    }
    if shape.is_list(live)
        && shape.is_list(config)
        && let (Some(live), Some(config)) = (shape.elements(live), shape.elements(config))
    {
        return Value::Array(merge_lists(shape, &live, &config));
    }
    config.clone()
}

/// Elements of the configuration keep its order. Elements of the live list only keep their place
/// among them.
fn merge_lists(
    shape: Shape<'_>,
    live: &[(String, &Value)],
    config: &[(String, &Value)],
) -> Vec<Value> {
    let find =
        |list: &[(String, &Value)], name: &str| list.iter().position(|(known, _)| known == name);
    let mut shared = config
        .iter()
        .filter(|(name, _)| find(live, name).is_some())
        .map(|(name, _)| name)
        .peekable();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    // Both lists advance together; `shared` has the next common element in the configuration's
    // order.
    let (mut at, mut next) = (0, 0);
    while at < live.len() || next < config.len() {
        if let (Some((old, value)), Some((new, applied))) = (live.get(at), config.get(next)) {
            if old == new {
                merged.push(merge(shape.item(), value, applied));
                (at, next) = (at + 1, next + 1);
                shared.next();
                continue;
            }
            if find(config, old).is_some() && shared.peek().is_some_and(|name| *name != old) {
                at += 1;
                continue;
            }
        }
        if let Some((old, value)) = live.get(at) {
            match find(config, old) {
                None => {
                    merged.push((*value).clone());
                    at += 1;
                    continue;
                }
                // This element was merged at its place in the configuration.
                Some(place) if place < next => {
                    at += 1;
                    continue;
                }
                Some(_) => {}
            }
        }
        let Some((new, applied)) = config.get(next) else {
            break;
        };
        let item = match find(live, new) {
            Some(place) => merge(shape.item(), live[place].1, applied),
            None => (*applied).clone(),
        };
        merged.push(item);
        next += 1;
        if shared.peek().is_some_and(|name| *name == new) {
            shared.next();
        }
    }
    merged
}

/// Removes the fields of `set` from `value`, and containers that become empty.
pub(super) fn remove(shape: Shape<'_>, value: &mut Value, set: &FieldSet) {
    match value {
        Value::Object(fields) if !matches!(shape, Shape::Leaf) => {
            let old = std::mem::replace(fields, Map::new());
            for (key, mut value) in old {
                if keep(
                    shape.child(&key),
                    &mut value,
                    set.child(&format!("f:{key}")),
                ) {
                    fields.insert(key, value);
                }
            }
        }
        Value::Array(items) if shape.names_elements() => {
            items.retain_mut(|item| {
                let below = shape.element(item).and_then(|name| set.child(&name));
                keep(shape.item(), item, below)
            });
        }
        _ => {}
    }
}

/// Removes the fields of `set` below `value`. False if the value itself is removed.
fn keep(shape: Shape<'_>, value: &mut Value, set: Option<&FieldSet>) -> bool {
    let Some(set) = set else { return true };
    if set.is_member() {
        return false;
    }
    remove(shape, value, set);
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Adds the struct fields on the path to each member of the set.
pub(super) fn with_parents(shape: Shape<'_>, set: &FieldSet) -> FieldSet {
    let mut full = set.clone();
    add_parents(shape, &mut full);
    full
}

fn add_parents(shape: Shape<'_>, set: &mut FieldSet) {
    for (element, child) in set.children_mut() {
        let below = shape.below(element);
        if element
            .strip_prefix("f:")
            .is_some_and(|key| shape.is_field(key))
        {
            child.include_here();
        }
        add_parents(below, child);
    }
}
