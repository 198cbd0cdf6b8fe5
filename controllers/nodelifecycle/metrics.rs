//! Metrics of the node lifecycle controller, under upstream's names.

use std::time::Duration;

use prometheus::{
    GaugeVec, Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets,
};

use super::zones::{Count, ZoneKey};

/// The metric families. The label `zone` has the text of a [`ZoneKey`].
#[derive(Debug, Clone)]
pub(super) struct NodeMetrics {
    zone_size: GaugeVec,
    zone_health: GaugeVec,
    /// All counted nodes that are not ready, with any reason.
    unhealthy: GaugeVec,
    /// Nodes that got a NoExecute taint under the rate limit.
    pub(super) evictions: IntCounterVec,
    /// Seconds for one node in one pass.
    node_duration: Histogram,
    /// Seconds for one pass.
    pub(super) pass_duration: Histogram,
}

impl NodeMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| {
            let gauge = GaugeVec::new(Opts::new(name, format!("[ALPHA] {help}")), &["zone"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let histogram = |name: &str, help: &str, first: f64| {
            // Upstream's buckets: eight that grow by the factor 4, from 1 ms or from 10 ms.
            let buckets = exponential_buckets(first, 4.0, 8)?;
            let opts = HistogramOpts::new(name, format!("[ALPHA] {help}"));
            let histogram = Histogram::with_opts(opts.buckets(buckets))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let evictions = Opts::new(
            "node_collector_evictions_total",
            "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
        );
        let evictions = IntCounterVec::new(evictions, &["zone"])?;
        registry.register(Box::new(evictions.clone()))?;
        Ok(Self {
            zone_size: gauge(
                "node_collector_zone_size",
                "Gauge measuring number of registered Nodes per zones.",
            )?,
            zone_health: gauge(
                "node_collector_zone_health",
                "Gauge measuring percentage of healthy nodes per zone.",
            )?,
            unhealthy: gauge(
                "node_collector_unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            )?,
            evictions,
            node_duration: histogram(
                "node_collector_update_node_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of a single node.",
                0.001,
            )?,
            pass_duration: histogram(
                "node_collector_update_all_nodes_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of all nodes.",
                0.01,
            )?,
        })
    }

    /// Counts the time of one node in one pass, with all its requests.
    pub(super) fn node_took(&self, time: Duration) {
        self.node_duration.observe(time.as_secs_f64());
    }

    /// Shows the counts of a zone. A zone without counted nodes is 100 percent healthy. Upstream:
    /// the start of `handleDisruption`.
    pub(super) fn show(&self, zone: &ZoneKey, count: Count) {
        let zone = zone.to_string();
        let labels = [&*zone];
        let size = count.size() as f64;
        let health = if count.size() == 0 {
            100.0
        } else {
            100.0 * count.ready as f64 / size
        };
        self.zone_size.with_label_values(&labels).set(size);
        self.zone_health.with_label_values(&labels).set(health);
        let unhealthy = self.unhealthy.with_label_values(&labels);
        unhealthy.set(count.not_ready as f64);
        // The counter of a zone exists before its first eviction.
        self.evictions.with_label_values(&labels);
    }
}
