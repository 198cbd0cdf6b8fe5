//! Events in their stored form, that of the core group. `events.k8s.io` has further checks.
//!
//! Upstream is `pkg/apis/core/validation/events.go`.

use serde_json::{Value, json};

use super::errors::{Errors, at, text};
use super::{formats, meta};
use crate::fielderror::FieldError;
use crate::schema::internal;

/// Longest texts of Events with a time, in bytes.
const REPORTER: usize = 128;
const ACTION: usize = 128;
const REASON: usize = 128;
const NOTE: usize = 1024;

/// The checks of both groups. Events with a time need a reporter.
pub(super) fn check(event: &Value, errors: &mut Errors) {
    const REPORTING: &str = "reportingComponent";
    let own = text(event, "metadata.namespace");
    let involved = text(event, "involvedObject.namespace");
    // Events of cluster-scoped objects are in the namespace `default`.
    let agrees = match (at(event, "eventTime").is_null(), involved) {
        (true, "") => ["", "default"].contains(&own),
        (true, _) => involved == own,
        (false, "") => ["default", "kube-system"].contains(&own),
        (false, _) => true,
    };
    if !agrees {
        errors.invalid(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        );
    }
    if !at(event, "eventTime").is_null() {
        let reporter = text(event, REPORTING);
        if reporter.is_empty() {
            errors.required(REPORTING, "");
        }
        errors.complaints(REPORTING, reporter, formats::qualified_name(reporter));
        let texts = [
            ("reportingInstance", "reportingInstance", REPORTER),
            ("action", "action", ACTION),
            ("reason", "reason", REASON),
        ];
        for (name, field, longest) in texts {
            let value = text(event, name);
            if value.is_empty() {
                errors.required(field, "");
            }
            at_most(field, value, longest, errors);
        }
        at_most("message", text(event, "message"), NOTE, errors);
    }
    errors.complaints("namespace", own, formats::subdomain(own));
}

fn at_most(field: &str, value: &str, longest: usize, errors: &mut Errors) {
    if value.len() > longest {
        errors.invalid(field, "", format!("can have at most {longest} characters"));
    }
}

fn series(event: &Value, errors: &mut Errors) {
    let series = at(event, "series");
    if series.is_null() {
        return;
    }
    if at(series, "count").as_i64().unwrap_or(0) < 2 {
        errors.invalid("series.count", "", "should be at least 2");
    }
    if at(series, "lastObservedTime").is_null() {
        errors.required("series.lastObservedTime", "");
    }
}

/// All errors of a new Event of `events.k8s.io`, which has further checks. `legacy` are the errors
/// that both groups report.
pub(crate) fn strict(event: &Value, legacy: Vec<FieldError>) -> Vec<FieldError> {
    let mut errors = renamed(legacy);
    meta::check("Event", event, &mut errors);
    series(event, &mut errors);
    if at(event, "eventTime").is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(event, "type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid("type", "", format!("has invalid value: {kind}"));
    }
    let has_source = ["component", "host"]
        .iter()
        .any(|part| !text(at(event, "source"), part).is_empty());
    for (is_set, field) in [
        (!at(event, "firstTimestamp").is_null(), "firstTimestamp"),
        (!at(event, "lastTimestamp").is_null(), "lastTimestamp"),
        (at(event, "count").as_i64().unwrap_or(0) != 0, "count"),
        (has_source, "source"),
    ] {
        if is_set {
            errors.invalid(field, "", "needs to be unset");
        }
    }
    errors.into_list()
}

/// The errors with the name that `events.k8s.io` has for the reporter.
fn renamed(legacy: Vec<FieldError>) -> Errors {
    let mut errors = Errors::default();
    let fields = legacy.into_iter().map(|mut error| {
        if error.field == "reportingComponent" {
            error.field = "reportingController".to_owned();
        }
        error
    });
    errors.extend(fields.collect());
    errors
}

/// The same for an update, which may change the series only.
pub(crate) fn strict_update(new: &Value, old: &Value, legacy: Vec<FieldError>) -> Vec<FieldError> {
    const FIXED: [&str; 14] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        // Upstream checks the reason twice.
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    let mut errors = renamed(legacy);
    meta::check_update("Event", new, old, &mut errors);
    if at(new, "series") != at(old, "series") {
        series(new, &mut errors);
    }
    for field in FIXED {
        if at(new, field) != at(old, field) {
            let name = match field {
                "reportingComponent" => "reportingController",
                other => other,
            };
            errors.invalid(name, shown(field, at(new, field)), "field is immutable");
        }
    }
    errors.into_list()
}

/// The value of a field in upstream's words, which show references by their internal fields.
fn shown(field: &str, value: &Value) -> Value {
    match (field, value) {
        ("related" | "involvedObject", reference) => {
            internal::form("core.ObjectReference", reference)
        }
        ("source", source) => internal::form("core.EventSource", source),
        ("count", count) => json!(count.as_i64().unwrap_or(0)),
        ("firstTimestamp" | "lastTimestamp" | "eventTime", time) => time.clone(),
        (_, text) => json!(text.as_str().unwrap_or("")),
    }
}
