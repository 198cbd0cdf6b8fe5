//! Deployments, ReplicaSets and ReplicationControllers, and the parts that other workloads share.
//!
//! Upstream is `pkg/apis/apps/validation`.

use serde_json::{Value, json};

use super::errors::{Errors, at, text};
use super::{formats, pod, selector};
use crate::schema::internal;

const TEMPLATE: &str = "spec.template";

pub(super) fn deployment(object: &Value, errors: &mut Errors) {
    errors.non_negative(object, "spec.replicas");
    selector_and_template(object, "deployment", "ReplicaSet", errors);
    strategy(at(object, "spec.strategy"), errors);
    for field in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        errors.non_negative(object, &format!("spec.{field}"));
    }
    let min_ready = at(object, "spec.minReadySeconds").as_i64().unwrap_or(0);
    if let Some(deadline) = at(object, "spec.progressDeadlineSeconds").as_i64()
        && deadline <= min_ready
    {
        errors.invalid(
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

pub(super) fn replica_set(object: &Value, errors: &mut Errors) {
    errors.non_negative(object, "spec.replicas");
    errors.non_negative(object, "spec.minReadySeconds");
    selector_and_template(object, "deployment", "ReplicaSet", errors);
}

pub(super) fn replication_controller(object: &Value, errors: &mut Errors) {
    errors.non_negative(object, "spec.minReadySeconds");
    let labels = at(object, "spec.selector");
    let is_empty = labels.as_object().is_none_or(|labels| labels.is_empty());
    if is_empty {
        errors.required("spec.selector", "");
    }
    errors.non_negative(object, "spec.replicas");
    if at(object, TEMPLATE).is_null() {
        errors.required(TEMPLATE, "");
        return;
    }
    if !is_empty {
        matching_labels(&json!({ "matchLabels": labels }), object, errors);
    }
    template(object, "ReplicationController", errors);
}

/// Checks the selector, and that it matches the labels of the template.
fn selector_and_template(object: &Value, noun: &str, owner: &str, errors: &mut Errors) {
    const FIELD: &str = "spec.selector";
    let selector = at(object, FIELD);
    let mut usable = true;
    if selector.is_null() {
        errors.required(FIELD, "");
    } else {
        usable = selector::check(FIELD, selector, errors);
        if selector::is_empty(selector) {
            errors.invalid(
                FIELD,
                selector::shown(selector),
                format!("empty selector is invalid for {noun}"),
            );
        }
    }
    if !usable {
        errors.invalid(FIELD, selector::shown(selector), "invalid label selector");
        return;
    }
    if selector.is_null() || !selector::is_empty(selector) {
        matching_labels(selector, object, errors);
    }
    template(object, owner, errors);
}

pub(super) fn matching_labels(selector: &Value, object: &Value, errors: &mut Errors) {
    let field = format!("{TEMPLATE}.metadata.labels");
    let labels = at(object, &field);
    if !selector::matches(selector, labels) {
        let why = "`selector` does not match template `labels`";
        errors.invalid(field, labels.clone(), why);
    }
}

/// Checks the template of pods that a controller replaces after they end.
fn template(object: &Value, owner: &str, errors: &mut Errors) {
    pod::template(TEMPLATE, at(object, TEMPLATE), errors);
    long_running(object, owner, errors);
}

/// The pods of the template run until their owner ends them.
pub(super) fn long_running(object: &Value, owner: &str, errors: &mut Errors) {
    let template = at(object, TEMPLATE);
    errors.one_of(
        format!("{TEMPLATE}.spec.restartPolicy"),
        text(template, "spec.restartPolicy"),
        &["Always"],
    );
    if !at(template, "spec.activeDeadlineSeconds").is_null() {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.forbidden(format!("{TEMPLATE}.spec.activeDeadlineSeconds"), detail);
    }
}

fn strategy(strategy: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.strategy";
    let rolling = at(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => {
            errors.forbidden(
                format!("{FIELD}.rollingUpdate"),
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => {
            errors.required(
                format!("{FIELD}.rollingUpdate"),
                "this should be defaulted and never be nil",
            );
        }
        "RollingUpdate" => rolling_update(rolling, errors),
        _ => errors.not_supported(
            FIELD,
            internal::form("apps.DeploymentStrategy", strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
}

/// Checks surge and unavailability. One of them must be above 0, or the rollout could not progress.
fn rolling_update(rolling: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.strategy.rollingUpdate";
    let unavailable = format!("{FIELD}.maxUnavailable");
    int_or_percent(&unavailable, at(rolling, "maxUnavailable"), errors);
    int_or_percent(
        &format!("{FIELD}.maxSurge"),
        at(rolling, "maxSurge"),
        errors,
    );
    let value = at(rolling, "maxUnavailable");
    if magnitude(value) == 0 && magnitude(at(rolling, "maxSurge")) == 0 {
        errors.invalid(
            &unavailable,
            value.clone(),
            "may not be 0 when `maxSurge` is 0",
        );
    }
    at_most_all(&unavailable, value, errors);
}

/// The integer before an optional percent sign; 0 for other values.
pub(super) fn magnitude(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

pub(super) fn int_or_percent(field: &str, value: &Value, errors: &mut Errors) {
    match value {
        Value::String(text) => errors.complaints(field, text, formats::percent(text)),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.invalid(field, value.clone(), "must be greater than or equal to 0");
        }
        _ => {}
    }
}

pub(super) fn at_most_all(field: &str, value: &Value, errors: &mut Errors) {
    if let Some(text) = value.as_str()
        && formats::percent(text).is_empty()
        && magnitude(value) > 100
    {
        errors.invalid(field, text, "must not be greater than 100%");
    }
}
