//! Hints by the CPU of zones, for Services with the annotation for topology mode `Auto`.
//!
//! Each zone should have a part of the ready endpoints that fits its part of the CPU. Endpoints of
//! zones with too many are hinted to zones with too few. The record of hints by Service tells which
//! Services need a sync after a change of nodes.
//!
//! nodes -> [`Topology::set_nodes`] -> ratios of zones -> [`Topology::hint`] -> hints ->
//! [`Topology::record`]
//!
//! Upstream: `k8s.io/endpointslice/topologycache`.

mod allocation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_helpers::endpointslice::AddressType;
use steersman_objects::{EndpointHints, Node, ObjectKey};
use steersman_runtime::consistency::Memory;
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use self::allocation::{Allocations, Counts, Ratios, is_overloaded};
use super::desired::ZONE;
use super::hints::{is_ready, remove};
use super::plan::Plan;

/// Nodes with one of these labels do not count. The value of the label is
/// ignored. Upstream: `hasExcludedLabels`.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// An Event about the hints of a Service and address type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// The Service had no hints before. It is told by the first address type with hints.
    Enabled,
    /// The hints are removed, for this reason. Impossible hints are told again in each sync, as in
    /// upstream.
    Disabled(String),
}

/// The endpoints of an address type by their hinted zone, or the reason why there are no hints.
pub(super) type Hinted = Result<Counts, String>;

/// The CPU of zones, and the hints of Services.
#[derive(Default)]
pub(super) struct Topology(Mutex<State>);

#[derive(Default)]
struct State {
    ratios: Ratios,
    /// Ready endpoints by hinted zone.
    hints: HashMap<ObjectKey, BTreeMap<AddressType, Counts>>,
    /// Services with hints. A failure of one address type removes the Service. This is a quirk of
    /// upstream's `RemoveHints`. The other address type keeps its hints, and its next sync tells
    /// them as enabled once more.
    enabled: HashSet<ObjectKey>,
}

impl Topology {
    /// Computes the CPU of zones from all nodes. Upstream: `SetNodes`.
    pub(super) fn set_nodes(&self, nodes: &[Arc<Node>]) {
        let ratios = ratios(nodes);
        self.state().ratios = ratios;
    }

    /// The Services with too few endpoints in a zone, by the recorded hints. Upstream:
    /// `GetOverloadedServices`.
    pub(super) fn overloaded(&self) -> Vec<ObjectKey> {
        let state = self.state();
        let is_overloaded = |counts: &Counts| is_overloaded(counts, &state.ratios);
        let services = state.hints.iter();
        services
            .filter(|(_, types)| types.values().any(is_overloaded))
            .map(|(service, _)| service.clone())
            .collect()
    }

    /// Forgets the hints of `service` for one address type. Returns whether it had hints.
    pub(super) fn forget_hints(&self, service: &ObjectKey, family: AddressType) -> bool {
        let mut state = self.state();
        if let Some(types) = state.hints.get_mut(service) {
            types.remove(&family);
            if types.is_empty() {
                state.hints.remove(service);
            }
        }
        state.enabled.remove(service)
    }

    /// Sets the hints of `plan`, or removes them if they are impossible. The plan changes, but the
    /// records do not: a plan may be dropped when the caches are stale. Upstream: `AddHints`.
    pub(super) fn hint(&self, plan: &mut Plan) -> Hinted {
        let ready = plan
            .written()
            .flatten()
            .filter(|endpoint| is_ready(endpoint))
            .count();
        let unchanged = plan.unchanged.iter().flat_map(|slice| &slice.endpoints);
        let ready = ready + unchanged.filter(|endpoint| is_ready(endpoint)).count();
        let hinted = Allocations::new(&self.state().ratios, ready)
            .and_then(|allocations| assign(&allocations, plan));
        // Without hints, each client may use all zones, which is safe. Hints for only some
        // endpoints would overload these.
        if hinted.is_err() {
            remove(plan);
        }
        hinted
    }

    /// Records the hints of `service` for one address type. `None` means that the Service does not
    /// ask for them. Returns the Event for users, if there is one.
    pub(super) fn record(
        &self,
        service: &ObjectKey,
        family: AddressType,
        hinted: Option<Hinted>,
    ) -> Option<Notice> {
        match hinted {
            Some(Ok(counts)) => self
                .set_hints(service, family, counts)
                .then_some(Notice::Enabled),
            Some(Err(reason)) => {
                self.forget_hints(service, family);
                Some(Notice::Disabled(reason))
            }
            None => {
                let had_hints = self.forget_hints(service, family);
                let text = "Topology Aware Hints has been disabled";
                had_hints.then(|| Notice::Disabled(text.to_owned()))
            }
        }
    }

