//! Metrics of the StatefulSet controller, under upstream's names. The series about unavailable pods exist only
//! while the gate `MaxUnavailableStatefulSet` is on.
//!
//! Upstream registers `stale_sync_skips_total` since 1.37 (kubernetes#138451). A scrape of an older release lacks it.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use steersman_objects::{PodManagement, StatefulSet};

// The policy is immutable, so a series keeps its labels until the set is gone.
const LABELS: [&str; 3] = [
    "statefulset_namespace",
    "statefulset_name",
    "pod_management_policy",
];

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct StatefulSetMetrics {
    /// Each sync sets it, for all strategies.
    max_unavailable: IntGaugeVec,
    /// Written before a rolling update looks for outdated pods, and never under `OnDelete`.
    unavailable_replicas: IntGaugeVec,
    /// Syncs skipped because a cache lacks writes of this process, by `group` and `resource` of the cache.
    pub(super) stale_sync_skips: IntCounterVec,
}

impl StatefulSetMetrics {
    /// Registers the families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let family = |name: &str, help: &str| {
            let name = format!("statefulset_controller_statefulset_{name}");
            IntGaugeVec::new(Opts::new(name, format!("[ALPHA] {help}")), &LABELS)
        };
        let skips = Opts::new(
            "statefulset_controller_stale_sync_skips_total",
            "[ALPHA] Total number of StatefulSet syncs skipped due to a stale watch cache.",
        );
        let metrics = Self {
            stale_sync_skips: IntCounterVec::new(skips, &["group", "resource"])?,
            max_unavailable: family(
                "max_unavailable",
                "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
            )?,
            unavailable_replicas: family(
                "unavailable_replicas",
                "Current number of unavailable pods in StatefulSet",
            )?,
        };
        registry.register(Box::new(metrics.max_unavailable.clone()))?;
        registry.register(Box::new(metrics.unavailable_replicas.clone()))?;
        registry.register(Box::new(metrics.stale_sync_skips.clone()))?;
        Ok(metrics)
    }

    /// Shows the pods of `set` that may be unavailable. Upstream: `updateStatefulSetStatus`.
    pub(super) fn set_max_unavailable(&self, set: &StatefulSet, count: i64) {
        self.max_unavailable
            .with_label_values(&labels(set))
            .set(count);
    }

    /// Shows the pods of `set` that are unavailable. Upstream: `updateStatefulSetAfterInvariantEstablished`.
    pub(super) fn set_unavailable(&self, set: &StatefulSet, count: i64) {
        self.unavailable_replicas
            .with_label_values(&labels(set))
            .set(count);
    }
}

fn labels(set: &StatefulSet) -> [&str; 3] {
    let policy = match set.spec.pod_management {
        PodManagement::OrderedReady => "OrderedReady",
        PodManagement::Parallel => "Parallel",
    };
    [&set.meta.namespace, &set.meta.name, policy]
}
