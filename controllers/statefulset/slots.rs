//! The pods of a set by ordinal: one slot for each pod that the spec asks for, and the condemned
//! pods, which a scale-down removes.
//!
//! Slots without a pod are computed on demand. A set with an absurd number of replicas therefore
//! costs no memory. Upstream: the first half of `updateStatefulSet`.
//!
//! A pod without an ordinal is in neither part, and the set leaves it alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{Pod, StatefulSet, UpdateStrategy};

use super::identity::{ordinal, ordinals};

/// The revision from which a new pod is made. The strategy decides, and not the pods: see `Slots::side`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The revision before the roll-out.
    Current,
    /// The revision of the set's template.
    Update,
}

/// The place of one ordinal. Each has exactly one.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// The pod with this ordinal. In any state, also if it terminates or has ended.
    Pod(Arc<Pod>),
    /// There is no pod.
    Empty {
        /// The ordinal.
        ordinal: i64,
        /// The revision of the pod that belongs here.
        side: Side,
    },
}

impl Slot {
    pub(super) fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Pod(pod) => Some(pod),
            Self::Empty { .. } => None,
        }
    }

    /// Whether the pod is missing, terminating, or not available for `min_ready_seconds`.
    ///
    /// Upstream: `isUnavailable`. A missing pod counts as unavailable.
    pub(super) fn is_unavailable(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let Some(pod) = self.pod() else {
            return true;
        };
        is_unavailable(pod, min_ready_seconds, now)
    }
}

/// Whether `pod` is terminating, or not available for `min_ready_seconds`.
pub(super) fn is_unavailable(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    pod.meta.is_terminating() || !pod.is_available(min_ready_seconds, now)
}

/// The pods of a set in their places. Its ordinals are the wanted ones, from the start ordinal on.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    set: &'a StatefulSet,
    ordinals: Range<i64>,
    /// By ordinal, at most one pod each.
    pods: BTreeMap<i64, Arc<Pod>>,
    /// The pods with other ordinals, highest first.
    pub(super) condemned: Vec<Arc<Pod>>,
}

impl<'a> Slots<'a> {
    /// Sorts `pods`, the claimed pods of `set`. Pods without an ordinal are left out.
    ///
    /// Of two pods with the same ordinal, such as `web-1` and `web-01`, the name that sorts last
    /// wins, which is the right name. Upstream takes any.
    pub(super) fn new(set: &'a StatefulSet, pods: &[Arc<Pod>]) -> Self {
        let ordinals = ordinals(set);
        let mut sorted: Vec<(i64, &Arc<Pod>)> = pods
            .iter()
            .filter_map(|pod| Some((ordinal(&pod.meta.name)?, pod)))
            .collect();
        sorted.sort_by(|(_, a), (_, b)| a.meta.name.cmp(&b.meta.name));
        let (inside, mut condemned): (Vec<_>, Vec<_>) = sorted
            .into_iter()
            .partition(|(ordinal, _)| ordinals.contains(ordinal));
        // The order of deletions.
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Self {
            set,
            pods: inside
                .into_iter()
                .map(|(ordinal, pod)| (ordinal, Arc::clone(pod)))
                .collect(),
            condemned: condemned
                .into_iter()
                .map(|(_, pod)| Arc::clone(pod))
                .collect(),
            ordinals,
        }
    }

