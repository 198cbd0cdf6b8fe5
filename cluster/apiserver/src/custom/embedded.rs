//! Embedded resources: fields with `x-kubernetes-embedded-resource`, which hold a whole object.
//!
//! Their `apiVersion`, `kind` and `metadata` are validated like those of a top-level object.
//! Upstream: `pkg/apiserver/schema/objectmeta` of apiextensions-apiserver.

use serde_json::Value;

use super::schema::Schema;
use crate::apimachinery::formats;
use crate::fielderror::{FieldError, Problem};

/// The errors of all embedded resources in a whole object.
pub(super) fn errors(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, object, "", &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                check(value, path, errors);
            }
            for (name, value) in fields {
                let below = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                if let Some(child) = schema.child(name) {
                    walk(child, value, &below, errors);
                }
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                if let Some(item) = schema.item() {
                    walk(item, value, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check(resource: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut add = |field: &str, problem: Problem| {
        errors.push(FieldError {
            field: format!("{path}.{field}"),
            problem,
        })
    };
    for field in ["apiVersion", "kind"] {
        let value = &resource[field];
        match value.as_str() {
            None if value.is_null() => add(field, Problem::Required(String::new())),
            None => add(
                field,
                Problem::Invalid(value.clone(), "must be a string".to_owned()),
            ),
            Some("") => add(
                field,
                Problem::Invalid(value.clone(), "must not be empty".to_owned()),
            ),
            Some(text) if field == "apiVersion" && text.matches('/').count() > 1 => {
                add(
                    field,
                    Problem::Invalid(
                        value.clone(),
                        format!("unexpected GroupVersion string: {text}"),
                    ),
                );
            }
            Some(text) if field == "kind" => {
                let problems = formats::dns_label(&text.to_lowercase());
                if !problems.is_empty() {
                    let why = format!(
                        "may have mixed case, but should otherwise match: {}",
                        problems.join(",")
                    );
                    add(field, Problem::Invalid(value.clone(), why));
                }
            }
            Some(_) => {}
        }
    }
    let metadata = &resource["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        add(
            "metadata",
            Problem::Invalid(metadata.clone(), "must be an object".to_owned()),
        );
    }
}
