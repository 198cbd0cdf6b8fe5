//! Empty lists and maps.
//!
//! An empty list that a client sends differs from a missing one in Go's decoded objects, in errors, and
//! in the managers of fields that are always encoded. Storage has no empty ones, and semantic
//! comparisons do not distinguish them. Upstream: `apimachinery/third_party/forked/golang/reflect`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::typed_form::{Empties, is_empty, normalize_as, normalize_to};
use super::{Struct, Type};

/// An object of built-in kind `kind` as an encoder writes it: without empty lists and maps in optional
/// fields.
pub(crate) fn encoded<'a>(kind: &str, object: &'a Value) -> Cow<'a, Value> {
    normalized(kind, object, Empties::Encoded)
}

/// The same as field management sees it: atomic lists keep empty lists and maps.
///
/// Upstream: `listReflect.EqualsUsing` of `sigs.k8s.io/structured-merge-diff/v6/value`.
pub(crate) fn managed<'a>(kind: &str, object: &'a Value) -> Cow<'a, Value> {
    normalized(kind, object, Empties::Managed)
}

fn normalized<'a>(kind: &str, object: &'a Value, empties: Empties) -> Cow<'a, Value> {
    if !has_empties(kind, object) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    normalize_to(kind, &mut object, empties);
    Cow::Owned(object)
}

/// A value of the type `ty`, such as `meta.LabelSelector`, as an encoder writes it. Values of unknown
/// types stay unchanged.
pub(crate) fn encoded_as(ty: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(shape) = super::by_name(ty) {
        normalize_as(shape, &mut value, Empties::Encoded);
    }
    value
}

/// `old` with the empty lists and maps of `new`, two objects of built-in kind `kind`. Then a comparison
/// of both finds the differences of upstream's semantic comparisons.
pub(crate) fn with_those_of<'a>(kind: &str, old: &'a Value, new: &Value) -> Cow<'a, Value> {
    if !has_empties(kind, new) {
        return Cow::Borrowed(old);
    }
    let mut old = old.clone();
    if let Some(shape) = super::of_object(kind, new)
        && let Some(fields) = old.as_object_mut()
        && let Some(new) = new.as_object()
    {
        copy_fields(shape, fields, new);
    }
    Cow::Owned(old)
}

/// Whether a list or map in `object` has no entries.
fn has_empties(kind: &str, object: &Value) -> bool {
    super::of_object(kind, object)
        .zip(object.as_object())
        .is_some_and(|(shape, fields)| in_fields(shape, fields))
}

fn in_fields(shape: &Struct, fields: &Map<String, Value>) -> bool {
    let mut next = 0;
    fields.iter().any(|(name, value)| {
        let Some(at) = shape.position(name, next) else {
            return false;
        };
        next = at + 1;
        let field = &shape.fields()[at];
        is_empty(field, value) || in_value(&field.ty, value)
    })
}

fn in_value(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Struct(_), Value::Object(fields)) => {
            ty.as_struct().is_some_and(|shape| in_fields(shape, fields))
        }
        (Type::List(item), Value::Array(items)) if item.holds_structs() => {
            items.iter().any(|value| in_value(item, value))
        }
        (Type::Map(item), Value::Object(entries)) if item.holds_structs() => {
            entries.values().any(|value| in_value(item, value))
        }
        _ => false,
    }
}

fn copy_fields(shape: &Struct, old: &mut Map<String, Value>, new: &Map<String, Value>) {
    for (name, value) in new {
        let Some(field) = shape.field(name) else {
            continue;
        };
        match old.get_mut(name).filter(|before| !before.is_null()) {
            Some(before) => copy(&field.ty, before, value),
            None if is_empty(field, value) => drop(old.insert(name.clone(), value.clone())),
            None => {}
        }
    }
}

fn copy(ty: &Type, old: &mut Value, new: &Value) {
    match (ty, old, new) {
        (Type::Struct(_), Value::Object(old), Value::Object(new)) => {
            if let Some(shape) = ty.as_struct() {
                copy_fields(shape, old, new);
            }
        }
        (Type::List(item), Value::Array(old), Value::Array(new)) if item.holds_structs() => {
            let pairs = old.iter_mut().zip(new);
            pairs.for_each(|(old, new)| copy(item, old, new));
        }
        (Type::Map(item), Value::Object(old), Value::Object(new)) if item.holds_structs() => {
            for (key, new) in new {
                if let Some(old) = old.get_mut(key) {
                    copy(item, old, new);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_encoder_keeps_empty_lists_of_mandatory_fields() {
        let role = json!({"metadata": {"name": "r", "labels": {}},
            "rules": [{"verbs": [], "resources": []}]});
        let shown = encoded("Role", &role);
        assert_eq!(shown["metadata"], json!({"name": "r"}));
        assert_eq!(shown["rules"], json!([{"verbs": []}]));
        let role = json!({"metadata": {"name": "r"}, "rules": []});
        assert_eq!(encoded("Role", &role)["rules"], json!([]));
        assert!(matches!(encoded("Role", &shown), Cow::Owned(_)));
        let plain = json!({"metadata": {"name": "r"}, "rules": null});
        assert!(matches!(encoded("Role", &plain), Cow::Borrowed(_)));
    }

    #[test]
    fn atomic_lists_keep_empty_lists_for_field_management() {
        let policy = json!({"spec": {"podSelector": {"matchLabels": {}}, "egress": [],
            "ingress": [{"ports": []}]}});
        assert_eq!(
            managed("NetworkPolicy", &policy)["spec"],
            json!({"podSelector": {}, "ingress": [{"ports": []}]})
        );
        assert_eq!(
            encoded("NetworkPolicy", &policy)["spec"],
            json!({"podSelector": {}, "ingress": [{}]})
        );
    }

    #[test]
    fn an_old_object_gets_the_empty_lists_and_maps_of_the_new_one() {
        let old = json!({"spec": {"podSelector": {}, "ingress": [{"ports": [{}]}, {}]}});
        let new = json!({"metadata": {"labels": {}}, "spec": {"podSelector": {"matchLabels": {}},
            "egress": [], "ingress": [{"from": [], "ports": []}, {"ports": []}]}});
        assert_eq!(
            *with_those_of("NetworkPolicy", &old, &new),
            json!({"spec": {"podSelector": {"matchLabels": {}}, "egress": [],
                "ingress": [{"from": [], "ports": [{}]}, {"ports": []}]}})
        );
        let plain = json!({"spec": {"podSelector": {}}});
        assert!(matches!(
            with_those_of("NetworkPolicy", &old, &plain),
            Cow::Borrowed(_)
        ));
    }
}
