//! Conversion of built-in kinds with two served versions.
//!
//! The server stores one version. It converts objects of the other version when a client reads or
//! writes them.

use serde_json::Value;

use crate::fielderror::FieldError;

mod autoscalers;
mod events;

pub(crate) use autoscalers::AUTOSCALERS;
pub(crate) use events::EVENTS;

/// Conversion between a version and the stored version of the same kind.
#[derive(Debug)]
pub struct Conversion {
    /// Group of the stored version.
    pub group: &'static str,
    /// The stored version.
    pub version: &'static str,
    /// Converts an object of this version into the stored version.
    pub to_kept: fn(Value) -> Value,
    /// Converts a stored object into this version.
    pub from_kept: fn(Value) -> Value,
    /// Validation of a new object (in stored form) that only this version has. It gets the errors
    /// that both versions have, and returns all.
    pub errors: fn(&Value, Vec<FieldError>) -> Vec<FieldError>,
    /// The same for an update to the first object, from the second one.
    pub update_errors: fn(&Value, &Value, Vec<FieldError>) -> Vec<FieldError>,
}
