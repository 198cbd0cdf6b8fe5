//! What the API server refuses, in upstream's words and order.

use serde_json::Value;

use crate::fielderror::FieldError;

/// Errors of a defaulted new object.
pub fn create(_kind: &str, _object: &Value) -> Vec<FieldError> {
    todo!("helper: objects")
}

/// Errors of replacing `old` by `new` through the main endpoint, or through `subresource`.
pub fn update(_kind: &str, _subresource: Option<&str>, _new: &Value, _old: &Value) -> Vec<FieldError> {
    todo!("helper: objects")
}
