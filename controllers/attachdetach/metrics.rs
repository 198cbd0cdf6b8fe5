//! Metrics of the attach-detach controller, under upstream's names.
//!
//! Upstream: `pkg/controller/volume/attachdetach/metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use steersman_helpers::volume::{Volume, qualified_csi_name};
use steersman_objects::VolumeSource;
use steersman_runtime::controller::ControllerContext;

use super::Shared;
use super::operations::Force;
use crate::storage_metrics::StorageMetrics;

/// The families that the controller counts.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    /// The doubled prefix is upstream's.
    forced: IntCounterVec,
    /// Shared with other controllers of volumes, under one name.
    pub(super) operations: StorageMetrics,
}

impl Metrics {
    /// Registers the families.
    pub(super) fn register(ctx: &ControllerContext) -> Result<Self, prometheus::Error> {
        let forced = IntCounterVec::new(
            Opts::new(
                "attach_detach_controller_attachdetach_controller_forced_detaches",
                "[ALPHA] Number of times the A/D Controller performed a forced detach",
            ),
            &["reason"],
        )?;
        ctx.registry.register(Box::new(forced.clone()))?;
        Ok(Self {
            forced,
            operations: ctx.metrics(StorageMetrics::register)?,
        })
    }

    /// Counts a volume that is detached by force.
    ///
    /// Upstream: `RecordForcedDetachMetric`. It counts each detach without a question to the node,
    /// whether or not the node used the volume.
    pub(super) fn forced(&self, force: Force) {
        let reason = match force {
            Force::No => return,
            Force::Timeout => "timeout",
            Force::OutOfService => "out-of-service",
        };
        self.forced.with_label_values(&[reason]).inc();
    }
}

/// Registers the families that are computed at each scrape.
pub(super) fn show_state(
    registry: &Registry,
    shared: &Arc<Shared>,
) -> Result<(), prometheus::Error> {
    registry.register(Box::new(State {
        in_use: in_use()?,
        total: total()?,
        // The registry outlives the controller, and must not keep its state alive.
        shared: Arc::downgrade(shared),
    }))
}

/// Upstream: `inUseVolumeMetricDesc`.
fn in_use() -> Result<IntGaugeVec, prometheus::Error> {
    let opts = Opts::new(
        "storage_count_attachable_volumes_in_use",
        "[ALPHA] Measure number of volumes in use",
    );
    IntGaugeVec::new(opts, &["node", "volume_plugin"])
}

/// Upstream: `totalVolumesMetricDesc`.
fn total() -> Result<IntGaugeVec, prometheus::Error> {
    let opts = Opts::new(
        "attachdetach_controller_total_volumes",
        "[ALPHA] Number of volumes in A/D Controller",
    );
    IntGaugeVec::new(opts, &["plugin_name", "state"])
}

/// The volumes at a scrape.
///
/// Upstream: `attachDetachStateCollector`.
struct State {
    in_use: IntGaugeVec,
    total: IntGaugeVec,
    shared: Weak<Shared>,
}

impl Collector for State {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.in_use.desc();
        all.extend(self.total.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(shared) = self.shared.upgrade() else {
            return Vec::new();
        };
        // Concurrent scrapes share no gauges.
        let (Ok(in_use), Ok(total)) = (in_use(), total()) else {
            return Vec::new();
        };
        for ((node, plugin), count) in shared.volumes_in_use() {
            in_use.with_label_values(&[&*node, &*plugin]).set(count);
        }
        for ((plugin, state), count) in shared.volumes_by_state() {
            total.with_label_values(&[&*plugin, state]).set(count);
        }
        let mut families = in_use.collect();
        families.extend(total.collect());
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}

impl Shared {
    /// Volumes of bound pods, by node and plugin. A volume counts once per pod.
    ///
    /// Upstream: `getVolumeInUseCount`. Pods count on any node and in any phase. An inline CSI volume
    /// counts as well, though no node attaches it.
    fn volumes_in_use(&self) -> BTreeMap<(String, String), i64> {
        let mut counts = BTreeMap::new();
        for pod in self.pods.list() {
            let Some(node) = &pod.node else {
                continue;
            };
            for volume in pod.volumes.iter() {
                let plugin = match &volume.source {
                    VolumeSource::InlineCsi(driver) => qualified_csi_name(driver),
                    _ => match self.resolver.resolve(&pod.meta, volume) {
                        Ok(Some(volume)) => volume.plugin.qualified_name(),
                        Ok(None) | Err(_) => continue,
                    },
                };
                *counts.entry((node.to_string(), plugin)).or_default() += 1;
            }
        }
        counts
    }

    /// Volumes of the desired and of the actual state, once per node, by plugin.
    ///
    /// Upstream: `getTotalVolumesCount`. A volume of which only the name is known is left out of the
    /// actual state.
    fn volumes_by_state(&self) -> BTreeMap<(String, &'static str), i64> {
        let mut counts = BTreeMap::new();
        let mut count = |volume: &Volume, state: &'static str| {
            let key = (volume.plugin.qualified_name(), state);
            *counts.entry(key).or_default() += 1;
        };
        let world = self.world();
        for wanted in world.desired.all() {
            count(&wanted.volume, "desired_state_of_world");
        }
        for volume in world.actual.all() {
            count(volume, "actual_state_of_world");
        }
        counts
    }
}
