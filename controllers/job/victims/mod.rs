//! The active pods that a Job deletes first.
//!
//! Pods without the finalizer come first, since their end would not be counted: a manager has taken it
//! off and ended before the deletion. Then come pods that have done least. An Indexed Job keeps one pod
//! per index. Upstream: `ActivePods` in `controller_utils.go`, and `activePodsForRemoval` in
//! `job_controller.go`; they do not look at the finalizer.
//!
//! `manage/` calls this, and `invariants.rs` checks the number.

use std::cmp::Ordering;

use steersman_objects::{Phase, Time};

use super::pods::JobPod;

/// The pods of `active` to delete, at least `at_least` of them. `completions` is set for an Indexed
/// Job: pods without a valid index go, and all but the best pod of each index.
///
/// More than `at_least` may be chosen: surplus pods of one index go even from a small Job.
pub(super) fn choose(active: &[JobPod], completions: Option<i64>, at_least: usize) -> Vec<JobPod> {
    let (mut victims, mut rest) = match completions {
        Some(completions) => split_duplicates(active, completions),
        None => (Vec::new(), active.to_vec()),
    };
    if victims.len() < at_least {
        // The rest is sorted only if the duplicates are too few.
        rest.sort_by(first_to_go);
        let missing = at_least - victims.len();
        victims.extend(rest.into_iter().take(missing));
    }
    victims
}

/// The pods without a valid index and the worse ones of each index, and the remaining pods. Upstream:
/// `appendDuplicatedIndexPodsForRemoval`. Of equal indexes, the last in the order of `first_to_go` stays.
fn split_duplicates(active: &[JobPod], completions: i64) -> (Vec<JobPod>, Vec<JobPod>) {
    let mut sorted = active.to_vec();
    sorted.sort_by(|a, b| a.index().cmp(&b.index()).then_with(|| first_to_go(a, b)));
    let mut victims = Vec::new();
    let mut rest = Vec::new();
    let mut pods = sorted.into_iter().peekable();
    while let Some(pod) = pods.next() {
        let index = pod.index_below(completions);
        let is_last = pods.peek().is_none_or(|next| next.index() != index);
        if index.is_some() && is_last {
            rest.push(pod);
        } else {
            victims.push(pod);
        }
    }
    (victims, rest)
}

/// Compares two active pods; the lesser one is deleted first. Each criterion follows upstream's `ActivePods`,
/// except for the first.
fn first_to_go(p: &JobPod, q: &JobPod) -> Ordering {
    // A pod without the finalizer is one that a former manager was about to delete.
    p.is_tracked
        .cmp(&q.is_tracked)
        // A pod without a node has done no work.
        .then_with(|| p.node.is_some().cmp(&q.node.is_some()))
        .then_with(|| rank(p.phase).cmp(&rank(q.phase)))
        .then_with(|| p.is_ready().cmp(&q.is_ready()))
        .then_with(|| {
            if p.is_ready() {
                // The pod that is ready for the shorter time has done less.
                later_first(p.ready.since, q.ready.since)
            } else {
                Ordering::Equal
            }
        })
        // More restarts promise less success.
        .then_with(|| q.restarts.cmp(&p.restarts))
        .then_with(|| q.sidecar_restarts.cmp(&p.sidecar_restarts))
        .then_with(|| later_first(p.meta.created, q.meta.created))
}

/// Upstream: `podPhaseToOrdinal` in `controller_utils.go`. Finished pods never come here.
fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Unknown => 1,
        Phase::Running => 2,
        Phase::Pending | Phase::Other | Phase::Succeeded | Phase::Failed => 0,
    }
}

/// An unset time comes first, then later ones. Upstream: `afterOrZero` in `controller_utils.go`.
fn later_first(a: Option<Time>, b: Option<Time>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

#[cfg(test)]
mod tests;
