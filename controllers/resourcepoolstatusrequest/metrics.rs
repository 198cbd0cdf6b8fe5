//! The metrics of answered requests, under upstream's names (`resourcepoolstatusrequest/metrics`).

use std::time::Duration;

use prometheus::{HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};
use steersman_metrics::HistogramVec;

/// The metrics, by driver.
#[derive(Debug, Clone)]
pub(super) struct RequestMetrics {
    /// Upstream: `RequestsProcessed`. Each PUT counts, also a repeated one for the same request.
    processed: IntCounterVec,
    /// Upstream: `RequestProcessingErrors`. Failed PUTs only: a pool that is incomplete counts nowhere.
    errors: IntCounterVec,
    /// In seconds, from the start of the sync to the answer of the API server.
    duration: HistogramVec,
}

impl RequestMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const LABELS: &[&str] = &["driver_name"];
        let name = |end: &str| format!("resourcepoolstatusrequest_controller_{end}");
        let processed = Opts::new(
            name("requests_processed_total"),
            "[ALPHA] Total number of ResourcePoolStatusRequests processed",
        );
        let errors = Opts::new(
            name("request_processing_errors_total"),
            "[ALPHA] Total number of errors encountered while processing ResourcePoolStatusRequests",
        );
        let duration = HistogramOpts::new(
            name("request_processing_duration_seconds"),
            "[ALPHA] Time taken to process a ResourcePoolStatusRequest",
        );
        // 1 ms to 16 s.
        let duration = duration.buckets(exponential_buckets(0.001, 2.0, 15)?);
        let metrics = Self {
            processed: IntCounterVec::new(processed, LABELS)?,
            errors: IntCounterVec::new(errors, LABELS)?,
            duration: HistogramVec::new(duration, LABELS)?,
        };
        registry.register(Box::new(metrics.processed.clone()))?;
        registry.register(Box::new(metrics.errors.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        Ok(metrics)
    }

    /// Counts one PUT of a status, after `duration` for the whole request.
    ///
    /// Upstream: the end of `syncRequest`. An answered request is not counted again.
    pub(super) fn processed(&self, driver: &str, success: bool, duration: Duration) {
        self.processed.with_label_values(&[driver]).inc();
        if !success {
            self.errors.with_label_values(&[driver]).inc();
        }
        let seconds = duration.as_secs_f64();
        self.duration.with_label_values(&[driver]).observe(seconds);
    }
}
