//! Flags of the garbage collector.

use serde::{Deserialize, Serialize};

/// How the garbage collector runs.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GarbageCollectorConfig {
    /// Objects looked at at the same time, and as many whose dependents are orphaned.
    #[arg(long = "concurrent-gc-syncs", value_name = "int32", default_value_t = 20, allow_negative_numbers = true)]
    pub concurrent_syncs: i32,
    /// Whether it runs; must agree with the API server's flag of that name.
    #[arg(long = "enable-garbage-collector", value_name = "bool", default_value_t = true, action = clap::ArgAction::Set)]
    pub enabled: bool,
}

impl Default for GarbageCollectorConfig {
    fn default() -> Self {
        Self { concurrent_syncs: 20, enabled: true }
    }
}
