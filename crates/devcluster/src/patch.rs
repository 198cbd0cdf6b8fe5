//! The patch types, as functions from an object and a patch to an object.

use serde_json::Value;

/// A patch that does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch operation or test failed: 422.
    #[error("{0}")]
    Failed(String),
    /// A list element without its merge key: 500.
    #[error("{0}")]
    Internal(String),
}

/// RFC 6902.
pub fn json(_object: &mut Value, _patch: &Value) -> Result<(), PatchError> {
    todo!("helper: objects")
}

/// RFC 7386.
pub fn merge(_object: &mut Value, _patch: &Value) {
    todo!("helper: objects")
}

/// Strategic merge, by the merge keys of built-in kind `kind` (`Deployment`); atomic lists for kinds without an entry.
pub fn strategic(_kind: &str, _object: &mut Value, _patch: &Value) -> Result<(), PatchError> {
    todo!("helper: objects")
}
