//! The condition `DisruptionTarget`, which marks a pod that a controller is about to delete.
//!
//! The patch is the strategic merge patch from the status of a pod to the new one, byte for byte
//! as upstream computes it. Upstream: `UpdatePodCondition` and `PatchPodStatus` in
//! `pkg/api/v1/pod` and `pkg/util/pod`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use steersman_objects::Pod;

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

/// The field `observedGeneration` of the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedGeneration {
    /// The generation of the pod.
    Current,
    /// The generation of the pod if the field is set, else unset.
    CurrentIfSet,
    /// Unset.
    Unset,
}

impl ObservedGeneration {
    /// The value with the state `is_on` of the feature gate `PodObservedGenerationTracking`.
    pub fn tracked(is_on: bool) -> Self {
        if is_on {
            Self::Current
        } else {
            Self::CurrentIfSet
        }
    }

    /// The new value for a pod with `generation`, when `known` is the present value.
    fn next(self, generation: i64, known: Option<i64>) -> Option<i64> {
        let is_set = known.is_some_and(|known| known != 0);
        let is_wanted = self == Self::Current || (self == Self::CurrentIfSet && is_set);
        Some(generation).filter(|generation| is_wanted && *generation != 0)
    }
}

/// The members of `status` in the patch that sets the condition on `pod`. `None` if the pod has
/// the condition already.
///
/// Keys are in alphabetical order, as upstream's are.
pub fn disruption_target(
    pod: &Pod,
    cause: DisruptionCause,
    generation: ObservedGeneration,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let change = change(pod, cause, generation, now)?;
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
    generation: ObservedGeneration,
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
    let generation = generation.next(pod.meta.generation, observed);
    if let Some(generation) = generation {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition.insert("reason".to_owned(), json!(cause.reason));
    condition.insert("status".to_owned(), json!("True"));
    if let Some(served) = served {
        condition.retain(|key, value| served.get(key).unwrap_or(&Value::Null) != value);
        if served.contains_key("observedGeneration") && generation.is_none() {
            condition.insert("observedGeneration".to_owned(), Value::Null);
        }
        if condition.is_empty() {
            return None;
        }
    }
    condition.insert("type".to_owned(), json!(DISRUPTION_TARGET));
    Some(condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observed_generation_is_set_updated_or_dropped() {
        use ObservedGeneration::{Current, CurrentIfSet, Unset};
        // (mode, generation of the pod, known value, next value)
        let cases = [
            (Current, 3, None, Some(3)),
            (Current, 3, Some(2), Some(3)),
            (Current, 0, Some(2), None),
            (CurrentIfSet, 3, None, None),
            (CurrentIfSet, 3, Some(0), None),
            (CurrentIfSet, 3, Some(2), Some(3)),
            (Unset, 3, None, None),
            (Unset, 3, Some(2), None),
        ];
        for (mode, generation, known, next) in cases {
            assert_eq!(mode.next(generation, known), next, "{mode:?} {known:?}");
        }
        assert_eq!(ObservedGeneration::tracked(true), Current);
        assert_eq!(ObservedGeneration::tracked(false), CurrentIfSet);
    }
}
