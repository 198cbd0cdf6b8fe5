//! The metric of the route controller, under upstream's name.

use prometheus::{IntCounter, Registry};

#[derive(Debug, Clone)]
pub(super) struct RouteMetrics {
    /// Passes.
    pub(super) passes: IntCounter,
}

impl RouteMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let passes = IntCounter::new(
            "route_controller_route_sync_total",
            "[ALPHA] A metric counting the amount of times routes have been synced with the cloud provider.",
        )?;
        registry.register(Box::new(passes.clone()))?;
        Ok(Self { passes })
    }
}
