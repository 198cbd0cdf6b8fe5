//! Changes of the status of Jobs: counters never fall, and a finished Job stays so.
//!
//! Most rules apply only if a field that they read changes, so that a Job with a wrong status can
//! still be repaired. Upstream is `pkg/apis/batch/validation` and `pkg/registry/batch/job`.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::indexes;

const CONDITIONS: &str = "status.conditions";

/// A Job with its old state.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

/// Whether the condition of this type has this status.
fn has(job: &Value, kind: &str, status: &str) -> bool {
    list(job, CONDITIONS)
        .iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == status)
}

fn is(job: &Value, kind: &str) -> bool {
    has(job, kind, "True")
}

fn is_finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn number(job: &Value, field: &str) -> i64 {
    at(job, &format!("status.{field}")).as_i64().unwrap_or(0)
}

impl Change<'_> {
    /// Whether a field of the status has changed.
    fn of(&self, field: &str) -> bool {
        let field = format!("status.{field}");
        at(self.new, &field) != at(self.old, &field)
    }

    /// Whether a condition became true, or is no longer true.
    fn of_condition(&self, kind: &str) -> bool {
        is(self.new, kind) != is(self.old, kind)
    }

    fn of_finish(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }
}

pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let change = Change { new, old };
    counters(new, errors);
    conditions_and_times(&change, errors);
    finished(&change, errors);
    index_sets(&change, errors);
    if (change.of_finish() || change.of("terminating"))
        && number(new, "terminating") > 0
        && is_finished(new)
    {
        let found = number(new, "terminating");
        let detail = "terminating>0 is invalid for finished job";
        errors.invalid("status.terminating", found, detail);
    }
    let ready = number(new, "ready");
    let active = number(new, "active");
    if (change.of("ready") || change.of("active")) && ready > active {
        let detail = "cannot set more ready pods than active";
        errors.invalid("status.ready", ready, detail);
    }
    let met = is(new, "SuccessCriteriaMet");
    for other in ["Failed", "FailureTarget"] {
        if met && is(new, other) {
            let detail = format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
            errors.invalid_whole(CONDITIONS, &detail);
        }
    }
    if !at(new, "spec.successPolicy").is_null() && !met && is(new, "Complete") {
        errors.invalid_whole(
            CONDITIONS,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }
    irreversible(&change, errors);
}

fn counters(job: &Value, errors: &mut Errors) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.non_negative(job, &format!("status.{field}"));
    }
    let mut seen = HashSet::new();
    for outcome in ["succeeded", "failed"] {
        let field = format!("status.uncountedTerminatedPods.{outcome}");
        for (index, uid) in list(job, &field).iter().enumerate() {
            let field = format!("{field}[{index}]");
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                errors.invalid(field, "", "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(field, uid);
            }
        }
    }
}

