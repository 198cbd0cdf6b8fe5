//! Metrics of the publisher, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

/// The metric families; the label `code` is the HTTP status of the sync.
#[derive(Debug, Clone)]
pub(super) struct PublisherMetrics {
    syncs: IntCounterVec,
    durations: HistogramVec,
}

impl PublisherMetrics {
    /// Registers both families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let durations = HistogramOpts::new(
            "root_ca_cert_publisher_sync_duration_seconds",
            "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
        );
        let metrics = Self {
            syncs: IntCounterVec::new(
                Opts::new(
                    "root_ca_cert_publisher_sync_total",
                    "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
                ),
                &["code"],
            )?,
            durations: HistogramVec::new(
                durations.buckets(exponential_buckets(0.001, 2.0, 15)?),
                &["code"],
            )?,
        };
        registry.register(Box::new(metrics.syncs.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        Ok(metrics)
    }

    /// Counts a sync with the HTTP status `code`, which took `took`.
    pub(super) fn synced(&self, code: u16, took: Duration) {
        let code = &[code.to_string()];
        self.syncs.with_label_values(code).inc();
        self.durations
            .with_label_values(code)
            .observe(took.as_secs_f64());
    }
}
