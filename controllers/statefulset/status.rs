//! The status of a set: its counters, and the end of a roll-out.
//!
//! Upstream: `updateStatus` in `stateful_set_control.go`, `completeRollingUpdate` and
//! `inconsistentStatus` in `stateful_set_utils.go`.
//!
//! Counters come from the pods at the start of the sync. The events of the writes lead to the next status.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::{Phase, Pod, StatefulSet, StatefulSetStatus, UpdateStrategy};
use steersman_releases::Release;
use steersman_values::intern::Sym;

/// The name of the revision from which `pod` was made; empty without the label. Upstream: `getPodRevision`.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.meta.labels.get(REVISION_LABEL).map_or("", Sym::as_str)
}

/// The names of the two revisions of a set, and its count of name collisions. They come from the sync, since
/// the status may name a revision that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) current: String,
    pub(super) update: String,
    pub(super) collision_count: i32,
}

/// The status of `set` with these pods at the time `now`.
///
/// Upstream: `computeReplicaStatus`. Terminating pods count as replicas, and as ready ones, but belong to no
/// revision any more.
pub(super) fn compute<'a>(
    set: &StatefulSet,
    names: &Names,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    now: Timestamp,
) -> StatefulSetStatus {
    let mut status = StatefulSetStatus {
        observed_generation: set.meta.generation,
        current_revision: names.current.clone(),
        update_revision: names.update.clone(),
        collision_count: Some(names.collision_count),
        ..StatefulSetStatus::default()
    };
    for pod in pods {
        status.replicas += 1;
        if is_running_and_ready(pod) {
            status.ready_replicas += 1;
            status.available_replicas +=
                i32::from(pod.is_available(set.spec.min_ready_seconds, now));
        }
        if !pod.meta.is_terminating() {
            status.current_replicas += i32::from(revision(pod) == names.current);
            status.updated_replicas += i32::from(revision(pod) == names.update);
        }
    }
    status
}

/// Counts `deleted` pods down that a rolling update has deleted, before their events come.
///
/// Upstream counts below zero if only pods of a third revision are left, and the API server then
/// refuses the status.
pub(super) fn count_deleted(status: &mut StatefulSetStatus, deleted: usize) {
    let deleted = i32::try_from(deleted).unwrap_or(i32::MAX);
    status.current_replicas = status.current_replicas.saturating_sub(deleted).max(0);
}

