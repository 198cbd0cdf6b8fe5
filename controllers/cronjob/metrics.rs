//! The metric of the CronJob controller, under upstream's name.

use prometheus::{HistogramOpts, Registry, exponential_buckets};
use steersman_metrics::Histogram;

/// The metric family.
#[derive(Debug, Clone)]
pub(super) struct CronJobMetrics {
    /// Seconds from the scheduled time of a Job to its creation. It grows with the load of the manager and of
    /// the API server.
    pub(super) creation_skew: Histogram,
}

impl CronJobMetrics {
    /// Registers the family.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let skew = HistogramOpts::new(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "[STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
        );
        // From 1 s to 512 s, as upstream.
        let metrics = Self {
            creation_skew: Histogram::with_opts(skew.buckets(exponential_buckets(1.0, 2.0, 10)?))?,
        };
        registry.register(Box::new(metrics.creation_skew.clone()))?;
        Ok(metrics)
    }
}
