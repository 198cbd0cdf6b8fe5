//! Metrics of the DaemonSet controller, under upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

/// The metric families.
///
/// Upstream: `DaemonsetRequeueSkips`.
#[derive(Debug, Clone)]
pub(super) struct DaemonSetMetrics {
    /// Syncs skipped because a cache lacks writes of this process, by `group` and `resource` of the
    /// cache.
    pub(super) stale_sync_skips: IntCounterVec,
}

impl DaemonSetMetrics {
    /// Registers the family.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let skips = Opts::new(
            "daemonset_controller_stale_sync_skips_total",
            "[ALPHA] Total number of DaemonSet syncs skipped due to a stale watch cache.",
        );
        let metrics = Self {
            stale_sync_skips: IntCounterVec::new(skips, &["group", "resource"])?,
        };
        registry.register(Box::new(metrics.stale_sync_skips.clone()))?;
        Ok(metrics)
    }
}
