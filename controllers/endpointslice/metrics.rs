//! Metrics of the EndpointSlice controller, under upstream's names.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use prometheus::{HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry, exponential_buckets};
use steersman_metrics::HistogramVec;
use steersman_objects::ObjectKey;
use steersman_runtime::consistency::Memory;

use steersman_objects::Service;

use super::hints::{Distribution, topology_enabled};

/// The metric families. Families without labels appear with their first value, as upstream's do.
#[derive(Debug, Clone)]
pub(super) struct SliceMetrics {
    /// One observation per sync and address type, also with 0.
    endpoints_added: HistogramVec,
    endpoints_removed: HistogramVec,
    /// This and the next two are sums over all Services.
    endpoints_desired: IntGaugeVec,
    slices: IntGaugeVec,
    desired_slices: IntGaugeVec,
    /// By operation: `create`, `update`, `delete`.
    changes: IntCounterVec,
    /// One observation per address type whose writes all succeeded.
    changed_per_sync: HistogramVec,
    syncs: IntCounterVec,
    /// Number of Services by the distribution in effect.
    by_distribution: IntGaugeVec,
}

impl SliceMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("endpoint_slice_controller_{name}");
        let histogram = |of: &str, help: &str| HistogramOpts::new(name(of), help);
        let opts = |of: &str, help: &str| Opts::new(name(of), help);
        let per_sync = |of: &str, help: &str| {
            // Upstream's buckets: 2, 4, ... 32768.
            let buckets = exponential_buckets(2.0, 2.0, 15)?;
            HistogramVec::new(histogram(of, help).buckets(buckets), &[])
        };
        let metrics = Self {
            endpoints_added: per_sync(
                "endpoints_added_per_sync",
                "[BETA] Number of endpoints added on each Service sync",
            )?,
            endpoints_removed: per_sync(
                "endpoints_removed_per_sync",
                "[BETA] Number of endpoints removed on each Service sync",
            )?,
            endpoints_desired: IntGaugeVec::new(
                opts("endpoints_desired", "[BETA] Number of endpoints desired"),
                &[],
            )?,
            slices: IntGaugeVec::new(
                opts("num_endpoint_slices", "[BETA] Number of EndpointSlices"),
                &[],
            )?,
            desired_slices: IntGaugeVec::new(
                opts(
                    "desired_endpoint_slices",
                    "[BETA] Number of EndpointSlices that would exist with perfect endpoint allocation",
                ),
                &[],
            )?,
            changes: IntCounterVec::new(
                opts("changes", "[ALPHA] Number of EndpointSlice changes"),
                &["operation"],
            )?,
            changed_per_sync: HistogramVec::new(
                histogram(
                    "endpointslices_changed_per_sync",
                    "[ALPHA] Number of EndpointSlices changed on each Service sync",
                ),
                &["topology", "traffic_distribution"],
            )?,
            syncs: IntCounterVec::new(
                opts("syncs", "[ALPHA] Number of EndpointSlice syncs"),
                &["result"],
            )?,
            by_distribution: IntGaugeVec::new(
                opts(
                    "services_count_by_traffic_distribution",
                    "[BETA] Number of Services using some specific trafficDistribution",
                ),
                &["traffic_distribution"],
            )?,
        };
        registry.register(Box::new(metrics.endpoints_added.clone()))?;
        registry.register(Box::new(metrics.endpoints_removed.clone()))?;
        registry.register(Box::new(metrics.endpoints_desired.clone()))?;
        registry.register(Box::new(metrics.slices.clone()))?;
        registry.register(Box::new(metrics.desired_slices.clone()))?;
        registry.register(Box::new(metrics.changes.clone()))?;
        registry.register(Box::new(metrics.changed_per_sync.clone()))?;
        registry.register(Box::new(metrics.syncs.clone()))?;
        registry.register(Box::new(metrics.by_distribution.clone()))?;
        Ok(metrics)
    }

    /// The gauges of totals: endpoints, slices, and slices with perfect packing.
    pub(super) fn totals(&self) -> [IntGaugeVec; 3] {
        [&self.endpoints_desired, &self.slices, &self.desired_slices].map(Clone::clone)
    }

    /// Counts a sync with this result: `success`, `stale` or `error`. Upstream: `trackSync`.
    pub(super) fn synced(&self, result: &str) {
        self.syncs.with_label_values(&[result]).inc();
    }

    /// The counter of writes by operation.
    pub(super) fn changes(&self) -> IntCounterVec {
        self.changes.clone()
    }

    /// Counts the endpoints that a sync added and removed.
    pub(super) fn changed_endpoints(&self, added: usize, removed: usize) {
        let none: [&str; 0] = [];
        self.endpoints_added
            .with_label_values(&none)
            .observe(added as f64);
        self.endpoints_removed
            .with_label_values(&none)
            .observe(removed as f64);
    }

    /// Counts the slices that a sync of `service` changed.
    pub(super) fn changed_slices(
        &self,
        service: &Service,
        distribution: Option<Distribution>,
        number: usize,
    ) {
        let topology = if topology_enabled(service) {
            "Auto"
        } else {
            "Disabled"
        };
        let distribution = distribution.map_or("", Distribution::as_str);
        let labels = [topology, distribution];
        self.changed_per_sync
            .with_label_values(&labels)
            .observe(number as f64);
    }
}

