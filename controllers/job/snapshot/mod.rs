//! The counts of one sync: a Job, its pods, and the pods that its status does not count yet.
//!
//! All decisions of a sync read the same snapshot, so they agree. Upstream: `syncJobCtx`. The status that it
//! reads is the newest one that this process knows: see `JobSyncer::newest`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use steersman_objects::{CompletionMode, Job, Uid};

use super::backoff::finished_at;
use super::indexes::Indexes;
use super::per_index;
use super::pod_failure_policy;
use super::pods::{JobPod, has_failed};

/// A Job and its pods at the start of a sync. It lasts for one sync, and borrows the Job.
pub(super) struct Snapshot<'a> {
    pub(super) job: &'a Job,
    /// All pods. Those of an Indexed Job are sorted by index.
    pub(super) pods: Vec<JobPod>,
    /// The active pods. Neither finished nor terminating.
    pub(super) active: Vec<JobPod>,
    /// Number of active pods that are ready. For `status.ready`.
    pub(super) ready: usize,
    /// Number of terminating pods that have not finished. They are no longer active, and not yet replaced
    /// under the policy `Failed`.
    pub(super) terminating: usize,
    /// Number of succeeded pods, or of succeeded indexes. It contains the counter of the status, its
    /// uncounted pods, and those that this sync finds. For an Indexed Job, it is the size of the set of
    /// indexes.
    pub(super) succeeded: i64,
    /// Number of failed pods that count. The same three parts as in `succeeded`. Failures that the policy
    /// ignores are left out.
    pub(super) failed: i64,
    /// End times of succeeded pods that the status does not count. They end a series of failures for the
    /// back-off.
    pub(super) new_successes: Vec<Timestamp>,
    /// End times of failed pods that the status does not count, ignored ones included. The back-off counts
    /// ignored failures, as upstream: see `Backoff`.
    pub(super) new_failures: Vec<Timestamp>,
    /// The indexes of an Indexed Job.
    pub(super) indexed: Option<Indexed>,
}

/// The indexes of an Indexed Job.
pub(super) struct Indexed {
    /// Number of indexes. `spec.completions`. Validation demands it for this mode.
    pub(super) completions: i64,
    /// Succeeded indexes according to the status. It tells new successes from old ones in `tracking.rs`.
    pub(super) completed_before: Indexes,
    /// Succeeded indexes, with those of pods that the status does not count. A success is never taken back,
    /// even if its pod is deleted.
    pub(super) succeeded: Indexes,
    /// Indexes of active pods. Indexes at or above `completions` may be among them.
    pub(super) active: Indexes,
    /// Set if the Job limits the failures of each index.
    pub(super) per_index: Option<PerIndex>,
}

/// Failures of single indexes. See `per_index/` for the reason of the annotations.
pub(super) struct PerIndex {
    /// Failed indexes. In the status as well as new.
    pub(super) failed: Indexes,
    /// The failed pods that wait for their replacement. By index, with one pod each.
    pub(super) awaiting: BTreeMap<i64, JobPod>,
}

impl<'a> Snapshot<'a> {
    /// Counts the `pods` of `job`.
    ///
    /// Upstream: the first half of `syncJob`, with `getNewFinishedPods` and `nonIgnoredFailedPodsCount`.
    pub(super) fn new(job: &'a Job, mut pods: Vec<JobPod>) -> Self {
        let completions = completions_of_indexed(job);
        // In the order of indexes, the first uncounted ones are the lowest. Their text is short.
        if completions.is_some() {
            pods.sort_by_key(|pod| pod.index());
        }
        let active: Vec<JobPod> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let uncounted = job.status.uncounted_terminated_pods.as_ref();
        let [known_succeeded, known_failed]: [HashSet<&Uid>; 2] = [
            uncounted.map_or(&[][..], |pods| &pods.succeeded),
            uncounted.map_or(&[][..], |pods| &pods.failed),
        ]
        .map(|uids| uids.iter().collect());
        // A pod is new if no part of the status has it: neither the list of UIDs nor, by the finalizer, the
        // counter.
        let new = |known: &HashSet<&Uid>, is_finished: &dyn Fn(&JobPod) -> bool| {
            let has_index = |pod: &JobPod| completions.is_none_or(|n| pod.index_below(n).is_some());
            let is_new =
                |pod: &&JobPod| pod.is_tracked && !known.contains(&pod.meta.uid) && has_index(pod);
            let new = pods.iter().filter(is_new).filter(|pod| is_finished(pod));
            new.cloned().collect::<Vec<JobPod>>()
        };
        let new_succeeded = new(&known_succeeded, &|pod| pod.has_succeeded());
        let new_failed = new(&known_failed, &|pod| has_failed(pod, &job.spec));
        // Ignored failures are left out of the counter, and stay in `new_failures`.
        let counted_failed = new_failed
            .iter()
            .filter(|pod| pod_failure_policy::counts(&job.spec, pod))
            .count();
        let indexed = completions.map(|completions| Indexed::new(job, completions, &pods, &active));
        let succeeded = match &indexed {
            // A set needs no counter, so uncounted pods cannot count twice.
            Some(indexes) => indexes.succeeded.len(),
            None => total(
                job.status.succeeded,
                new_succeeded.len(),
                known_succeeded.len(),
            ),
        };
        let ends = |pods: &[JobPod]| pods.iter().map(|pod| finished_at(pod)).collect();
        Self {
            job,
            ready: active.iter().filter(|pod| pod.is_ready()).count(),
            terminating: pods.iter().filter(|pod| pod.is_terminating()).count(),
            succeeded,
            failed: total(job.status.failed, counted_failed, known_failed.len()),
            new_successes: ends(&new_succeeded),
            new_failures: ends(&new_failed),
            indexed,
            active,
            pods,
        }
    }

