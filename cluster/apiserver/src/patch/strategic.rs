//! Strategic merge patch: a merge patch that merges lists by the keys of their types.
//!
//! Directives: `$patch: replace|delete` in maps and list elements, `$setElementOrder/<list>`,
//! `$deleteFromPrimitiveList/<list>`, `$retainKeys`. The result contains none of them. Upstream is
//! `apimachinery/pkg/util/strategicpatch/patch.go`.

use serde_json::{Map, Value};

use super::order::{Identity, arrange};
use super::{PatchError, check_object};
use crate::go_format::printed;
use crate::schema::{self, PatchMeta, Struct, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` by the merge keys of the built-in kind `kind` (`Deployment`). Lists of unknown
/// kinds are replaced as a whole. On an error `object` stays unchanged.
pub fn strategic(kind: &str, object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    *object = strategic_merged(kind, object.clone(), patch.clone())?;
    Ok(())
}

/// The same for an owned object, without a copy of it.
pub(crate) fn strategic_merged(
    kind: &str,
    object: Value,
    patch: Value,
) -> Result<Value, PatchError> {
    check_object(&patch)?;
    let shape = schema::of_object(kind, &object);
    match (object, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            merge_maps(original, patch, shape).map(Value::Object)
        }
        (_, patch) => Ok(patch),
    }
}

/// Merges a map: its directives first, then its ordered lists, then all other fields.
fn merge_maps(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    shape: Option<&'static Struct>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(&directive, patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    let orders = take_orders(&mut patch)?;
    for (name, order) in &orders {
        merge_ordered(name, order, &mut original, &mut patch, shape)?;
    }
    for (name, change) in patch {
        match name.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            Some(list) => delete_scalars(&mut original, list, &change),
            None => merge_field(&mut original, name, change, shape)?,
        }
    }
    Ok(original)
}

/// Merges one field by its patch strategy. `null` deletes it.
fn merge_field(
    original: &mut Map<String, Value>,
    name: String,
    change: Value,
    shape: Option<&'static Struct>,
) -> Result<(), PatchError> {
    if change.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let (meta, inner) = lookup(shape, &name);
    let merged = match (original.remove(&name), change) {
        (Some(Value::Object(_)), Value::Object(patch)) if meta.replace => {
            Some(Value::Object(patch))
        }
        (Some(Value::Object(old)), Value::Object(patch)) => {
            Some(Value::Object(merge_maps(old, patch, inner)?))
        }
        (Some(Value::Array(old)), Value::Array(patch)) if meta.merge => {
            Some(Value::Array(merge_lists(old, patch, meta, inner)?))
        }
        (Some(Value::Array(_)), Value::Array(patch)) => Some(Value::Array(patch)),
        (_, fresh) => without_directives(fresh),
    };
    original.extend(merged.map(|value| (name, value)));
    Ok(())
}

/// Merges two lists by the merge key of their elements, or as sets of scalars.
fn merge_lists(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    meta: PatchMeta,
    inner: Option<&'static Struct>,
) -> Result<Vec<Value>, PatchError> {
    let Some(key) = meta.merge_key else {
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        return Ok(arrange(
            deduplicated(merged),
            &patch,
            &original,
            Identity(None),
        ));
    };
    let identity = Identity(Some(key));
    let mut elements = Vec::with_capacity(patch.len());
    let mut replace = false;
    for element in patch {
        match element
            .get(PATCH)
            .map(|directive| (directive.as_str(), directive.clone()))
        {
            None => elements.push(element),
            Some((Some("delete"), _)) => {
                let deleted = keyed(&identity, &element, key)?.clone();
                original.retain(|candidate| identity.of(candidate) != Some(&deleted));
            }
            Some((Some("replace"), _)) => replace = true,
            Some((Some("merge"), _)) => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some((_, directive)) => {
                return Err(unknown_directive(
                    &directive,
                    element.as_object().cloned().unwrap_or_default(),
                ));
            }
        }
    }
    if replace {
        return Ok(elements);
    }
    let mut merged = original.clone();
    for element in &elements {
        keyed(&identity, element, key)?;
        match (identity.position(&merged, element), element) {
            (Some(at), Value::Object(changes)) => {
                let old = match merged[at].take() {
                    Value::Object(fields) => fields,
                    _ => Map::new(),
                };
                merged[at] = Value::Object(merge_maps(old, changes.clone(), inner)?);
            }
            _ => merged.push(element.clone()),
        }
    }
    Ok(arrange(merged, &elements, &original, identity))
}

/// `$retainKeys`: removes all keys that it does not list. The patch may set listed keys only.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad_format = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let listed = listed.as_array().ok_or_else(bad_format)?;
    let is_listed = |name: &str| listed.iter().any(|key| key == name);
    let is_set = |(name, value): (&String, &Value)| {
        !value.is_null()
            && !name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            && !name.starts_with(SET_ELEMENT_ORDER)
    };
    if patch
        .iter()
        .filter(|field| is_set(*field))
        .any(|(name, _)| !is_listed(name))
    {
        return Err(bad_format());
    }
    original.retain(|name, _| is_listed(name));
    Ok(())
}

/// Removes the `$setElementOrder` directives from `patch`, and returns them by list name.
fn take_orders(patch: &mut Map<String, Value>) -> Result<Vec<(String, Vec<Value>)>, PatchError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    let mut orders = Vec::with_capacity(directives.len());
    for directive in directives {
        let list = directive.trim_start_matches(SET_ELEMENT_ORDER).to_owned();
        match patch.remove(&directive) {
            Some(Value::Array(order)) => orders.push((list, order)),
            other => return Err(no_list(&other.unwrap_or_default())),
        }
    }
    Ok(orders)
}

/// Merges one list that has a `$setElementOrder`, and removes it from `patch`.
fn merge_ordered(
    name: &str,
    order: &[Value],
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    shape: Option<&'static Struct>,
) -> Result<(), PatchError> {
    let (meta, inner) = lookup(shape, name);
    let identity = Identity(meta.merge_key);
    let list_of = |fields: &mut Map<String, Value>| match fields.remove(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(no_list(&other)),
    };
    let old = list_of(original)?;
    let changes = list_of(patch)?;
    if let Some(shape) = shape.filter(|shape| shape.field(name).is_none()) {
        return Err(PatchError::Internal(format!(
            "unable to find api field in struct {} for the json field {name:?}",
            shape.short_name()
        )));
    }
    check_order(changes.as_deref().unwrap_or_default(), order, identity)?;
    let merged = match (old.clone(), changes) {
        (None, None) => return Ok(()),
        (Some(old), None) => old,
        (None, Some(changes)) => match without_directives(Value::Array(changes)) {
            Some(Value::Array(list)) => list,
            _ => return Ok(()),
        },
        (Some(old), Some(changes)) if meta.merge => merge_lists(old, changes, meta, inner)?,
        (Some(_), Some(changes)) => changes,
    };
    let arranged = arrange(merged, order, old.as_deref().unwrap_or_default(), identity);
    original.insert(name.to_owned(), Value::Array(arranged));
    Ok(())
}

/// The error about a value where Go expects a list.
fn no_list(value: &Value) -> PatchError {
    let found = match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    PatchError::Internal(format!(
        "expected a []interface {{}}, but received a {found}"
    ))
}

/// Checks that all elements of the patch appear in the order list, in its order.
fn check_order(changes: &[Value], order: &[Value], identity: Identity) -> Result<(), PatchError> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for element in changes
        .iter()
        .filter(|element| element.get(PATCH).is_none())
    {
        if let Some(key) = identity.0 {
            keyed(&identity, element, key)?;
        }
        if !places.any(|place| identity.of(place) == identity.of(element)) {
            let changes = printed(&Value::from(changes));
            let order = printed(&Value::from(order));
            return Err(PatchError::Internal(format!(
                "The order in patch list:\n{changes}\n doesn't match $setElementOrder list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// `$deleteFromPrimitiveList`: removes these values from a list of scalars.
fn delete_scalars(original: &mut Map<String, Value>, list: &str, deleted: &Value) {
    if let Some(Value::Array(values)) = original.get_mut(list)
        && let Value::Array(deleted) = deleted
    {
        values.retain(|value| !deleted.contains(value));
    }
}

/// A value that is new on the server, without nulls and directives. They have nothing to change.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(
            fields
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !is_directive(name))
                .filter_map(|(name, value)| Some((name, without_directives(value)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        scalar => Some(scalar),
    }
}

fn is_directive(name: &str) -> bool {
    name == RETAIN_KEYS
        || name.starts_with(SET_ELEMENT_ORDER)
        || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

/// The patch strategy of the field, and the type of the field or of its elements.
fn lookup(shape: Option<&'static Struct>, name: &str) -> (PatchMeta, Option<&'static Struct>) {
    let Some(field) = shape.and_then(|shape| shape.field(name)) else {
        return (PatchMeta::default(), None);
    };
    let inner = match &field.ty {
        Type::List(item) | Type::Map(item) => item.as_struct(),
        other => other.as_struct(),
    };
    (field.patch, inner)
}

/// The merge key of an element. Upstream answers 500 if it is missing.
fn keyed<'a>(identity: &Identity, element: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    identity.of(element).ok_or_else(|| {
        PatchError::Internal(format!(
            "map: {} does not contain declared merge key: {key}",
            printed(element)
        ))
    })
}

fn unknown_directive(directive: &Value, mut map: Map<String, Value>) -> PatchError {
    map.insert(PATCH.to_owned(), directive.clone());
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {}",
        printed(directive),
        printed(&Value::Object(map))
    ))
}

fn deduplicated(values: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;
