//! The number of endpoints that each zone should have.
//!
//! A zone may be overloaded by 20 %. Example: two zones with equal CPU and 4 endpoints, all in zone
//! a. Each zone should have 2.0, and at least ceil(2.0 / 1.2) = 2 endpoints. So zone a gives two
//! endpoints to zone b.
//!
//! Upstream: `getAllocations`, `getGivingAndReceivingZones` and `getHintsByZone` of
//! `k8s.io/endpointslice/topologycache`.
//!
//! Sums and comparisons use floating point in the order of upstream's expressions, because rounding
//! decides at bounds such as ceil(2.0 / 1.2).

use std::collections::BTreeMap;

use steersman_objects::EndpointSlice;
use steersman_values::intern::Sym;

use super::is_ready;

/// The overload that a zone may have, as a part of its capacity. Upstream: `overloadThreshold`.
const OVERLOAD: f64 = 0.2;

/// Endpoints by zone.
pub(in super::super) type Counts = BTreeMap<Sym, i64>;

/// The part of each zone in the CPU of the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Ratios {
    /// The nodes were not counted yet.
    #[default]
    NotLoaded,
    /// A node lacks its zone or CPU, or fewer than two zones have nodes.
    Insufficient,
    /// Two or more zones; the sum is 1.
    Zones(BTreeMap<Sym, f64>),
}

/// The bounds of one zone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allocation {
    /// With fewer endpoints, the zone would be overloaded by more than 20 %.
    pub(super) minimum: i64,
    /// The minimum plus all endpoints beyond the minimums of all zones.
    pub(super) maximum: i64,
    /// The part of the CPU, but never below the minimum.
    pub(super) desired: f64,
}

/// The bounds of all zones.
pub(super) struct Allocations(pub(super) BTreeMap<Sym, Allocation>);

/// Endpoints to hint to other zones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Transfers {
    /// Endpoints that leave each zone. The sums of both maps are equal.
    pub(super) giving: Counts,
    pub(super) receiving: Counts,
}

impl Allocations {
    /// The bounds for `ready` endpoints, or the reason why there are none.
    ///
    /// The reasons are upstream's messages of Events, in the order of its checks. The text for
    /// `NotLoaded` fits another state better, but it is the one that upstream has before its first
    /// count of nodes. Upstream: `getAllocations`.
    pub(super) fn new(ratios: &Ratios, ready: usize) -> Result<Self, String> {
        let zones = match ratios {
            Ratios::NotLoaded => return Err("Nodes only ready in one zone".to_owned()),
            Ratios::Insufficient => {
                let reason = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
                return Err(reason.to_owned());
            }
            Ratios::Zones(zones) => zones,
        };
        let numbers = format!("({ready} endpoints, {} zones)", zones.len());
        // Each zone needs at least one endpoint, or its clients have none.
        if zones.len() > ready {
            return Err(format!("Insufficient number of endpoints {numbers}"));
        }
        let count = ready as f64;
        let bounds = |ratio: f64| {
            let desired = ratio * count;
            let minimum = (desired * (1.0 / (1.0 + OVERLOAD))).ceil();
            Allocation {
                minimum: minimum as i64,
                maximum: 0,
                desired: desired.max(minimum),
            }
        };
        let mut allocations: BTreeMap<Sym, Allocation> = zones
            .iter()
            .map(|(zone, ratio)| (zone.clone(), bounds(*ratio)))
            .collect();
        let minimums: i64 = allocations
            .values()
            .map(|allocation| allocation.minimum)
            .sum();
        let spare = ready as i64 - minimums;
        // The minimums are rounded up, so their sum may exceed the endpoints. For example, three
        // zones with equal CPU and four endpoints need two endpoints each.
        if spare < 0 {
            return Err(format!(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload \
                 threshold {numbers}"
            ));
        }
        for allocation in allocations.values_mut() {
            allocation.maximum = allocation.minimum + spare;
        }
        Ok(Self(allocations))
    }

