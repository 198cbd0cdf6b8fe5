//! What is particular to requests for certificates.

use serde_json::Value;

/// Through the status nobody approves or denies: decisions that were there stay as they were.
pub(super) fn keep_decisions(new: &mut Value, old: &Value) {
    let before = old["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for condition in new["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let same = |known: &&Value| known["type"] == condition["type"];
        if matches!(condition["type"].as_str(), Some("Approved" | "Denied"))
            && let Some(known) = before.iter().find(same)
        {
            *condition = known.clone();
        }
    }
}

/// Completes the times of conditions: when they were written, and since when they are so.
pub(super) fn date_conditions(new: &mut Value, old: &Value, now: &Value) {
    let before = old["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let Some(conditions) = new["status"]["conditions"].as_array_mut() else {
        return;
    };
    for condition in conditions {
        let same = before.iter().find(|known| {
            known["type"] == condition["type"] && known["status"] == condition["status"]
        });
        let since = same.map_or(now, |known| &known["lastTransitionTime"]);
        for (field, time) in [("lastUpdateTime", now), ("lastTransitionTime", since)] {
            if condition[field].is_null() {
                condition[field] = time.clone();
            }
        }
    }
}
