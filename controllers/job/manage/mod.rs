//! The pods that one sync creates or deletes.
//!
//! A sync never does both, and deletion comes first. Upstream: the decisions of `manageJob`.
//! `end_state/` precedes this module, and `sync/pods.rs` acts on the result.

use std::time::Duration;

use jiff::Timestamp;

use super::per_index;
use super::pods::{JobPod, replaces_only_failed};
use super::snapshot::{Indexed, Snapshot};
use super::victims;

/// The most pods that one sync creates or deletes, so that one huge Job cannot block the others.
/// Upstream: `MaxPodCreateDeletePerSync`. The rest follows with the events of the first part.
const BURST: usize = 500;

/// The change from the active pods towards the number that the Job wants.
#[derive(Debug)]
pub(super) enum Action {
    /// The active pods are those that the Job wants. Nothing is to do, also if terminating pods hold the
    /// missing places.
    Steady,
    /// Delete these pods, which a suspended Job does even without any. The label of the metric is then
    /// `pods_deleted`, as upstream.
    Delete(Vec<JobPod>),
    /// Create pods, which can be none: failed indexes count as missing pods, but get no further one. The
    /// label of the metric is `pods_created` in any case, as upstream.
    Create(Pods),
    /// Give these active pods the tracking finalizer back. A deletion failed after they had lost it, and the Job
    /// wants them again.
    ///
    /// Upstream leaves them so, and counts no success of them.
    Track(Vec<JobPod>),
    /// Create no pod before the end of the back-off, which comes after this time. The Job keeps its number of
    /// active pods meanwhile. Upstream reports 0 here (kubernetes/kubernetes#139428).
    Wait(Duration),
}

impl Action {
    /// Whether the action writes any pod. If not, the sync needs no confirmation of its caches.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::Delete(pods) | Self::Track(pods) => !pods.is_empty(),
            Self::Create(pods) => pods.len() > 0,
            Self::Steady | Self::Wait(_) => false,
        }
    }
}

/// The pods to create. Both kinds are created in growing batches, so one refusal costs few requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pods {
    /// This many equal pods.
    Count(usize),
    /// One pod for each of these indexes.
    Indexes(Vec<i64>),
}

impl Pods {
    /// The number of pods.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::Indexes(indexes) => indexes.len(),
        }
    }
}

/// Compares the active pods with the number that the Job wants. `backoff` is the time until the
/// back-off of the whole Job ends.
///
/// Upstream: `manageJob`. A suspension comes first, as it overrides all numbers. Deletions and finalizers precede
/// creations, and only creations wait for a back-off.
pub(super) fn decide(snapshot: &Snapshot<'_>, backoff: Duration, now: Timestamp) -> Action {
    let spec = &snapshot.job.spec;
    let active = snapshot.active.len();
    if spec.suspend {
        // Without a limit per sync, as upstream: a suspension must take effect at once.
        return Action::Delete(snapshot.active.clone());
    }
    let wanted = wanted(snapshot);
    // Surplus pods of one index are victims at any number, so `choose` is asked without a surplus, too.
    let surplus = active.saturating_sub(wanted);
    let mut victims = victims::choose(&snapshot.active, snapshot.completions(), surplus);
    victims.truncate(BURST);
    if !victims.is_empty() {
        return Action::Delete(victims);
    }
    let untracked = snapshot.active.iter().filter(|pod| !pod.has_finalizer);
    let untracked: Vec<JobPod> = untracked.take(BURST).cloned().collect();
    if !untracked.is_empty() {
        return Action::Track(untracked);
    }
    // A terminating pod may keep a place. Its end enqueues the Job again.
    let missing = wanted.saturating_sub(active + held(snapshot));
    if missing == 0 {
        return Action::Steady;
    }
    // With a limit per index, each index has its own back-off instead.
    if spec.backoff_limit_per_index.is_none() && !backoff.is_zero() {
        return Action::Wait(backoff);
    }
    let missing = missing.min(BURST);
    match &snapshot.indexed {
        None => Action::Create(Pods::Count(missing)),
        Some(indexed) => create_indexes(snapshot, indexed, missing, now),
    }
}

/// The number of missing pods whose place a terminating pod holds, because only failed pods are replaced.
///
/// It has no effect with `TerminatingOrFailed`: then a pod is replaced as soon as its deletion begins.
pub(super) fn held(snapshot: &Snapshot<'_>) -> usize {
    let open = wanted(snapshot).saturating_sub(snapshot.active.len());
    if replaces_only_failed(&snapshot.job.spec) {
        snapshot.terminating.min(open)
    } else {
        0
    }
}

/// The number of active pods that a Job wants, which is not suspended. Upstream: `wantActive` in `manageJob`.
pub(super) fn wanted(snapshot: &Snapshot<'_>) -> usize {
    let spec = &snapshot.job.spec;
    // A negative number cannot be stored; it means no pod here.
    let parallelism = usize::try_from(spec.parallelism).unwrap_or(0);
    match spec.completions {
        // After the first success the running pods finish, and no further pod starts.
        None if snapshot.succeeded > 0 => snapshot.active.len(),
        None => parallelism,
        Some(completions) => {
            // A user may lower the completions below the successes; then no pod is wanted.
            let open = i64::from(completions) - snapshot.succeeded;
            usize::try_from(open).unwrap_or(0).min(parallelism)
        }
    }
}

/// Creates pods for the lowest `missing` indexes that are open: without a pod and without an end. Upstream:
/// `firstPendingIndexes`. The lowest indexes come first, so `completedIndexes` stays a short text.
fn create_indexes(
    snapshot: &Snapshot<'_>,
    indexed: &Indexed,
    missing: usize,
    now: Timestamp,
) -> Action {
    let mut taken = indexed.succeeded.union(&indexed.active);
    // A new pod must not share the index with a terminating one that still writes.
    if replaces_only_failed(&snapshot.job.spec) {
        taken = taken.union(&snapshot.terminating_indexes());
    }
    let Some(per_index) = &indexed.per_index else {
        let indexes = taken.first_missing(missing, indexed.completions);
        return Action::Create(Pods::Indexes(indexes));
    };
    // A failed index gets no further pod, but still counts as missing in `wanted`.
    let taken = taken.union(&per_index.failed);
    let indexes = taken.first_missing(missing, indexed.completions);
    match per_index::ready_indexes(indexes, &per_index.awaiting, now) {
        Ok(indexes) => Action::Create(Pods::Indexes(indexes)),
        Err(wait) => Action::Wait(wait),
    }
}

#[cfg(test)]
mod tests;
