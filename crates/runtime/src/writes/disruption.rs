//! The condition `DisruptionTarget`, which marks a pod that a controller is about to delete.
//!
//! The patch is the strategic merge patch from the status of a pod to the new one, byte for byte
//! as upstream computes it. Upstream: `UpdatePodCondition` and `PatchPodStatus` in
//! `pkg/api/v1/pod` and `pkg/util/pod`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::Pod;

/// The type of the condition.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The cause of the deletion, as the condition tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisruptionCause {
    /// Reason: one word in CamelCase.
    pub reason: &'static str,
    /// Message for users.
    pub message: &'static str,
}

impl DisruptionCause {
    /// Whether the condition of `pod` is `True` with this reason.
    pub fn is_set_on(&self, pod: &Pod) -> bool {
        let condition = pod.details().disruption.as_ref();
        condition.is_some_and(|condition| {
            let is = |field: &str, text: &str| {
                condition.0.get(field).and_then(Value::as_str) == Some(text)
            };
            is("status", "True") && is("reason", self.reason)
        })
    }
}

/// The members of `status` in the patch that sets the condition on `pod`. `None` if the pod has
/// the condition already.
///
/// `tracks_generation` is the feature gate `PodObservedGenerationTracking`; without it, only an
/// existing field `observedGeneration` is updated. Keys are in alphabetical order, as upstream's
/// are.
pub fn disruption_target(
    pod: &Pod,
    cause: DisruptionCause,
    tracks_generation: bool,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let change = change(pod, cause, tracks_generation, now)?;
    let mut status = Map::new();
    let known = pod
        .conditions
        .iter()
        .map(|condition| json!({"type": &*condition.kind}));
    let new = pod
        .details()
        .disruption
        .is_none()
        .then(|| json!({"type": DISRUPTION_TARGET}));
    if !pod.conditions.is_empty() {
        status.insert(
            "$setElementOrder/conditions".to_owned(),
            known.chain(new).collect(),
        );
    }
    status.insert("conditions".to_owned(), json!([change]));
    Some(status)
}

/// The condition in the patch. A new condition is complete; an existing one has only the changed
/// fields and the merge key `type`.
fn change(
    pod: &Pod,
    cause: DisruptionCause,
    tracks_generation: bool,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let served = pod
        .details()
        .disruption
        .as_ref()
        .map(|condition| &condition.0);
    let kept_time = served
        .filter(|c| c.get("status").and_then(Value::as_str) == Some("True"))
        .map(|c| c.get("lastTransitionTime").cloned().unwrap_or_default());
    let time = kept_time.unwrap_or_else(|| json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    let mut condition = Map::new();
    condition.insert("lastProbeTime".to_owned(), Value::Null);
    condition.insert("lastTransitionTime".to_owned(), time);
    condition.insert("message".to_owned(), json!(cause.message));
    let observed = served
        .and_then(|c| c.get("observedGeneration"))
        .and_then(Value::as_i64);
    let generation = pod.meta.generation;
    if generation != 0 && (tracks_generation || observed.is_some_and(|known| known != 0)) {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition.insert("reason".to_owned(), json!(cause.reason));
    condition.insert("status".to_owned(), json!("True"));
    if let Some(served) = served {
        condition.retain(|key, value| served.get(key).unwrap_or(&Value::Null) != value);
        if served.contains_key("observedGeneration") && generation == 0 {
            condition.insert("observedGeneration".to_owned(), Value::Null);
        }
        if condition.is_empty() {
            return None;
        }
    }
    condition.insert("type".to_owned(), json!(DISRUPTION_TARGET));
    Some(condition)
}
