//! The Events of the controller. Reasons and messages are upstream's.
//!
//! Most Events about a budget repeat with every sync; the recorder combines and limits them.
//!
//! Texts are exact, because alerts may search for them, even where upstream's wording is odd.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;
use steersman_objects::{ObjectReference, Pod, PodDisruptionBudget};
use steersman_runtime::events::{EventRecorder, EventType};

/// An Event about a budget.
///
/// It is recorded before the status is written, so a failed write does not hide it.
#[derive(Clone, Copy)]
pub(super) enum AboutBudget<'a> {
    /// The selector is malformed.
    NoSelector(&'a dyn Display),
    /// The selector matches no pod.
    NoPods,
    /// The number of expected pods is unknown.
    NotCounted(&'a dyn Display),
    /// Some selected pods have no controller, and the budget counts by the sizes of controllers.
    UnmanagedPods,
}

impl AboutBudget<'_> {
    /// Records the Event about `budget`.
    ///
    /// Upstream: `trySync`. Two Events share the reason `NoPods`: no pods match, or the selector is
    /// malformed.
    pub(super) fn record(self, recorder: &EventRecorder, budget: &PodDisruptionBudget) {
        use EventType::{Normal, Warning};
        let (kind, reason, message) = match self {
            Self::NoSelector(error) => (Warning, "NoPods", format!("Failed to get pods: {error}")),
            Self::NoPods => (Normal, "NoPods", "No matching pods found".to_owned()),
            Self::NotCounted(error) => (
                Warning,
                "CalculateExpectedPodCountFailed",
                format!("Failed to calculate the number of expected pods: {error}"),
            ),
            Self::UnmanagedPods => {
                // Only this rare Event needs the served form of the selector, so it is read from the
                // document.
                let selector = go_text(&budget.document.to_object()["spec"]["selector"]);
                let message = format!(
                    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
                     unmanaged. As a result, the status of the PDB cannot be calculated correctly, \
                     which may result in undefined behavior. To account for these pods please set \
                     \".spec.minAvailable\" field of the PDB to an integer value."
                );
                (Warning, "UnmanagedPods", message)
            }
        };
        recorder.event(ObjectReference::of(budget), kind, reason, message);
    }
}

/// Records that several budgets select `pod`. `first` is one of them.
///
/// Upstream: `getPdbForPod`. The API server refuses to evict such a pod.
pub(super) fn several_budgets(recorder: &EventRecorder, pod: &Pod, first: &PodDisruptionBudget) {
    // The two blanks are upstream's.
    let message = format!(
        "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
        &*pod.meta.namespace, pod.meta.name, first.meta.name
    );
    let reason = "MultiplePodDisruptionBudgets";
    recorder.event(
        ObjectReference::of(pod),
        EventType::Warning,
        reason,
        message,
    );
}

/// Records that `pod` was evicted by `budget` and not deleted.
pub(super) fn not_deleted(recorder: &EventRecorder, pod: &Pod, budget: &PodDisruptionBudget) {
    // Upstream prints the namespace twice, in place of the name. Tools may search for this text.
    let namespace = &budget.meta.namespace;
    let message =
        format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
    let reason = "NotDeleted";
    recorder.event(
        ObjectReference::of(pod),
        EventType::Warning,
        reason,
        message,
    );
}

/// A `LabelSelector` as Go prints its pointer, with labels sorted by key.
///
/// Upstream formats the selector with `%v`, which calls its generated `String` method. A nil pointer is
/// `nil`.
fn go_text(selector: &Value) -> String {
    if selector.is_null() {
        return "nil".to_owned();
    }
    // Values of other types are rejected by the API server, so an empty text stands for them.
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: BTreeMap<&String, &Value> = labels.collect();
    let labels: String = labels
        .into_iter()
        .map(|(key, value)| format!("{key}: {},", text(value)))
        .collect();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let requirements = list(&selector["matchExpressions"]);
    let requirements: String = requirements
        .iter()
        .map(|requirement| {
            let values: Vec<String> = list(&requirement["values"]).iter().map(text).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(&requirement["key"]),
                text(&requirement["operator"]),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_printed_as_go_prints_them() {
        let requirements = json!([{"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "x", "operator": "Exists"}]);
        // (selector, text)
        let cases = [
            (Value::Null, "nil"),
            (
                json!({}),
                "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                json!({"matchLabels": {"b": "2", "a": "1"}}),
                "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                json!({"matchExpressions": requirements}),
                "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{\
                 LabelSelectorRequirement{Key:tier,Operator:In,Values:[b a],},\
                 LabelSelectorRequirement{Key:x,Operator:Exists,Values:[],},},}",
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(go_text(&selector), expected);
        }
    }
}