    /// Records hints, and returns whether the Service had none before.
    pub(super) fn set_hints(
        &self,
        service: &ObjectKey,
        family: AddressType,
        counts: Counts,
    ) -> bool {
        let mut state = self.state();
        state
            .hints
            .entry(service.clone())
            .or_default()
            .insert(family, counts);
        state.enabled.insert(service.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Memory for Topology {
    fn forget(&self, owner: &ObjectKey) {
        let mut state = self.state();
        state.hints.remove(owner);
        state.enabled.remove(owner);
    }

    fn history_went_back(&self) {
        // The next sync of each Service replaces its hints, and none of them is awaited.
    }
}

/// The part of each zone in the CPU of all nodes that count.
///
/// One node without zone or CPU makes the whole result insufficient, as in upstream: its share is
/// unknown, and any ratio would be wrong. Only ready nodes have a share. Upstream: `SetNodes`.
fn ratios(nodes: &[Arc<Node>]) -> Ratios {
    let counts = |labels: &Labels| EXCLUDED.iter().all(|key| labels.get(key).is_none());
    let mut cpu: BTreeMap<Sym, i64> = BTreeMap::new();
    for node in nodes
        .iter()
        .filter(|node| counts(&node.meta.labels) && node.is_ready())
    {
        let amount = node.status.allocatable.cpu.0.map_or(0, |cpu| cpu.0);
        match node.meta.labels.get(ZONE) {
            Some(zone) if !zone.is_empty() && amount != 0 => {
                let sum = cpu.entry(zone.clone()).or_default();
                *sum = sum.saturating_add(amount);
            }
            _ => {
                tracing::debug!(
                    node = &*node.meta.name,
                    "Can't get CPU or zone information for node"
                );
                return Ratios::Insufficient;
            }
        }
    }
    let total: f64 = cpu.values().map(|cpu| *cpu as f64).sum();
    if total == 0.0 || cpu.len() < 2 {
        return Ratios::Insufficient;
    }
    let ratio = |(zone, cpu)| (zone, cpu as f64 / total);
    Ratios::Zones(cpu.into_iter().map(ratio).collect())
}

/// Sets the hints of the slices to write, and returns the endpoints by hinted zone. Slices with hints
/// that do not fit move from the unchanged to the updated ones.
///
/// First, each endpoint is hinted to its own zone. Then zones with a surplus hint some of theirs to
/// other zones. Only slices that are written take part, so a small change of endpoints does not
/// rewrite all slices. An endpoint without zone makes hints impossible. Upstream: `AddHints`.
fn assign(allocations: &Allocations, plan: &mut Plan) -> Hinted {
    let mut counts = Counts::new();
    plan.update_unchanged(|slice| match allocations.hints_of(slice, &counts) {
        None => true,
        Some(hinted) => {
            for (zone, number) in hinted {
                *counts.entry(zone).or_default() += number;
            }
            false
        }
    });
    let hint = |zone: &Sym| {
        Some(Box::new(EndpointHints {
            for_zones: vec![zone.clone()],
            for_nodes: Vec::new(),
        }))
    };
    for endpoint in plan
        .written()
        .flatten()
        .filter(|endpoint| is_ready(endpoint))
    {
        let Some(zone) = endpoint.zone.as_ref().filter(|zone| !zone.is_empty()) else {
            return Err("One or more endpoints do not have a zone specified".to_owned());
        };
        *counts.entry(zone.clone()).or_default() += 1;
        endpoint.hints = hint(zone);
    }
    let mut transfers = allocations.transfers(&counts);
    for endpoint in plan
        .written()
        .flatten()
        .filter(|endpoint| is_ready(endpoint))
    {
        let Some(giving) = endpoint.zone.clone() else {
            continue;
        };
        if let Some(receiving) = transfers.next(&giving) {
            *counts.entry(giving).or_default() -= 1;
            *counts.entry(receiving.clone()).or_default() += 1;
            endpoint.hints = hint(&receiving);
        }
    }
    Ok(counts)
}