    /// The completions of an Indexed Job.
    pub(super) fn completions(&self) -> Option<i64> {
        self.indexed.as_ref().map(|indexes| indexes.completions)
    }

    /// The indexes of terminating pods. Under the policy `Failed` they keep their indexes.
    pub(super) fn terminating_indexes(&self) -> Indexes {
        let terminating = self.pods.iter().filter(|pod| pod.is_terminating());
        let indexes: BTreeSet<i64> = terminating.filter_map(JobPod::index).collect();
        Indexes::of(indexes)
    }

    /// Takes over that no failed pod gets a replacement any more, because the namespace terminates
    /// and refuses new pods. A failed pod that waited for its replacement would keep its finalizer,
    /// and with it the namespace, for ever. Upstream lets it wait.
    pub(super) fn expect_no_replacements(&mut self) {
        let indexed = self.indexed.as_mut();
        if let Some(per_index) = indexed.and_then(|indexed| indexed.per_index.as_mut()) {
            per_index.awaiting.clear();
        }
    }

    /// Whether the status does not count all finished pods yet.
    ///
    /// Upstream needs no such function. Here it decides whether a sync must confirm its caches first.
    pub(super) fn has_uncounted(&self) -> bool {
        let is_uncounted =
            |pod: &JobPod| pod.is_tracked && (pod.is_finished() || has_failed(pod, &self.job.spec));
        let listed = self.job.status.uncounted_terminated_pods.as_ref();
        listed.is_some_and(|pods| !pods.succeeded.is_empty() || !pods.failed.is_empty())
            || self.pods.iter().any(is_uncounted)
    }
}

impl Indexed {
    fn new(job: &Job, completions: i64, pods: &[JobPod], active: &[JobPod]) -> Self {
        let completed_before = Indexes::parse(&job.status.completed_indexes, completions);
        // `has_finalizer` keeps an index in the set while the removal is in flight.
        let new: BTreeSet<i64> = pods
            .iter()
            .filter(|pod| pod.has_finalizer && pod.has_succeeded())
            .filter_map(|pod| pod.index_below(completions))
            .collect();
        let succeeded = completed_before.union(&Indexes::of(new));
        let active: BTreeSet<i64> = active.iter().filter_map(JobPod::index).collect();
        let active = Indexes::of(active);
        let spec = &job.spec;
        let per_index = spec.backoff_limit_per_index.map(|limit| {
            let before = job.status.failed_indexes.as_deref();
            let failed = per_index::failed_indexes(spec, limit, completions, before, pods);
            let settled = succeeded.union(&failed).union(&active);
            let awaiting = per_index::awaiting_replacement(spec, completions, &settled, pods);
            PerIndex { failed, awaiting }
        });
        Self {
            completions,
            completed_before,
            succeeded,
            active,
            per_index,
        }
    }
}

/// The number of indexes of an Indexed Job; `None` for other Jobs. Upstream: `isIndexedJob`. Missing
/// completions are none, so no pod is created.
fn completions_of_indexed(job: &Job) -> Option<i64> {
    let is_indexed = job.spec.completion_mode == CompletionMode::Indexed;
    is_indexed.then(|| job.spec.completions.unwrap_or(0).into())
}

/// A counter of the status with the pods that it does not contain yet. 64 bits, since a counter at its limit
/// plus new pods exceeds 32 bits.
fn total(counter: i32, new: usize, uncounted: usize) -> i64 {
    i64::from(counter) + i64::try_from(new + uncounted).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
