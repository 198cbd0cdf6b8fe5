//! The strategy `Recreate`: all old pods are gone before the first new one is created.
//!
//! Old pods are deleted at once, also those of an ordered set. New ones are created in the order of the set.
//! The condition `Progressing` tells the step.
//!
//! Upstream: `recreateDeleteAndWait` and `setProgressingCondition` in `pkg/controller/statefulset`, since
//! kubernetes#137187. The last reason is that of KEP-3541. Upstream's file with its message was not at hand.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::{StatefulSet, StatefulSetStatus};
use steersman_values::clock::whole_seconds;

const CONDITION: &str = "Progressing";
/// Upstream: `RecreateInProgressReason`.
const IN_PROGRESS: &str = "RecreateInProgress";
const COMPLETE: &str = "RecreateComplete";

/// A step of the update, as the condition `Progressing` tells it. The condition is true in each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There are old pods.
    Deleting,
    /// There are no old pods, and the update is not complete.
    Creating,
    /// All pods are new and ready.
    Complete,
}

impl Step {
    /// The step of a sync of `set` that found old pods or none. `None` if the set is not updated, such as a new one.
    pub(super) fn of(
        has_old_pods: bool,
        set: &StatefulSet,
        new: &StatefulSetStatus,
    ) -> Option<Self> {
        if has_old_pods {
            return Some(Self::Deleting);
        }
        if new.current_revision != new.update_revision {
            return Some(Self::Creating);
        }
        // A set that was never updated has no condition.
        let told = told(&set.status.conditions);
        let is_told = told.is_some_and(|told| told["reason"] == IN_PROGRESS);
        let counters = [new.replicas, new.ready_replicas, new.updated_replicas];
        let is_complete = counters == [set.spec.replicas; 3];
        (is_told && is_complete).then_some(Self::Complete)
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Deleting | Self::Creating => IN_PROGRESS,
            Self::Complete => COMPLETE,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Deleting => "Deleting old revision pods",
            Self::Creating => "Waiting for new-revision pods to be created",
            Self::Complete => "All pods have the new revision",
        }
    }

    /// Whether `conditions` tell this step already.
    pub(super) fn is_told_by(self, conditions: &[Value]) -> bool {
        told(conditions).is_some_and(|told| {
            told["status"] == "True"
                && told["reason"] == self.reason()
                && told["message"] == self.message()
        })
    }

    /// Tells this step in `conditions`. The time stays, since the state does.
    pub(super) fn tell(self, conditions: &mut Vec<Value>, now: Timestamp) {
        let mut condition = json!({
            "type": CONDITION, "status": "True", "lastTransitionTime": whole_seconds(now).to_string(),
            "reason": self.reason(), "message": self.message(),
        });
        let mut known = conditions.iter_mut();
        match known.find(|known| known["type"] == CONDITION) {
            Some(known) => {
                if known["status"] == "True" {
                    condition["lastTransitionTime"] = known["lastTransitionTime"].take();
                }
                *known = condition;
            }
            None => conditions.push(condition),
        }
    }
}

/// The condition `Progressing`.
fn told(conditions: &[Value]) -> Option<&Value> {
    conditions.iter().find(|one| one["type"] == CONDITION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stateful_set;

    #[test]
    fn each_step_follows_from_old_pods_and_revisions() {
        let set = |reason: Option<&str>| {
            let told = |reason| json!([{"type": CONDITION, "status": "True", "reason": reason}]);
            let conditions = reason.map_or(Value::Null, told);
            stateful_set("web")
                .replicas(3)
                .status("conditions", conditions)
                .build()
        };
        let new = |current: &str, ready_replicas| StatefulSetStatus {
            replicas: 3,
            ready_replicas,
            updated_replicas: 3,
            current_revision: current.to_owned(),
            update_revision: "web-2".to_owned(),
            ..StatefulSetStatus::default()
        };
        // (why, old pods, reason so far, current revision, ready pods, step)
        let cases = [
            ("old pods", true, None, "web-1", 3, Some(Step::Deleting)),
            (
                "old pods after a return",
                true,
                None,
                "web-2",
                3,
                Some(Step::Deleting),
            ),
            (
                "no pods",
                false,
                Some(IN_PROGRESS),
                "web-1",
                0,
                Some(Step::Creating),
            ),
            (
                "all ready",
                false,
                Some(IN_PROGRESS),
                "web-2",
                3,
                Some(Step::Complete),
            ),
            (
                "one is not ready",
                false,
                Some(IN_PROGRESS),
                "web-2",
                2,
                None,
            ),
            (
                "complete since long",
                false,
                Some(COMPLETE),
                "web-2",
                3,
                None,
            ),
            ("a new set", false, None, "web-2", 3, None),
        ];
        for (why, has_old_pods, reason, current, ready, expected) in cases {
            let found = Step::of(has_old_pods, &set(reason), &new(current, ready));
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn the_condition_keeps_its_time_and_those_of_other_clients() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let foreign = json!({"type": "Checked", "status": "True"});
        let mut conditions = vec![foreign.clone()];
        assert!(!Step::Deleting.is_told_by(&conditions));
        Step::Deleting.tell(&mut conditions, at(10));
        assert!(Step::Deleting.is_told_by(&conditions));
        assert!(!Step::Creating.is_told_by(&conditions));
        Step::Creating.tell(&mut conditions, at(20));
        let told = json!({
            "type": "Progressing", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z",
            "reason": "RecreateInProgress", "message": "Waiting for new-revision pods to be created",
        });
        assert_eq!(conditions, [foreign, told]);
        conditions[1]["status"] = json!("False");
        Step::Complete.tell(&mut conditions, at(30));
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:30Z");
        assert_eq!(conditions[1]["reason"], "RecreateComplete");
    }
}