/// Ends the roll-out if all pods are ready and have the update revision. Up to 1.36, sets with another strategy
/// keep their current revision.
///
/// Upstream: `completeRollingUpdate`. Availability does not count, as upstream: ready pods are enough.
pub(super) fn complete(set: &StatefulSet, status: &mut StatefulSetStatus, release: Release) {
    let is_rolling = matches!(
        set.spec.update_strategy,
        UpdateStrategy::RollingUpdate { .. }
    );
    let may_complete = is_rolling || release.completes_updates_by_users();
    let wanted = set.spec.replicas;
    let counters = [
        status.replicas,
        status.ready_replicas,
        status.updated_replicas,
    ];
    if may_complete && counters == [wanted; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// Adopts the conditions of the `served` status. Up to 1.36, a write of the status removes them.
///
/// Upstream: `updateStatefulSet` in `stateful_set_control.go`.
pub(super) fn keep_conditions(
    status: &mut StatefulSetStatus,
    served: &StatefulSetStatus,
    release: Release,
) {
    if release.keeps_conditions_of_stateful_sets() {
        status.conditions.clone_from(&served.conditions);
    }
}

/// Whether `new` has to be written over `served`.
///
/// Upstream: `inconsistentStatus`. The collision count and conditions alone are no reason to write, and
/// `observedGeneration` never goes back.
pub(super) fn needs_write(served: &StatefulSetStatus, new: &StatefulSetStatus) -> bool {
    let compared = |status: &StatefulSetStatus| StatefulSetStatus {
        observed_generation: 0,
        collision_count: None,
        conditions: Vec::new(),
        ..status.clone()
    };
    new.observed_generation > served.observed_generation || compared(new) != compared(served)
}

/// Whether the pod runs and is ready. A terminating pod can be both. Upstream: `isRunningAndReady`.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.phase == Phase::Running && pod.is_ready()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::stateful_set;

    const NOW: i64 = 1_800_000_000;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    fn names() -> Names {
        Names {
            current: "web-1".to_owned(),
            update: "web-2".to_owned(),
            collision_count: 0,
        }
    }

    fn of(revision: &str) -> PodBuilder {
        pod("web-0")
            .labels(json!({ REVISION_LABEL: revision }))
            .phase("Running")
    }

    /// The five counters: replicas, ready, available, current, updated.
    fn counters(status: &StatefulSetStatus) -> [i32; 5] {
        [
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
            status.current_replicas,
            status.updated_replicas,
        ]
    }

    #[test]
    fn each_counter_counts_its_pods() {
        let set = stateful_set("web").spec("minReadySeconds", 10).build();
        // (why, pod, counters)
        let cases = [
            ("pending", of("web-1").phase("Pending"), [1, 0, 0, 1, 0]),
            ("running", of("web-1").not_ready(), [1, 0, 0, 1, 0]),
            ("ready", of("web-1").ready_since(NOW - 9), [1, 1, 0, 1, 0]),
            (
                "available",
                of("web-1").ready_since(NOW - 10),
                [1, 1, 1, 1, 0],
            ),
            ("updated", of("web-2").ready_since(0), [1, 1, 1, 0, 1]),
            (
                "third revision",
                of("web-0").ready_since(0),
                [1, 1, 1, 0, 0],
            ),
            (
                "terminating",
                of("web-1").ready_since(0).deleted(1),
                [1, 1, 1, 0, 0],
            ),
            (
                "failed",
                of("web-1").phase("Failed").ready_since(0),
                [1, 0, 0, 1, 0],
            ),
            ("no label", pod("web-0").ready_since(0), [1, 1, 1, 0, 0]),
        ];
        for (why, pod, expected) in cases {
            let pods = [Arc::new(pod.build())];
            let status = compute(&set, &names(), pods.iter(), now());
            assert_eq!(counters(&status), expected, "{why}");
        }
        let same = Names {
            update: "web-1".to_owned(),
            ..names()
        };
        let pods = [Arc::new(of("web-1").build())];
        let status = compute(&set, &same, pods.iter(), now());
        assert_eq!(counters(&status), [1, 0, 0, 1, 1], "one revision");
    }

    #[test]
    fn deleted_pods_are_counted_down_to_zero() {
        for (before, deleted, expected) in [(3, 1, 2), (3, 3, 0), (0, 1, 0)] {
            let mut status = StatefulSetStatus {
                current_replicas: before,
                ..StatefulSetStatus::default()
            };
            count_deleted(&mut status, deleted);
            assert_eq!(status.current_replicas, expected);
        }
    }

    #[test]
    fn a_roll_out_ends_when_all_pods_are_updated_and_ready() {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        // (why, strategy, replicas, ready, updated, complete)
        let cases = [
            ("all", rolling.clone(), 3, 3, 3, true),
            (
                "without parameters",
                json!({"type": "RollingUpdate"}),
                3,
                3,
                3,
                true,
            ),
            ("OnDelete", json!({"type": "OnDelete"}), 3, 3, 3, false),
            ("one is not ready", rolling.clone(), 3, 2, 3, false),
            ("one is not updated", rolling.clone(), 3, 3, 2, false),
            ("one too many", rolling, 4, 3, 3, false),
        ];
        for (why, strategy, replicas, ready, updated, expected) in cases {
            let set = stateful_set("web")
                .replicas(3)
                .update_strategy(strategy)
                .build();
            let mut status = StatefulSetStatus {
                replicas,
                ready_replicas: ready,
                updated_replicas: updated,
                current_revision: "web-1".to_owned(),
                update_revision: "web-2".to_owned(),
                ..StatefulSetStatus::default()
            };
            complete(&set, &mut status, Release::DEFAULT);
            let is_complete = (status.current_replicas, &*status.current_revision) == (3, "web-2");
            assert_eq!(is_complete, expected, "{why}");
        }
    }

    #[test]
    fn newer_releases_complete_an_update_by_the_user() {
        // (minor release, current revision)
        for (minor, expected) in [(36, "web-1"), (37, "web-2")] {
            let set = stateful_set("web")
                .replicas(1)
                .update_strategy(json!({"type": "OnDelete"}))
                .build();
            let mut status = StatefulSetStatus {
                replicas: 1,
                ready_replicas: 1,
                updated_replicas: 1,
                current_revision: "web-1".to_owned(),
                update_revision: "web-2".to_owned(),
                ..StatefulSetStatus::default()
            };
            complete(&set, &mut status, Release::of_minor(minor));
            assert_eq!(status.current_revision, expected, "1.{minor}");
        }
    }

    #[test]
    fn newer_releases_keep_the_conditions_of_other_clients() {
        let foreign = json!([{"type": "Checked", "status": "True"}]);
        let served: StatefulSetStatus =
            serde_json::from_value(json!({"conditions": foreign})).unwrap();
        // (minor release, conditions)
        for (minor, expected) in [(36, &[][..]), (37, &served.conditions)] {
            let mut status = StatefulSetStatus::default();
            keep_conditions(&mut status, &served, Release::of_minor(minor));
            assert_eq!(status.conditions, expected, "1.{minor}");
        }
    }

    #[test]
    fn a_status_is_written_if_a_compared_field_changed() {
        let with = |field: &str, value: Value| {
            let mut json = json!({"replicas": 3, "observedGeneration": 2, "availableReplicas": 0});
            json[field] = value;
            serde_json::from_value::<StatefulSetStatus>(json).unwrap()
        };
        // (field, value, written)
        let cases = [
            ("replicas", json!(3), false),
            ("observedGeneration", json!(1), false),
            ("collisionCount", json!(5), false),
            ("conditions", json!([{"type": "Checked"}]), false),
            ("observedGeneration", json!(3), true),
            ("replicas", json!(2), true),
            ("readyReplicas", json!(1), true),
            ("currentReplicas", json!(1), true),
            ("updatedReplicas", json!(1), true),
            ("availableReplicas", json!(1), true),
            ("currentRevision", json!("a"), true),
            ("updateRevision", json!("a"), true),
        ];
        let served = with("replicas", json!(3));
        for (field, value, expected) in cases {
            let new = with(field, value.clone());
            assert_eq!(needs_write(&served, &new), expected, "{field}: {value}");
        }
    }
}
