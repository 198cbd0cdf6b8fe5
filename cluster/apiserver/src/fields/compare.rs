//! Differences between two objects, and fields that a configuration declares, as field sets.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/typed`.

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::shape::Shape;
use crate::kinds::Resource;
use crate::schema;

/// Metadata fields that the server sets. They have no managers.
const UNMANAGED: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The changes of a write.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// New and changed fields.
    pub(crate) touched: FieldSet,
    /// Removed fields.
    pub(crate) removed: FieldSet,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.removed.is_empty()
    }

    /// Adds the changes below `element`.
    fn put(&mut self, element: impl Fn() -> String, below: Changes) {
        self.touched.put(&element, below.touched);
        self.removed.put(&element, below.removed);
    }
}

/// The changes from `old` to `new`, two whole objects of this shape.
pub(crate) fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Changes {
    let mut changes = compare_maps(shape, old, new, &["kind", "apiVersion", "metadata"]);
    let metadata = || {
        compare_maps(
            Shape::metadata(),
            &old["metadata"],
            &new["metadata"],
            UNMANAGED,
        )
    };
    changes.put(|| "f:metadata".to_owned(), metadata());
    changes
}

/// The changes of a value. An empty container counts as one field, because it has no fields below.
fn compare_values(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Changes {
    if old == new {
        return Changes::default();
    }
    let null = Value::Null;
    let (before, after) = (old.unwrap_or(&null), new.unwrap_or(&null));
    let both_empty = is_empty(before) && is_empty(after);
    let mut changes = if both_empty {
        None
    } else if is_map(shape, old, new) {
        Some(compare_maps(shape, before, after, &[]))
    } else if shape.is_list(before) && shape.is_list(after) {
        compare_lists(shape, before, after)
    } else {
        None
    };
    if let Some(changes) = &mut changes {
        if old.is_none() {
            changes.touched.include_here();
        }
        if new.is_none() {
            changes.removed.include_here();
        }
    }
    changes.unwrap_or_else(|| match new {
        None => Changes {
            touched: FieldSet::default(),
            removed: FieldSet::here(),
        },
        Some(_) => Changes {
            touched: FieldSet::here(),
            removed: FieldSet::default(),
        },
    })
}

/// Whether both values are maps. An absent value counts as a map.
fn is_map(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
    [old, new]
        .into_iter()
        .flatten()
        .all(|value| shape.is_map(value))
}

/// Whether a value is null, or a container without elements.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn compare_maps(shape: Shape<'_>, old: &Value, new: &Value, skip: &[&str]) -> Changes {
    let empty = Map::new();
    let (old, new) = (
        old.as_object().unwrap_or(&empty),
        new.as_object().unwrap_or(&empty),
    );
    let mut changes = Changes::default();
    let mut add = |key: &String, before, after| {
        if !skip.contains(&key.as_str()) {
            changes.put(
                || ["f:", key].concat(),
                compare_values(shape.child(key), before, after),
            );
        }
    };
    for (key, after) in new {
        add(key, old.get(key), Some(after));
    }
    for (key, before) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        add(key, Some(before), None);
    }
    changes
}

/// `None` if an element has no key; the list then counts as one field.
fn compare_lists(shape: Shape<'_>, old: &Value, new: &Value) -> Option<Changes> {
    let (old, new) = (shape.elements(old)?, shape.elements(new)?);
    let mut changes = Changes::default();
    for (name, after) in &new {
        let before = old
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value);
        changes.put(
            || name.clone(),
            compare_values(shape.item(), before, Some(after)),
        );
    }
    for (name, before) in old
        .iter()
        .filter(|(name, _)| !new.iter().any(|(known, _)| known == name))
    {
        changes.put(
            || name.clone(),
            compare_values(shape.item(), Some(before), None),
        );
    }
    Some(changes)
}

/// The fields in a configuration of `resource`. The error tells why it does not fit the type of the
/// resource.
pub(crate) fn typed(resource: &Resource, config: &Value) -> Result<FieldSet, String> {
    let is_built_in = resource.custom.is_none();
    let mistyped = is_built_in.then(|| schema::typed::type_error(&resource.kind, config));
    match mistyped.flatten() {
        Some(why) => Err(why),
        None => declared(resource.shape(config), config),
    }
}

/// The fields in `config`, a whole object of this shape. The error lists fields that are not in its
/// schema.
pub(crate) fn declared(shape: Shape<'_>, config: &Value) -> Result<FieldSet, String> {
    let mut errors = Vec::new();
    let mut set = FieldSet::default();
    declare_map(
        shape,
        config,
        "",
        &["kind", "apiVersion", "metadata"],
        &mut set,
        &mut errors,
    );
    let mut metadata = FieldSet::default();
    declare_map(
        Shape::metadata(),
        &config["metadata"],
        ".metadata",
        UNMANAGED,
        &mut metadata,
        &mut errors,
    );
    set.put(|| "f:metadata".to_owned(), metadata);
    match errors.len() {
        0 => Ok(set),
        1 => Err(errors.remove(0)),
        _ => Err(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

/// The fields that a value declares.
fn declare(shape: Shape<'_>, value: &Value, path: &str, errors: &mut Vec<String>) -> FieldSet {
    let mut set = FieldSet::default();
    if is_empty(value) {
        set.include_here();
    } else if shape.is_map(value) {
        declare_map(shape, value, path, &[], &mut set, errors);
    } else if shape.is_list(value) {
        declare_list(shape, value, path, &mut set, errors);
    } else {
        set.include_here();
    }
    set
}

fn declare_map(
    shape: Shape<'_>,
    value: &Value,
    path: &str,
    skip: &[&str],
    set: &mut FieldSet,
    errors: &mut Vec<String>,
) {
    for (key, value) in value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !skip.contains(&key.as_str()))
    {
        let path = format!("{path}.{key}");
        if !shape.knows(key) {
            errors.push(format!("{path}: field not declared in schema"));
            continue;
        }
        let mut below = declare(shape.child(key), value, &path, errors);
        let unknown = shape.undeclared(key, value, &path);
        errors.extend(
            unknown
                .iter()
                .map(|path| format!("{path}: field not declared in schema")),
        );
        if !shape.is_field(key) {
            below.include_here();
        }
        set.put(|| format!("f:{key}"), below);
    }
}

fn declare_list(
    shape: Shape<'_>,
    list: &Value,
    path: &str,
    set: &mut FieldSet,
    errors: &mut Vec<String>,
) {
    for (index, item) in list.as_array().into_iter().flatten().enumerate() {
        let Some(name) = shape.element(item) else {
            let key = shape.missing_key(item);
            errors.push(format!(
                "{path}: element {index}: associative list with keys has an element that omits key field \"{key}\" (and doesn't \
                 have default value)"
            ));
            continue;
        };
        if set.child(&name).is_some() {
            errors.push(format!(
                "{path}: duplicate entries for key {}",
                super::set::shown(&name)
            ));
            continue;
        }
        let mut below = declare(
            shape.item(),
            item,
            &format!("{path}{}", super::set::shown(&name)),
            errors,
        );
        below.include_here();
        set.put(|| name, below);
    }
}
