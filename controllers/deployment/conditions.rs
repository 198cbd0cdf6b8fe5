//! Conditions of a Deployment: their types and reasons, and the one rule by which they change.
//!
//! The order of the list is the order of the last effective change, oldest first, so nothing here
//! ever sorts.

use jiff::Timestamp;
use steersman_runtime::clock::whole_seconds;
use steersman_runtime::object::Condition;

/// Whether a rollout gets on.
pub(super) const PROGRESSING: &str = "Progressing";
/// Whether enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// Whether a ReplicaSet fails to create or delete pods.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const TRUE: &str = "True";
pub(super) const FALSE: &str = "False";
pub(super) const UNKNOWN: &str = "Unknown";

/// Reasons of `Progressing` and `Available`; those of `ReplicaFailure` come from the ReplicaSet.
pub(super) mod reason {
    pub(in super::super) const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
    pub(in super::super) const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
    pub(in super::super) const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    pub(in super::super) const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    pub(in super::super) const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    pub(in super::super) const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
    pub(in super::super) const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    pub(in super::super) const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    pub(in super::super) const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    pub(in super::super) const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
}

/// A condition that takes effect at `now`, in whole seconds as the API stores times.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> Condition {
    let now = Some(whole_seconds(now));
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_update_time: now,
        last_transition_time: now,
        reason: reason.to_owned(),
        message: message.into(),
        extra: serde_json::Map::new(),
    }
}

/// The condition of this type.
pub(super) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the condition of this type has this reason.
pub(super) fn has_reason(conditions: &[Condition], kind: &str, reason: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.reason == reason)
}

/// Brings `condition` into the list. With equal status and reason there, nothing changes, whatever
/// the message says. Otherwise it goes to the end, and an equal status keeps its transition time.
pub(super) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = find(conditions, &condition.kind)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time = current.last_transition_time;
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
}

/// Takes the conditions of this type out of the list.
pub(super) fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
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
    fn another_reason_goes_to_the_end_and_keeps_the_transition_time() {
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
