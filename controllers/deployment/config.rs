//! Flags of the Deployment controller.

use clap::Args;
use serde::{Deserialize, Serialize};

/// How the Deployment controller runs.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentConfig {
    /// The number of deployment objects that are allowed to sync concurrently. Larger number = more responsive deployments, but
    /// more CPU (and network) load
    #[arg(long = "concurrent-deployment-syncs", value_name = "int32", default_value_t = 5, allow_negative_numbers = true)]
    #[serde(rename = "ConcurrentDeploymentSyncs")]
    pub concurrent_syncs: i32,
}

impl Default for DeploymentConfig {
    fn default() -> Self {
        Self { concurrent_syncs: 5 }
    }
}

impl DeploymentConfig {
    /// How many workers run: none when the number is not above zero.
    pub(super) fn workers(&self) -> usize {
        usize::try_from(self.concurrent_syncs).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        config: DeploymentConfig,
    }

    #[test]
    fn the_flag_sets_the_number_of_workers() {
        // (arguments, value, workers)
        let cases: [(&[&str], i32, usize); 4] = [
            (&["x"], 5, 5),
            (&["x", "--concurrent-deployment-syncs=9"], 9, 9),
            (&["x", "--concurrent-deployment-syncs=0"], 0, 0),
            (&["x", "--concurrent-deployment-syncs", "-1"], -1, 0),
        ];
        for (arguments, value, workers) in cases {
            let config = Cli::try_parse_from(arguments).unwrap().config;
            assert_eq!((config.concurrent_syncs, config.workers()), (value, workers), "{arguments:?}");
        }
        assert_eq!(Cli::try_parse_from(["x"]).unwrap().config, DeploymentConfig::default());
    }

    #[test]
    fn it_is_served_under_upstreams_name() {
        let json = serde_json::to_value(DeploymentConfig::default()).unwrap();
        assert_eq!(json, serde_json::json!({"ConcurrentDeploymentSyncs": 5}));
    }
}
