//! The zones of a cluster, their disruption, and the rate of NoExecute taints in each of them.
//!
//! counts of ready nodes -> state of each zone -> rate of its [`ZoneQueue`]
//!
//! | state | rate |
//! |---|---|
//! | `Initial`, `Normal` | `--node-eviction-rate` |
//! | `PartialDisruption` | `--secondary-node-eviction-rate` in a large zone, else 0 |
//! | `FullDisruption` | `--node-eviction-rate`; 0 while all zones are in full disruption |
//!
//! If all zones fail at once, the network of the control plane is the likely cause, so the
//! controller evicts no pod.
//!
//! A rate changes only with the state of its zone, or with the disruption of the whole cluster. So
//! zones that stopped in a full disruption stay stopped while a node of a new zone is ready: their
//! own nodes had no time to report yet.
//!
//! Upstream: `handleDisruption`, `ComputeZoneState` and `setLimiterInZone` in
//! `node_lifecycle_controller.go`, and `GetZoneKey` of `k8s.io/component-helpers/node/topology`.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use steersman_objects::Node;
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::config::Config;
use super::health::Ready;
use super::zone_queue::ZoneQueue;

/// Region and zone of a node; empty when its labels are missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct ZoneKey {
    region: Sym,
    zone: Sym,
}

impl ZoneKey {
    /// The zone of `node`. An old label that is present wins, even if it is empty.
    pub(super) fn of(node: &Node) -> Self {
        let label = |old, new| {
            let labels = &node.meta.labels;
            let label = labels.get(old).or_else(|| labels.get(new));
            label.cloned().unwrap_or_default()
        };
        Self {
            region: label(
                "failure-domain.beta.kubernetes.io/region",
                "topology.kubernetes.io/region",
            ),
            zone: label(
                "failure-domain.beta.kubernetes.io/zone",
                "topology.kubernetes.io/zone",
            ),
        }
    }
}

/// Upstream's text, which is the label `zone` of metrics. It separates the parts by a NUL byte.
impl fmt::Display for ZoneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.region.is_empty() && self.zone.is_empty() {
            return Ok(());
        }
        write!(f, "{}:\0:{}", self.region, self.zone)
    }
}

/// State of a zone. Upstream: `ZoneState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// No node of the zone has been counted yet.
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// Ready and other nodes of a zone in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) ready: usize,
    pub(super) not_ready: usize,
}

impl Count {
    /// Counts a node with this `Ready` condition.
    pub(super) fn add(&mut self, ready: Option<Ready>) {
        match ready {
            Some(Ready::True) => self.ready += 1,
            _ => self.not_ready += 1,
        }
    }

    /// All counted nodes.
    pub(super) fn size(self) -> usize {
        self.ready + self.not_ready
    }

    /// Upstream: `ComputeZoneState`. A zone of two nodes is never in partial disruption.
    fn state(self, config: &Config) -> ZoneState {
        // Upstream computes with 32 bits, so a share at the threshold is rounded as there.
        let share = self.not_ready as f32 / self.size() as f32;
        if self.size() == 0 {
            ZoneState::Initial
        } else if self.ready == 0 {
            ZoneState::FullDisruption
        } else if self.not_ready > 2 && share >= config.unhealthy_threshold {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }
}

/// The change of the whole cluster in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disruption {
    /// Some zone works, and some zone worked before.
    None,
    /// Now all zones are in full disruption. All evictions stop, and NoExecute taints are removed.
    Begins,
    /// Until now all zones were in full disruption. Rates return to those of the states of zones.
    Ends,
    /// All zones are in full disruption, as before.
    Continues,
}

/// One zone.
#[derive(Debug)]
pub(super) struct Zone {
    pub(super) state: ZoneState,
    /// The nodes that the last pass counted.
    pub(super) count: Count,
    pub(super) queue: ZoneQueue,
}

/// All zones with nodes.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: HashMap<ZoneKey, Zone>,
}

