//! The facts about a pod that the checks of its containers need.

use std::collections::HashMap;

use serde_json::Value;

/// The parts of a pod spec that the checks of its containers need.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    /// Valid volumes by name.
    pub(super) volumes: HashMap<&'a str, &'a Value>,
    /// Names of the resource claims.
    pub(super) claims: Vec<&'a str>,
    pub(super) grace_seconds: Option<i64>,
    pub(super) host_users: bool,
}
