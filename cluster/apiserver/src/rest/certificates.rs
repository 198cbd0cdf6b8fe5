//! Special cases of CertificateSigningRequests.
//!
//! Upstream is `pkg/registry/certificates/certificates/strategy.go`.

use serde_json::Value;

use crate::auth::User;

/// Replaces the fields about the requester, because a client cannot choose them.
pub(super) fn set_requester(request: &mut Value, user: &User) {
    let Some(spec) = request["spec"].as_object_mut() else {
        return;
    };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    if let Value::Object(info) = user.to_value() {
        spec.extend(info);
    }
}

/// Restores existing approvals and denials. Only the `approval` subresource can change them. A
/// change of their number stays, because validation refuses it.
pub(super) fn keep_decisions(new: &mut Value, old: &Value) {
    let before = old["status"]["conditions"].as_array();
    for kind in ["Approved", "Denied"] {
        let is_kind = |condition: &&Value| condition["type"] == kind;
        let known = before.into_iter().flatten().filter(is_kind);
        let conditions = new["status"]["conditions"].as_array_mut();
        let given: Vec<&mut Value> = conditions
            .into_iter()
            .flatten()
            .filter(|condition| condition["type"] == kind)
            .collect();
        if given.len() == known.clone().count() {
            for (condition, known) in given.into_iter().zip(known) {
                *condition = known.clone();
            }
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
            known["type"] == condition["type"]
                && known["status"] == condition["status"]
                && !known["lastTransitionTime"].is_null()
        });
        let since = same.map_or(now, |known| &known["lastTransitionTime"]);
        for (field, time) in [("lastUpdateTime", now), ("lastTransitionTime", since)] {
            if condition[field].is_null() {
                condition[field] = time.clone();
            }
        }
    }
}
