//! Differences between two objects, as field sets.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/typed/compare.go`.

use std::collections::HashMap;

use serde_json::Value;

use super::set::FieldSet;
use super::shape::{Elements, Form, Listing, Mapping, Narrowed, Shape};

/// The changes of a write.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changes {
    /// New and changed fields.
    pub(crate) touched: FieldSet,
    /// Removed fields.
    pub(crate) removed: FieldSet,
    /// Whether a changed list has an element without a key, so that its fields cannot have managers.
    pub(super) is_unnamed: bool,
}

impl Changes {
    /// Adds the changes below `element`.
    fn put(&mut self, element: impl Fn() -> String, below: Changes) {
        self.touched.put(&element, below.touched);
        self.removed.put(&element, below.removed);
        self.is_unnamed |= below.is_unnamed;
    }

    fn union(&mut self, other: Changes) {
        self.touched.union(other.touched);
        self.removed.union(other.removed);
        self.is_unnamed |= other.is_unnamed;
    }

    /// Drops fields, and everything below them.
    pub(super) fn without(mut self, fields: &FieldSet) -> Self {
        self.touched.subtract_whole(fields);
        self.removed.subtract_whole(fields);
        self
    }
}

/// The changes from `old` to `new`, two whole objects of this shape.
pub(crate) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Changes {
    let mut changes = Walk {
        old: Some(old),
        new: Some(new),
    }
    .compare(shape);
    changes.touched.strip_identity();
    changes.removed.strip_identity();
    changes
}

/// A value before and after. One of them can be absent.
#[derive(Clone, Copy)]
struct Walk<'v> {
    old: Option<&'v Value>,
    new: Option<&'v Value>,
}

impl<'v> Walk<'v> {
    fn compare(self, shape: Shape<'_>) -> Changes {
        if self.old == self.new {
            return Changes::default();
        }
        let before = shape.narrowed(self.old);
        let after = shape.narrowed(self.new);
        let mut all = Changes::default();
        let mut last = after;
        if self.new.is_none() {
            last = before;
        } else if self.old.is_some() && !shape.same_forms(before, after) {
            // The value changed its form: fields of the old form go.
            all = self.in_form(shape, before).0;
        }
        let (changes, is_leaf) = self.in_form(shape, last);
        all.union(changes);
        if !is_leaf {
            if self.old.is_none() {
                all.touched.include_here();
            } else if self.new.is_none() {
                all.removed.include_here();
            }
        }
        all
    }

    /// The changes of a value of one form, and whether it is one field.
    fn in_form(self, shape: Shape<'_>, narrowed: Narrowed) -> (Changes, bool) {
        match shape.form(narrowed) {
            Form::Map(map) if !map.is_atomic && !self.is_empty(Value::is_object) => {
                (self.in_map(map), false)
            }
            Form::List(list)
                if !matches!(list.elements, Elements::Atomic)
                    && !self.is_empty(Value::is_array) =>
            {
                (self.in_list(&list), false)
            }
            Form::Map(_) | Form::List(_) | Form::Scalar(_) => (self.as_leaf(), true),
        }
    }

    /// Whether neither value is a filled container of this form.
    fn is_empty(self, is_form: impl Fn(&Value) -> bool) -> bool {
        let is_filled = |value: &Value| match value {
            Value::Object(fields) => is_form(value) && !fields.is_empty(),
            Value::Array(items) => is_form(value) && !items.is_empty(),
            _ => false,
        };
        !self.old.is_some_and(&is_filled) && !self.new.is_some_and(is_filled)
    }

    fn as_leaf(self) -> Changes {
        let mut changes = Changes::default();
        match (self.old, self.new) {
            (Some(_), None) => changes.removed.include_here(),
            (Some(old), Some(new)) if same(old, new) => {}
            _ => changes.touched.include_here(),
        }
        changes
    }

    fn in_map(self, map: Mapping<'_>) -> Changes {
        let old = self.old.and_then(Value::as_object);
        let new = self.new.and_then(Value::as_object);
        let mut changes = Changes::default();
        let mut visit = |key: &String, walk: Walk<'_>| {
            let shape = map.child(key).unwrap_or(Shape::Deduced);
            changes.put(|| ["f:", key].concat(), walk.compare(shape));
        };
        for (key, after) in new.into_iter().flatten() {
            let before = old.and_then(|old| old.get(key));
            visit(
                key,
                Walk {
                    old: before,
                    new: Some(after),
                },
            );
        }
        let is_kept = |key: &String| new.is_some_and(|new| new.contains_key(key));
        for (key, before) in old.into_iter().flatten().filter(|(key, _)| !is_kept(key)) {
            visit(
                key,
                Walk {
                    old: Some(before),
                    new: None,
                },
            );
        }
        changes
    }

    fn in_list(self, list: &Listing<'_>) -> Changes {
        let old = grouped(list, self.old);
        let new = grouped(list, self.new);
        let nothing = Vec::new();
        let items = self.new.and_then(Value::as_array).map_or(0, Vec::len);
        let named: usize = new.values().map(Vec::len).sum();
        let mut changes = Changes {
            is_unnamed: named < items,
            ..Changes::default()
        };
        let names = new
            .keys()
            .chain(old.keys().filter(|name| !new.contains_key(*name)));
        for name in names {
            let before = old.get(name).unwrap_or(&nothing);
            let after = new.get(name).unwrap_or(&nothing);
            changes.put(|| name.clone(), compare_elements(list.item, before, after));
        }
        changes
    }
}

/// Elements by name. Duplicates share a name.
fn grouped<'v>(list: &Listing<'_>, value: Option<&'v Value>) -> HashMap<String, Vec<&'v Value>> {
    let items = value
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut grouped: HashMap<String, Vec<&Value>> = HashMap::with_capacity(items.len());
    for item in items {
        if let Ok(name) = list.element(item) {
            grouped.entry(name).or_default().push(item);
        }
    }
    grouped
}

/// The changes of the elements of one name. Duplicates are one field.
fn compare_elements(shape: Shape<'_>, old: &[&Value], new: &[&Value]) -> Changes {
    let walk = |old: Option<&&Value>, new: Option<&&Value>| {
        let old = old.copied();
        let new = new.copied();
        match (old, new) {
            (None, None) => Changes::default(),
            _ => Walk { old, new }.compare(shape),
        }
    };
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => walk(old.first(), new.first()),
        (0 | 1, _) => {
            let mut changes = walk(old.first(), None);
            changes.touched.include_here();
            changes
        }
        (_, 0 | 1) => {
            let mut changes = walk(None, new.first());
            changes.removed.include_here();
            changes
        }
        _ => {
            let mut changes = Changes::default();
            let all_same =
                old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
            if !all_same {
                changes.touched.include_here();
            }
            changes
        }
    }
}

/// Whether two values are equal. Numbers are equal across their types.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
