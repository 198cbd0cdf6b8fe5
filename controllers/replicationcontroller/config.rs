//! Flags of the ReplicationController controller.

use serde::{Deserialize, Serialize};

/// How the ReplicationController controller runs.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerConfig {
    /// ReplicationControllers synced at the same time. More answers faster and asks more of the API server.
    #[arg(long = "concurrent-rc-syncs", value_name = "int32", default_value_t = 5)]
    pub concurrent_syncs: i32,
}

impl Default for ReplicationControllerConfig {
    fn default() -> Self {
        Self { concurrent_syncs: 5 }
    }
}
