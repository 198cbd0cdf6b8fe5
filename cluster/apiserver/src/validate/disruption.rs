//! PodDisruptionBudgets, and conditions in the form of `metav1.Condition`.
//!
//! Upstream is `pkg/apis/policy/validation` and `ValidateConditions` of
//! `apimachinery/pkg/apis/meta/v1/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::workload::{at_most_all, int_or_percent};
use super::{formats, selector};
use crate::schema::internal;

/// Longest reason of a condition, in bytes.
const REASON: usize = 1024;
/// Longest message of a condition, in bytes.
const MESSAGE: usize = 32 * 1024;

pub(super) fn disruption_budget(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let least = at(spec, "minAvailable");
    let most = at(spec, "maxUnavailable");
    if !least.is_null() && !most.is_null() {
        errors.invalid(
            "spec",
            internal::form("policy.PodDisruptionBudgetSpec", spec),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for (field, value) in [("spec.minAvailable", least), ("spec.maxUnavailable", most)] {
        int_or_percent(field, value, errors);
        at_most_all(field, value, errors);
    }
    if let Some(policy) = at(spec, "unhealthyPodEvictionPolicy").as_str() {
        errors.one_of(
            "spec.unhealthyPodEvictionPolicy",
            policy,
            &["AlwaysAllow", "IfHealthyBudget"],
        );
    }
    selector::check("spec.selector", at(spec, "selector"), errors);
}

/// The status of a budget.
pub(super) fn disruption_budget_status(object: &Value, errors: &mut Errors) {
    conditions(
        "status.conditions",
        list(object, "status.conditions"),
        errors,
    );
    for field in [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ] {
        errors.non_negative(object, &format!("status.{field}"));
    }
}

/// Conditions of the type `metav1.Condition`, one per type.
pub(super) fn conditions(field: &str, conditions: &[Value], errors: &mut Errors) {
    let mut types = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = |name: &str| format!("{field}[{index}].{name}");
        let kind = text(condition, "type");
        if !types.insert(kind) {
            errors.duplicate(field("type"), kind);
        }
        errors.complaints(field("type"), kind, formats::qualified_name(kind));
        let known = ["False", "True", "Unknown"];
        errors.one_of(field("status"), text(condition, "status"), &known);
        if let Some(number) = at(condition, "observedGeneration")
            .as_i64()
            .filter(|number| *number < 0)
        {
            let why = "must be greater than or equal to zero";
            errors.invalid(field("observedGeneration"), number, why);
        }
        if text(condition, "lastTransitionTime").is_empty() {
            errors.required(field("lastTransitionTime"), "");
        }
        let reason = text(condition, "reason");
        if reason.is_empty() {
            errors.required(field("reason"), "");
        } else {
            let complaints = formats::condition_reason(reason);
            errors.complaints(field("reason"), reason, complaints);
            if reason.len() > REASON {
                errors.too_long(field("reason"), REASON);
            }
        }
        if text(condition, "message").len() > MESSAGE {
            errors.too_long(field("message"), MESSAGE);
        }
    }
}
