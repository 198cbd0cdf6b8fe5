//! The status of a StorageVersion after servers are gone.
//!
//! Upstream: `SetCommonEncodingVersion` of `k8s.io/apiserver/pkg/storageversion`.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_values::clock::whole_seconds;

/// The condition of a StorageVersion.
///
/// Its only type. `True` means that all API servers encode objects in one version.
const CONDITION: &str = "AllEncodingVersionsEqual";

/// Removes the entries of servers that are not live, and derives the other fields. Returns whether
/// entries are left; `None` if all servers are live.
///
/// Upstream: the loops of `processDeletedLease` and `syncStorageVersion`, then
/// `SetCommonEncodingVersion`. An entry without an ID counts as gone. A StorageVersion that never had
/// entries is left as it is.
pub(super) fn remove_gone(
    status: &mut Value,
    generation: i64,
    now: Timestamp,
    is_live: impl Fn(&str) -> bool,
) -> Option<bool> {
    let entries = status["storageVersions"].as_array_mut()?;
    let before = entries.len();
    entries.retain(|entry| is_live(entry["apiServerID"].as_str().unwrap_or_default()));
    if entries.len() == before {
        return None;
    }
    let first = entries
        .first()
        .map(|entry| entry["encodingVersion"].clone());
    let common = first.filter(|first| entries.iter().all(|one| one["encodingVersion"] == *first));
    let has_entries = !entries.is_empty();
    let old = status["commonEncodingVersion"].take();
    // A direct change needs a status that did not match its entries, for example after a lost update.
    // The status of the condition stays `True`, and upstream moves its time all the same.
    let is_changed = |new: &Value| !old.is_null() && *new != old;
    set_condition(
        status,
        common.is_some(),
        common.as_ref().is_some_and(is_changed),
        generation,
        now,
    );
    if let Some(fields) = status.as_object_mut() {
        // An absent field means that versions differ, so `null` is not written.
        match common {
            Some(common) => fields.insert("commonEncodingVersion".to_owned(), common),
            None => fields.remove("commonEncodingVersion"),
        };
    }
    Some(has_entries)
}

/// Sets the condition. Its transition time changes with its status, or by `force`.
///
/// Upstream: `setStatusCondition` of the same package. Reason, message and generation always follow.
fn set_condition(
    status: &mut Value,
    is_common: bool,
    force: bool,
    generation: i64,
    now: Timestamp,
) {
    let (state, reason, message) = if is_common {
        (
            "True",
            "CommonEncodingVersionSet",
            "Common encoding version set",
        )
    } else {
        (
            "False",
            "CommonEncodingVersionUnset",
            "Common encoding version unset",
        )
    };
    let mut condition = json!({
        "type": CONDITION, "status": state, "observedGeneration": generation,
        "lastTransitionTime": whole_seconds(now).to_string(), "reason": reason, "message": message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let mut current = conditions.iter_mut();
    match current.find(|current| current["type"] == CONDITION) {
        Some(current) => {
            if current["status"] == state && !force {
                condition["lastTransitionTime"] = current["lastTransitionTime"].take();
            }
            *current = condition;
        }
        None => conditions.push(condition),
    }
}
