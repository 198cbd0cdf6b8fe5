//! Special cases of CertificateSigningRequests.
//!
//! Upstream is `pkg/registry/certificates/certificates/strategy.go`.

use serde_json::Value;

/// Restores existing approvals and denials. Only the `approval` subresource can change them.
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

/// Fills in missing times of conditions: the time of this write, and of the last transition.
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
