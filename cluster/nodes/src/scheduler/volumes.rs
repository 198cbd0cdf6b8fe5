//! The demands of a pod's claims on its node.
//!
//! Upstream: the plugins VolumeRestrictions, VolumeBinding and VolumeZone, in this order.

use std::borrow::Cow;
use std::sync::Arc;

use steersman_values::intern::Sym;

use super::node::{NodeFacts, Refusal};
use crate::claims::{SimClass, SimVolume, VolumeDemand};

/// The labels with the zone of a node or a volume. Upstream: `topologyLabels`.
const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// The refusal of the first of these plugins that a node does not pass.
/// `is_in_use` tells that a pod uses one of the exclusive claims.
pub(super) fn refusal(
    demand: &VolumeDemand,
    facts: &NodeFacts,
    is_in_use: bool,
) -> Option<Refusal> {
    if is_in_use {
        return Refusal::of_pods(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
             already in-use by another pod",
        );
    }
    let mut reasons = Vec::new();
    if !demand
        .bound
        .iter()
        .all(|volume| volume.reaches(&facts.node))
    {
        reasons.push(Cow::Borrowed(
            "node(s) didn't match PersistentVolume's node affinity",
        ));
    }
    let is_served = |class: &Arc<SimClass>| class.provisions_for(&facts.node);
    if !demand.unbound.iter().all(is_served) {
        reasons.push(Cow::Borrowed(
            "node(s) didn't find available persistent volumes to bind",
        ));
    }
    if !reasons.is_empty() {
        return Some(Refusal {
            reasons,
            is_due_to_pods: false,
        });
    }
    if !demand.bound.iter().all(|volume| is_in_zone(volume, facts)) {
        return Refusal::of_node("node(s) had no available volume zone");
    }
    None
}

/// Whether the node has each zone label of the volume, with one of its values. Nodes without any
/// zone label take all volumes.
fn is_in_zone(volume: &SimVolume, facts: &NodeFacts) -> bool {
    let label = |key: &str| facts.node.meta.labels.get(key);
    if ZONE_LABELS.iter().all(|key| label(key).is_none()) {
        return true;
    }
    ZONE_LABELS.iter().all(|key| {
        let Some(values) = volume.meta.labels.get(key) else {
            return true;
        };
        let newer = key.replace("failure-domain.beta", "topology");
        let has = |value: &Sym| values.split("__").any(|one| one == value.as_str());
        label(key).or_else(|| label(&newer)).is_some_and(has)
    })
}
