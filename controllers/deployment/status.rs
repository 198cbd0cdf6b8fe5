//! The status of a Deployment: sums over its ReplicaSets, and the condition `Available`.
//!
//! Upstream: `calculateStatus` in `sync.go`.
//!
//! Pods are never counted here: the ReplicaSet controller reports them, so the sums are as old as its last
//! status.

use jiff::Timestamp;
use steersman_objects::{Deployment, DeploymentStatus, ReplicaSet};

use super::conditions::{self, AVAILABLE, FALSE, TRUE, condition, reason};
use super::limits;
use super::replica_sets::{ReplicaSets, sum};

/// The status of `d` without progress and failures, which `progress.rs` adds during rollouts.
///
/// Available pods of all ReplicaSets count for `Available`, those of the old ones too.
pub(super) fn compute(d: &Deployment, sets: &ReplicaSets, now: Timestamp) -> DeploymentStatus {
    let available = sum(sets.all(), |rs| rs.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: d.meta.generation,
        replicas: sum(sets.all(), |rs| rs.status.replicas),
        updated_replicas: sum(&sets.new, |rs| rs.status.replicas),
        ready_replicas: sum(sets.all(), |rs| rs.status.ready_replicas),
        available_replicas: available,
        // During a scale-down more pods are available than desired; the API allows no negative
        // number.
        unavailable_replicas: sets.size().saturating_sub(available).max(0),
        terminating_replicas: terminating(sets),
        conditions: d.status.conditions.clone(),
        collision_count: d.status.collision_count,
        extra: d.status.extra.clone(),
    };
    let (value, why, message) = if available >= limits::min_available(d) {
        (
            TRUE,
            reason::MINIMUM_REPLICAS_AVAILABLE,
            "Deployment has minimum availability.",
        )
    } else {
        (
            FALSE,
            reason::MINIMUM_REPLICAS_UNAVAILABLE,
            "Deployment does not have minimum availability.",
        )
    };
    conditions::set(
        &mut status.conditions,
        condition(AVAILABLE, value, why, message, now),
    );
    status
}

/// The terminating pods of all ReplicaSets. A ReplicaSet without a written status has 0. A
/// written status without the field makes the sum unknown (`None`). Upstream:
/// `GetTerminatingReplicaCountForReplicaSets`.
fn terminating(sets: &ReplicaSets) -> Option<i32> {
    let count = |rs: &ReplicaSet| match rs.status.terminating_replicas {
        None if rs.status.observed_generation == 0 => Some(0),
        known => known,
    };
    sets.all()
        .map(|rs| count(rs))
        .try_fold(0i32, |total, count| Some(total.saturating_add(count?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ReplicaSetBuilder, deployment, replica_set};
    use serde_json::Value;
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn sets(new: Option<ReplicaSetBuilder>, old: Vec<ReplicaSetBuilder>) -> ReplicaSets {
        ReplicaSets {
            new: new.map(|rs| Arc::new(rs.build())),
            old: old.into_iter().map(|rs| Arc::new(rs.build())).collect(),
        }
    }

    #[test]
    fn test_get_replica_count_for_replica_sets() {
        let rs1 = || {
            replica_set("rs1")
                .replicas(1)
                .pods(2, 0)
                .status("terminatingReplicas", 3)
        };
        let rs2 = || {
            replica_set("rs2")
                .replicas(2)
                .pods(3, 0)
                .status("terminatingReplicas", 1)
        };
        let unsynced = || {
            replica_set("unsynced-rs")
                .replicas(3)
                .status("observedGeneration", 0)
                .status("terminatingReplicas", Value::Null)
        };
        let dropped = || {
            replica_set("dropped-rs")
                .replicas(1)
                .pods(1, 0)
                .status("terminatingReplicas", Value::Null)
        };
        // (name, sets, size, actual, terminating)
        let cases = [
            ("scaling down rs1", vec![rs1()], 1, 2, Some(3)),
            (
                "scaling down rs1 and rs2",
                vec![rs1(), rs2()],
                3,
                5,
                Some(4),
            ),
            ("scaling up rs3", vec![unsynced()], 3, 0, Some(0)),
            (
                "scaling down rs1 and rs2 and scaling up rs3",
                vec![rs1(), rs2(), unsynced()],
                6,
                5,
                Some(4),
            ),
            (
                "invalid/unknown terminating status for rs4",
                vec![dropped()],
                1,
                1,
                None,
            ),
            (
                "invalid/unknown terminating status for rs4 with rs1, rs2 and rs3",
                vec![rs1(), rs2(), unsynced(), dropped()],
                7,
                6,
                None,
            ),
            ("none at all", vec![], 0, 0, Some(0)),
        ];
        for (name, old, size, actual, terminating) in cases {
            let sets = sets(None, old);
            let status = compute(&deployment("web").build(), &sets, NOW);
            assert_eq!(sets.size(), size, "{name}");
            assert_eq!(
                (
                    status.replicas,
                    status.updated_replicas,
                    status.terminating_replicas
                ),
                (actual, 0, terminating),
                "{name}"
            );
        }
    }

    #[test]
    fn counters_add_up_old_and_new() {
        let d = deployment("web")
            .replicas(4)
            .metadata("generation", 7)
            .status("collisionCount", 2)
            .build();
        let sets = sets(
            Some(replica_set("new").replicas(3).pods(3, 1)),
            vec![replica_set("old").replicas(2).pods(2, 2)],
        );
        let status = compute(&d, &sets, NOW);
        assert_eq!(status.observed_generation, 7);
        assert_eq!((status.replicas, status.updated_replicas), (5, 3));
        assert_eq!(
            (
                status.ready_replicas,
                status.available_replicas,
                status.unavailable_replicas
            ),
            (3, 3, 2)
        );
        assert_eq!(status.collision_count, Some(2));
    }

    #[test]
    fn unavailable_replicas_is_never_negative() {
        let sets = sets(None, vec![replica_set("old").replicas(1).pods(3, 3)]);
        assert_eq!(
            compute(&deployment("web").build(), &sets, NOW).unavailable_replicas,
            0
        );
    }

    #[test]
    fn available_depends_on_max_unavailable() {
        // (replicas, recreate, available, expected)
        let cases = [
            (10, false, 8, TRUE),
            (10, false, 7, FALSE),
            (10, true, 9, FALSE),
            (10, true, 10, TRUE),
            (0, false, 0, TRUE),
        ];
        for (replicas, recreate, available, expected) in cases {
            let d = deployment("web").replicas(replicas);
            let d = if recreate { d.recreate() } else { d }.build();
            let sets = sets(
                Some(
                    replica_set("new")
                        .replicas(replicas)
                        .pods(available, available),
                ),
                vec![],
            );
            let status = compute(&d, &sets, NOW);
            let condition = conditions::find(&status.conditions, AVAILABLE).unwrap();
            assert_eq!(condition.status, expected, "{available} of {replicas}");
        }
    }

    #[test]
    fn a_second_computation_does_not_change_the_status() {
        let sets = sets(Some(replica_set("new").replicas(1).pods(1, 1)), vec![]);
        let mut d = deployment("web").build();
        d.status = compute(&d, &sets, NOW);
        assert_eq!(
            compute(&d, &sets, Timestamp::from_second(99).unwrap()),
            d.status
        );
    }
}
