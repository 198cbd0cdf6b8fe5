//! The cached view of a PodDisruptionBudget.
//!
//! The view keeps the served [`Document`], because upstream PUTs the whole object to the status
//! endpoint. The types of the status are complete and keep unknown fields, because the controller
//! writes the status back. Upstream: `k8s.io/api/policy/v1`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use steersman_values::clock::whole_seconds;
use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::POD_DISRUPTION_BUDGETS;

use super::deployment::{IntOrPercent, is_zero};
use super::wire::{Text, nullable, time_of, whole_seconds_time};
use crate::view;

view! {
    /// A PodDisruptionBudget: the fields that its controller reads, and the document for its writes.
    pub struct PodDisruptionBudget: POD_DISRUPTION_BUDGETS, keeps document {
        /// Spec.
        pub spec: PodDisruptionBudgetSpec,
        /// Status.
        pub status: PodDisruptionBudgetStatus,
    }
}

/// `spec` of a PodDisruptionBudget. Only the API server reads `unhealthyPodEvictionPolicy`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "SpecWire")]
pub struct PodDisruptionBudgetSpec {
    /// Pods that must stay available during an eviction.
    pub min_available: Option<IntOrPercent>,
    /// Pods that may be unavailable after an eviction.
    pub max_unavailable: Option<IntOrPercent>,
    /// Parsed selector, or the error of parsing it. The empty selector matches every pod of the
    /// namespace, and an absent one matches no pod.
    pub selector: Result<Selector, SelectorError>,
}

/// `status` of a PodDisruptionBudget. It serialises without the fields that Go omits. Unknown
/// fields stay in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// Generation of the spec from which the controller computed this status.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods with an accepted eviction that the controller has not seen as terminating yet, and the
    /// time of the eviction, in whole seconds.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "times_by_name"
    )]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// Number of evictions that the API server may accept now.
    pub disruptions_allowed: i32,
    /// Number of healthy pods.
    pub current_healthy: i32,
    /// Number of pods that must stay healthy.
    pub desired_healthy: i32,
    /// Number of pods that the budget counts.
    pub expected_pods: i32,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<BudgetCondition>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A condition in the form of `metav1.Condition`: with a generation, and with a message even if it
/// is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetCondition {
    /// Type; unique within the list.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Generation of the spec for which the condition was set.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Time of the last change of the status.
    #[serde(default, deserialize_with = "whole_seconds_time")]
    pub last_transition_time: Option<Timestamp>,
    /// Reason: one word in CamelCase, for programs.
    #[serde(default)]
    pub reason: String,
    /// Message for users.
    #[serde(default)]
    pub message: String,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    min_available: Option<IntOrPercent>,
    max_unavailable: Option<IntOrPercent>,
    selector: Option<WireSelector>,
}

impl Default for PodDisruptionBudgetSpec {
    fn default() -> Self {
        SpecWire::default().into()
    }
}

impl From<SpecWire> for PodDisruptionBudgetSpec {
    fn from(wire: SpecWire) -> Self {
        Self {
            min_available: wire.min_available,
            max_unavailable: wire.max_unavailable,
            selector: Selector::parse(wire.selector.as_ref()),
        }
    }
}

/// Decodes times by name, in whole seconds as the API stores them. `null` is the earliest time,
/// like Go's zero time.
fn times_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Timestamp>, D::Error> {
    let wire: Option<BTreeMap<String, Option<Text<'de>>>> = Option::deserialize(deserializer)?;
    let time = |text: Option<Text<'_>>| {
        let exact = text.as_ref().map_or(Timestamp::MIN, time_of);
        whole_seconds(exact)
    };
    let pairs = wire.unwrap_or_default().into_iter();
    Ok(pairs.map(|(name, text)| (name, time(text))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn decode(spec: &Value, status: &Value) -> PodDisruptionBudget {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{}]},
            "spec": spec, "status": status,
        });
        PodDisruptionBudget::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_status_is_written_back_as_it_was_served() {
        let status = json!({
            "observedGeneration": 2, "disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4,
            "disruptedPods": {"web-1": "2026-01-02T03:04:05Z"}, "new": [1],
            "conditions": [
                {"type": "DisruptionAllowed", "status": "False", "observedGeneration": 2, "reason": "InsufficientPods",
                 "lastTransitionTime": "2026-01-02T03:04:05Z", "message": ""},
                {"type": "Foreign", "status": "True", "reason": "R", "lastTransitionTime": null, "message": "m", "x": 1},
            ],
        });
        let budget = decode(&json!({}), &status);
        assert_eq!(serde_json::to_value(&budget.status).unwrap(), status);
        let fresh = serde_json::to_value(decode(&json!({}), &Value::Null).status).unwrap();
        let zeros = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        assert_eq!(
            fresh, zeros,
            "Go writes these four numbers even if they are 0"
        );
    }

    #[test]
    fn times_outside_the_supported_range_do_not_hide_a_budget() {
        let status = json!({"disruptedPods": {"late": "10000-01-01T00:00:00Z", "none": null}});
        let times = decode(&json!({}), &status).status.disrupted_pods;
        assert_eq!(times["late"], whole_seconds(Timestamp::MAX));
        assert_eq!(times["none"], Timestamp::MIN);
    }

    #[test]
    fn a_limit_is_a_number_or_a_text() {
        let budget = decode(
            &json!({"minAvailable": 2, "maxUnavailable": "30%", "selector": {}}),
            &Value::Null,
        );
        assert_eq!(budget.spec.min_available, Some(IntOrPercent::Int(2)));
        let percent = IntOrPercent::Percent("30%".to_owned());
        assert_eq!(budget.spec.max_unavailable, Some(percent));
        assert!(budget.spec.selector.unwrap().is_everything());
        let bare = decode(&json!({}), &Value::Null);
        assert!(bare.spec.selector.unwrap().is_nothing(), "no selector");
    }
}