    /// The hints of the ready endpoints of `slice`, by zone. `None` if the slice must change: a
    /// hint is missing, or its zone has no allocation or too many hints together with `counted`. A
    /// valid slice is left alone even if another distribution were better, which saves writes.
    /// Upstream: `getHintsByZone`.
    pub(super) fn hints_of(&self, slice: &EndpointSlice, counted: &Counts) -> Option<Counts> {
        let mut hinted = Counts::new();
        for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
            let zones = &endpoint.hints.as_ref()?.for_zones;
            if zones.is_empty() {
                return None;
            }
            for zone in zones {
                self.0.get(zone)?;
                *hinted.entry(zone.clone()).or_default() += 1;
            }
        }
        let fits = |(zone, number): (&Sym, &i64)| {
            let counted = counted.get(zone).copied().unwrap_or_default();
            self.0
                .get(zone)
                .is_some_and(|allocation| counted + number <= allocation.maximum)
        };
        hinted.iter().all(fits).then_some(hinted)
    }

    /// The endpoints that zones with more than their desired number give to others.
    ///
    /// One endpoint moves at a time, from the largest surplus to the largest shortage. The
    /// conditions of the end avoid a move that would turn a small surplus into a shortage.
    /// Upstream: `getGivingAndReceivingZones`.
    pub(super) fn transfers(&self, counts: &Counts) -> Transfers {
        let mut surplus = BTreeMap::new();
        let mut shortage = BTreeMap::new();
        for (zone, allocation) in &self.0 {
            let difference =
                counts.get(zone).copied().unwrap_or_default() as f64 - allocation.desired;
            if difference > 0.0 {
                surplus.insert(zone, difference);
            } else if difference < 0.0 {
                shortage.insert(zone, -difference);
            }
        }
        let mut transfers = Transfers::default();
        while let Some(giving) = most(&surplus)
            && let Some(receiving) = most(&shortage)
        {
            let give = surplus[giving];
            let receive = shortage[receiving];
            if (give < 1.0 && receive < 1.0) || give < 0.5 || receive < 0.5 {
                break;
            }
            *transfers.giving.entry(giving.clone()).or_default() += 1;
            *transfers.receiving.entry(receiving.clone()).or_default() += 1;
            surplus.insert(giving, give - 1.0);
            shortage.insert(receiving, receive - 1.0);
        }
        transfers
    }
}

impl Transfers {
    /// The zone to which an endpoint of the zone `giving` is hinted; `None` if it stays. The
    /// receiving zones follow in the order of their names; upstream's order is random. Upstream:
    /// `redistributeHints`.
    pub(super) fn next(&mut self, giving: &Sym) -> Option<Sym> {
        let left = self.giving.get_mut(giving).filter(|left| **left > 0)?;
        let (receiving, wanted) = self.receiving.iter_mut().find(|(_, wanted)| **wanted > 0)?;
        *left -= 1;
        *wanted -= 1;
        Some(receiving.clone())
    }
}

/// The zone with the largest positive number; of equal ones the first by name. Upstream's `getMost`
/// picks any of equal ones.
fn most<'a>(zones: &BTreeMap<&'a Sym, f64>) -> Option<&'a Sym> {
    let mut largest: Option<(&Sym, f64)> = None;
    for (zone, number) in zones {
        if *number > largest.map_or(0.0, |(_, number)| number) {
            largest = Some((zone, *number));
        }
    }
    largest.map(|(zone, _)| zone)
}

/// Whether a zone has too few of the endpoints in `counts` for its part of the CPU. Upstream:
/// `serviceOverloaded`.
pub(super) fn is_overloaded(counts: &Counts, ratios: &Ratios) -> bool {
    if counts.is_empty() {
        return false;
    }
    // Hints exist, but are impossible by now. The sync of the Service removes them.
    let Ratios::Zones(zones) = ratios else {
        return true;
    };
    let total = counts.values().sum::<i64>() as f64;
    zones.iter().any(|(zone, ratio)| {
        let least = (total * ratio * (1.0 / (1.0 + OVERLOAD))).ceil() as i64;
        counts.get(zone).is_none_or(|count| *count < least)
    })
}
