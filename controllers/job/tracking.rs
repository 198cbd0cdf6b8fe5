//! Counts finished pods in the status of a Job, each pod exactly once.
//!
//! One sync goes through these steps, and a crash between two of them loses nothing:
//!
//! 1. [`plan`]: the UIDs of finished pods go into `uncountedTerminatedPods`, and the status is
//!    written. For an Indexed Job, succeeded indexes go into `completedIndexes` instead.
//! 2. These pods lose the tracking finalizer, so they can be deleted.
//! 3. [`count_untracked`]: UIDs without a pod that has the finalizer go into the counters.
//! 4. [`finish`]: the final condition follows as soon as all pods ended and are counted. The status
//!    is written a second time.
//!
//! A pod is in the list or in the counter, never in both: step 3 moves it within one write.
//! Upstream: `trackJobStatusAndRemoveFinalizers`.
//!
//! This module computes the writes; `sync/status.rs` sends them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use steersman_objects::conditions::TRUE;
use steersman_objects::{JobStatus, Uid, UncountedTerminatedPods};

use super::conditions::{self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use super::end_state::Finish;
use super::indexes::Indexes;
use super::pod_failure_policy;
use super::pods::{JobPod, has_failed};
use super::snapshot::{Indexed, Snapshot};

/// The number of uncounted pods at which a sync stops to add more. It bounds the size of the status
/// and the duration of the sync. Upstream: `MaxUncountedPods`. Each UID takes about 40 bytes, so the status
/// stays below 20 KB.
const MAX_UNCOUNTED: usize = 500;

/// The first write of a sync, and the pods to release after it. A crash after this write is harmless: the
/// next leader finds the UIDs, and goes on with step 2.
#[derive(Debug)]
pub(super) struct Plan {
    /// The status to write.
    pub(super) status: JobStatus,
    /// Whether the status differs from the served one. A sync without changes sends no request.
    pub(super) needs_write: bool,
    /// The pods that lose the tracking finalizer. Counted before, or now by `status`. Ignored failures are
    /// among them.
    pub(super) released: Vec<JobPod>,
    /// UIDs of the pods that have the tracking finalizer. Pods without a failed removal leave it in step 2.
    pub(super) tracked: HashSet<Uid>,
    /// Whether some finished pods are left for the next sync, so the Job cannot finish now. The events of
    /// this sync enqueue the Job again.
    pub(super) is_cut: bool,
    /// Failed pods by the action of the failure policy. For the metric only; it counts after the first write.
    pub(super) policy_actions: BTreeMap<&'static str, u64>,
}

/// Adds finished pods to `status`, and the interim condition of `finish`. Without `announces`, only an
/// end by a policy has one.
///
/// Upstream: the first half of `trackJobStatusAndRemoveFinalizers`.
pub(super) fn plan(
    snapshot: &Snapshot<'_>,
    mut status: JobStatus,
    finish: Option<&Finish>,
    announces: bool,
    now: Timestamp,
) -> Plan {
    let tracked: HashSet<Uid> = tracked_pods(snapshot)
        .map(|pod| pod.meta.uid.clone())
        .collect();
    // Removals of an earlier sync may be done, while its second write failed.
    let mut needs_write = count_untracked(&mut status, &tracked);
    let mut ends = Ends::new(snapshot, status.uncounted_terminated_pods.take(), finish);
    let mut released = Vec::new();
    let mut is_cut = false;
    for pod in tracked_pods(snapshot) {
        if !can_release(snapshot, pod, finish) {
            continue;
        }
        // A pod counts and loses its finalizer in the same sync, except for one that waits for its
        // replacement.
        released.push(pod.clone());
        needs_write |= ends.add(pod);
        if ends.len() >= MAX_UNCOUNTED {
            is_cut = true;
            break;
        }
    }
    status.uncounted_terminated_pods = Some(ends.uncounted);
    // Texts of indexes are complete, even if the loop was cut: each of their pods is in the snapshot.
    if let Some(indexed) = &snapshot.indexed {
        needs_write |= set_indexes(&mut status, indexed, ends.new_indexes);
    }
    // An announced end has its condition in the status already.
    let is_due = |finish: &&Finish| !finish.is_announced && (announces || finish.is_by_policy());
    if let Some(finish) = finish.filter(is_due) {
        let kind = if finish.is_complete {
            SUCCESS_CRITERIA_MET
        } else {
            FAILURE_TARGET
        };
        let interim = conditions::new(kind, TRUE, &finish.reason, &finish.message, now);
        status.conditions.push(interim);
        needs_write = true;
    }
    Plan {
        status,
        needs_write,
        released,
        tracked,
        is_cut,
        policy_actions: ends.policy_actions,
    }
}

/// Moves UIDs that are not in `tracked` from the uncounted pods to the counters. Returns whether
/// there were any.
///
/// Upstream: `cleanUncountedPodsWithoutFinalizers`. A pod that is gone counts as well, since its UID is in
/// the list.
pub(super) fn count_untracked(status: &mut JobStatus, tracked: &HashSet<Uid>) -> bool {
    let Some(uncounted) = &mut status.uncounted_terminated_pods else {
        return false;
    };
    let [succeeded, failed] = [&mut uncounted.succeeded, &mut uncounted.failed].map(|uids| {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        i32::try_from(before - uids.len()).unwrap_or(i32::MAX)
    });
    status.succeeded = status.succeeded.saturating_add(succeeded);
    status.failed = status.failed.saturating_add(failed);
    succeeded > 0 || failed > 0
}

/// Adds the final condition of `finish`, if all pods ended and are counted. Returns whether the Job
/// is finished.
///
/// Upstream: `enactJobFinished`. The condition comes last, so a Job with it needs nothing further.
pub(super) fn finish(
    status: &mut JobStatus,
    finish: &Finish,
    terminating: usize,
    now: Timestamp,
) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let has_uncounted =
        uncounted.is_some_and(|pods| !pods.succeeded.is_empty() || !pods.failed.is_empty());
    if has_uncounted || terminating > 0 {
        tracing::trace!(
            has_uncounted,
            terminating,
            "Delaying marking the Job as finished, because there are still uncounted or terminating pods"
        );
        return false;
    }
    let kind = if finish.is_complete { COMPLETE } else { FAILED };
    let condition = conditions::new(kind, TRUE, &finish.reason, &finish.message, now);
    // A failed Job has no completion time, as upstream.
    if finish.is_complete {
        status.completion_time = condition.last_transition_time;
    }
    conditions::ensure(&mut status.conditions, condition);
    true
}

