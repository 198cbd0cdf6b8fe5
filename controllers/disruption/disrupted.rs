//! Pods with an accepted eviction, and the number of healthy pods.
//!
//! The API server adds an evicted pod to `status.disruptedPods` before it deletes the pod. The entry
//! covers the time until the cache shows the deletion: the pod no longer counts as healthy. If the
//! deletion does not follow within [`DELETION_TIMEOUT`], the entry goes and the pod counts again.
//!
//! Upstream: `buildDisruptedPodMap` and `countHealthyPods`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::Pod;

/// Time from an accepted eviction to the deletion of the pod.
///
/// Upstream: `DeletionTimeout`. The API server writes the time of the eviction, so its clock and the clock
/// here should roughly agree.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// The entries of `status.disruptedPods` by name of the pod, with the time of the eviction.
///
/// The names suffice, since all pods of a budget are in its namespace.
pub(super) type Evictions = BTreeMap<String, Timestamp>;

/// The review of `status.disruptedPods`.
///
/// Entries of pods that terminate go as well: their deletion is visible now, and they are no longer healthy.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// Entries that stay: their pods are not terminating yet.
    pub(super) pending: Evictions,
    /// Evicted pods that were not deleted in time. Their entries go.
    pub(super) overdue: Vec<Arc<Pod>>,
    /// The time of the next review; `None` without pending entries.
    pub(super) recheck: Option<Timestamp>,
}

/// Reviews the entries `known` of a budget that selects `pods`. Entries of other pods go.
///
/// Upstream: `buildDisruptedPodMap`, which records the Events for overdue pods itself. An entry of a pod that
/// left the budget goes at once.
pub(super) fn review(known: &Evictions, pods: &[Arc<Pod>], now: Timestamp) -> Review {
    let mut review = Review::default();
    if known.is_empty() {
        return review;
    }
    for pod in pods.iter().filter(|pod| !pod.meta.is_terminating()) {
        let Some((name, &at)) = known.get_key_value(&*pod.meta.name) else {
            continue;
        };
        // At the deadline itself the entry stays, while `healthy` already counts the pod again. Upstream has
        // both limits.
        let limit = deadline(at);
        if limit < now {
            review.overdue.push(Arc::clone(pod));
        } else {
            review.pending.insert(name.clone(), at);
            review.recheck = Some(review.recheck.map_or(limit, |other| other.min(limit)));
        }
    }
    review
}

/// The number of healthy pods. They are ready, and no eviction or deletion is under way. The phase
/// does not matter.
///
/// Upstream: `countHealthyPods`. A pod counts as soon as it is ready, since budgets know no
/// `minReadySeconds`.
pub(super) fn healthy(pods: &[Arc<Pod>], pending: &Evictions, now: Timestamp) -> i32 {
    let is_evicted = |pod: &Pod| {
        let at = pending.get(&*pod.meta.name);
        at.is_some_and(|&at| deadline(at) > now)
    };
    let healthy = pods
        .iter()
        .filter(|pod| pod.is_ready() && !pod.meta.is_terminating() && !is_evicted(pod));
    i32::try_from(healthy.count()).unwrap_or(i32::MAX)
}

/// The time at which an entry from `at` is overdue.
fn deadline(at: Timestamp) -> Timestamp {
    at.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods::pod;

    const NOW: i64 = 10_000;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn evictions(entries: &[(&str, i64)]) -> Evictions {
        entries
            .iter()
            .map(|&(name, at)| (name.to_owned(), second(at)))
            .collect()
    }

    /// Upstream: `TestUpdateDisruptedPods`.
    #[test]
    fn update_disrupted_pods() {
        let known = evictions(&[
            ("p1", NOW),
            ("p2", NOW - 180),
            ("p3", NOW - 60),
            ("notthere", NOW),
        ]);
        let pods = [
            pod("p1").ready_since(0).deleted(NOW).build(),
            pod("p2").ready_since(0).build(),
            pod("p3").ready_since(0).build(),
        ]
        .map(Arc::new);
        let review = review(&known, &pods, second(NOW));
        assert_eq!(review.pending, evictions(&[("p3", NOW - 60)]));
        let overdue: Vec<&str> = review.overdue.iter().map(|pod| &*pod.meta.name).collect();
        assert_eq!(overdue, ["p2"]);
        assert_eq!(review.recheck, Some(second(NOW + 60)));
        assert_eq!(healthy(&pods, &review.pending, second(NOW)), 1);
    }

    #[test]
    fn an_entry_goes_after_two_minutes_and_its_pod_counts_again() {
        let pods = [Arc::new(pod("a").ready_since(0).build())];
        let known = evictions(&[("a", NOW)]);
        // (seconds since the eviction, pending, healthy)
        let cases = [
            (0, true, 0),
            (119, true, 0),
            (120, true, 1),
            (121, false, 1),
        ];
        for (since, is_pending, count) in cases {
            let now = second(NOW + since);
            let review = review(&known, &pods, now);
            assert_eq!(!review.pending.is_empty(), is_pending, "{since}");
            assert_eq!(review.overdue.is_empty(), is_pending, "{since}");
            assert_eq!(review.recheck.is_some(), is_pending, "{since}");
            assert_eq!(healthy(&pods, &review.pending, now), count, "{since}");
        }
    }

    #[test]
    fn the_earliest_pending_entry_decides_about_the_next_review() {
        let pods = ["a", "b", "c"].map(|name| Arc::new(pod(name).build()));
        let known = evictions(&[("a", NOW), ("b", NOW - 30), ("c", NOW - 10)]);
        let review = review(&known, &pods, second(NOW));
        assert_eq!(review.recheck, Some(second(NOW + 90)));
        assert_eq!(review.pending.len(), 3);
    }

    #[test]
    fn only_ready_pods_that_stay_are_healthy() {
        // (why, pod, healthy)
        let cases = [
            ("ready", pod("a").ready_since(0), 1),
            (
                "ready, without a phase",
                pod("a").ready_since(0).phase(""),
                1,
            ),
            ("not ready", pod("a").not_ready(), 0),
            ("no conditions", pod("a"), 0),
            ("terminating", pod("a").ready_since(0).deleted(5), 0),
        ];
        for (why, pod, expected) in cases {
            let pods = [Arc::new(pod.build())];
            let count = healthy(&pods, &Evictions::default(), second(NOW));
            assert_eq!(count, expected, "{why}");
        }
    }
}
