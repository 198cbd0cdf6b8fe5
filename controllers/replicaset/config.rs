//! Flags of the ReplicaSet controller.

use serde::{Deserialize, Serialize};

/// How the ReplicaSet controller runs.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetConfig {
    /// ReplicaSets synced at the same time. More answers faster and asks more of the API server.
    #[arg(long = "concurrent-replicaset-syncs", value_name = "int32", default_value_t = 5)]
    pub concurrent_syncs: i32,
}

impl Default for ReplicaSetConfig {
    fn default() -> Self {
        Self { concurrent_syncs: 5 }
    }
}
