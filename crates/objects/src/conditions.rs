//! Lists of conditions, as workload controllers keep them in a status.
//!
//! Conditions are in the order of their last change, oldest first, as upstream writes them. So no
//! function here sorts. Upstream: `SetDeploymentCondition` and its copies in each workload package.

use jiff::Timestamp;

use steersman_values::clock::whole_seconds;
use steersman_values::intern::Sym;

use crate::Condition;

/// `status` of a condition that holds.
pub const TRUE: &str = "True";
/// `status` of a condition that does not hold.
pub const FALSE: &str = "False";
/// `status` of a condition that cannot be decided.
pub const UNKNOWN: &str = "Unknown";

/// A condition that takes effect at `now`, in whole seconds as the API stores times.
pub fn new(
    kind: &str,
    status: &str,
    reason: &str,
    message: impl Into<Box<str>>,
    now: Timestamp,
) -> Condition {
    Condition {
        kind: Sym::new(kind),
        status: Sym::new(status),
        last_update_time: None,
        last_transition_time: Some(whole_seconds(now)),
        reason: Sym::new(reason),
        message: message.into(),
        extra: serde_json::Map::new(),
    }
}

/// The first condition of this type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == *kind)
}

/// True if the list has a condition of this type with this reason.
pub fn has_reason(conditions: &[Condition], kind: &str, reason: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.reason == *reason)
}

/// Sets `condition` in the list. If the list has its type with equal status and reason, nothing
/// changes, even if the message differs. Otherwise the condition moves to the end, and an equal
/// status keeps its transition time.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
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

/// Removes the conditions of this type from the list.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != *kind);
}
