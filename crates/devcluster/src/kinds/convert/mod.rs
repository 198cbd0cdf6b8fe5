//! Built-in kinds with two versions: one of them is kept, the other is made of it when it is read
//! and turned into it when it is written.

use serde_json::Value;

use crate::fielderror::FieldError;

mod autoscalers;
mod events;

pub(crate) use autoscalers::AUTOSCALERS;
pub(crate) use events::EVENTS;

/// How the objects of one version are kept as those of another.
#[derive(Debug)]
pub struct Conversion {
    /// Group of the version that is kept.
    pub group: &'static str,
    /// The version that is kept.
    pub version: &'static str,
    /// An object as it is kept.
    pub to_kept: fn(Value) -> Value,
    /// A kept object as this version shows it.
    pub from_kept: fn(Value) -> Value,
    /// What this version demands of a new object, as it is kept, beyond what the other one does.
    pub errors: fn(&Value) -> Vec<FieldError>,
}
