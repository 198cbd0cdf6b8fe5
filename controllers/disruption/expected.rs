//! How many pods a budget expects, and how many of them must stay healthy.
//!
//! Percentages round up. Examples with 5 expected pods: `maxUnavailable: 30%` allows 2 unavailable
//! pods, so 3 must stay healthy; `minAvailable: 50%` keeps 3 healthy as well.
//!
//! Upstream: `getExpectedPodCount`.
//!
//! The form of the limit decides about the basis: only a plain number in `minAvailable` needs no controllers
//! of pods.

use steersman_objects::{IntOrPercent, PercentError, PodDisruptionBudgetSpec};

/// The source of the number of expected pods.
///
/// Sizes count pods that do not exist yet, so a rollout or a lost node does not lower the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// The sizes of the controllers of the selected pods.
    Scales,
    /// The number of selected pods in any phase.
    Pods,
    /// The budget has no limit.
    Nothing,
}

/// The basis on which `spec` counts. `maxUnavailable` wins if both limits are set.
///
/// API validation rejects a budget with both limits.
pub(super) fn basis(spec: &PodDisruptionBudgetSpec) -> Basis {
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(_), _) | (None, Some(IntOrPercent::Percent(_))) => Basis::Scales,
        (None, Some(IntOrPercent::Int(_))) => Basis::Pods,
        (None, None) => Basis::Nothing,
    }
}

/// The number of pods that must stay healthy, of `expected` ones.
///
/// An absolute `minAvailable` may exceed `expected`; then no eviction is allowed. With `maxUnavailable` the
/// result is never negative.
pub(super) fn desired_healthy(
    spec: &PodDisruptionBudgetSpec,
    expected: i32,
) -> Result<i32, PercentError> {
    match (&spec.max_unavailable, &spec.min_available) {
        // A negative difference means that all pods may be unavailable.
        (Some(most), _) => Ok(expected
            .saturating_sub(most.of(expected, f64::ceil)?)
            .max(0)),
        (None, Some(least)) => least.of(expected, f64::ceil),
        (None, None) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::{Object, PodDisruptionBudget};

    use super::*;

    fn spec(spec: &Value) -> PodDisruptionBudgetSpec {
        let object = json!({"metadata": {"name": "web"}, "spec": spec});
        let budget = PodDisruptionBudget::decode(object.to_string().as_bytes());
        budget.unwrap().spec
    }

    #[test]
    fn limits_round_up() {
        let min = |limit: Value| json!({"minAvailable": limit});
        let max = |limit: Value| json!({"maxUnavailable": limit});
        // (spec, expected pods, basis, desired healthy)
        let cases = [
            (max(json!("30%")), 5, Basis::Scales, 3),
            (min(json!("50%")), 5, Basis::Scales, 3),
            (min(json!("28%")), 11, Basis::Scales, 4),
            (min(json!("28%")), 22, Basis::Scales, 7),
            (min(json!("34%")), 3, Basis::Scales, 2),
            (min(json!("0%")), 7, Basis::Scales, 0),
            (max(json!("100%")), 7, Basis::Scales, 0),
            (max(json!(1)), 7, Basis::Scales, 6),
            (max(json!(8)), 7, Basis::Scales, 0),
            (max(json!(i32::MAX)), 0, Basis::Scales, 0),
            (min(json!(3)), 1, Basis::Pods, 3),
            (json!({}), 0, Basis::Nothing, 0),
            (
                json!({"minAvailable": 9, "maxUnavailable": 2}),
                5,
                Basis::Scales,
                3,
            ),
        ];
        for (limits, expected, counted, desired) in cases {
            let spec = spec(&limits);
            assert_eq!(basis(&spec), counted, "{limits}");
            let found = desired_healthy(&spec, expected);
            assert_eq!(found, Ok(desired), "{limits} of {expected}");
        }
    }

    #[test]
    fn a_text_that_is_no_percentage_is_an_error() {
        let text = "invalid value for IntOrString: invalid type: string is not a percentage";
        for limits in [json!({"minAvailable": "3"}), json!({"maxUnavailable": ""})] {
            let spec = spec(&limits);
            assert_eq!(basis(&spec), Basis::Scales, "{limits}");
            let error = desired_healthy(&spec, 5).unwrap_err();
            assert_eq!(error.to_string(), text, "{limits}");
        }
    }
}
