//! Events of both groups. The stored form is that of the core group.
//!
//! Upstream is `pkg/apis/core/validation/events.go`.

use serde_json::{Value, json};

use super::errors::{Errors, at, text};
use super::formats;

/// Longest texts of Events with a time, in bytes.
const REPORTER: usize = 128;
const ACTION: usize = 128;
const REASON: usize = 128;
const NOTE: usize = 1024;

/// Names of fields in the group `events.k8s.io`, and upstream's internal ones.
struct Names {
    object: &'static str,
    note: &'static str,
    reporter: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
}

const NEW: Names = Names {
    object: "regarding",
    note: "note",
    reporter: "reportingController",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    source: "deprecatedSource",
};

const CORE: Names = Names {
    object: "involvedObject",
    note: "message",
    reporter: "reportingComponent",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    source: "source",
};

fn is_new(event: &Value) -> bool {
    text(event, "apiVersion").starts_with("events.k8s.io/")
}

fn names(event: &Value) -> &'static Names {
    if is_new(event) { &NEW } else { &CORE }
}

pub(super) fn check(event: &Value, errors: &mut Errors) {
    legacy(event, errors);
    if !is_new(event) {
        return;
    }
    series(event, errors);
    if at(event, "eventTime").is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(event, "type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid("type", "", format!("has invalid value: {kind}"));
    }
    let is_set = |name: &str| !matches!(at(event, name), Value::Null);
    let has_source = ["component", "host"]
        .iter()
        .any(|part| !text(at(event, NEW.source), part).is_empty());
    let has_count = at(event, NEW.count).as_i64().unwrap_or(0) != 0;
    for (is_set, field) in [
        (is_set(NEW.first), CORE.first),
        (is_set(NEW.last), CORE.last),
        (has_count, CORE.count),
        (has_source, CORE.source),
    ] {
        if is_set {
            errors.invalid(field, "", "needs to be unset");
        }
    }
}

/// The checks of both groups. Events with a time need a reporter.
fn legacy(event: &Value, errors: &mut Errors) {
    let names = names(event);
    let own = text(event, "metadata.namespace");
    let involved = text(at(event, names.object), "namespace");
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
        let reporter = text(event, names.reporter);
        if reporter.is_empty() {
            errors.required(names.reporter, "");
        }
        let complaints = formats::qualified_name(reporter);
        errors.complaints(names.reporter, reporter, complaints);
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
        at_most("message", text(event, names.note), NOTE, errors);
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

/// An update: only the series of an Event changes in the newer group.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    legacy(new, errors);
    if !is_new(new) {
        return;
    }
    if at(new, "series") != at(old, "series") {
        series(new, errors);
    }
    let fields: [(&str, &str); 14] = [
        (NEW.object, CORE.object),
        ("reason", "reason"),
        (NEW.note, CORE.note),
        (NEW.source, CORE.source),
        (NEW.first, CORE.first),
        (NEW.last, CORE.last),
        (NEW.count, CORE.count),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (name, field) in fields {
        let (after, before) = (at(new, name), at(old, name));
        if after != before {
            errors.invalid(field, shown(name, after), "field is immutable");
        }
    }
}

/// The value of a field in upstream's words, which show references by their internal fields.
fn shown(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("related", Value::Null) => Value::Null,
        ("related" | "regarding", reference) => json!({
            "Kind": text(reference, "kind"),
            "Namespace": text(reference, "namespace"),
            "Name": text(reference, "name"),
            "UID": text(reference, "uid"),
            "APIVersion": text(reference, "apiVersion"),
            "ResourceVersion": text(reference, "resourceVersion"),
            "FieldPath": text(reference, "fieldPath"),
        }),
        ("deprecatedSource", source) => json!({
            "Component": text(source, "component"),
            "Host": text(source, "host"),
        }),
        ("deprecatedCount", count) => json!(count.as_i64().unwrap_or(0)),
        (
            "reason" | "note" | "type" | "action" | "reportingController" | "reportingInstance",
            v,
        ) => {
            json!(v.as_str().unwrap_or(""))
        }
        (_, value) => value.clone(),
    }
}