    /// The slots in ascending order. Both ends are cheap, since nothing is computed ahead.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Slot> + Clone + '_ {
        self.ordinals.clone().map(|ordinal| self.at(ordinal))
    }

    /// The slots with an index of at least `partition`, in descending order. Index 0 is the slot
    /// of the start ordinal.
    ///
    /// A partition beyond the last slot gives none, and then nothing is updated.
    pub(super) fn down_to(&self, partition: i32) -> impl Iterator<Item = Slot> + '_ {
        let first = self.ordinals.start + i64::from(partition);
        (first..self.ordinals.end)
            .rev()
            .map(|ordinal| self.at(ordinal))
    }

    /// The number of slots.
    pub(super) fn len(&self) -> i64 {
        self.ordinals.end - self.ordinals.start
    }

    /// All pods in a slot, and the condemned ones. For the status, which counts both.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().chain(&self.condemned)
    }

    /// The pods in slots.
    pub(super) fn occupied(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// The condemned pod that is unavailable and has the lowest ordinal, if all slots have
    /// available pods. Ordered deletion waits for all other unavailable pods. Pods are available after `seconds` of
    /// readiness.
    ///
    /// Upstream: `firstUnavailablePod` in `updateStatefulSet`, as far as condemned pods need it.
    pub(super) fn first_unavailable_condemned(
        &self,
        seconds: i32,
        now: Timestamp,
    ) -> Option<&Arc<Pod>> {
        if self.iter().any(|slot| slot.is_unavailable(seconds, now)) {
            return None;
        }
        let mut ascending = self.condemned.iter().rev();
        ascending.find(|pod| is_unavailable(pod, seconds, now))
    }

    fn at(&self, ordinal: i64) -> Slot {
        match self.pods.get(&ordinal) {
            Some(pod) => Slot::Pod(Arc::clone(pod)),
            None => Slot::Empty {
                ordinal,
                side: self.side(ordinal),
            },
        }
    }

    /// The revision of a new pod with this ordinal. Upstream: `newVersionedStatefulSetPod`.
    ///
    /// With a partition, the ordinal alone decides. Without one, the count of pods at the current revision
    /// decides, so a pod that dies during an update keeps its revision.
    fn side(&self, ordinal: i64) -> Side {
        let current = match self.set.spec.update_strategy {
            UpdateStrategy::RollingUpdate {
                partition: None, ..
            } => self.set.status.current_replicas,
            UpdateStrategy::RollingUpdate {
                partition: Some(partition),
                ..
            } => partition,
            // Upstream's condition looks at the field `rollingUpdate` before the strategy, through the
            // precedence of `&&`.
            UpdateStrategy::Other { partition } => partition.unwrap_or(0),
            UpdateStrategy::OnDelete | UpdateStrategy::Recreate => 0,
        };
        if ordinal < self.ordinals.start + i64::from(current) {
            Side::Current
        } else {
            Side::Update
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::StatefulSetBuilder;
    use crate::testing::pods::pod;
    use crate::testing::stateful_set;

    fn pods(names: &[&str]) -> Vec<Arc<Pod>> {
        names
            .iter()
            .map(|name| Arc::new(pod(name).build()))
            .collect()
    }

    fn names<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<&'a str> {
        pods.map(|pod| &*pod.meta.name).collect()
    }

    #[test]
    fn pods_are_sorted_into_slots_and_condemned_pods() {
        // (why, set, pods, occupied, empty ordinals, condemned)
        let set = |replicas| stateful_set("web").replicas(replicas);
        let from_two = || set(2).spec("ordinals", json!({"start": 2}));
        let cases: [(&str, StatefulSetBuilder, &[&str], &[&str], &[i64], &[&str]); 6] = [
            ("no pods", set(2), &[], &[], &[0, 1], &[]),
            (
                "all",
                set(2),
                &["web-1", "web-0"],
                &["web-0", "web-1"],
                &[],
                &[],
            ),
            (
                "too many",
                set(1),
                &["web-2", "web-10", "web-0"],
                &["web-0"],
                &[],
                &["web-10", "web-2"],
            ),
            (
                "a start ordinal",
                from_two(),
                &["web-0", "web-3", "web-4"],
                &["web-3"],
                &[2],
                &["web-4", "web-0"],
            ),
            (
                "no ordinal",
                set(1),
                &["web-x", "web-99999999999"],
                &[],
                &[0],
                &[],
            ),
            (
                "the same ordinal",
                set(2),
                &["web-1", "web-01"],
                &["web-1"],
                &[0],
                &[],
            ),
        ];
        for (why, set, given, occupied, empty, condemned) in cases {
            let set = set.build();
            let slots = Slots::new(&set, &pods(given));
            assert_eq!(names(slots.occupied()), occupied, "{why}");
            assert_eq!(names(slots.condemned.iter()), condemned, "{why}");
            let found: Vec<i64> = slots
                .iter()
                .filter_map(|slot| match slot {
                    Slot::Empty { ordinal, .. } => Some(ordinal),
                    Slot::Pod(_) => None,
                })
                .collect();
            assert_eq!(found, empty, "{why}");
        }
    }

    #[test]
    fn new_pods_below_the_partition_have_the_current_revision() {
        use Side::{Current, Update};
        let set = || stateful_set("web").replicas(3);
        let rolling = |partition| {
            set().update_strategy(
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}),
            )
        };
        // (why, set, revisions)
        let cases = [
            ("partition 0", rolling(0), [Update, Update, Update]),
            ("partition 2", rolling(2), [Current, Current, Update]),
            (
                "partition beyond the end",
                rolling(9),
                [Current, Current, Current],
            ),
            (
                "a start ordinal",
                rolling(1).spec("ordinals", json!({"start": 5})),
                [Current, Update, Update],
            ),
            (
                "no parameters",
                set()
                    .update_strategy(json!({"type": "RollingUpdate"}))
                    .status("currentReplicas", 2),
                [Current, Current, Update],
            ),
            (
                "OnDelete",
                set()
                    .update_strategy(json!({"type": "OnDelete"}))
                    .status("currentReplicas", 2),
                [Update, Update, Update],
            ),
            (
                "Recreate",
                set()
                    .update_strategy(json!({"type": "Recreate"}))
                    .status("currentReplicas", 2),
                [Update, Update, Update],
            ),
        ];
        for (why, set, expected) in cases {
            let set = set.build();
            let slots = Slots::new(&set, &[]);
            let found: Vec<Side> = slots
                .iter()
                .filter_map(|slot| match slot {
                    Slot::Empty { side, .. } => Some(side),
                    Slot::Pod(_) => None,
                })
                .collect();
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn an_absurd_number_of_replicas_costs_nothing() {
        let set = stateful_set("web")
            .replicas(i32::MAX)
            .spec("ordinals", json!({"start": i32::MAX}));
        let set = set.build();
        let slots = Slots::new(&set, &pods(&["web-0"]));
        assert_eq!(slots.len(), i64::from(i32::MAX));
        assert!(
            slots
                .first_unavailable_condemned(0, Timestamp::UNIX_EPOCH)
                .is_none()
        );
        let last = slots.down_to(0).next().unwrap();
        assert!(last.pod().is_none());
    }
}