impl Zones {
    /// The zone `key`. A new one starts with the normal rate.
    pub(super) fn zone(&mut self, key: ZoneKey, config: &Config, now: Instant) -> &mut Zone {
        self.zones.entry(key).or_insert_with(|| Zone {
            state: ZoneState::Initial,
            count: Count::default(),
            queue: ZoneQueue::new(config.eviction_rate, now),
        })
    }

    /// The zone `key`, if it has nodes.
    pub(super) fn get_mut(&mut self, key: &ZoneKey) -> Option<&mut Zone> {
        self.zones.get_mut(key)
    }

    /// Lets no node wait any longer.
    pub(super) fn clear_waiting(&mut self) {
        let zones = self.zones.values_mut();
        zones.for_each(|zone| zone.queue.clear());
    }

    /// The time until a waiting node may get its taint; `None` if no zone with waiting nodes gets
    /// tokens.
    pub(super) fn next_token(&mut self, now: Instant) -> Option<Duration> {
        let zones = self.zones.values_mut();
        let waiting = zones.filter(|zone| zone.queue.first().is_some());
        waiting.filter_map(|zone| zone.queue.next_token(now)).min()
    }

    /// All zones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ZoneKey, &Zone)> {
        self.zones.iter()
    }

    /// Takes over the counts of a pass, which have an entry for each zone with listed nodes.
    /// Changes the states and the rates. Returns the zones without nodes, which it forgets.
    ///
    /// A zone without counted nodes returns to the initial state, and full disruptions do not stop
    /// it. It keeps its queue; upstream makes a new one with a full bucket in each pass. Upstream:
    /// `handleDisruption`.
    pub(super) fn update(
        &mut self,
        counts: &HashMap<ZoneKey, Count>,
        config: &Config,
        now: Instant,
    ) -> (Disruption, Vec<ZoneKey>) {
        let gone = self.zones.extract_if(|key, _| !counts.contains_key(key));
        let gone = gone.map(|(key, _)| key).collect();
        for zone in self.zones.values_mut() {
            zone.count = Count::default();
        }
        for (key, count) in counts {
            self.zone(key.clone(), config, now).count = *count;
        }
        let mut counted = self.zones.values().filter(|zone| zone.count.size() > 0);
        let is_full = ZoneState::FullDisruption;
        // Without counted nodes, both are true, and all stays as it is.
        let all_were_full = counted.clone().all(|zone| zone.state == is_full);
        let all_are_full = counted.all(|zone| zone.count.state(config) == is_full);
        let disruption = match (all_were_full, all_are_full) {
            (true, true) => Disruption::Continues,
            (false, true) => Disruption::Begins,
            (true, false) => Disruption::Ends,
            (false, false) => Disruption::None,
        };
        for zone in self.zones.values_mut() {
            let state = zone.count.state(config);
            let is_changed = std::mem::replace(&mut zone.state, state) != state;
            let rate = match disruption {
                Disruption::Begins if zone.count.size() > 0 => 0.0,
                Disruption::Ends => zone.normal_rate(config),
                _ if is_changed => zone.normal_rate(config),
                _ => continue,
            };
            zone.queue.set_rate(rate, now);
        }
        (disruption, gone)
    }
}

impl Zone {
    /// The rate of the zone by its state, if some zone of the cluster works. A small zone stops in
    /// partial disruption, since its own network is the likely cause. Upstream: `setLimiterInZone`,
    /// `HealthyQPSFunc` and `ReducedQPSFunc`.
    fn normal_rate(&self, config: &Config) -> f32 {
        match self.state {
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => {
                config.eviction_rate
            }
            ZoneState::PartialDisruption => {
                let size = i64::try_from(self.count.size()).unwrap_or(i64::MAX);
                if size > config.large_zone {
                    config.secondary_eviction_rate
                } else {
                    0.0
                }
            }
        }
    }
}