fn conditions_and_times(change: &Change<'_>, errors: &mut Errors) {
    let job = change.new;
    let complete_changed = change.of_condition("Complete");
    let time = |field: &str| at(job, &format!("status.{field}"));
    let started = time("startTime");
    let completed = time("completionTime");
    let mut both = |other: &str| {
        if (complete_changed || change.of_condition(other)) && is(job, "Complete") && is(job, other)
        {
            let detail = format!("cannot set Complete=True and {other}=true conditions");
            errors.invalid_whole(CONDITIONS, &detail);
        }
    };
    both("Failed");
    both("FailureTarget");
    if complete_changed || change.of("completionTime") {
        if !completed.is_null() && !is(job, "Complete") {
            errors.invalid(
                "status.completionTime",
                completed.clone(),
                "cannot set completionTime when there is no Complete=True condition",
            );
        }
        if completed.is_null() && is(job, "Complete") {
            errors.required(
                "status.completionTime",
                "completionTime is required for Complete jobs",
            );
        }
    }
    let parsed = |time: &Value| time.as_str()?.parse::<Timestamp>().ok();
    if (change.of("startTime") || change.of("completionTime"))
        && let Some(start) = parsed(started)
        && let Some(end) = parsed(completed)
        && end < start
    {
        let detail = "must be equal to or after `startTime`";
        errors.invalid("status.completionTime", completed.clone(), detail);
    }
    let failed_changed = change.of_condition("Failed") || change.of("failedIndexes");
    if failed_changed && is(job, "Failed") && !is(job, "FailureTarget") {
        errors.invalid_whole(
            CONDITIONS,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    if (complete_changed || change.of_condition("SuccessCriteriaMet"))
        && is(job, "Complete")
        && !is(job, "SuccessCriteriaMet")
    {
        errors.invalid_whole(
            CONDITIONS,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }
}

fn finished(change: &Change<'_>, errors: &mut Errors) {
    let job = change.new;
    if !is_finished(job) {
        return;
    }
    let active = number(job, "active");
    if (change.of_finish() || change.of("active")) && active > 0 {
        let detail = "active>0 is invalid for finished job";
        errors.invalid("status.active", active, detail);
    }
    let runs_nothing = at(job, "spec.suspend") == &Value::Bool(true)
        && at(job, "spec.completions").as_i64() == Some(0);
    if (change.of_finish() || change.of("startTime"))
        && !runs_nothing
        && at(job, "status.startTime").is_null()
    {
        errors.required("status.startTime", "startTime is required for finished job");
    }
    let uncounted = at(job, "status.uncountedTerminatedPods");
    let is_counted = |outcome: &str| list(uncounted, outcome).is_empty();
    if (change.of_finish() || change.of("uncountedTerminatedPods"))
        && !(is_counted("succeeded") && is_counted("failed"))
    {
        // Upstream shows the Go form.
        let shown = serde_json::json!({
            "Succeeded": at(uncounted, "succeeded"), "Failed": at(uncounted, "failed"),
        });
        let detail = "must be empty for finished job";
        errors.invalid("status.uncountedTerminatedPods", shown, detail);
    }
}

fn index_sets(change: &Change<'_>, errors: &mut Errors) {
    let job = change.new;
    let completions = at(job, "spec.completions").as_i64();
    let completed = text(job, "status.completedIndexes");
    let failed = at(job, "status.failedIndexes").as_str();
    let has_limit = !at(job, "spec.backoffLimitPerIndex").is_null();
    let completed_changed = change.of("completedIndexes");
    let failed_changed = change.of("failedIndexes");
    let mut check = |name: &str, indexes: &str| {
        if let Some(completions) = completions
            && let Err(error) = indexes::count(indexes, completions)
        {
            let detail = format!("error parsing {name}: {error}");
            errors.invalid(format!("status.{name}"), indexes, detail);
        }
    };
    if completed_changed {
        check("completedIndexes", completed);
    }
    if let Some(failed) = failed.filter(|_| failed_changed && has_limit) {
        check("failedIndexes", failed);
    }
    let is_indexed = text(job, "spec.completionMode") == "Indexed";
    if completed_changed && !completed.is_empty() && !is_indexed {
        errors.invalid(
            "status.completedIndexes",
            completed,
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        );
    }
    let Some(failed) = failed else { return };
    if failed_changed && !has_limit {
        errors.invalid(
            "status.failedIndexes",
            failed,
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        );
    }
    if (failed_changed || completed_changed)
        && let Some(completions) = completions
        && let Some(index) = indexes::overlap(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid("status.failedIndexes", failed, detail);
    }
}

/// The rules that compare with the old state.
fn irreversible(change: &Change<'_>, errors: &mut Errors) {
    let Change { new, old } = *change;
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(old, kind) && !is(new, kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errors.invalid_whole(CONDITIONS, &detail);
        }
    }
    let mut falls = |field: &str| {
        if number(new, field) < number(old, field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(format!("status.{field}"), number(new, field), detail);
        }
    };
    falls("failed");
    // An Indexed Job that is scaled down loses the indexes above its size.
    let is_elastic = text(new, "spec.completionMode") == "Indexed"
        && at(new, "spec.completions") == at(new, "spec.parallelism");
    if !is_elastic {
        falls("succeeded");
    }
    let time = |job: &Value, field: &str| at(job, &format!("status.{field}")).clone();
    let completed = time(new, "completionTime");
    if change.of("completionTime") && !completed.is_null() && !time(old, "completionTime").is_null()
    {
        errors.invalid("status.completionTime", completed, "field is immutable");
    }
    let resumes = is(old, "Suspended") && has(new, "Suspended", "False");
    if change.of("startTime")
        && !resumes
        && !time(old, "startTime").is_null()
        && at(new, "spec.suspend") != &Value::Bool(true)
    {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid("status.startTime", time(new, "startTime"), detail);
    }
    let met = |job: &Value| is(job, "SuccessCriteriaMet");
    if met(old) && !met(new) {
        let detail = "cannot disable the SuccessCriteriaMet=True condition";
        errors.invalid_whole(CONDITIONS, detail);
    }
    if is(old, "Complete") && !met(old) && met(new) {
        errors.invalid_whole(
            CONDITIONS,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}
