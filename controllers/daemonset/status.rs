//! The status of a DaemonSet: counters of nodes.
//!
//! Only pods on existing nodes count. Upstream: `updateDaemonSetStatus` and
//! `storeDaemonSetStatus` in `daemon_controller.go`.

use jiff::Timestamp;
use steersman_objects::{DaemonSet, DaemonSetStatus};

use super::layout::Layout;
use super::placement::Placement;
use super::updated::Current;

/// The counters of a status, in nodes.
///
/// `numberUnavailable` is no counter of its own, but the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) desired: i32,
    pub(super) scheduled: i32,
    pub(super) misscheduled: i32,
    pub(super) ready: i32,
    pub(super) updated: i32,
    pub(super) available: i32,
}

/// Counts the nodes of `layout`. On a node with several pods, the first one counts.
///
/// Upstream: `updateDaemonSetStatus`. The first one is a bound one if there is any, and the oldest of these.
/// Terminating pods count too, until they have finished.
pub(super) fn count(
    ds: &DaemonSet,
    layout: &Layout,
    current: &Current,
    now: Timestamp,
) -> Counters {
    let mut counters = Counters::default();
    for node in layout.nodes() {
        let first = node.pods().next();
        if node.placement != Some(Placement::Run) {
            counters.misscheduled += i32::from(first.is_some());
            continue;
        }
        counters.desired += 1;
        let Some(pod) = first else { continue };
        let is_available = pod.is_available(ds.spec.min_ready_seconds, now);
        counters.scheduled += 1;
        counters.ready += i32::from(pod.is_ready());
        counters.available += i32::from(is_available);
        counters.updated += i32::from(current.is_updated(pod));
    }
    counters
}

impl Counters {
    /// The counters of `status`.
    fn of(status: &DaemonSetStatus) -> Self {
        Self {
            desired: status.desired_number_scheduled,
            scheduled: status.current_number_scheduled,
            misscheduled: status.number_misscheduled,
            ready: status.number_ready,
            updated: status.updated_number_scheduled,
            available: status.number_available,
        }
    }

    /// Whether `status` lacks these counters, or observed an older generation than `observed`.
    ///
    /// Upstream's `storeDaemonSetStatus` compares the generation even if it may not write it, and then sends
    /// an equal status.
    pub(super) fn differ_from(self, status: &DaemonSetStatus, observed: Option<i64>) -> bool {
        Self::of(status) != self
            || status.number_unavailable != self.unavailable()
            || observed.is_some_and(|generation| status.observed_generation < generation)
    }

    /// `status` with these counters, and with `observed` as its generation if that is set.
    ///
    /// Conditions and the collision count stay as they are.
    pub(super) fn onto(self, status: &DaemonSetStatus, observed: Option<i64>) -> DaemonSetStatus {
        DaemonSetStatus {
            current_number_scheduled: self.scheduled,
            number_misscheduled: self.misscheduled,
            desired_number_scheduled: self.desired,
            number_ready: self.ready,
            updated_number_scheduled: self.updated,
            number_available: self.available,
            number_unavailable: self.unavailable(),
            observed_generation: observed.unwrap_or(status.observed_generation),
            ..status.clone()
        }
    }

    /// Nodes that should run an available pod and lack it.
    fn unavailable(self) -> i32 {
        self.desired - self.available
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use steersman_helpers::history::REVISION_LABEL;
    use steersman_helpers::scheduling::Comparisons;

    use super::*;
    use crate::testing::daemon_set;
    use crate::testing::pods::{node, pod};

    const NOW: i64 = 1_800_000_000;

    fn counted(min_ready_seconds: i32) -> Counters {
        let ds = daemon_set("foo")
            .spec("minReadySeconds", min_ready_seconds)
            .build();
        let taint: &[_] = &[("dedicated", "NoSchedule")];
        let nodes = [
            ("a", &[][..]),
            ("b", &[]),
            ("c", taint),
            ("d", taint),
            ("e", &[]),
        ];
        let nodes = nodes.map(|(name, taints)| Arc::new(node(name, true, taints)));
        let new = json!({REVISION_LABEL: "new"});
        let pods = [
            pod("a-old").node("a").ready_since(NOW - 100),
            pod("a-new").node("a").labels(new.clone()).created(50),
            pod("b-new").node("b").labels(new).ready_since(NOW - 5),
            pod("d").node("d").ready_since(NOW - 100),
            pod("missing").node("x").ready_since(NOW - 100),
        ];
        let pods = pods.map(|pod| Arc::new(pod.build()));
        let layout = Layout::new(
            &ds.spec.constraints,
            Comparisons::Disabled,
            nodes.to_vec(),
            &pods,
        );
        let current = Current::new(&ds, "new".to_owned());
        count(&ds, &layout, &current, Timestamp::from_second(NOW).unwrap())
    }

    #[test]
    fn counters_count_nodes_by_their_first_pod() {
        let expected = Counters {
            desired: 3,
            scheduled: 2,
            misscheduled: 1,
            ready: 2,
            updated: 1,
            available: 2,
        };
        assert_eq!(counted(0), expected);
        let waiting = Counters {
            available: 1,
            ..expected
        };
        assert_eq!(counted(10), waiting, "ready for 5 of 10 seconds");
    }

    #[test]
    fn a_status_is_written_only_if_it_differs() {
        let counters = counted(0);
        let mut status = counters.onto(&DaemonSetStatus::default(), Some(2));
        status.collision_count = Some(1);
        assert_eq!(status.number_unavailable, 1);
        assert!(!counters.differ_from(&status, Some(2)), "equal");
        assert!(!counters.differ_from(&status, None), "equal");
        assert!(counters.differ_from(&status, Some(3)), "a new generation");
        assert!(counted(10).differ_from(&status, None), "other counters");
        let next = counted(10).onto(&status, None);
        assert_eq!(
            (next.observed_generation, next.collision_count),
            (2, Some(1))
        );
    }
}
