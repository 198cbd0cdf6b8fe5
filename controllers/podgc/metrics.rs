//! Metrics of the pod garbage collector, under upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

/// The metric families; labels are the pod's `namespace` and the `reason` of its removal.
#[derive(Debug, Clone)]
pub(super) struct PodGcMetrics {
    /// Attempts, including failed ones.
    pub(super) deletions: IntCounterVec,
    /// Failed attempts.
    pub(super) errors: IntCounterVec,
}

impl PodGcMetrics {
    /// Registers both families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounterVec::new(
                Opts::new(name, format!("[ALPHA] {help}")),
                &["namespace", "reason"],
            )?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            deletions: counter(
                "pod_gc_collector_force_delete_pods_total",
                "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
            )?,
            errors: counter(
                "pod_gc_collector_force_delete_pod_errors_total",
                "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
            )?,
        })
    }
}
