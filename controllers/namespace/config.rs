//! Flags of the namespace controller.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How the namespace controller runs.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceConfig {
    /// Namespaces whose content is deleted at the same time.
    #[arg(long = "concurrent-namespace-syncs", value_name = "int32", default_value_t = 10)]
    pub concurrent_syncs: i32,
    /// How often every terminating namespace is looked at although nothing about it changed. 0: never.
    #[arg(long = "namespace-sync-period", value_name = "duration", default_value = "5m0s", value_parser = duration)]
    pub sync_period: Duration,
}

impl Default for NamespaceConfig {
    fn default() -> Self {
        Self { concurrent_syncs: 10, sync_period: Duration::from_secs(300) }
    }
}

/// A duration as Go prints it. A negative one counts as 0, as it does for upstream's informers.
fn duration(text: &str) -> Result<Duration, jiff::Error> {
    let parsed: SignedDuration = text.parse()?;
    Ok(Duration::try_from(parsed).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_prints_them() {
        let cases = [
            ("5m0s", Duration::from_secs(300)),
            ("1h0m1.5s", Duration::from_millis(3_601_500)),
            ("250ms", Duration::from_millis(250)),
            ("1.5µs", Duration::from_nanos(1500)),
            ("0s", Duration::ZERO),
            ("-5m0s", Duration::ZERO),
        ];
        for (text, expected) in cases {
            assert_eq!(duration(text).unwrap(), expected, "{text}");
        }
        assert!(duration("soon").is_err());
    }
}
