//! Exponential back-off of pod creation after failures.
//!
//! The first failure after a success delays the replacement by 10 s, and each further one doubles
//! the delay up to 10 min. The record of failures is in memory, so the first replacement after a
//! restart may come at once. Upstream: `backoff_utils.go`.
//!
//! A Job with `backoffLimitPerIndex` has a back-off per index instead, from the annotations of pods: see
//! `per_index/`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use steersman_objects::{ObjectKey, Phase, Pod};
use steersman_runtime::consistency::Memory;

/// The delay after the first failure. Upstream: `DefaultJobPodFailureBackOff`.
const FIRST: Duration = Duration::from_secs(10);
/// The longest delay. Upstream: `MaxJobPodFailureBackOff`.
const LONGEST: Duration = Duration::from_secs(600);

/// The failures of a Job since its last success. It decides about the next creation only. The limit of
/// failures is `status.failed`, which survives restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    /// Ignored failures count here as well, as upstream.
    failures: u32,
    /// `None` before the first failure, and after a success.
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// The record after pods succeeded and failed at these times.
    ///
    /// Upstream: `newBackoffRecord`. A success starts a new series: only failures after the last success
    /// count. A failure at the same time as the success does not.
    pub(super) fn after(self, successes: &[Timestamp], failures: &[Timestamp]) -> Self {
        let count = |failures: usize| u32::try_from(failures).unwrap_or(u32::MAX);
        let Some(last_success) = successes.iter().max() else {
            return Self {
                failures: self.failures.saturating_add(count(failures.len())),
                last_failure: failures.iter().max().copied().or(self.last_failure),
            };
        };
        let later: Vec<_> = failures.iter().filter(|at| *at > last_success).collect();
        Self {
            failures: count(later.len()),
            last_failure: later.into_iter().max().copied(),
        }
    }

    /// The time until the next pod may be created. Upstream: `getRemainingTime`. Zero without a failure.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        self.last_failure
            .map_or(Duration::ZERO, |at| remaining(self.failures, at, now))
    }
}

/// The time until the next pod may be created, after `failures` failures of which the last was at
/// `last`. Upstream: `getRemainingTimeForFailuresCount`. The delay doubles: 10, 20, 40 s, and so on up to 10
/// min.
pub(super) fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    // From the 33rd failure on, the shift has no bits left; the longest delay holds long before.
    let factor = 1u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
    let delay = FIRST.saturating_mul(factor).min(LONGEST);
    // An end beyond the calendar is as good as never.
    let due = last.saturating_add(delay).unwrap_or(Timestamp::MAX);
    // A negative rest means that the delay is over.
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// The time until which a manager may wait before it replaces `failed` pods of a Job, of which `pods` still exist.
/// `None` if the Job has no failed pod, or none whose end is known.
///
/// A manager that has counted a part of the failures waits for a shorter time. `src/shadow` asks this about
/// the Jobs of another manager.
pub fn back_off_ends<'a>(
    failed: u32,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Option<Timestamp> {
    let ended = pods.into_iter().filter(|pod| pod.phase == Phase::Failed);
    let ends: Vec<Timestamp> = ended.map(finished_at).collect();
    let last = ends.iter().max().copied()?;
    let failures = failed.max(u32::try_from(ends.len()).unwrap_or(u32::MAX));
    last.checked_add(remaining(failures, last, last)).ok()
}

/// The time at which the pod ended: its last container, else the loss of readiness, else the start
/// of its deletion, else its creation. Upstream: `getFinishedTime`.
///
/// A kubelet sets `Ready` to `False` when a pod ends, so that is the end of a pod without states of
/// containers. The pod garbage collector deletes pods of lost nodes; the start of that deletion stands for
/// their end.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let details = pod.details();
    let unready = || {
        let ready = pod.conditions.iter().find(|state| state.kind == *"Ready")?;
        let since = pod.ready.since.filter(|_| ready.status == *"False")?;
        Some(Timestamp::from(since))
    };
    let deletion_began = || {
        // The API server sets the deadline; the grace period leads back to the request.
        let grace = details.deletion_grace_period_seconds.unwrap_or(0);
        let grace = jiff::SignedDuration::from_secs(grace);
        let deadline = Timestamp::from(pod.meta.deleted?);
        Some(deadline.saturating_sub(grace).unwrap_or(Timestamp::MIN))
    };
    details
        .containers_finished
        .or_else(unready)
        .or_else(deletion_began)
        .or(pod.meta.created.map(Timestamp::from))
        // A pod without any of these times has never been stored, so the earliest time is only a default.
        .unwrap_or(Timestamp::MIN)
}

/// The records of all Jobs.
#[derive(Debug, Default)]
pub(super) struct Backoffs(Mutex<HashMap<ObjectKey, Backoff>>);

impl Backoffs {
    /// The record of `job`. A missing record has no failures; a new leader starts so for each Job.
    pub(super) fn get(&self, job: &ObjectKey) -> Backoff {
        self.all().get(job).copied().unwrap_or_default()
    }

    /// Replaces the record of `job`. Without failures it is removed, so a Job that succeeds takes no memory.
    pub(super) fn set(&self, job: &ObjectKey, record: Backoff) {
        if record == Backoff::default() {
            self.all().remove(job);
        } else {
            self.all().insert(job.clone(), record);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Backoff>> {
        self.0.lock()
    }
}

impl Memory for Backoffs {
    fn forget(&self, job: &ObjectKey) {
        self.all().remove(job);
    }

    fn history_went_back(&self) {
        // The failures may never have happened, and the pods of the restored state come again as new ones.
        self.all().clear();
    }
}

#[cfg(test)]
mod tests;
