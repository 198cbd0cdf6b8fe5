//! Metrics of the taint eviction controller, under upstream's names.

use prometheus::{Histogram, HistogramOpts, IntCounter, Registry};

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct EvictionMetrics {
    /// Deleted pods.
    pub(super) deletions: IntCounter,
    /// Seconds from the deadline of a pod to its deletion. Upstream observes other numbers by
    /// mistake: nanoseconds times 10^9.
    pub(super) duration: Histogram,
}

impl EvictionMetrics {
    /// Registers both families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let deletions = IntCounter::new(
            "taint_eviction_controller_pod_deletions_total",
            "[ALPHA] Total number of Pods deleted by TaintEvictionController since its start.",
        )?;
        let duration = HistogramOpts::new(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
        );
        let bounds = [
            0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
        ];
        let duration = Histogram::with_opts(duration.buckets(bounds.to_vec()))?;
        registry.register(Box::new(deletions.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        Ok(Self {
            deletions,
            duration,
        })
    }
}
