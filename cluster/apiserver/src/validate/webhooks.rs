//! Webhook configurations, and the rules that they share with admission policies.
//!
//! Upstream is `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, selector};
use crate::apimachinery::webhook_client;
use crate::cel::policy::Expressions;
use crate::cel::types::Type;

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Most match conditions of a webhook or policy.
const CONDITIONS: usize = 64;

pub(super) fn configuration(object: &Value, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, hook) in list(object, "webhooks").iter().enumerate() {
        let field = format!("webhooks[{index}]");
        webhook(&field, hook, errors);
        review_versions(
            &format!("{field}.admissionReviewVersions"),
            list(hook, "admissionReviewVersions"),
            errors,
        );
        let name = text(hook, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(format!("{field}.name"), name);
        }
    }
}

fn webhook(field: &str, hook: &Value, errors: &mut Errors) {
    qualified(&format!("{field}.name"), text(hook, "name"), errors);
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        self::rule(&format!("{field}.rules[{index}]"), rule, errors);
    }
    one_of(field, hook, "failurePolicy", &FAILURE_POLICIES, errors);
    one_of(field, hook, "matchPolicy", &MATCH_POLICIES, errors);
    if at(hook, "sideEffects").is_null() {
        errors.required(
            format!("{field}.sideEffects"),
            &format!("must specify one of {}", SIDE_EFFECTS.join(", ")),
        );
    }
    one_of(field, hook, "sideEffects", &SIDE_EFFECTS, errors);
    let timeout = at(hook, "timeoutSeconds").as_i64();
    if let Some(timeout) = timeout.filter(|seconds| !(1..=30).contains(seconds)) {
        errors.invalid(
            format!("{field}.timeoutSeconds"),
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    for name in ["namespaceSelector", "objectSelector"] {
        selector::check(&format!("{field}.{name}"), at(hook, name), errors);
    }
    one_of(
        field,
        hook,
        "reinvocationPolicy",
        &REINVOCATION_POLICIES,
        errors,
    );
    webhook_client::check(
        &format!("{field}.clientConfig"),
        at(hook, "clientConfig"),
        errors,
    );
    match_conditions(
        &format!("{field}.matchConditions"),
        list(hook, "matchConditions"),
        false,
        errors,
    );
}

/// Requires that the text in a field, if there is one, is one of `known`.
pub(super) fn one_of(field: &str, object: &Value, name: &str, known: &[&str], errors: &mut Errors) {
    if let Some(value) = at(object, name).as_str() {
        errors.one_of(format!("{field}.{name}"), value, known);
    }
}

/// The name of a webhook is a domain of at least three labels.
fn qualified(field: &str, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(field, "");
    }
    let complaints = formats::subdomain(name);
    if !complaints.is_empty() {
        errors.invalid(field, name, complaints.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(
            field,
            name,
            "should be a domain with at least three segments separated by dots",
        );
    }
}

fn review_versions(field: &str, versions: &[Value], errors: &mut Errors) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return errors.required(field, &format!("must specify one of {known}"));
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let version = version.as_str().unwrap_or("");
        if !seen.insert(version) {
            errors.invalid(field, version, "duplicate version");
            continue;
        }
        errors.complaints(&field, version, formats::dns_label(version));
    }
    if !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        errors.invalid(
            field,
            versions.to_vec(),
            format!("must include at least one of {known}"),
        );
    }
}

/// A rule of a webhook or policy: operations on resources.
pub(super) fn rule(field: &str, rule: &Value, errors: &mut Errors) {
    let operations = list(rule, "operations");
    wildcard(field, rule, "operations", "operations", errors);
    for (index, operation) in operations.iter().enumerate() {
        let operation = operation.as_str().unwrap_or("");
        errors.one_of(
            format!("{field}.operations[{index}]"),
            operation,
            &OPERATIONS,
        );
    }
    wildcard(field, rule, "apiGroups", "API groups", errors);
    wildcard(field, rule, "apiVersions", "API versions", errors);
    for (index, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.required(format!("{field}.apiVersions[{index}]"), "");
        }
    }
    resources(
        &format!("{field}.resources"),
        list(rule, "resources"),
        errors,
    );
    one_of(field, rule, "scope", &SCOPES, errors);
}

/// Requires values, of which `*` excludes others.
fn wildcard(field: &str, rule: &Value, name: &str, noun: &str, errors: &mut Errors) {
    let values = list(rule, name);
    if values.is_empty() {
        errors.required(format!("{field}.{name}"), "");
    }
    if values.len() > 1 && values.iter().any(|value| value == "*") {
        errors.invalid(
            format!("{field}.{name}"),
            values.to_vec(),
            format!("if '*' is present, must not specify other {noun}"),
        );
    }
}

/// Resources and subresources (`pods/status`), either of which may be `*`.
fn resources(field: &str, resources: &[Value], errors: &mut Errors) {
    if resources.is_empty() {
        errors.required(field, "");
    }
    let mut all_parts_of = HashSet::new();
    let mut part_of_all = HashSet::new();
    let mut has_all = false;
    let mut has_plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let resource = resource.as_str().unwrap_or("");
        if resource.is_empty() {
            errors.required(field, "");
            continue;
        }
        has_all |= resource == "*";
        let Some((whole, part)) = resource.split_once('/') else {
            // As in upstream, the last resource without a part decides.
            has_plain = resource != "*";
            continue;
        };
        if all_parts_of.contains(whole) {
            let why = format!("if '{whole}/*' is present, must not specify {resource}");
            errors.invalid(field.as_str(), resource, why);
        }
        if part_of_all.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {resource}");
            errors.invalid(field.as_str(), resource, why);
        }
        if part == "*" {
            all_parts_of.insert(whole);
        }
        if whole == "*" {
            part_of_all.insert(part);
        }
    }
    if resources.len() > 1 && resources.iter().any(|resource| resource == "*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.invalid(field, resources.to_vec(), why);
    }
    if has_all && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(field, resources.to_vec(), why);
    }
}

/// Names and expressions of match conditions.
pub(super) fn match_conditions(
    field: &str,
    conditions: &[Value],
    has_params: bool,
    errors: &mut Errors,
) {
    if conditions.len() > CONDITIONS {
        errors.too_many(field, conditions.len(), CONDITIONS);
    }
    let expressions = Expressions::new(has_params);
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        match text(condition, "expression").trim() {
            "" => errors.required(format!("{field}.expression"), ""),
            source => {
                if let Err(why) = expressions.compile(source, &[Type::Bool], true).program {
                    errors.invalid(format!("{field}.expression"), source, why);
                }
            }
        }
        let name = text(condition, "name");
        errors.required_format(format!("{field}.name"), name, formats::qualified_name);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(format!("{field}.name"), name);
        }
    }
}
