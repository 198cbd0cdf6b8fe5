//! The most levels of an object.

use serde_json::Value;

use crate::status::Status;

/// Most levels of a value. `serde_json` reads no deeper, so it could not read the stored object again.
/// Upstream has 10,000.
pub(crate) const MAX_LEVELS: usize = 127;

/// The words of Go's decoder about deeper values.
pub(crate) const EXCEEDED: &str = "exceeded max depth";

/// 400 for an object that could not be read again. A patch and managed fields add levels to those of
/// bodies.
pub(crate) fn check(object: &Value) -> Result<(), Status> {
    if fits(object, MAX_LEVELS) {
        return Ok(());
    }
    Err(Status::bad_request(EXCEEDED))
}

/// The lists and objects around the innermost value.
pub(crate) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| fits(field, levels - 1)),
        _ => true,
    }
}
