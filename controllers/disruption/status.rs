//! The status of a budget, and its condition `DisruptionAllowed`.
//!
//! Conditions of other writers stay. Upstream: `updatePdbStatus`, `failSafe`, and
//! `component-helpers/apps/poddisruptionbudget` (`pdbhelper`).

use jiff::Timestamp;
use steersman_objects::conditions::{FALSE, TRUE};
use steersman_objects::{
    BudgetCondition, PodDisruptionBudget, PodDisruptionBudgetStatus as Status,
};
use steersman_values::clock::whole_seconds;

use super::disrupted::Evictions;

/// The type of the condition.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Numbers of pods of one budget.
///
/// `expected` comes from the workloads or the pods, `desired_healthy` from the spec, and `healthy` from the
/// pods alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Expected pods.
    pub(super) expected: i32,
    /// Pods that must stay healthy.
    pub(super) desired_healthy: i32,
    /// Healthy pods.
    pub(super) healthy: i32,
}

impl Numbers {
    /// The number of pods that may be evicted now.
    ///
    /// It is 0 for a budget without expected pods: its first pods may run before the next sync.
    pub(super) fn disruptions_allowed(self) -> i32 {
        if self.expected <= 0 {
            0
        } else {
            self.healthy.saturating_sub(self.desired_healthy).max(0)
        }
    }
}

/// The status with these numbers and evictions. `None` if the budget has it.
///
/// Upstream: `updatePdbStatus`. The comparison includes the generation, so each change of the spec leads to a
/// write.
pub(super) fn computed(
    budget: &PodDisruptionBudget,
    numbers: Numbers,
    pending: &Evictions,
    now: Timestamp,
) -> Option<Status> {
    let old = &budget.status;
    let allowed = numbers.disruptions_allowed();
    let mut new = Status {
        observed_generation: budget.meta.generation,
        disrupted_pods: pending.clone(),
        disruptions_allowed: allowed,
        current_healthy: numbers.healthy,
        desired_healthy: numbers.desired_healthy,
        expected_pods: numbers.expected,
        ..old.clone()
    };
    // Upstream: `UpdateDisruptionAllowedCondition`.
    let (status, reason) = if allowed > 0 {
        (TRUE, "SufficientPods")
    } else {
        (FALSE, "InsufficientPods")
    };
    let is_shown = |condition: &BudgetCondition| {
        condition.kind == DISRUPTION_ALLOWED
            && condition.status == status
            && condition.reason == reason
    };
    // The condition's message and generation do not matter here, as upstream.
    if new == *old && old.conditions.iter().any(is_shown) {
        return None;
    }
    set(&mut new, status, reason, "", now);
    Some(new)
}

/// The status after a failed sync: no evictions until the next sync. The other numbers stay.
///
/// Upstream: `failSafe`. The observed generation stays as well, since this sync has not finished its work.
pub(super) fn failed(budget: &PodDisruptionBudget, error: &str, now: Timestamp) -> Status {
    let mut new = Status {
        disruptions_allowed: 0,
        ..budget.status.clone()
    };
    set(&mut new, FALSE, "SyncFailed", error, now);
    new
}

