//! The metric of the TTL-after-finished controller, under upstream's name.

use prometheus::{HistogramOpts, Registry, exponential_buckets};
use steersman_metrics::Histogram;

/// The metric family.
#[derive(Debug, Clone)]
pub(super) struct TtlAfterFinishedMetrics {
    /// Seconds from the expiry of a Job to its deletion.
    pub(super) deletion_duration: Histogram,
}

impl TtlAfterFinishedMetrics {
    /// Registers the family.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let duration = HistogramOpts::new(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "[ALPHA] The time it took to delete the job since it became eligible for deletion",
        );
        let buckets = exponential_buckets(0.1, 2.0, 14)?;
        let metrics = Self {
            deletion_duration: Histogram::with_opts(duration.buckets(buckets))?,
        };
        registry.register(Box::new(metrics.deletion_duration.clone()))?;
        Ok(metrics)
    }
}
