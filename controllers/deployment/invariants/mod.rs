//! The invariants of a roll-out. Each check looks at the whole step, before its first write.
//!
//! Limits are computed in whole numbers here; the decisions compute them as upstream does, in floating
//! point. An unreadable limit allows every step, since the decision reports it.
//!
//! Proportional scaling has no check: with edited annotations, upstream's own result exceeds all limits.

use std::sync::Arc;

use steersman_client::Violation;
use steersman_objects::{Deployment, ReplicaSet, Strategy};

use super::replica_sets::ReplicaSets;
use super::resize::Resize;

const SURGE: &str = "rollout_surge";
const AVAILABILITY: &str = "rollout_availability";
const OVERLAP: &str = "recreate_overlap";
const HISTORY: &str = "revision_history";

/// The invariants of this file.
pub(super) const NAMES: &[&str] = &[SURGE, AVAILABILITY, OVERLAP, HISTORY];

/// `rollout_surge`: a new ReplicaSet that grows to the size `to` stays within `spec.replicas`, and all
/// ReplicaSets together stay within `maxSurge` above it.
///
/// A reduction always passes, since it cannot exceed a limit.
pub(super) fn stays_within_surge(
    d: &Deployment,
    sets: &ReplicaSets,
    to: i32,
) -> Result<(), Violation> {
    let from = sets.new.as_ref().map_or(0, |rs| rs.spec.replicas);
    let wanted = i64::from(d.spec.replicas);
    let total = sizes(&sets.old) + i64::from(to);
    let most = limits(d).map(|(surge, _)| wanted + surge);
    let holds = to <= from || i64::from(to) <= wanted && most.is_none_or(|most| total <= most);
    Violation::unless(holds, SURGE, || {
        format!(
            "grow the new ReplicaSet from {from} to {to}, {total} in all, of {wanted} wanted and at most {most:?}"
        )
    })
}

/// `rollout_availability`: after `resizes` of old ReplicaSets, their remaining pods and the available
/// new ones are as many as must be available.
///
/// Unavailable old pods count as kept, because only the number of remaining pods is certain.
pub(super) fn keeps_available(
    d: &Deployment,
    sets: &ReplicaSets,
    resizes: &[Resize],
) -> Result<(), Violation> {
    let old = sets.old.iter();
    // A status that is older than the size proves nothing, so such a step passes.
    let is_stale = old
        .clone()
        .any(|rs| rs.spec.replicas > 0 && rs.spec.replicas < rs.status.available_replicas);
    let kept = |rs: &Arc<ReplicaSet>| {
        let last = resizes.iter().rfind(|resize| Arc::ptr_eq(&resize.set, rs));
        i64::from(last.map_or(rs.spec.replicas, |resize| resize.to))
    };
    let new = sets
        .new
        .as_ref()
        .map_or(0, |rs| rs.status.available_replicas);
    let left = old.map(kept).sum::<i64>() + i64::from(new);
    let wanted = i64::from(d.spec.replicas);
    let least = limits(d).map(|(_, unavailable)| wanted - unavailable);
    let holds = resizes.is_empty() || is_stale || least.is_none_or(|least| left >= least);
    Violation::unless(holds, AVAILABILITY, || {
        format!("leave {left} old pods and available new ones, of at least {least:?}")
    })
}

/// `recreate_overlap`: with the strategy Recreate, no new pod starts beside old ones. Terminating pods are
/// not in these numbers; the decision looks at the pods as well.
pub(super) fn starts_alone(sets: &ReplicaSets) -> Result<(), Violation> {
    let is_empty = |rs: &Arc<ReplicaSet>| rs.spec.replicas <= 0 && rs.status.replicas <= 0;
    Violation::unless(sets.old.iter().all(is_empty), OVERLAP, || {
        let old = sizes(&sets.old);
        format!("start new pods beside old ReplicaSets of the size {old}")
    })
}

/// `revision_history`: a clean-up keeps the new ReplicaSet, all with pods, and as many others as the
/// history limit.
///
/// The limit of the maximum number means that nothing goes.
pub(super) fn keeps_history(
    d: &Deployment,
    sets: &ReplicaSets,
    superfluous: &[Arc<ReplicaSet>],
) -> Result<(), Violation> {
    let new = sets.new.as_ref().map(|rs| &rs.meta.uid);
    let may_go = |rs: &Arc<ReplicaSet>| {
        rs.spec.replicas == 0 && rs.status.replicas == 0 && Some(&rs.meta.uid) != new
    };
    let limit = d.spec.revision_history_limit.unwrap_or(i32::MAX);
    let limit = usize::try_from(limit).unwrap_or(0);
    let count = superfluous.len();
    let all = sets.old.len();
    let holds = count == 0 || superfluous.iter().all(may_go) && count + limit <= all;
    Violation::unless(holds, HISTORY, || {
        let name = superfluous.iter().find(|rs| !may_go(rs));
        let name = name.map(|rs| &*rs.meta.name);
        format!("delete {count} of {all} old ReplicaSets with the limit {limit}, in use: {name:?}")
    })
}

fn sizes(sets: &[Arc<ReplicaSet>]) -> i64 {
    sets.iter().map(|rs| i64::from(rs.spec.replicas)).sum()
}

/// `maxSurge` rounded up and `maxUnavailable` rounded down, in pods. `None` without limits that can be
/// read.
fn limits(d: &Deployment) -> Option<(i64, i64)> {
    let Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    } = &d.spec.strategy
    else {
        return None;
    };
    let replicas = d.spec.replicas;
    let surge = match max_surge {
        Some(limit) => -(-limit.hundredths_of(replicas)?).div_euclid(100),
        None => 0,
    };
    let unavailable = match max_unavailable {
        Some(limit) => limit.hundredths_of(replicas)?.div_euclid(100),
        None => 0,
    };
    // A roll-out with neither limit would never begin.
    let unavailable = if surge == 0 && unavailable == 0 {
        1
    } else {
        unavailable
    };
    Some((surge, unavailable.min(replicas.into())))
}

#[cfg(test)]
mod tests;
