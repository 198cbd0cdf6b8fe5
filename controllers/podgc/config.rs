//! Flags of the pod garbage collector.

use serde::{Deserialize, Serialize};

/// How the pod garbage collector runs.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGcConfig {
    /// Finished pods that may exist before the oldest are deleted. 0 or less: finished pods are kept.
    #[arg(long = "terminated-pod-gc-threshold", value_name = "int32", default_value_t = 12500, allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,
}

impl Default for PodGcConfig {
    fn default() -> Self {
        Self { terminated_pod_gc_threshold: 12500 }
    }
}
