//! The metric of the SELinux warning controller, under upstream's name.
//!
//! Upstream: `metrics.go`. The values name pods of all namespaces, so the family has one series per
//! pair of pods.

use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

use super::Shared;

/// Registers the family, which is computed at each scrape.
pub(super) fn show_conflicts(
    registry: &Registry,
    shared: &Arc<Shared>,
) -> Result<(), prometheus::Error> {
    registry.register(Box::new(Conflicts {
        described: gauge()?,
        // The registry outlives the controller, and must not keep its state alive.
        shared: Arc::downgrade(shared),
    }))
}

/// A new gauge for each scrape, so that series of resolved conflicts go.
fn gauge() -> Result<IntGaugeVec, prometheus::Error> {
    let opts = Opts::new(
        "selinux_warning_controller_selinux_volume_conflict",
        "[ALPHA] Conflict between two Pods using the same volume",
    );
    let labels = [
        "property",
        "pod1_namespace",
        "pod1_name",
        "pod1_value",
        "pod2_namespace",
        "pod2_name",
        "pod2_value",
    ];
    IntGaugeVec::new(opts, &labels)
}

/// The conflicts at a scrape.
struct Conflicts {
    /// Has no series; it only describes the family to the registry.
    described: IntGaugeVec,
    shared: Weak<Shared>,
}

impl Collector for Conflicts {
    fn desc(&self) -> Vec<&Desc> {
        self.described.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (Some(shared), Ok(gauge)) = (self.shared.upgrade(), gauge()) else {
            return Vec::new();
        };
        for conflict in shared.used().conflicts() {
            let labels = [
                conflict.property,
                &*conflict.pod.namespace,
                &*conflict.pod.name,
                &*conflict.value,
                &*conflict.other.namespace,
                &*conflict.other.name,
                &*conflict.other_value,
            ];
            gauge.with_label_values(&labels).set(1);
        }
        let mut families = gauge.collect();
        // The format of Prometheus has no family without series.
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}
