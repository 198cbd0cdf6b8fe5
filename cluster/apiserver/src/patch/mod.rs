//! The patch types of the API, as functions from an object and a patch to an object.
//!
//! They are pure: an error leaves the object unchanged. Error texts are those of upstream's
//! `apiserver/pkg/endpoints/handlers/patch.go`, which runs the same libraries' algorithms.

mod json;
mod merge;
mod order;
mod strategic;

use serde_json::Value;

use crate::schema::decode::json_type;

pub use json::{MAX_OPERATIONS, json};
pub(crate) use json::{Unapplied, check, explained, json_as_sent, unknown_members};
pub use merge::{merge, sort_merged};
pub use strategic::strategic;
pub(crate) use strategic::strategic_merged;

/// The reason why a patch does not apply. Each variant has its HTTP status.
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
    /// More operations than the server applies in one patch: 413.
    #[error("{0}")]
    TooLarge(String),
}

/// Rejects a merge or strategic merge patch that is not a JSON object.
pub fn check_object(patch: &Value) -> Result<(), PatchError> {
    if patch.is_object() {
        return Ok(());
    }
    let got = json_type(patch);
    Err(PatchError::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
    )))
}
