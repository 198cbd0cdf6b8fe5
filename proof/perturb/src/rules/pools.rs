//! Rules of ResourcePoolStatusRequests.

use jiff::Timestamp;
use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The controller answers a request once, and the devices of its answer add up.
pub const ONE_ANSWER: Rule = Rule {
    name: "a ResourcePoolStatusRequest gets one answer",
    check: one_answer,
};
/// The controller deletes a request an hour after its answer, or a day after its creation.
pub const OLD_ANSWERS: Rule = Rule {
    name: "only old ResourcePoolStatusRequests are deleted",
    check: old_answers,
};

/// The client of the controller.
const CONTROLLER: &str = "resourcepoolstatusrequest-controller";

/// Whether the controller changes a request.
fn is_own(change: &Change) -> bool {
    &*change.plural == "resourcepoolstatusrequests" && change.is_by(CONTROLLER)
}

fn one_answer(_: &State, change: &Change) -> Result<(), String> {
    if !is_own(change) || change.kind != ChangeKind::Updated {
        return Ok(());
    }
    let before = change.before.as_deref();
    if before.is_some_and(|before| !before["status"].is_null()) {
        return Err(format!("{} is answered again", change.key));
    }
    let number = |pool: &Value, field: &str| pool[field].as_i64().unwrap_or_default();
    let pools = change.object["status"]["pools"].as_array();
    for pool in pools.into_iter().flatten() {
        let known = number(pool, "allocatedDevices") + number(pool, "availableDevices");
        if known != number(pool, "totalDevices") {
            return Err(format!("the devices of {pool} do not add up"));
        }
    }
    Ok(())
}

fn old_answers(_: &State, change: &Change) -> Result<(), String> {
    if !is_own(change) || !change.begins_deletion() {
        return Ok(());
    }
    let request = &change.object;
    let (since, limit) = match &request["status"]["conditions"][0]["lastTransitionTime"] {
        Value::Null => (&request["metadata"]["creationTimestamp"], 24 * 3600),
        answered => (answered, 3600),
    };
    let parsed = since
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    let age = parsed.map(|since| change.at.as_second() - since.as_second());
    match age {
        Some(age) if age >= limit => Ok(()),
        _ => Err(format!("{} dates from {since}", change.key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object};
    use super::*;

    const PLURAL: &str = "resourcepoolstatusrequests";

    fn answered(total: i64, since: &str) -> Value {
        let mut request = object("r", json!({}));
        request["status"] = json!({
            "pools": [{"totalDevices": total, "allocatedDevices": 1, "availableDevices": 3}],
            "conditions": [{"type": "Complete", "lastTransitionTime": since}],
        });
        request
    }

    #[test]
    fn a_second_or_wrong_answer_breaks_the_rule() {
        let case = |why, before: Value, by, after: Value, breaks| {
            let world = vec![(PLURAL, before)];
            (why, world, by, PLURAL, ChangeKind::Updated, after, breaks)
        };
        let open = || object("r", json!({}));
        let right = || answered(4, "1970-01-01T00:00:00Z");
        check(
            ONE_ANSWER,
            [
                case("first answer", open(), CONTROLLER, right(), false),
                case("second answer", right(), CONTROLLER, right(), true),
                case("change of a user", right(), "kubectl", right(), false),
                case("wrong sum", open(), CONTROLLER, answered(5, ""), true),
            ],
        );
    }

    /// The changes happen at the begin of 1970.
    #[test]
    fn the_deletion_of_a_young_answer_breaks_the_rule() {
        let case = |why, request: Value, by, breaks| {
            let world = vec![(PLURAL, request.clone())];
            (why, world, by, PLURAL, ChangeKind::Deleted, request, breaks)
        };
        let old = || answered(4, "1969-12-31T22:59:00Z");
        let young = || answered(4, "1969-12-31T23:30:00Z");
        let open = |created: &str| {
            let mut request = object("r", json!({}));
            request["metadata"]["creationTimestamp"] = json!(created);
            request
        };
        check(
            OLD_ANSWERS,
            [
                case("old answer", old(), CONTROLLER, false),
                case("young answer", young(), CONTROLLER, true),
                case("deleted by a user", young(), "kubectl", false),
                case(
                    "no answer for a day",
                    open("1969-12-30T00:00:00Z"),
                    CONTROLLER,
                    false,
                ),
                case(
                    "no answer for an hour",
                    open("1969-12-31T22:00:00Z"),
                    CONTROLLER,
                    true,
                ),
            ],
        );
    }
}
