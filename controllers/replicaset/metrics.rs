//! Metrics of the ReplicaSet controller, under upstream's names.
//!
//! The ReplicationController controller runs the same code and uses the same families.

use prometheus::{HistogramOpts, IntCounterVec, Opts, Registry};
use steersman_metrics::Histogram;

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct ReplicaSetMetrics {
    /// Age of deleted pods, relative to the age of the youngest ready pod. Upstream:
    /// `SortingDeletionAgeRatio`.
    pub(super) deletion_age_ratio: Histogram,
    /// Syncs skipped because a cache lacks writes of this process, by `group` and `resource` of the
    /// cache. Upstream: `ReplicaSetRequeueSkips`.
    pub(super) stale_sync_skips: IntCounterVec,
}

impl ReplicaSetMetrics {
    /// Registers both families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let ratio = HistogramOpts::new(
            "replicaset_controller_sorting_deletion_age_ratio",
            "[ALPHA] The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. The intent of \
             this metric is to measure the rough efficacy of the LogarithmicScaleDown feature gate's effect on the sorting (and \
             deletion) of pods when a replicaset scales down. This only considers Ready pods when calculating and reporting.",
        );
        let skips = Opts::new(
            "replicaset_controller_stale_sync_skips_total",
            "[ALPHA] Total number of ReplicaSet syncs skipped due to a stale watch cache.",
        );
        let metrics = Self {
            // Upstream: `ExponentialBuckets(0.25, 2, 6)`.
            deletion_age_ratio: Histogram::with_opts(
                ratio.buckets(vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0]),
            )?,
            stale_sync_skips: IntCounterVec::new(skips, &["group", "resource"])?,
        };
        registry.register(Box::new(metrics.deletion_age_ratio.clone()))?;
        registry.register(Box::new(metrics.stale_sync_skips.clone()))?;
        Ok(metrics)
    }
}
