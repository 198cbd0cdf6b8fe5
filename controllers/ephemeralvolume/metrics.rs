//! Metrics of the controller, under upstream's names.
//!
//! Upstream: `volume/ephemeral/metrics/metrics.go`.

use prometheus::{IntCounter, Registry};

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct EphemeralVolumeMetrics {
    /// Requests that create a claim, including failed ones.
    ///
    /// Repeated tries for one claim count each. Upstream: `EphemeralVolumeCreateAttempts`.
    pub(super) creations: IntCounter,
    /// Failed ones.
    ///
    /// `AlreadyExists` counts too. Upstream: `EphemeralVolumeCreateFailures`.
    pub(super) failures: IntCounter,
}

impl EphemeralVolumeMetrics {
    /// Registers both families. Upstream gives both the same help text.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const HELP: &str = "[ALPHA] Number of PersistentVolumeClaim creation requests";
        let counter = |name: &str| {
            let counter = IntCounter::new(format!("ephemeral_volume_controller_{name}"), HELP)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            creations: counter("create_total")?,
            failures: counter("create_failures_total")?,
        })
    }
}
