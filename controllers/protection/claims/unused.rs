//! The condition `Unused` of a claim.
//!
//! Upstream: `updateUnusedCondition`, behind `PersistentVolumeClaimUnusedSinceTime`.
//!
//! Its transition time tells users since when no pod refers to the claim.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::PersistentVolumeClaim;
use steersman_objects::conditions::{FALSE, TRUE};
use steersman_options::features::{FeatureGates, PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME};
use steersman_releases::Release;
use steersman_values::clock::whole_seconds;

/// Type of the condition.
const UNUSED: &str = "Unused";

/// The claims that have the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracked {
    /// None: the feature gate is off.
    None,
    /// All claims.
    All,
    /// Claims that are bound. The binder writes the others, and the two writers would conflict.
    Bound,
}

impl Tracked {
    pub(super) fn of(features: &FeatureGates, release: Release) -> Self {
        if !features.is_on(PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME) {
            Self::None
        } else if release.notes_use_of_bound_claims_only() {
            Self::Bound
        } else {
            Self::All
        }
    }

    /// Whether the condition of `claim` is to be right.
    pub(super) fn includes(self, claim: &PersistentVolumeClaim) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Bound => claim.status.phase == *"Bound",
        }
    }
}

/// The status of the condition, if the claim has it.
///
/// A claim without it is queued by the handler, so that older claims get it as well.
pub(super) fn status(claim: &PersistentVolumeClaim) -> Option<String> {
    let object = claim.document.to_object();
    let conditions = object.get("status")?.get("conditions")?.as_array()?;
    let unused = conditions.iter().find(|one| one["type"] == UNUSED)?;
    unused["status"].as_str().map(str::to_owned)
}

/// The `status` of the claim with the right condition. `None` if the claim has it already.
///
/// The time of the condition is the time of the write, not of the last event of a pod.
pub(super) fn corrected(
    claim: &PersistentVolumeClaim,
    is_used: bool,
    now: Timestamp,
) -> Option<Value> {
    let before = status(claim);
    let (is_right, status, reason, message) = if is_used {
        // Upstream leaves a condition that is neither `True` nor missing.
        let is_right = before.as_deref().is_some_and(|status| status != TRUE);
        let message = "A pod is currently referencing this PVC";
        (is_right, FALSE, "PodUsingPVC", message)
    } else {
        let is_right = before.as_deref() == Some(TRUE);
        let message = "No pods are currently referencing this PVC";
        (is_right, TRUE, "NoPodsUsingPVC", message)
    };
    if is_right {
        return None;
    }
    let condition = json!({
        "type": UNUSED, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": whole_seconds(now).to_string(),
    });
    let object = claim.document.to_object().remove("status");
    let mut status = object.filter(Value::is_object).unwrap_or_else(|| json!({}));
    match status["conditions"].as_array_mut() {
        Some(conditions) => match conditions.iter_mut().find(|one| one["type"] == UNUSED) {
            Some(found) => *found = condition,
            None => conditions.push(condition),
        },
        None => status["conditions"] = json!([condition]),
    }
    Some(status)
}
