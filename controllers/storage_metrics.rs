//! The metric of operations on volumes, which several storage controllers share, under upstream's
//! name (`pkg/volume/util`).

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, Registry};

/// Upper bounds of durations, in seconds.
pub(crate) const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

/// The metric family.
#[derive(Debug, Clone)]
pub(crate) struct StorageMetrics {
    operations: HistogramVec,
}

impl StorageMetrics {
    /// Registers the family.
    ///
    /// # Errors
    /// If the registry has a family of the same name.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = HistogramOpts::new(
            "storage_operation_duration_seconds",
            "[ALPHA] Storage operation duration",
        );
        let labels = ["volume_plugin", "operation_name", "status", "migrated"];
        let operations = HistogramVec::new(options.buckets(BUCKETS.to_vec()), &labels)?;
        registry.register(Box::new(operations.clone()))?;
        Ok(Self { operations })
    }

    /// Counts an operation of a plugin that no CSI driver replaces.
    pub(crate) fn finished(&self, plugin: &str, operation: &str, succeeded: bool, took: Duration) {
        let status = if succeeded { "success" } else { "fail-unknown" };
        self.operations
            .with_label_values(&[plugin, operation, status, "false"])
            .observe(took.as_secs_f64());
    }
}