/// The pods with an end that the status may lack. A removal in flight takes a pod out, so that no sync counts
/// it twice.
fn tracked_pods<'a>(snapshot: &'a Snapshot<'_>) -> impl Iterator<Item = &'a JobPod> {
    snapshot.pods.iter().filter(|pod| pod.is_tracked)
}

/// Whether the pod can lose its finalizer: it ended, or the Job ends. A failed pod keeps it until
/// the replacement of its index exists. Upstream: `canRemoveFinalizer`.
///
/// A pod that still runs is released only if its Job ends or terminates.
fn can_release(snapshot: &Snapshot<'_>, pod: &JobPod, finish: Option<&Finish>) -> bool {
    // A terminating Job counts no pod later, so their finalizers must not hold it.
    let job = snapshot.job;
    if job.meta.is_terminating() || finish.is_some() || pod.has_succeeded() {
        return true;
    }
    let per_index = snapshot.indexed.as_ref().and_then(|i| i.per_index.as_ref());
    let awaits_replacement = || {
        let last = per_index.and_then(|failures| failures.awaiting.get(&pod.index()?));
        last.is_some_and(|last| last.meta.uid == pod.meta.uid)
    };
    has_failed(pod, &job.spec) && !awaits_replacement()
}

/// The ends of pods that the counters do not contain yet. UIDs of the served status are told from those of
/// this sync, since `uncounted` grows.
struct Ends<'a> {
    snapshot: &'a Snapshot<'a>,
    /// Whether pods that still run count as failed, because the Job fails. `sync_pods` has deleted these pods
    /// before.
    all_fail: bool,
    /// Failed pods of the served status. They must not be listed a second time.
    known_failed: HashSet<Uid>,
    /// Succeeded pods of the served status.
    known_succeeded: HashSet<Uid>,
    /// Written as `status.uncountedTerminatedPods`.
    uncounted: UncountedTerminatedPods,
    /// In the order of pods, which is that of indexes.
    new_indexes: Vec<i64>,
    /// Names of actions are labels of the metric.
    policy_actions: BTreeMap<&'static str, u64>,
}

