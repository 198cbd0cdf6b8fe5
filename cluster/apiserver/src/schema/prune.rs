//! Removes the fields that a type does not have.

use serde_json::{Map, Value};

use super::unions::schemas_in;
use super::{Struct, Type};

/// Drops the fields of `object` that built-in kind `kind` does not have, and returns their paths
/// (`spec.containers[0].imagee`). Kinds without a type stay unchanged.
pub fn prune_unknown(kind: &str, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let (Some(shape), Some(fields)) = (super::of_object(kind, object), object.as_object_mut()) {
        prune_struct(shape, fields, &mut String::new(), &mut unknown);
    }
    unknown
}

/// Drops the fields of `metadata` that no object has, and returns their paths below `path`.
pub(crate) fn prune_metadata(metadata: &mut Value, path: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(fields) = metadata.as_object_mut() {
        prune_struct(
            super::metadata(),
            fields,
            &mut path.to_owned(),
            &mut unknown,
        );
    }
    unknown
}

/// `path` is the path of `fields`. The function restores it.
fn prune_struct(
    shape: &Struct,
    fields: &mut Map<String, Value>,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    let outer = path.len();
    let mut next = 0;
    fields.retain(|name, value| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        let position = shape.position(name, next);
        match position {
            None => unknown.push(path.clone()),
            Some(at) => {
                next = at + 1;
                let field = &shape.fields()[at];
                prune(&field.ty, value, path, unknown);
                // Go's decoders of unions drop unknown fields without a report.
                for fields in schemas_in(shape, field, value) {
                    prune_struct(shape, fields, &mut String::new(), &mut Vec::new());
                }
            }
        }
        path.truncate(outer);
        position.is_some()
    });
}

fn prune(ty: &Type, value: &mut Value, path: &mut String, unknown: &mut Vec<String>) {
    let outer = path.len();
    match (ty, value) {
        (Type::Struct(_), Value::Object(fields)) => {
            if let Some(shape) = ty.as_struct() {
                prune_struct(shape, fields, path, unknown);
            }
        }
        (Type::List(item), Value::Array(items)) if item.holds_structs() => {
            for (index, value) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                prune(item, value, path, unknown);
                path.truncate(outer);
            }
        }
        (Type::Map(item), Value::Object(entries)) if item.holds_structs() => {
            for (key, value) in entries {
                path.push('.');
                path.push_str(key);
                prune(item, value, path, unknown);
                path.truncate(outer);
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
    fn unknown_fields_are_dropped_and_reported() {
        let mut object = json!({"dat": {}, "metadata": {"bogus": 1, "labels": {"any": "x"}},
            "spec": {"template": {"spec": {"containers": [{"imagee": "x"}]}}}});
        assert_eq!(
            prune_unknown("Deployment", &mut object),
            [
                "dat",
                "metadata.bogus",
                "spec.template.spec.containers[0].imagee"
            ]
        );
        assert_eq!(
            object,
            json!({"metadata": {"labels": {"any": "x"}},
            "spec": {"template": {"spec": {"containers": [{}]}}}})
        );
        let mut custom = json!({"spec": {"free": 1}});
        assert!(prune_unknown("Widget", &mut custom).is_empty());
        assert_eq!(custom, json!({"spec": {"free": 1}}));
    }
}