/// Sets the condition in its place. Its transition time changes only with its status. Upstream:
/// `SetStatusCondition`.
///
/// A new condition is appended, and the order of others stays.
fn set(to: &mut Status, status: &str, reason: &str, message: &str, now: Timestamp) {
    let observed_generation = to.observed_generation;
    let known = to
        .conditions
        .iter_mut()
        .find(|condition| condition.kind == DISRUPTION_ALLOWED);
    let now = Some(whole_seconds(now));
    match known {
        Some(known) => {
            if known.status != status {
                status.clone_into(&mut known.status);
                known.last_transition_time = now;
            }
            reason.clone_into(&mut known.reason);
            message.clone_into(&mut known.message);
            known.observed_generation = observed_generation;
        }
        None => to.conditions.push(BudgetCondition {
            kind: DISRUPTION_ALLOWED.to_owned(),
            status: status.to_owned(),
            observed_generation,
            last_transition_time: now,
            reason: reason.to_owned(),
            message: message.to_owned(),
            extra: serde_json::Map::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;
    use crate::testing::time;

    const NOW: i64 = 1_000;

    fn budget(status: &Value) -> PodDisruptionBudget {
        let metadata = json!({"name": "web", "namespace": "default", "generation": 3});
        let object = json!({"metadata": metadata, "spec": {"minAvailable": 1}, "status": status});
        PodDisruptionBudget::decode(object.to_string().as_bytes()).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    const THREE: Numbers = Numbers {
        expected: 3,
        desired_healthy: 2,
        healthy: 3,
    };

    fn condition(status: &str, reason: &str, second: i64) -> Value {
        json!({"type": "DisruptionAllowed", "status": status, "observedGeneration": 3, "reason": reason, "message": "",
            "lastTransitionTime": time(second)})
    }

    fn up_to_date() -> Value {
        json!({"observedGeneration": 3, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
            "conditions": [condition("True", "SufficientPods", 0)]})
    }

    #[test]
    fn disruptions_are_healthy_pods_beyond_the_desired_ones() {
        // (expected, desired healthy, healthy, allowed)
        let cases = [
            (3, 2, 3, 1),
            (3, 2, 2, 0),
            (3, 2, 1, 0),
            (5, 0, 5, 5),
            (0, 0, 2, 0),
            (-1, 0, 2, 0),
        ];
        for (expected, desired_healthy, healthy, allowed) in cases {
            let numbers = Numbers {
                expected,
                desired_healthy,
                healthy,
            };
            assert_eq!(numbers.disruptions_allowed(), allowed, "{numbers:?}");
        }
    }

    #[test]
    fn an_equal_status_is_not_written() {
        let written = |status: &Value| {
            computed(&budget(status), THREE, &Evictions::default(), now()).is_some()
        };
        assert!(!written(&up_to_date()));
        // (why, field, its value)
        let cases = [
            ("generation", "observedGeneration", json!(2)),
            ("allowed", "disruptionsAllowed", json!(2)),
            ("healthy", "currentHealthy", json!(2)),
            ("desired", "desiredHealthy", json!(1)),
            ("expected", "expectedPods", json!(4)),
            ("evictions", "disruptedPods", json!({"a": time(NOW)})),
            ("no condition", "conditions", json!([])),
            (
                "status",
                "conditions",
                json!([condition("False", "SufficientPods", 0)]),
            ),
            (
                "reason",
                "conditions",
                json!([condition("True", "SyncFailed", 0)]),
            ),
        ];
        for (why, field, value) in cases {
            let mut status = up_to_date();
            status[field] = value;
            assert!(written(&status), "{why}");
        }
        let mut noted = up_to_date();
        noted["conditions"][0]["message"] = json!("m");
        assert!(!written(&noted), "a message alone does not matter");
    }

    #[test]
    fn a_status_has_its_numbers_and_its_condition() {
        let nothing = Evictions::default();
        let first = computed(&budget(&Value::Null), THREE, &nothing, now()).unwrap();
        let mut expected = up_to_date();
        expected["conditions"] = json!([condition("True", "SufficientPods", NOW)]);
        assert_eq!(serde_json::to_value(first).unwrap(), expected);

        let fewer = Numbers {
            healthy: 2,
            ..THREE
        };
        let pending = Evictions::from([("a".to_owned(), now())]);
        let next = computed(&budget(&up_to_date()), fewer, &pending, now()).unwrap();
        let expected = json!({"observedGeneration": 3, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2,
            "expectedPods": 3, "disruptedPods": {"a": time(NOW)}, "conditions": [condition("False", "InsufficientPods", NOW)]});
        assert_eq!(serde_json::to_value(next).unwrap(), expected);
    }

    #[test]
    fn a_failed_sync_allows_no_evictions_and_keeps_all_other_fields() {
        let mut old = up_to_date();
        old["observedGeneration"] = json!(2);
        old["disruptedPods"] = json!({"a": time(NOW)});
        let foreign = json!({"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": time(0)});
        old["conditions"] = json!([foreign, condition("True", "SufficientPods", 0)]);
        let new = serde_json::to_value(failed(&budget(&old), "no scale", now())).unwrap();
        let mut expected = old;
        expected["disruptionsAllowed"] = json!(0);
        expected["conditions"][1] = json!({"type": "DisruptionAllowed", "status": "False", "observedGeneration": 2,
            "reason": "SyncFailed", "message": "no scale", "lastTransitionTime": time(NOW)});
        assert_eq!(new, expected);
        let never_synced = failed(&budget(&Value::Null), "no scale", now());
        assert_eq!(never_synced.observed_generation, 0);
    }
}
