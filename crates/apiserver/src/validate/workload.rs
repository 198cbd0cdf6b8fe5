//! Deployments, ReplicaSets, ReplicationControllers, DaemonSets, StatefulSets, Jobs and CronJobs.
//!
//! Upstream is `pkg/apis/apps/validation` and `pkg/apis/batch/validation`.

use serde_json::{Value, json};

use super::errors::{Errors, at, list, text};
use super::{formats, pod_spec, selector};

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

pub(super) fn daemon_set(object: &Value, errors: &mut Errors) {
    selector_and_template(object, "daemonset", "DaemonSet", errors);
    errors.non_negative(object, "spec.minReadySeconds");
    errors.non_negative(object, "spec.revisionHistoryLimit");
    let kind = text(object, "spec.updateStrategy.type");
    errors.one_of(
        "spec.updateStrategy.type",
        kind,
        &["RollingUpdate", "OnDelete"],
    );
}

pub(super) fn stateful_set(object: &Value, errors: &mut Errors) {
    errors.one_of(
        "spec.podManagementPolicy",
        text(object, "spec.podManagementPolicy"),
        &["OrderedReady", "Parallel"],
    );
    let kind = text(object, "spec.updateStrategy.type");
    errors.one_of(
        "spec.updateStrategy.type",
        kind,
        &["RollingUpdate", "OnDelete"],
    );
    errors.non_negative(object, "spec.replicas");
    errors.non_negative(object, "spec.minReadySeconds");
    selector_and_template(object, "statefulset", "StatefulSet", errors);
}

/// Checks an update. All fields of the spec outside the list are immutable.
pub(super) fn stateful_set_update(new: &Value, old: &Value, errors: &mut Errors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    stateful_set(new, errors);
    let frozen = |object: &Value| {
        let fields = at(object, "spec").as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .filter(|(name, _)| !MUTABLE.contains(&name.as_str()))
            .collect::<serde_json::Map<_, _>>()
    };
    if frozen(new) != frozen(old) {
        errors.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
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

pub(super) fn job(object: &Value, errors: &mut Errors) {
    job_spec(object, "spec", errors);
    let selector = at(object, "spec.selector");
    if selector.is_null() {
        errors.required("spec.selector", "");
    } else if selector::check("spec.selector", selector, errors) {
        let labels = at(object, "spec.template.metadata.labels");
        if !selector::matches(selector, labels) {
            errors.invalid(
                "spec.template.metadata.labels",
                labels.clone(),
                "`selector` does not match template `labels`",
            );
        }
    }
}

/// Checks an update. Indexed Jobs are elastic, so their completions can change.
pub(super) fn job_update(new: &Value, old: &Value, errors: &mut Errors) {
    let indexed = text(new, "spec.completionMode") == "Indexed";
    if !indexed {
        errors.immutable(new, old, "spec.completions");
    }
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.immutable(new, old, &format!("spec.{field}"));
    }
    if has_mutable_scheduling(old) {
        let (spec, before) = (at(new, "spec.template.spec"), at(old, "spec.template.spec"));
        if *spec != with_scheduling_of(spec, before) {
            errors.invalid("spec.template.spec", spec.clone(), "field is immutable");
        }
    } else {
        errors.immutable(new, old, TEMPLATE);
    }
}

/// Whether the scheduling fields and resources of the Job's template can change: the Job is
/// suspended and has no active pods.
fn has_mutable_scheduling(job: &Value) -> bool {
    let conditions = at(job, "status.conditions")
        .as_array()
        .into_iter()
        .flatten();
    let is_suspended = |condition: &Value| {
        text(condition, "type") == "Suspended" && text(condition, "status") == "True"
    };
    let stopped = at(job, "status.startTime").is_null() || conditions.into_iter().any(is_suspended);
    at(job, "spec.suspend") == &Value::Bool(true)
        && stopped
        && at(job, "status.active").as_i64().unwrap_or(0) == 0
}

/// The old pod spec with the scheduling fields and resources of `new`.
fn with_scheduling_of(new: &Value, old: &Value) -> Value {
    let mut spec = old.clone();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy_field(new, &mut spec, field);
    }
    let mut affinity = old.get("affinity").cloned().unwrap_or_else(|| json!({}));
    copy_field(at(new, "affinity"), &mut affinity, "nodeAffinity");
    let is_left = !at(new, "affinity").is_null() || affinity != json!({});
    let kept = if is_left {
        json!({"affinity": affinity})
    } else {
        Value::Null
    };
    copy_field(&kept, &mut spec, "affinity");
    for containers in ["containers", "initContainers"] {
        let asked = list(new, containers);
        let mine = spec
            .get_mut(containers)
            .and_then(Value::as_array_mut)
            .filter(|mine| mine.len() == asked.len());
        let Some(mine) = mine else { continue };
        for (container, asked) in mine
            .iter_mut()
            .zip(asked)
            .filter(|(container, asked)| container["name"] == asked["name"])
        {
            copy_field(asked, container, "resources");
        }
    }
    spec
}

/// Copies the field from `from` to `to`, or removes it if `from` lacks it.
fn copy_field(from: &Value, to: &mut Value, field: &str) {
    let Some(fields) = to.as_object_mut() else {
        return;
    };
    match from.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

pub(super) fn cron_job(object: &Value, errors: &mut Errors) {
    if text(object, "spec.schedule").is_empty() {
        errors.required("spec.schedule", "");
    }
    errors.non_negative(object, "spec.startingDeadlineSeconds");
    errors.one_of(
        "spec.concurrencyPolicy",
        text(object, "spec.concurrencyPolicy"),
        &["Allow", "Forbid", "Replace"],
    );
    errors.non_negative(object, "spec.successfulJobsHistoryLimit");
    errors.non_negative(object, "spec.failedJobsHistoryLimit");
    job_spec(object, "spec.jobTemplate.spec", errors);
}

fn job_spec(object: &Value, path: &str, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        errors.non_negative(object, &format!("{path}.{field}"));
    }
    let template = format!("{path}.template");
    pod_spec::template(&template, at(object, &template), errors);
    let field = format!("{template}.spec.restartPolicy");
    match text(object, &field) {
        "Always" => errors.required(field, "valid values: \"OnFailure\", \"Never\""),
        other => errors.one_of(field, other, &["OnFailure", "Never"]),
    }
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
                selector.clone(),
                format!("empty selector is invalid for {noun}"),
            );
        }
    }
    if !usable {
        errors.invalid(FIELD, selector.clone(), "invalid label selector");
        return;
    }
    if selector.is_null() || !selector::is_empty(selector) {
        matching_labels(selector, object, errors);
    }
    template(object, owner, errors);
}

fn matching_labels(selector: &Value, object: &Value, errors: &mut Errors) {
    let field = format!("{TEMPLATE}.metadata.labels");
    let labels = at(object, &field);
    if !selector::matches(selector, labels) {
        errors.invalid(
            field,
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

/// Checks the template of pods that a controller replaces after they end.
fn template(object: &Value, owner: &str, errors: &mut Errors) {
    let template = at(object, TEMPLATE);
    pod_spec::template(TEMPLATE, template, errors);
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
        // Upstream shows the Go form of the whole strategy.
        other => errors.not_supported(
            FIELD,
            json!({"Type": other, "RollingUpdate": rolling}),
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
fn magnitude(value: &Value) -> i64 {
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