impl<'a> Ends<'a> {
    fn new(
        snapshot: &'a Snapshot<'a>,
        uncounted: Option<UncountedTerminatedPods>,
        finish: Option<&Finish>,
    ) -> Self {
        let uncounted = uncounted.unwrap_or_default();
        Self {
            snapshot,
            all_fail: finish.is_some_and(|finish| !finish.is_complete),
            known_failed: uncounted.failed.iter().cloned().collect(),
            known_succeeded: uncounted.succeeded.iter().cloned().collect(),
            uncounted,
            new_indexes: Vec::new(),
            policy_actions: BTreeMap::new(),
        }
    }

    // Indexes count as well, as upstream: the limit also bounds the removals of a sync.
    fn len(&self) -> usize {
        self.new_indexes.len() + self.uncounted.succeeded.len() + self.uncounted.failed.len()
    }

    /// Adds the end of `pod`. Returns whether the status changes.
    ///
    /// The order matters: a pod that was listed as failed stays failed, even if its phase says otherwise now.
    fn add(&mut self, pod: &JobPod) -> bool {
        let uid = &pod.meta.uid;
        let spec = &self.snapshot.job.spec;
        if pod.has_succeeded() && !self.known_failed.contains(uid) {
            return self.add_success(pod);
        }
        let has_failed = self.all_fail || has_failed(pod, spec);
        let completions = self.snapshot.completions();
        // A pod without a valid index counts in no direction.
        let has_index = completions.is_none_or(|n| pod.index_below(n).is_some());
        if !has_failed || !has_index || self.known_failed.contains(uid) {
            return false;
        }
        // A pod of a failed Job may match no rule because it has not failed itself; then it counts.
        if let Some(action) = pod_failure_policy::action(spec, pod) {
            *self.policy_actions.entry(action.name()).or_default() += 1;
            if action == pod_failure_policy::Action::Ignore {
                return false;
            }
        }
        self.uncounted.failed.push(uid.clone());
        true
    }

    /// A UID for a Job without indexes, and an index otherwise.
    fn add_success(&mut self, pod: &JobPod) -> bool {
        let Some(indexed) = &self.snapshot.indexed else {
            let is_new = !self.known_succeeded.contains(&pod.meta.uid);
            if is_new {
                self.uncounted.succeeded.push(pod.meta.uid.clone());
            }
            return is_new;
        };
        // The index is enough to count a success once, so its UID is not recorded.
        let index = pod.index_below(indexed.completions);
        let new = index.filter(|index| !indexed.completed_before.contains(*index));
        self.new_indexes.extend(new);
        new.is_some()
    }
}

/// Sets the indexes and the number of succeeded ones. Returns whether the texts change.
///
/// `succeeded` is the size of the set, and no sum. So it falls if a user lowers the completions.
fn set_indexes(status: &mut JobStatus, indexed: &Indexed, new: Vec<i64>) -> bool {
    let new: BTreeSet<i64> = new.into_iter().collect();
    let succeeded = indexed.succeeded.union(&Indexes::of(new));
    let completed = succeeded.to_string();
    let failed = indexed.per_index.as_ref().map(|i| i.failed.to_string());
    let differs = completed != status.completed_indexes || failed != status.failed_indexes;
    status.succeeded = i32::try_from(succeeded.len()).unwrap_or(i32::MAX);
    status.completed_indexes = completed;
    status.failed_indexes = failed;
    differs
}
