//! Checks configurations of server-side apply against the types of a built-in kind.
//!
//! Upstream reads them with structured-merge-diff, whose texts differ from those of Go's decoder
//! (`typed.AsTyped`).

use serde_json::Value;

use super::{Struct, Topology, Type};

/// The first value with a wrong type, in upstream's words. Kinds without a type pass.
pub(crate) fn type_error(kind: &str, config: &Value) -> Option<String> {
    in_struct(super::of_object(kind, config)?, config, "")
}

fn in_struct(shape: &Struct, object: &Value, path: &str) -> Option<String> {
    object.as_object()?.iter().find_map(|(name, value)| {
        let field = shape.field(name)?;
        in_value(&field.ty, &field.topology, value, &format!("{path}.{name}"))
    })
}

fn in_value(ty: &Type, topology: &Topology, value: &Value, path: &str) -> Option<String> {
    let wrong =
        |expected: &str, shown: String| Some(format!("{path}: expected {expected}, got {shown}"));
    match (ty, value) {
        (_, Value::Null) => None,
        (Type::Struct(_), Value::Object(_)) => in_struct(ty.as_struct()?, value, path),
        (Type::Map(item), Value::Object(entries)) => entries.iter().find_map(|(key, value)| {
            in_value(item, &Topology::Granular, value, &format!("{path}.{key}"))
        }),
        (Type::List(item), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, value)| {
                let path = format!("{path}{}", element(topology, index, value));
                in_value(item, &Topology::Granular, value, &path)
            })
        }
        (Type::Struct(_) | Type::Map(_), Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            wrong("map", boxed(value))
        }
        (Type::List(_), Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            wrong("list", boxed(value))
        }
        (Type::Bool, Value::String(_) | Value::Number(_)) => wrong("boolean", boxed(value)),
        (Type::Int32 | Type::Int64 | Type::Float, Value::String(_)) => {
            wrong("numeric (int or float)", "string".to_owned())
        }
        (Type::Text, Value::Number(_) | Value::Bool(_)) => wrong(
            "string",
            format!("&value.valueUnstructured{{Value:{value}}}"),
        ),
        // Go's decoder words the errors of all other pairs.
        _ => None,
    }
}

fn boxed(value: &Value) -> String {
    match value {
        Value::String(text) => format!("&{{{text}}}"),
        other => format!("&{{{other}}}"),
    }
}

/// The name of a list element: its keys, its value in a set, or its position.
fn element(topology: &Topology, index: usize, value: &Value) -> String {
    match topology {
        Topology::Keyed(keys) => {
            let mut keys = keys.clone();
            keys.sort_unstable();
            let keys: Vec<String> = keys
                .into_iter()
                .filter_map(|key| Some(format!("{key}={}", value.get(key)?)))
                .collect();
            format!("[{}]", keys.join(","))
        }
        Topology::Set => format!("[={value}]"),
        Topology::Atomic | Topology::Granular => format!("[{index}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_are_named_as_in_typed_values() {
        let cases = [
            (json!({"spec": {"replicas": 1}}), None),
            (
                json!({"spec": {"replicas": "text"}}),
                Some(".spec.replicas: expected numeric (int or float), got string"),
            ),
            (
                json!({"spec": {"paused": "text"}}),
                Some(".spec.paused: expected boolean, got &{text}"),
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": 7}]}}}}),
                Some(
                    ".spec.template.spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:7}",
                ),
            ),
        ];
        for (config, expected) in cases {
            assert_eq!(type_error("Deployment", &config).as_deref(), expected);
        }
    }
}
