//! Metrics of the service controller, under upstream's names.

use prometheus::{Histogram, HistogramOpts, IntCounter, Registry, exponential_buckets};

#[derive(Debug, Clone)]
pub(super) struct ServiceMetrics {
    /// Calls of `LoadBalancers::update`.
    pub(super) updates: IntCounter,
    /// Services whose nodes could not be updated.
    pub(super) failed_updates: IntCounter,
    /// Seconds of one pass over all Services.
    pub(super) pass_seconds: Histogram,
    /// Seconds of one call of `LoadBalancers::update`.
    pub(super) update_seconds: Histogram,
}

impl ServiceMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("service_controller_{name}");
        let counter = |family: &str, help: &str| {
            let counter = IntCounter::new(name(family), format!("[ALPHA] {help}"))?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let histogram = |family: &str, help: &str| {
            let options = HistogramOpts::new(name(family), format!("[ALPHA] {help}"))
                .buckets(exponential_buckets(1.0, 2.0, 15)?);
            let histogram = Histogram::with_opts(options)?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        Ok(Self {
            updates: counter(
                "loadbalancer_sync_total",
                "A metric counting the amount of times any load balancer has been configured, as an effect of service/node changes on the cluster",
            )?,
            failed_updates: counter(
                "nodesync_error_total",
                "A metric counting the amount of times any load balancer has been configured and errored, as an effect of node changes on the cluster",
            )?,
            pass_seconds: histogram(
                "nodesync_latency_seconds",
                "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
            )?,
            update_seconds: histogram(
                "update_loadbalancer_host_latency_seconds",
                "A metric measuring the latency for updating each load balancer hosts.",
            )?,
        })
    }
}
