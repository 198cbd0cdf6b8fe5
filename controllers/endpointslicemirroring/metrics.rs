//! Metrics of the EndpointSlice mirroring controller, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry, exponential_buckets};
use steersman_metrics::HistogramVec;

use super::plan::Changes;

/// The metric families. Families without labels appear with their first value, as upstream's do.
#[derive(Debug, Clone)]
pub(super) struct MirroringMetrics {
    /// One observation per sync that mirrors, also with 0.
    endpoints_added: HistogramVec,
    endpoints_updated: HistogramVec,
    endpoints_removed: HistogramVec,
    /// Invalid addresses, and those beyond the maximum of a subset.
    addresses_skipped: HistogramVec,
    /// Seconds. Failed syncs and those that delete count as well.
    sync_duration: HistogramVec,
    /// This and the next two are sums over all Endpoints.
    endpoints_desired: IntGaugeVec,
    slices: IntGaugeVec,
    desired_slices: IntGaugeVec,
    /// By operation. As in upstream, the end of mirroring counts no deletions.
    changes: IntCounterVec,
}

impl MirroringMetrics {
    /// Registers all families. Upstream: `RegisterMetrics`.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("endpoint_slice_mirroring_controller_{name}");
        let histogram = |of: &str, help: &str, first: f64| {
            // Upstream's buckets: 15 that double, from 2 endpoints or from 1 ms.
            let opts = HistogramOpts::new(name(of), help);
            HistogramVec::new(opts.buckets(exponential_buckets(first, 2.0, 15)?), &[])
        };
        let gauge = |of: &str, help: &str| IntGaugeVec::new(Opts::new(name(of), help), &[]);
        let metrics = Self {
            endpoints_added: histogram(
                "endpoints_added_per_sync",
                "[ALPHA] Number of endpoints added on each Endpoints sync",
                2.0,
            )?,
            endpoints_updated: histogram(
                "endpoints_updated_per_sync",
                "[ALPHA] Number of endpoints updated on each Endpoints sync",
                2.0,
            )?,
            endpoints_removed: histogram(
                "endpoints_removed_per_sync",
                "[ALPHA] Number of endpoints removed on each Endpoints sync",
                2.0,
            )?,
            addresses_skipped: histogram(
                "addresses_skipped_per_sync",
                "[ALPHA] Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
                2.0,
            )?,
            sync_duration: histogram(
                "endpoints_sync_duration",
                "[ALPHA] Duration of syncEndpoints() in seconds",
                0.001,
            )?,
            endpoints_desired: gauge("endpoints_desired", "[ALPHA] Number of endpoints desired")?,
            slices: gauge("num_endpoint_slices", "[ALPHA] Number of EndpointSlices")?,
            desired_slices: gauge(
                "desired_endpoint_slices",
                "[ALPHA] Number of EndpointSlices that would exist with perfect endpoint allocation",
            )?,
            changes: IntCounterVec::new(
                Opts::new(name("changes"), "[ALPHA] Number of EndpointSlice changes"),
                &["operation"],
            )?,
        };
        registry.register(Box::new(metrics.endpoints_added.clone()))?;
        registry.register(Box::new(metrics.endpoints_updated.clone()))?;
        registry.register(Box::new(metrics.endpoints_removed.clone()))?;
        registry.register(Box::new(metrics.addresses_skipped.clone()))?;
        registry.register(Box::new(metrics.sync_duration.clone()))?;
        registry.register(Box::new(metrics.endpoints_desired.clone()))?;
        registry.register(Box::new(metrics.slices.clone()))?;
        registry.register(Box::new(metrics.desired_slices.clone()))?;
        registry.register(Box::new(metrics.changes.clone()))?;
        Ok(metrics)
    }

    /// The gauges of totals: endpoints, slices, and slices with perfect packing.
    pub(super) fn totals(&self) -> [IntGaugeVec; 3] {
        [&self.endpoints_desired, &self.slices, &self.desired_slices].map(Clone::clone)
    }

    /// Counts a sync that took this time, in whole milliseconds as upstream.
    pub(super) fn synced(&self, duration: Duration) {
        let none: [&str; 0] = [];
        let seconds = duration.as_millis() as f64 / 1000.0;
        self.sync_duration.with_label_values(&none).observe(seconds);
    }

    /// Counts the addresses that a sync skipped.
    pub(super) fn skipped(&self, addresses: usize) {
        let none: [&str; 0] = [];
        self.addresses_skipped
            .with_label_values(&none)
            .observe(addresses as f64);
    }

    /// Counts the endpoints that a sync changed.
    pub(super) fn changed_endpoints(&self, changes: Changes) {
        let none: [&str; 0] = [];
        let observe = |histogram: &HistogramVec, number: usize| {
            histogram.with_label_values(&none).observe(number as f64);
        };
        observe(&self.endpoints_added, changes.added);
        observe(&self.endpoints_updated, changes.updated);
        observe(&self.endpoints_removed, changes.removed);
    }

    /// The counter of writes by operation.
    pub(super) fn changes(&self) -> IntCounterVec {
        self.changes.clone()
    }
}
