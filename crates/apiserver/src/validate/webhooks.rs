//! Webhook configurations, and the rules that they share with admission policies.
//!
//! Upstream is `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, selector};
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

/// The form of a webhook's URL, at the end of complaints about it.
const URL_FORM: &str = "; desired format: https://host[/path]";

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
    client_config(
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
        let (field, version) = (format!("{field}[{index}]"), version.as_str().unwrap_or(""));
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
    let (mut all_parts_of, mut part_of_all) = (HashSet::new(), HashSet::new());
    let (mut has_all, mut has_plain) = (false, false);
    for (index, resource) in resources.iter().enumerate() {
        let (field, resource) = (format!("{field}[{index}]"), resource.as_str().unwrap_or(""));
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

fn client_config(field: &str, config: &Value, errors: &mut Errors) {
    let (url, service) = (at(config, "url").as_str(), at(config, "service"));
    match (url, service.is_null()) {
        (Some(url), true) => self::url(&format!("{field}.url"), url, errors),
        (None, false) => self::service(&format!("{field}.service"), service, errors),
        _ => errors.required(field, "exactly one of url or service is required"),
    }
}

fn url(field: &str, url: &str, errors: &mut Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() {
        ""
    } else {
        rest.split('/').next().unwrap_or("")
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.invalid(field, scheme, why);
    }
    if host.is_empty() {
        errors.invalid(field, "", format!("host must be specified{URL_FORM}"));
    }
    for (part, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            errors.invalid(field, part, why);
        }
    }
}

/// The Service of a webhook. Upstream swaps the names of the two required fields.
fn service(field: &str, service: &Value, errors: &mut Errors) {
    for (name, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, name).is_empty() {
            errors.required(format!("{field}.{reported}"), "");
        }
    }
    let port = at(service, "port").as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(format!("{field}.port"), port, why);
    }
    service_path(&format!("{field}.path"), text(service, "path"), errors);
}

fn service_path(field: &str, path: &str, errors: &mut Errors) {
    match path {
        "" | "/" => return,
        "//" => return errors.invalid(field, path, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        errors.invalid(field, path, "must start with a '/'");
    }
    let steps = path.get(1..).unwrap_or("");
    for (index, step) in steps
        .strip_suffix('/')
        .unwrap_or(steps)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            let why = format!("segment[{index}] may not be empty");
            errors.invalid(field, path, why);
            continue;
        }
        for complaint in formats::subdomain(step) {
            errors.invalid(field, path, format!("segment[{index}]: {complaint}"));
        }
    }
}
