//! Warnings about amounts of storage and memory that are not whole bytes.

use serde_json::Value;

use crate::apimachinery::path::Path;
use crate::schema::quantity::Quantity;

/// Warns about a fraction of a byte.
pub(super) fn warn(path: &Path<'_>, amount: &Value, warnings: &mut Vec<String>) {
    if let Some(text) = amount.as_str()
        && Quantity::parse(text).is_some_and(|amount| !amount.is_integer())
    {
        warnings.push(format!(
            "{path}: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
}
