//! The conditions of a Job.
//!
//! Unlike other kinds, a Job keeps `lastProbeTime`, and a changed message changes the condition.
//! Conditions are in the order of their first appearance. Upstream: `newCondition` and
//! `ensureJobConditionStatus`.

use jiff::Timestamp;
use serde_json::Value;
use steersman_objects::Condition;
use steersman_objects::conditions::{self, FALSE};
use steersman_values::clock::whole_seconds;

/// Type of the condition of a complete Job. It is final: a Job with it needs no further sync.
pub(super) const COMPLETE: &str = "Complete";
/// Type of the condition of a failed Job. It is final, too. A Job has one of the two at most.
pub(super) const FAILED: &str = "Failed";
/// Type of the interim condition of a Job that will fail. It is written before the finalizers are removed, so
/// that a restart knows the reason of the end.
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
/// Type of the interim condition of a Job that will be complete. It plays the same part as `FailureTarget`,
/// for the other end.
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// Type of the condition of a suspended Job. It is `False` after a resumption. A Job that has never been
/// suspended lacks it: see `ensure`.
pub(super) const SUSPENDED: &str = "Suspended";

/// A condition with both times at `now`. Upstream: `newCondition`.
pub(super) fn new(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    let mut condition = conditions::new(kind, status, reason, message, now);
    let probed = Value::String(whole_seconds(now).to_string());
    condition.extra.insert("lastProbeTime".to_owned(), probed);
    condition
}

/// Puts `condition` into the list, and returns whether that changes the list. A condition that is
/// `False` is not appended, because it would say the same as its absence.
///
/// Upstream: `ensureJobConditionStatus`. A change of the reason alone also renews `lastTransitionTime`,
/// unlike with other kinds.
pub(super) fn ensure(list: &mut Vec<Condition>, condition: Condition) -> bool {
    match list.iter_mut().find(|known| known.kind == condition.kind) {
        Some(known) => {
            let parts = |c: &Condition| (c.status.clone(), c.reason.clone(), c.message.clone());
            let differs = parts(known) != parts(&condition);
            if differs {
                *known = condition;
            }
            differs
        }
        None if condition.status == FALSE => false,
        None => {
            list.push(condition);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::conditions::TRUE;

    use super::*;

    #[test]
    fn ensure_job_conditions() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let condition = |kind, status, reason: &str, message, second| {
            new(kind, status, reason, message, at(second))
        };
        let one = |status, second| condition(FAILED, status, "foo", "", second);
        // (upstream's case, list, wanted, list afterwards, whether it changed)
        let cases = [
            (
                "append true condition",
                vec![],
                one(TRUE, 2),
                vec![one(TRUE, 2)],
                true,
            ),
            (
                "append false condition",
                vec![],
                one(FALSE, 2),
                vec![],
                false,
            ),
            (
                "update true condition status",
                vec![one(TRUE, 1)],
                one(FALSE, 2),
                vec![one(FALSE, 2)],
                true,
            ),
            (
                "update false condition status",
                vec![one(FALSE, 1)],
                one(TRUE, 2),
                vec![one(TRUE, 2)],
                true,
            ),
            (
                "condition already exists",
                vec![one(TRUE, 1)],
                one(TRUE, 2),
                vec![one(TRUE, 1)],
                false,
            ),
            (
                "update true condition reason",
                vec![one(TRUE, 1)],
                condition(FAILED, TRUE, "bar", "", 2),
                vec![condition(FAILED, TRUE, "bar", "", 2)],
                true,
            ),
            (
                "the message differs",
                vec![condition(FAILED, TRUE, "foo", "old", 1)],
                condition(FAILED, TRUE, "foo", "new", 2),
                vec![condition(FAILED, TRUE, "foo", "new", 2)],
                true,
            ),
            (
                "other conditions keep their place",
                vec![one(TRUE, 1), condition(COMPLETE, TRUE, "", "", 1)],
                one(FALSE, 2),
                vec![one(FALSE, 2), condition(COMPLETE, TRUE, "", "", 1)],
                true,
            ),
        ];
        for (why, mut list, wanted, expected, changes) in cases {
            assert_eq!(ensure(&mut list, wanted), changes, "{why}");
            assert_eq!(list, expected, "{why}");
        }
    }

    #[test]
    fn both_times_are_whole_seconds() {
        let now = Timestamp::from_millisecond(1_700_000_000_900).unwrap();
        let written = serde_json::to_value(new(SUSPENDED, TRUE, "r", "m", now)).unwrap();
        let expected = serde_json::json!({
            "type": "Suspended", "status": "True", "reason": "r", "message": "m",
            "lastProbeTime": "2023-11-14T22:13:20Z", "lastTransitionTime": "2023-11-14T22:13:20Z",
        });
        assert_eq!(written, expected);
    }
}
