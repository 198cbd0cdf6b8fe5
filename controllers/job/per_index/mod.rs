//! `spec.backoffLimitPerIndex`: failures of single indexes.
//!
//! The number of earlier failures of an index is in annotations of its newest pod. So a failed pod
//! keeps the tracking finalizer until its replacement exists and has the next number. A restart of
//! the controller loses no failure. Upstream: `indexed_job_utils.go`.
//!
//! The status has the failed indexes as text, and the annotations have the numbers for indexes that still go
//! on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{JobSpec, Pod};

use super::backoff::{finished_at, remaining};
use super::indexes::Indexes;
use super::pod_failure_policy::{self, Action};
use super::pods::{JobPod, has_failed};

/// Failures of one index before a pod, from the annotations of the pod. Both numbers together are the
/// exponent of the back-off; only `counted` is compared with the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Failures that count. Annotation `batch.kubernetes.io/job-index-failure-count`.
    pub(super) counted: i32,
    /// Failures that the failure policy ignored. Annotation
    /// `batch.kubernetes.io/job-index-ignored-failure-count`.
    pub(super) ignored: i32,
}

impl Failures {
    /// The failures before `pod`. A malformed annotation is absent in `Pod`, and counts as 0.
    fn before(pod: &Pod) -> Self {
        let details = pod.details();
        Self {
            counted: details.index_failures.unwrap_or(0),
            ignored: details.index_ignored_failures.unwrap_or(0),
        }
    }

    /// The failures before a replacement of `failed`. A first pod has none. Upstream:
    /// `getNewIndexFailureCounts`.
    pub(super) fn before_replacement_of(failed: Option<&JobPod>, spec: &JobSpec) -> Self {
        let Some(pod) = failed else {
            return Self::default();
        };
        let before = Self::before(pod);
        let is_counted = i32::from(pod_failure_policy::counts(spec, pod));
        Self {
            counted: before.counted.saturating_add(is_counted),
            ignored: before.ignored.saturating_add(1 - is_counted),
        }
    }

    /// Upstream: `getIndexAbsoluteFailureCount`.
    fn total(self) -> i32 {
        self.counted.saturating_add(self.ignored)
    }
}

/// Whether the failure of `pod` is the failure of its index, with at most `limit` failures per
/// index. Upstream: `isIndexFailed`.
///
/// The annotation has the failures before this pod. So a limit of 0 fails the index at its first failure, and
/// `>=` is right.
fn fails_its_index(spec: &JobSpec, limit: i32, pod: &Pod) -> bool {
    if !has_failed(pod, spec) {
        return false;
    }
    match pod_failure_policy::action(spec, pod) {
        // `FailIndex` ignores the limit. `FailJob` counts like any failure, if the Job has not ended by it.
        Some(Action::FailIndex) => true,
        Some(Action::Ignore) => false,
        _ => Failures::before(pod).counted >= limit,
    }
}

/// The failed indexes: those of the status, and those of pods that are not counted yet. Upstream:
/// `calculateFailedIndexes`. Indexes beyond `completions` are dropped, which happens after a user has lowered
/// them.
pub(super) fn failed_indexes(
    spec: &JobSpec,
    limit: i32,
    completions: i64,
    before: Option<&str>,
    pods: &[JobPod],
) -> Indexes {
    // `has_finalizer` rather than `is_tracked`: the index must not leave the set while the removal is in
    // flight.
    let uncounted = pods.iter().filter(|pod| pod.has_finalizer);
    let new: BTreeSet<i64> = uncounted
        .filter(|pod| fails_its_index(spec, limit, pod))
        .filter_map(|pod| pod.index_below(completions))
        .collect();
    Indexes::parse(before.unwrap_or_default(), completions).union(&Indexes::of(new))
}

/// The last failed pod of each index that needs a replacement. Such a pod keeps its finalizer.
/// `settled` are the indexes that succeeded, failed, or have an active pod. Upstream:
/// `getPodsWithDelayedDeletionPerIndex`.
///
/// Several failed pods of one index may exist. The one with most failures is the source of the next number.
pub(super) fn awaiting_replacement(
    spec: &JobSpec,
    completions: i64,
    settled: &Indexes,
    pods: &[JobPod],
) -> BTreeMap<i64, JobPod> {
    let mut last = BTreeMap::<i64, JobPod>::new();
    for pod in pods.iter().filter(|pod| pod.is_tracked) {
        let Some(index) = pod.index_below(completions) else {
            continue;
        };
        if !has_failed(pod, spec) || settled.contains(index) {
            continue;
        }
        // Both must hold. With equal numbers, the later pod in the list replaces the former one.
        let is_later = last.get(&index).is_none_or(|known| {
            Failures::before(known).total() <= Failures::before(pod).total()
                && finished_at(known) <= finished_at(pod)
        });
        if is_later {
            last.insert(index, pod.clone());
        }
    }
    last
}

/// The indexes after the end of their own back-off. Without any, the time until the first one may
/// get a pod.
///
/// The lowest indexes are chosen before their back-off counts. So waiting low indexes can block
/// higher ones, as in upstream's `getPodCreationInfoForIndependentIndexes`.
///
/// The error is a delay, and no failure.
pub(super) fn ready_indexes(
    indexes: Vec<i64>,
    awaiting: &BTreeMap<i64, JobPod>,
    now: Timestamp,
) -> Result<Vec<i64>, Duration> {
    let wait = |index: &i64| {
        awaiting.get(index).map_or(Duration::ZERO, |pod| {
            // The failure of the pod itself is one more than its annotation has.
            let failures = Failures::before(pod).total().saturating_add(1);
            remaining(failures.unsigned_abs(), finished_at(pod), now)
        })
    };
    let ready: Vec<i64> = indexes
        .iter()
        .copied()
        .filter(|index| wait(index).is_zero())
        .collect();
    if !ready.is_empty() {
        return Ok(ready);
    }
    // Without any index there is nothing to wait for, and nothing to create.
    indexes.iter().map(wait).min().map_or(Ok(ready), Err)
}

#[cfg(test)]
mod tests;
