//! The status of a quota: its limits, and the usage of the resources that they name.
//!
//! Upstream: `syncResourceQuota` in `resource_quota_controller.go`.

use serde::Serialize;
use steersman_helpers::quota::Amounts;
use steersman_objects::{ResourceList, ResourceQuota};

/// A status to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Status<'a> {
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    hard: &'a ResourceList,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    used: Amounts,
}

/// The new status of `quota` with the usage `counted`; `None` if the status has it already.
///
/// A resource that is not in `counted` keeps its usage, and so does one with a lower count unless
/// the count `may_lower` it. Texts of equal amounts may differ. A status without limits is written
/// always, as in upstream: the API server admits by `status.hard`.
pub(super) fn change<'a>(
    quota: &'a ResourceQuota,
    counted: &Amounts,
    may_lower: bool,
) -> Option<Status<'a>> {
    let hard = &quota.spec.hard;
    let before = quota.status.used.as_ref().map(Amounts::of);
    let mut used = before.clone().unwrap_or_default();
    if may_lower {
        used.replace(counted);
    } else {
        used.raise_to(counted);
    }
    let used = used.only(|name| hard.contains_key(name));
    let is_equal = has_same_limits(quota) && before.as_ref() == Some(&used);
    let is_complete = quota.status.hard.is_some();
    (!is_equal || !is_complete).then_some(Status { hard, used })
}

/// The limits in the spec.
pub(super) fn limits(quota: &ResourceQuota) -> Amounts {
    Amounts::of(&quota.spec.hard)
}

/// Whether the status has the limits of the spec. Amounts are compared, not texts: "1" and "1000m"
/// are the same limit.
pub(super) fn has_same_limits(quota: &ResourceQuota) -> bool {
    let in_status = quota.status.hard.as_ref();
    in_status.map(Amounts::of).unwrap_or_default() == limits(quota)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn quota(hard: Value, status: Value) -> ResourceQuota {
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": status});
        ResourceQuota::decode(quota.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_status_changes_with_limits_and_usage() {
        let status = |hard: Value, used: Value| json!({"hard": hard, "used": used});
        let pods = |number: &str| json!({ "pods": number });
        // (case, limits, status, counted, written usage)
        let cases = [
            ("new", pods("3"), json!({}), pods("1"), Some(pods("1"))),
            (
                "equal",
                pods("3"),
                status(pods("3"), pods("1")),
                pods("1"),
                None,
            ),
            (
                "equal amounts in other texts",
                pods("3000m"),
                status(pods("3"), pods("1000m")),
                pods("1"),
                None,
            ),
            (
                "other usage",
                pods("3"),
                status(pods("3"), pods("2")),
                pods("1"),
                Some(pods("1")),
            ),
            (
                "other limits",
                pods("4"),
                status(pods("3"), pods("1")),
                pods("1"),
                Some(pods("1")),
            ),
            (
                "a resource without a count keeps its usage",
                json!({"pods": "3", "count/widgets.example.com": "5"}),
                status(
                    json!({"pods": "3", "count/widgets.example.com": "5"}),
                    json!({"pods": "2", "count/widgets.example.com": "4"}),
                ),
                pods("1"),
                Some(json!({"count/widgets.example.com": "4", "pods": "1"})),
            ),
            (
                "a resource without a limit is dropped",
                pods("3"),
                status(pods("3"), json!({"cpu": "1", "pods": "1"})),
                pods("1"),
                Some(pods("1")),
            ),
            (
                "no usage so far",
                json!({"x.example.com/y": "1"}),
                json!({"hard": {"x.example.com/y": "1"}}),
                json!({}),
                Some(Value::Null),
            ),
        ];
        for (case, hard, status, counted, expected) in cases {
            let quota = quota(hard, status);
            let counted: ResourceList = serde_json::from_value(counted).unwrap();
            let written = change(&quota, &Amounts::of(&counted), true);
            let written = written.map(|status| serde_json::to_value(status).unwrap());
            let used = written.as_ref().map(|status| &status["used"]);
            assert_eq!(used, expected.as_ref(), "{case}");
        }
    }

    #[test]
    fn a_count_that_may_not_lower_raises_usage_only() {
        let hard = json!({"pods": "9", "cpu": "9"});
        let status = json!({"hard": hard, "used": {"pods": "3", "cpu": "3"}});
        let quota = quota(hard, status);
        // (counted, written usage)
        let cases = [
            (json!({"pods": "2", "cpu": "3"}), None),
            (
                json!({"pods": "2", "cpu": "4"}),
                Some(json!({"pods": "3", "cpu": "4"})),
            ),
        ];
        for (counted, expected) in cases {
            let list: ResourceList = serde_json::from_value(counted.clone()).unwrap();
            let written = change(&quota, &Amounts::of(&list), false);
            let used = written.map(|status| serde_json::to_value(status).unwrap()["used"].clone());
            assert_eq!(used, expected, "{counted}");
        }
    }
}
