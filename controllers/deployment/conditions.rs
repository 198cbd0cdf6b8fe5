//! Conditions of a Deployment: their types and reasons. The rule by which they change is that of
//! [`steersman_objects::conditions`].

use jiff::Timestamp;
use steersman_objects::Condition;
use steersman_objects::conditions;
pub(super) use steersman_objects::conditions::{
    FALSE, TRUE, UNKNOWN, find, has_reason, remove, set,
};

/// Whether the rollout progresses. It is absent without `progressDeadlineSeconds`.
pub(super) const PROGRESSING: &str = "Progressing";
/// Whether enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// Whether a ReplicaSet fails to create or delete pods. It is copied from a ReplicaSet, and vanishes with the
/// failure.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of `Progressing` and `Available`; those of `ReplicaFailure` come from the ReplicaSet. Upstream:
/// the constants before `NewDeploymentCondition` in `deployment_util.go`. `kubectl rollout status` matches
/// `ProgressDeadlineExceeded`.
pub(super) mod reason {
    /// Progressing: this controller created the new ReplicaSet.
    pub(in super::super) const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
    /// Progressing: a ReplicaSet with the template exists, and the condition was missing.
    pub(in super::super) const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
    /// Progressing: the rollout made progress.
    pub(in super::super) const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    /// Progressing: the rollout is complete.
    pub(in super::super) const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    /// Progressing: the deadline passed without progress.
    pub(in super::super) const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Progressing: the creation of the new ReplicaSet failed.
    pub(in super::super) const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
    /// Progressing: the Deployment is paused. The time of a pause is not counted against the deadline.
    pub(in super::super) const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// Progressing: the pause ended. The deadline starts again here.
    pub(in super::super) const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    /// Available: at least `limits::min_available` pods are available.
    pub(in super::super) const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Available: fewer pods are available.
    pub(in super::super) const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
}

/// A condition that takes effect at `now`. Only Deployments have a time of the last update. Upstream:
/// `NewDeploymentCondition`.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: impl Into<Box<str>>,
    now: Timestamp,
) -> Condition {
    let new = conditions::new(kind, status, reason, message, now);
    Condition {
        last_update_time: new.last_transition_time,
        ..new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn progressing() -> Condition {
        condition(PROGRESSING, FALSE, "ForSomeReason", "", at(1))
    }

    fn progressing2() -> Condition {
        condition(PROGRESSING, TRUE, "BecauseItIs", "", at(2))
    }

    fn available() -> Condition {
        condition(AVAILABLE, TRUE, "AwesomeController", "", at(3))
    }

    #[test]
    fn test_get_condition() {
        let list = [progressing(), available()];
        assert!(find(&list, AVAILABLE).is_some(), "condition exists");
        assert!(
            find(&list, REPLICA_FAILURE).is_none(),
            "condition does not exist"
        );
    }

    #[test]
    fn test_set_condition() {
        // (name, list, condition, expected)
        let cases = [
            (
                "set for the first time",
                vec![],
                available(),
                vec![available()],
            ),
            (
                "simple set",
                vec![progressing()],
                available(),
                vec![progressing(), available()],
            ),
            (
                "overwrite",
                vec![progressing()],
                progressing2(),
                vec![progressing2()],
            ),
        ];
        for (name, mut list, condition, expected) in cases {
            set(&mut list, condition);
            assert_eq!(list, expected, "{name}");
        }
    }

    #[test]
    fn test_remove_condition() {
        // (name, list, type, expected)
        let cases = [
            ("remove from empty status", vec![], PROGRESSING, vec![]),
            ("simple remove", vec![progressing()], PROGRESSING, vec![]),
            (
                "doesn't remove anything",
                vec![progressing(), available()],
                REPLICA_FAILURE,
                vec![progressing(), available()],
            ),
        ];
        for (name, mut list, kind, expected) in cases {
            remove(&mut list, kind);
            assert_eq!(list, expected, "{name}");
        }
    }

    #[test]
    fn the_same_status_and_reason_change_nothing() {
        let mut list = vec![
            condition(PROGRESSING, TRUE, "Same", "old", at(1)),
            available(),
        ];
        let before = list.clone();
        set(
            &mut list,
            condition(PROGRESSING, TRUE, "Same", "new", at(9)),
        );
        assert_eq!(list, before);
    }

    #[test]
    fn a_new_reason_moves_the_condition_to_the_end_and_keeps_the_transition_time() {
        let mut list = vec![condition(PROGRESSING, TRUE, "One", "", at(1)), available()];
        set(&mut list, condition(PROGRESSING, TRUE, "Two", "", at(9)));
        assert_eq!(list[0], available());
        assert_eq!(
            (list[1].last_update_time, list[1].last_transition_time),
            (Some(at(9)), Some(at(1)))
        );
    }

    #[test]
    fn times_have_whole_seconds() {
        let now = Timestamp::from_millisecond(42_910).unwrap();
        assert_eq!(
            condition(PROGRESSING, TRUE, "R", "", now).last_update_time,
            Some(at(42))
        );
    }
}
