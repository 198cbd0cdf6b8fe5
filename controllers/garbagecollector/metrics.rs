//! The metric of the garbage collector, under upstream's name.
//!
//! Upstream counts an empty discovery, a failed start of monitors, and monitors that do not sync in time.

use prometheus::{IntCounter, Registry};

/// Registers the counter of failed monitor syncs.
pub(super) fn sync_errors(registry: &Registry) -> Result<IntCounter, prometheus::Error> {
    let errors = IntCounter::new(
        "garbagecollector_controller_resources_sync_error_total",
        "[ALPHA] Number of garbage collector resources sync errors",
    )?;
    registry.register(Box::new(errors.clone()))?;
    Ok(errors)
}
