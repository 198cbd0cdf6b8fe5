//! Finished pods beyond `--terminated-pod-gc-threshold`.
//!
//! Upstream: `gcTerminated` in `gc_controller.go`.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_objects::{Phase, Pod};

/// The finished pods beyond the threshold, in the order of their removal. The result is empty if
/// `threshold` is 0 or negative.
pub(super) fn surplus(pods: &[Arc<Pod>], threshold: i64) -> Vec<Arc<Pod>> {
    let Some(threshold) = usize::try_from(threshold).ok().filter(|n| *n > 0) else {
        return Vec::new();
    };
    let mut finished: Vec<Arc<Pod>> = pods
        .iter()
        .filter(|pod| is_finished(pod))
        .cloned()
        .collect();
    let surplus = finished.len().saturating_sub(threshold);
    if surplus == 0 {
        return Vec::new();
    }
    finished.sort_by(|a, b| deletion_order(a, b));
    finished.truncate(surplus);
    finished
}

/// Whether the phase is none of the three phases of an unfinished pod. An empty phase thus counts
/// as finished, as in upstream's `isPodTerminated`.
fn is_finished(pod: &Pod) -> bool {
    !matches!(pod.phase, Phase::Pending | Phase::Running | Phase::Unknown)
}

/// Sorts evicted pods first, then older pods, then by name. Upstream:
/// `byEvictionAndCreationTimestamp`.
pub(super) fn deletion_order(a: &Pod, b: &Pod) -> Ordering {
    let evicted =
        |pod: &Pod| pod.phase == Phase::Failed && pod.reason.as_deref() == Some("Evicted");
    evicted(b)
        .cmp(&evicted(a))
        .then_with(|| a.meta.created.cmp(&b.meta.created))
        .then_with(|| a.meta.name.cmp(&b.meta.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods::pod;

    #[test]
    fn gc_terminated() {
        // (why, (name, phase, evicted) in order of creation, threshold, deleted)
        type Pods = &'static [(&'static str, &'static str, bool)];
        let failed_succeeded_failed: Pods = &[
            ("a", "Failed", false),
            ("b", "Succeeded", false),
            ("c", "Failed", false),
        ];
        let two: Pods = &[("a", "Failed", false), ("b", "Succeeded", false)];
        let cases: [(&str, Pods, i64, &[&str]); 11] = [
            (
                "delete pod a which is PodFailed and pod b which is PodSucceeded",
                failed_succeeded_failed,
                1,
                &["a", "b"],
            ),
            (
                "threshold = 0, disables terminated pod deletion",
                two,
                0,
                &[],
            ),
            ("a negative threshold disables it too", two, -1, &[]),
            (
                "threshold = 1, delete pod b which is PodSucceeded",
                &[
                    ("a", "Running", false),
                    ("b", "Succeeded", false),
                    ("c", "Failed", false),
                ],
                1,
                &["b"],
            ),
            (
                "threshold = 1, delete pod a which is PodFailed",
                two,
                1,
                &["a"],
            ),
            ("threshold = 5, don't delete pod", two, 5, &[]),
            ("as many as the threshold", two, 2, &[]),
            (
                "an evicted pod is removed first",
                &[
                    ("a", "Failed", false),
                    ("b", "Succeeded", false),
                    ("c", "Failed", true),
                ],
                1,
                &["c", "a"],
            ),
            (
                "only the evicted pod is removed",
                &[
                    ("a", "Running", false),
                    ("b", "Succeeded", false),
                    ("c", "Failed", true),
                ],
                1,
                &["c"],
            ),
            (
                "five pods, three may stay",
                &[
                    ("p0", "Succeeded", false),
                    ("p1", "Failed", false),
                    ("p2", "Failed", true),
                    ("p3", "Succeeded", false),
                    ("p4", "Failed", false),
                ],
                3,
                &["p2", "p0"],
            ),
            (
                "an empty phase counts as finished, Unknown and Pending do not",
                &[
                    ("a", "", false),
                    ("b", "Unknown", false),
                    ("c", "Pending", false),
                    ("d", "Failed", false),
                ],
                1,
                &["a"],
            ),
        ];
        for (why, pods, threshold, expected) in cases {
            let mut built: Vec<Arc<Pod>> = pods
                .iter()
                .zip(1..)
                .map(|((name, phase, evicted), hour)| {
                    let built = pod(name).phase(phase).created(hour * 3600);
                    Arc::new(
                        if *evicted {
                            built.status("reason", "Evicted")
                        } else {
                            built
                        }
                        .build(),
                    )
                })
                .collect();
            built.reverse();
            let found = surplus(&built, threshold);
            assert_eq!(
                found.iter().map(|pod| &*pod.meta.name).collect::<Vec<_>>(),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn pods_of_the_same_age_are_ordered_by_name() {
        let pods: Vec<Arc<Pod>> = ["b", "c", "a"]
            .iter()
            .map(|name| Arc::new(pod(name).phase("Failed").build()))
            .collect();
        assert_eq!(
            surplus(&pods, 1)
                .iter()
                .map(|pod| &*pod.meta.name)
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
    }
}
