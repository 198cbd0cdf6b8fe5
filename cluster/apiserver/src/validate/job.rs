//! Jobs, and the Job templates of CronJobs.
//!
//! Upstream is `pkg/apis/batch/validation` and `pkg/registry/batch/job`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::errors::{Errors, at, list, text};
use super::{formats, indexes, pod, selector};
use crate::schema::internal;

/// Most pods that an Indexed Job runs at once, and most failed indexes that it may have.
const MAX_INDEXED: i64 = 100_000;
/// Completions above which a Job with back-off per index has the lower limits.
const MANY_COMPLETIONS: i64 = 100_000;
/// Limit of parallelism and failed indexes for Jobs with many completions.
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_MANAGER: usize = 63;
const MAX_SUCCEEDED_INDEXES: usize = 64 * 1024;

/// Labels with the UID of a Job: the old one, and the one that the selector uses.
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
/// Labels with the name of a Job.
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// Checks a Job. `prefixed` requires the labels with a domain, which old Jobs lack.
pub(super) fn job(object: &Value, prefixed: bool, errors: &mut Errors) {
    generated_selector(object, prefixed, errors);
    spec_and_selector(object, errors);
    let completions = at(object, "spec.completions").as_i64().unwrap_or(0);
    if is_indexed(at(object, "spec")) && completions > 0 {
        // The last pod has the longest host name.
        let name = text(object, "metadata.name");
        let host = format!("{name}-{}", completions - 1);
        if !formats::label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.invalid("metadata.name", name, detail);
        }
    }
}

/// Checks an update, after the check of the new object.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    spec_and_selector(new, errors);
    completions_update(new, old, errors);
    errors.immutable(new, old, "spec.selector");
    template_update(new, old, errors);
    errors.immutable_pointer(new, old, "spec.completionMode");
    errors.immutable_struct("batch.PodFailurePolicy", new, old, "spec.podFailurePolicy");
    errors.immutable(new, old, "spec.backoffLimitPerIndex");
    errors.immutable_pointer(new, old, "spec.managedBy");
    errors.immutable_struct("batch.SuccessPolicy", new, old, "spec.successPolicy");
}

/// Whether the Job had the labels with a domain, so that updates have to keep them.
pub(super) fn has_prefixed_labels(old: &Value) -> bool {
    let labels = at(old, "spec.template.metadata.labels");
    [UID_LABELS[1], NAME_LABELS[1]]
        .iter()
        .all(|label| labels.get(label).is_some())
}

fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

/// The generated labels and selector must belong to this Job.
fn generated_selector(job: &Value, prefixed: bool, errors: &mut Errors) {
    const LABELS: &str = "spec.template.metadata.labels";
    let wanted = at(job, "spec.selector");
    if at(job, "spec.manualSelector") == &Value::Bool(true) || wanted.is_null() {
        return;
    }
    let uid = text(job, "metadata.uid");
    let name = text(job, "metadata.name");
    if uid.is_empty() {
        errors.required("metadata.uid", "");
    }
    let labels = at(job, LABELS);
    let mut expected = serde_json::Map::new();
    for prefix in 0..=usize::from(prefixed) {
        for (label, value) in [(UID_LABELS[prefix], uid), (NAME_LABELS[prefix], name)] {
            let field = format!("{LABELS}[{label}]");
            let detail = format!("must be '{value}'");
            match labels.get(label) {
                None => errors.required(field, &detail),
                Some(found) if found != value => errors.invalid(field, labels.clone(), detail),
                Some(_) => {}
            }
            expected.insert(label.to_owned(), json!(value));
        }
    }
    if selector::is_valid(wanted) && !selector::matches(wanted, &Value::Object(expected)) {
        errors.invalid(
            "spec.selector",
            wanted.clone(),
            "`selector` not auto-generated",
        );
    }
}

