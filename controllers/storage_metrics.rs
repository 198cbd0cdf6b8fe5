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
            "[BETA] Storage operation duration",
        );
        let labels = ["volume_plugin", "operation_name", "status", "migrated"];
        let operations = HistogramVec::new(options.buckets(BUCKETS.to_vec()), &labels)?;
        registry.register(Box::new(operations.clone()))?;
        Ok(Self { operations })
    }

    /// Counts an operation.
    pub(crate) fn finished(&self, ended: &Finished<'_>) {
        let &Finished {
            plugin,
            operation,
            succeeded,
            is_migrated,
            took,
        } = ended;
        let status = if succeeded { "success" } else { "fail-unknown" };
        let migrated = if is_migrated { "true" } else { "false" };
        self.operations
            .with_label_values(&[plugin, operation, status, migrated])
            .observe(took.as_secs_f64());
    }
}

/// The end of an operation.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    /// Qualified name of the plugin.
    pub(crate) plugin: &'a str,
    /// Name of the operation, such as `volume_attach`.
    pub(crate) operation: &'a str,
    pub(crate) succeeded: bool,
    /// Whether the volume was translated from an in-tree source to CSI.
    pub(crate) is_migrated: bool,
    pub(crate) took: Duration,
}
