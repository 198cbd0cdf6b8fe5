//! Label selectors in specs (`metav1.LabelSelector`).

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, meta};
use crate::schema::empties;

/// Whether the selector has no requirements.
pub(super) fn is_empty(selector: &Value) -> bool {
    at(selector, "matchLabels")
        .as_object()
        .is_none_or(|labels| labels.is_empty())
        && list(selector, "matchExpressions").is_empty()
}

/// A selector as errors show it, which is its JSON.
pub(super) fn shown(selector: &Value) -> Value {
    empties::encoded_as("meta.LabelSelector", selector)
}

/// Checks a LabelSelector. Returns whether it is valid.
pub(super) fn check(field: &str, selector: &Value, errors: &mut Errors) -> bool {
    let before = errors.len();
    meta::labels(
        format!("{field}.matchLabels"),
        at(selector, "matchLabels"),
        errors,
    );
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = list(expression, "values");
        let operator = text(expression, "operator");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(
                    format!("{field}.values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(
                    format!("{field}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(
                format!("{field}.operator"),
                other,
                "not a valid selector operator",
            ),
        }
        let key = text(expression, "key");
        errors.complaints(format!("{field}.key"), key, formats::qualified_name(key));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or("");
            errors.complaints(
                format!("{field}.values[{index}]"),
                value,
                formats::label_value(value),
            );
        }
    }
    errors.len() == before
}

/// Whether the selector is valid.
pub(super) fn is_valid(selector: &Value) -> bool {
    check("", selector, &mut Errors::default())
}

/// Whether `labels` match `selector`. A missing selector matches no labels, an empty one all.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let wanted = at(selector, "matchLabels").as_object();
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value))
        && list(selector, "matchExpressions").iter().all(|expression| {
            let label = labels.get(text(expression, "key"));
            let listed = label.is_some_and(|label| list(expression, "values").contains(label));
            match text(expression, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}
