//! Merges an applied configuration into the live object.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/typed/merge.go`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::shape::{Elements, Form, Listing, Mapping, Narrowed, Shape};

/// `live`, a whole object of this shape, with the values of `config`.
pub(crate) fn merged(shape: Shape<'_>, live: &Value, config: &Value) -> Value {
    merge(shape, Some(live), Some(config)).unwrap_or_else(|| Value::Object(Map::new()))
}

/// A live value with the applied one. `None` means that nothing is left.
fn merge(shape: Shape<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let narrowed = match config {
        None => shape.narrowed(live),
        Some(_) => shape.narrowed(config),
    };
    in_form(shape, narrowed, live, config)
}

fn in_form(
    shape: Shape<'_>,
    narrowed: Narrowed,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Option<Value> {
    match shape.form(narrowed) {
        Form::Map(map) if !map.is_atomic => {
            let fields = |value: Option<&Value>| {
                value
                    .and_then(Value::as_object)
                    .filter(|fields| !fields.is_empty())
                    .cloned()
            };
            match (fields(live), fields(config)) {
                (None, None) => config.or(live).cloned(),
                (live, config) => {
                    merge_maps(map, live.unwrap_or_default(), config.unwrap_or_default())
                }
            }
        }
        Form::List(list) if !matches!(list.elements, Elements::Atomic) => {
            let items = |value: Option<&'_ Value>| {
                value
                    .and_then(Value::as_array)
                    .filter(|items| !items.is_empty())
                    .cloned()
            };
            match (items(live), items(config)) {
                (None, None) => config.or(live).cloned(),
                (live, config) => {
                    let merged = merge_lists(
                        &list,
                        &live.unwrap_or_default(),
                        &config.unwrap_or_default(),
                    );
                    (!merged.is_empty()).then_some(Value::Array(merged))
                }
            }
        }
        Form::Map(_) | Form::List(_) | Form::Scalar(_) => config.or(live).cloned(),
    }
}

fn merge_maps(
    map: Mapping<'_>,
    live: Map<String, Value>,
    config: Map<String, Value>,
) -> Option<Value> {
    let mut merged = live;
    for (key, value) in config {
        let shape = map.child(&key).unwrap_or(Shape::Deduced);
        match merge(shape, merged.get(&key), Some(&value)) {
            Some(value) => drop(merged.insert(key, value)),
            None => drop(merged.remove(&key)),
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// The elements of one list with their names.
struct Indexed<'v> {
    names: Vec<String>,
    items: Vec<&'v Value>,
    /// The element of each name. Duplicates count as null, which merges with everything.
    by_name: HashMap<String, &'v Value>,
}

impl<'v> Indexed<'v> {
    fn of(list: &Listing<'_>, items: &'v [Value]) -> Self {
        const DUPLICATE: &Value = &Value::Null;
        let mut indexed = Self {
            names: Vec::with_capacity(items.len()),
            items: Vec::with_capacity(items.len()),
            by_name: HashMap::with_capacity(items.len()),
        };
        for item in items {
            let Ok(name) = list.element(item) else {
                continue;
            };
            let entry = indexed.by_name.entry(name.clone());
            entry.and_modify(|known| *known = DUPLICATE).or_insert(item);
            indexed.names.push(name);
            indexed.items.push(item);
        }
        indexed
    }
}

/// Elements of the configuration keep its order. Elements of the live list only keep their place
/// among them.
fn merge_lists(list: &Listing<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let live = Indexed::of(list, live);
    let config = Indexed::of(list, config);
    let is_shared = |name: &&String| live.by_name.contains_key(*name);
    // The next common element in the order of the configuration.
    let mut shared = config.names.iter().filter(is_shared).peekable();
    let mut done: HashSet<&str> = HashSet::with_capacity(config.names.len());
    let mut merged = Vec::with_capacity(live.names.len().max(config.names.len()));
    let merge_item = |name: &String| {
        let old = live.by_name.get(name);
        let new = config.by_name.get(name);
        merge(list.item, old.copied(), new.copied())
    };
    // Both lists advance together.
    let mut at = 0;
    let mut next = 0;
    while at < live.names.len() || next < config.names.len() {
        if let Some(old) = live.names.get(at)
            && let Some(new) = config.names.get(next)
        {
            if old == new {
                done.insert(old);
                merged.extend(merge_item(old));
                at += 1;
                next += 1;
                shared.next();
                continue;
            }
            let is_next = |shared: &&&String| **shared != old;
            if config.by_name.contains_key(old) && shared.peek().is_some_and(|name| is_next(&name))
            {
                at += 1;
                continue;
            }
        }
        if let Some(old) = live.names.get(at) {
            if !config.by_name.contains_key(old) {
                merged.push(live.items[at].clone());
                at += 1;
                continue;
            }
            if done.contains(old.as_str()) {
                at += 1;
            }
        }
        if let Some(new) = config.names.get(next) {
            done.insert(new);
            merged.extend(merge_item(new));
            next += 1;
            if shared.peek().is_some_and(|name| *name == new) {
                shared.next();
            }
        }
    }
    merged
}