/// The traffic distributions in effect, by Service.
pub(super) struct TrafficDistributions {
    services: Mutex<HashMap<ObjectKey, Distribution>>,
    gauge: IntGaugeVec,
}

impl TrafficDistributions {
    pub(super) fn new(metrics: &SliceMetrics) -> Self {
        // A process that leads again starts from zero.
        metrics.by_distribution.reset();
        Self {
            services: Mutex::default(),
            gauge: metrics.by_distribution.clone(),
        }
    }

    /// Records the distribution in effect for `service`. A value that was in use once stays visible
    /// with 0. Upstream: `UpdateTrafficDistributionForService`.
    pub(super) fn set(&self, service: &ObjectKey, distribution: Option<Distribution>) {
        let mut services = self.services();
        // The count changes by the difference to the recorded value, so a repeated sync counts
        // once.
        let old = match distribution {
            Some(distribution) => services.insert(service.clone(), distribution),
            None => services.remove(service),
        };
        let gauge = |of: Distribution| self.gauge.with_label_values(&[of.as_str()]);
        if let Some(old) = old {
            gauge(old).dec();
        }
        if let Some(new) = distribution {
            gauge(new).inc();
        }
    }

    fn services(&self) -> MutexGuard<'_, HashMap<ObjectKey, Distribution>> {
        self.services.lock()
    }
}

impl Memory for TrafficDistributions {
    /// A deleted Service leaves the count. Upstream: `DeleteService`.
    fn forget(&self, owner: &ObjectKey) {
        self.set(owner, None);
    }

    fn history_went_back(&self) {
        // The next sync of each Service replaces its value, and none of them is awaited.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestCache_ServicesByTrafficDistribution`.
    #[test]
    fn services_count_under_their_traffic_distribution() {
        use Distribution::{Close, SameNode};
        let metrics = SliceMetrics::register(&Registry::new()).unwrap();
        let distributions = TrafficDistributions::new(&metrics);
        let [a, b] = ["a", "b"].map(|name| ObjectKey::new("ns", name));
        let shown = || {
            [Close, SameNode].map(|of| distributions.gauge.with_label_values(&[of.as_str()]).get())
        };
        // (Service, distribution, services with PreferClose and PreferSameNode)
        let steps = [
            (&a, Some(Close), [1, 0]),
            (&b, Some(Close), [2, 0]),
            (&b, Some(Close), [2, 0]),
            (&b, Some(SameNode), [1, 1]),
            (&a, None, [0, 1]),
            (&a, None, [0, 1]),
        ];
        for (service, distribution, expected) in steps {
            distributions.set(service, distribution);
            assert_eq!(shown(), expected, "{service} {distribution:?}");
        }
        distributions.forget(&b);
        assert_eq!(shown(), [0, 0]);
    }
}