fn spec_and_selector(job: &Value, errors: &mut Errors) {
    spec(job, "spec", errors);
    let wanted = at(job, "spec.selector");
    let mut is_valid = true;
    if wanted.is_null() {
        errors.required("spec.selector", "");
    } else {
        is_valid = selector::check("spec.selector", wanted, errors);
    }
    let labels = at(job, "spec.template.metadata.labels");
    if is_valid && !selector::matches(wanted, labels) {
        errors.invalid(
            "spec.template.metadata.labels",
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

/// Checks a Job spec at `path`, without its selector.
pub(super) fn spec(object: &Value, path: &str, errors: &mut Errors) {
    let spec = at(object, path);
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.non_negative(object, &format!("{path}.{field}"));
    }
    let is_set = |field: &str| !at(spec, field).is_null();
    if is_set("maxFailedIndexes") && !is_set("backoffLimitPerIndex") {
        errors.required(
            format!("{path}.backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        );
    }
    if is_set("managedBy") {
        managed_by(
            &format!("{path}.managedBy"),
            text(spec, "managedBy"),
            errors,
        );
    }
    let mode = text(spec, "completionMode");
    if is_set("completionMode") {
        errors.one_of(
            format!("{path}.completionMode"),
            mode,
            &["NonIndexed", "Indexed"],
        );
    }
    if is_indexed(spec) {
        indexed(path, spec, errors);
    } else if !is_set("completionMode") || mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if is_set(field) {
                errors.invalid(
                    format!("{path}.{field}"),
                    at(spec, field).clone(),
                    "requires indexed completion mode",
                );
            }
        }
    }
    failure_policy(&format!("{path}.podFailurePolicy"), spec, errors);
    success_policy(&format!("{path}.successPolicy"), spec, errors);
    replacement_policy(&format!("{path}.podReplacementPolicy"), spec, errors);
    let template = format!("{path}.template");
    pod::template(&template, at(spec, "template"), errors);
    let field = format!("{template}.spec.restartPolicy");
    match text(spec, "template.spec.restartPolicy") {
        "Always" | "" => errors.required(field, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if is_set("podFailurePolicy") => errors.invalid(
            field,
            "OnFailure",
            "only \"Never\" is supported when podFailurePolicy is specified",
        ),
        other => errors.one_of(field, other, &["OnFailure", "Never"]),
    }
}

fn managed_by(field: &str, manager: &str, errors: &mut Errors) {
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.required(field, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            errors.complaints(field, domain, formats::subdomain(domain));
            errors.complaints(field, path, formats::http_path(path));
        }
        _ => errors.invalid(
            field,
            manager,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    }
    if manager.len() > MAX_MANAGER {
        errors.too_long(field, MAX_MANAGER);
    }
}

/// Checks the numbers of an Indexed Job.
fn indexed(path: &str, spec: &Value, errors: &mut Errors) {
    let number = |field: &str| at(spec, field).as_i64();
    let completions = number("completions");
    let parallelism = number("parallelism");
    let failed = number("maxFailedIndexes");
    let failed_field = format!("{path}.maxFailedIndexes");
    let parallelism_field = format!("{path}.parallelism");
    if completions.is_none() {
        errors.required(
            format!("{path}.completions"),
            "when completion mode is Indexed",
        );
    }
    if let Some(parallelism) = parallelism.filter(|parallelism| *parallelism > MAX_INDEXED) {
        let detail =
            format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        errors.invalid(&parallelism_field, parallelism, detail);
    }
    if let Some(failed) = failed
        && let Some(completions) = completions
        && failed > completions
    {
        errors.invalid(
            &failed_field,
            failed,
            "must be less than or equal to completions",
        );
    }
    if let Some(failed) = failed.filter(|failed| *failed > MAX_INDEXED) {
        let detail = format!("must be less than or equal to {MAX_INDEXED}");
        errors.invalid(&failed_field, failed, detail);
    }
    let has_many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !has_many || at(spec, "backoffLimitPerIndex").is_null() {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(&failed_field, &detail);
    }
    for (field, value) in [(parallelism_field, parallelism), (failed_field, failed)] {
        if let Some(value) = value.filter(|value| *value > MAX_WITH_MANY_COMPLETIONS) {
            let detail = format!(
                "must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are above {MANY_COMPLETIONS} \
                 and used with backoff limit per index"
            );
            errors.invalid(field, value, detail);
        }
    }
}

fn failure_policy(field: &str, spec: &Value, errors: &mut Errors) {
    let policy = at(spec, "podFailurePolicy");
    if policy.is_null() {
        return;
    }
    let rules = list(policy, "rules");
    if rules.len() > MAX_RULES {
        errors.too_many(format!("{field}.rules"), rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(&format!("{field}.rules[{index}]"), rule, spec, errors);
    }
}

fn failure_rule(field: &str, rule: &Value, spec: &Value, errors: &mut Errors) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action = format!("{field}.action");
    match text(rule, "action") {
        "" => errors.required(action, &valid_values(&ACTIONS)),
        "FailIndex" if at(spec, "backoffLimitPerIndex").is_null() => errors.invalid(
            action,
            "FailIndex",
            "requires the backoffLimitPerIndex to be set",
        ),
        other => errors.one_of(action, other, &ACTIONS),
    }
    let codes = at(rule, "onExitCodes");
    let patterns = list(rule, "onPodConditions");
    if !codes.is_null() {
        exit_codes(&format!("{field}.onExitCodes"), codes, spec, errors);
    }
    pod_conditions(&format!("{field}.onPodConditions"), patterns, errors);
    match (codes.is_null(), patterns.is_empty()) {
        (false, false) => errors.invalid_whole(
            field,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (true, true) => errors.invalid_whole(
            field,
            "specifying one of OnExitCodes and OnPodConditions is required",
        ),
        _ => {}
    }
}

/// The detail of a missing value, as Go prints a list of strings.
fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn exit_codes(field: &str, codes: &Value, spec: &Value, errors: &mut Errors) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let operator = text(codes, "operator");
    match operator {
        "" => errors.required(format!("{field}.operator"), &valid_values(&OPERATORS)),
        other => errors.one_of(format!("{field}.operator"), other, &OPERATORS),
    }
    if let Some(name) = at(codes, "containerName").as_str() {
        let known = ["template.spec.containers", "template.spec.initContainers"];
        let mut containers = known.iter().flat_map(|path| list(spec, path));
        if !containers.any(|container| text(container, "name") == name) {
            errors.invalid(
                format!("{field}.containerName"),
                name,
                "must be one of the container or initContainer names in the pod template",
            );
        }
    }
    let field = format!("{field}.values");
    let values = list(codes, "values");
    if values.is_empty() {
        let shown = at(codes, "values").clone();
        errors.invalid(&field, shown, "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(&field, values.len(), MAX_EXIT_CODES);
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if operator == "In" && *value == 0 {
            errors.invalid(&field, 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value.as_i64()) {
            errors.duplicate(field, value.clone());
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        errors.invalid(field, at(codes, "values").clone(), "must be ordered");
    }
}

fn pod_conditions(field: &str, patterns: &[Value], errors: &mut Errors) {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    if patterns.len() > MAX_PATTERNS {
        errors.too_many(field, patterns.len(), MAX_PATTERNS);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let kind = text(pattern, "type");
        let status = text(pattern, "status");
        errors.complaints(
            format!("{field}[{index}].type"),
            kind,
            formats::qualified_name(kind),
        );
        let field = format!("{field}[{index}].status");
        match status {
            "" => errors.required(field, &valid_values(&STATUSES)),
            other => errors.one_of(field, other, &STATUSES),
        }
    }
}

fn success_policy(field: &str, spec: &Value, errors: &mut Errors) {
    let policy = at(spec, "successPolicy");
    if policy.is_null() {
        return;
    }
    let rules = list(policy, "rules");
    if !is_indexed(spec) {
        let shown = internal::form("batch.SuccessPolicy", policy);
        errors.invalid(field, shown, "requires indexed completion mode");
        return;
    }
    let field = format!("{field}.rules");
    if rules.is_empty() {
        errors.required(
            &field,
            "at least one rules must be specified when the successPolicy is specified",
        );
    }
    if rules.len() > MAX_RULES {
        errors.too_many(&field, rules.len(), MAX_RULES);
    }
    // Upstream panics for a missing number of completions, which is an error of its own.
    let Some(completions) = at(spec, "completions").as_i64() else {
        return;
    };
    for (index, rule) in rules.iter().enumerate() {
        success_rule(&format!("{field}[{index}]"), rule, completions, errors);
    }
}

fn success_rule(field: &str, rule: &Value, completions: i64, errors: &mut Errors) {
    let count = at(rule, "succeededCount").as_i64();
    let listed = at(rule, "succeededIndexes").as_str();
    if count.is_none() && listed.is_none() {
        errors.required(
            field,
            "at least one of succeededCount or succeededIndexes must be specified",
        );
    }
    let mut total = 0;
    if let Some(listed) = listed {
        let field = format!("{field}.succeededIndexes");
        if listed.len() > MAX_SUCCEEDED_INDEXES {
            errors.too_long(&field, MAX_SUCCEEDED_INDEXES);
        }
        match indexes::count(listed, completions) {
            Ok(found) => total = found,
            Err(error) => {
                let detail = format!("error parsing succeededIndexes: {error}");
                errors.invalid(field, listed, detail);
            }
        }
    }
    let field = format!("{field}.succeededCount");
    let Some(count) = count else { return };
    if count < 0 {
        errors.invalid(&field, count, "must be greater than or equal to 0");
    }
    if count > completions {
        let detail = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.invalid(&field, count, detail);
    }
    if listed.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(field, count, detail);
    }
}

fn replacement_policy(field: &str, spec: &Value, errors: &mut Errors) {
    let Some(policy) = at(spec, "podReplacementPolicy").as_str() else {
        return;
    };
    let supported: &[&str] = if at(spec, "podFailurePolicy").is_null() {
        &["Failed", "TerminatingOrFailed"]
    } else {
        &["Failed"]
    };
    errors.one_of(field, policy, supported);
}

/// The completions of Indexed Jobs can change, together with the parallelism.
fn completions_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.completions";
    if !is_indexed(at(new, "spec")) {
        return errors.immutable(new, old, FIELD);
    }
    let completions = at(new, FIELD);
    let has_changed = completions != at(old, FIELD) && !completions.is_null();
    if has_changed && completions != at(new, "spec.parallelism") {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(FIELD, completions.clone(), detail);
    }
}

/// The template can change only as far as scheduling and resources of a suspended Job go.
pub(super) fn template_update(new: &Value, old: &Value, errors: &mut Errors) {
    let release = errors.release();
    if !release.enables("MutablePodResourcesForSuspendedJobs") {
        let known = old_template_update(new, old);
        return errors.immutable_struct("core.PodTemplateSpec", new, &known, "spec.template");
    }
    if !has_mutable_template(old) {
        return errors.immutable_struct("core.PodTemplateSpec", new, old, "spec.template");
    }
    let spec = at(new, "spec.template.spec");
    let before = at(old, "spec.template.spec");
    let mut known = with_scheduling_of(spec, before);
    copy_resources(spec, &mut known);
    if *spec != known {
        let shown = internal::form("core.PodSpec", spec);
        errors.invalid("spec.template.spec", shown, "field is immutable");
    }
}

/// The old Job as releases without `MutablePodResourcesForSuspendedJobs` compare it with the new one:
/// only the scheduling of a suspended Job without start time can change.
fn old_template_update(new: &Value, old: &Value) -> Value {
    let mut known = old.clone();
    if at(old, "spec.suspend") == &Value::Bool(true) && at(old, "status.startTime").is_null() {
        let spec = at(new, "spec.template.spec");
        known["spec"]["template"]["spec"] = with_scheduling_of(spec, at(old, "spec.template.spec"));
        for field in ["annotations", "labels"] {
            let metadata = at(new, "spec.template.metadata");
            copy_field(metadata, &mut known["spec"]["template"]["metadata"], field);
        }
    }
    known
}

/// Whether scheduling fields and resources of the template can change. The Job has to be suspended
/// without active pods, and either new or with the condition `Suspended`.
fn has_mutable_template(job: &Value) -> bool {
    let is_suspended = |condition: &Value| {
        text(condition, "type") == "Suspended" && text(condition, "status") == "True"
    };
    let stopped = at(job, "status.startTime").is_null()
        || list(job, "status.conditions").iter().any(is_suspended);
    at(job, "spec.suspend") == &Value::Bool(true)
        && stopped
        && at(job, "status.active").as_i64().unwrap_or(0) == 0
}

/// The old pod spec with the scheduling fields of `new`.
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
    spec
}

/// Copies the resources of all containers from the pod spec `new` to `spec`.
fn copy_resources(new: &Value, spec: &mut Value) {
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
