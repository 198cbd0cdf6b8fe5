//! ResourceClaims, their templates and DeviceClasses.
//!
//! Upstream is `pkg/apis/resource/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::resource_names::is_extended;
use super::{formats, storage};
use crate::cel::devices::Selector;

const REQUESTS: usize = 32;
const CONSTRAINTS: usize = 32;
const CONFIGURATIONS: usize = 32;
const SELECTORS: usize = 32;
const ALTERNATIVES: usize = 8;
/// Longest expression of a selector, in bytes.
const EXPRESSION: usize = 10 * 1024;
/// Longest parameters of a driver, in bytes.
const PARAMETERS: usize = 10 * 1024;
/// Longest domain and identifier of an attribute's name.
const IDENTIFIER: usize = 32;

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const UNKNOWN_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The spec of a claim, at `field`.
pub(super) fn claim(field: &str, spec: &Value, errors: &mut Errors) {
    let field = format!("{field}.devices");
    let claim = at(spec, "devices");
    let requests = list(claim, "requests");
    set(
        &format!("{field}.requests"),
        requests,
        REQUESTS,
        |request| text(request, "name"),
        request,
        errors,
    );
    let constraints = list(claim, "constraints");
    let at_constraints = format!("{field}.constraints");
    if constraints.len() > CONSTRAINTS {
        errors.too_many(at_constraints, constraints.len(), CONSTRAINTS);
    } else {
        for (index, constraint) in constraints.iter().enumerate() {
            let field = format!("{at_constraints}[{index}]");
            references(&field, constraint, requests, errors);
            self::constraint(&field, constraint, errors);
        }
    }
    let configurations = list(claim, "config");
    let at_configurations = format!("{field}.config");
    if configurations.len() > CONFIGURATIONS {
        errors.too_many(at_configurations, configurations.len(), CONFIGURATIONS);
    } else {
        for (index, configuration) in configurations.iter().enumerate() {
            let field = format!("{at_configurations}[{index}]");
            references(&field, configuration, requests, errors);
            self::configuration(&field, configuration, errors);
        }
    }
}

/// Checks the items of a list without duplicates.
pub(super) fn set<'a>(
    field: &str,
    items: &'a [Value],
    most: usize,
    key: impl Fn(&'a Value) -> &'a str,
    check: impl Fn(&str, &Value, &mut Errors),
    errors: &mut Errors,
) {
    if items.len() > most {
        return errors.too_many(field, items.len(), most);
    }
    for (index, item) in items.iter().enumerate() {
        check(&format!("{field}[{index}]"), item, errors);
    }
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            errors.duplicate(format!("{field}[{index}]"), key(item));
        }
    }
}

fn request(field: &str, request: &Value, errors: &mut Errors) {
    let name = text(request, "name");
    errors.complaints(format!("{field}.name"), name, formats::label(name));
    let alternatives = list(request, "firstAvailable");
    let exactly = at(request, "exactly");
    match (alternatives.is_empty(), exactly.is_null()) {
        (true, true) => errors.required(
            field,
            "exactly one of `exactly` or `firstAvailable` is required",
        ),
        (false, false) => errors.invalid(
            field,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (false, true) => set(
            &format!("{field}.firstAvailable"),
            alternatives,
            ALTERNATIVES,
            |alternative| text(alternative, "name"),
            |field, alternative, errors| {
                let name = text(alternative, "name");
                errors.complaints(format!("{field}.name"), name, formats::label(name));
                wanted(field, alternative, errors);
            },
            errors,
        ),
        (true, false) => wanted(&format!("{field}.exactly"), exactly, errors),
    }
}

/// The devices that a request wants.
fn wanted(field: &str, request: &Value, errors: &mut Errors) {
    let class = text(request, "deviceClassName");
    errors.required_format(
        format!("{field}.deviceClassName"),
        class,
        formats::subdomain,
    );
    selectors(
        &format!("{field}.selectors"),
        list(request, "selectors"),
        errors,
    );
    let count = at(request, "count").as_i64().unwrap_or(0);
    match text(request, "allocationMode") {
        "All" if count != 0 => errors.invalid(
            format!("{field}.count"),
            count,
            "must not be specified when allocationMode is 'All'",
        ),
        "ExactCount" if count <= 0 => {
            errors.invalid(format!("{field}.count"), count, "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        mode => errors.not_supported(
            format!("{field}.allocationMode"),
            mode,
            &["All", "ExactCount"],
        ),
    }
    for (index, toleration) in list(request, "tolerations").iter().enumerate() {
        self::toleration(&format!("{field}.tolerations[{index}]"), toleration, errors);
    }
}

fn selectors(field: &str, selectors: &[Value], errors: &mut Errors) {
    if selectors.len() > SELECTORS {
        return errors.too_many(field, selectors.len(), SELECTORS);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let field = format!("{field}[{index}].cel");
        if at(selector, "cel").is_null() {
            errors.required(field, "");
        } else {
            expression(
                format!("{field}.expression"),
                text(selector, "cel.expression"),
                errors,
            );
        }
    }
}

/// Checks the expression of a selector.
fn expression(field: String, expression: &str, errors: &mut Errors) {
    if expression.len() > EXPRESSION {
        return errors.too_long(field, EXPRESSION);
    }
    match Selector::compile(expression) {
        Ok(selector) if selector.is_too_expensive() => {
            errors.forbidden(field, "too complex, exceeds cost limit");
        }
        Ok(_) => {}
        Err(why) => errors.invalid(field, expression, why),
    }
}

fn toleration(field: &str, toleration: &Value, errors: &mut Errors) {
    let key = text(toleration, "key");
    let value = text(toleration, "value");
    if !key.is_empty() {
        errors.complaints(format!("{field}.key"), key, formats::qualified_name(key));
    }
    let at_operator = format!("{field}.operator");
    let at_value = format!("{field}.value");
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(at_value, value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => errors.complaints(&at_value, value, formats::label_value(value)),
        "" => errors.required(at_operator, ""),
        other => errors.not_supported(at_operator, other, &["Equal", "Exists"]),
    }
    let effect = text(toleration, "effect");
    if !effect.is_empty() {
        errors.one_of(format!("{field}.effect"), effect, &EFFECTS);
    }
}

/// A taint of a device.
pub(super) fn taint(field: &str, taint: &Value, errors: &mut Errors) {
    let key = text(taint, "key");
    let value = text(taint, "value");
    errors.complaints(format!("{field}.key"), key, formats::qualified_name(key));
    errors.complaints(format!("{field}.value"), value, formats::label_value(value));
    match text(taint, "effect") {
        "" => errors.required(format!("{field}.effect"), ""),
        effect => errors.one_of(format!("{field}.effect"), effect, &EFFECTS),
    }
}

/// The names of requests in a constraint or configuration.
fn references(field: &str, holder: &Value, requests: &[Value], errors: &mut Errors) {
    set(
        &format!("{field}.requests"),
        list(holder, "requests"),
        REQUESTS,
        |name| name.as_str().unwrap_or(""),
        |field, name, errors| {
            let name = name.as_str().unwrap_or("");
            if name.matches('/').count() > 1 {
                return errors.invalid(field, name, UNKNOWN_REQUEST);
            }
            for part in name.split('/') {
                errors.complaints(field, part, formats::label(part));
            }
            if !is_request(name, requests) {
                errors.invalid(field, name, UNKNOWN_REQUEST);
            }
        },
        errors,
    );
}

fn is_request(name: &str, requests: &[Value]) -> bool {
    let (first, alternative) = match name.split_once('/') {
        None => (name, None),
        Some((first, alternative)) => (first, Some(alternative)),
    };
    // Upstream keeps the last request of a name.
    let request = requests
        .iter()
        .rfind(|request| text(request, "name") == first);
    request.is_some_and(|request| {
        alternative.is_none_or(|wanted| {
            let alternatives = list(request, "firstAvailable").iter();
            alternatives
                .map(|known| text(known, "name"))
                .any(|known| known == wanted)
        })
    })
}

fn constraint(field: &str, constraint: &Value, errors: &mut Errors) {
    for name in ["matchAttribute", "distinctAttribute"] {
        if let Some(attribute) = at(constraint, name).as_str() {
            let field = format!("{field}.{name}");
            attribute_name(&field, attribute, errors);
            if !attribute.contains('/') {
                let why = "a fully qualified name must be a domain and a name separated by a slash";
                errors.invalid(field, attribute, why);
            }
            return;
        }
    }
    if errors.release().enables("DRAConsumableCapacity") {
        errors.required(
            field,
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        );
    } else {
        errors.required(format!("{field}.matchAttribute"), "");
    }
}

/// The name of an attribute: an identifier, with or without a domain.
pub(super) fn attribute_name(field: &str, name: &str, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [name] => identifier(field, name, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(field, "", "the domain must not be empty");
            } else {
                storage::driver_name(field, domain, errors);
            }
            if name.is_empty() {
                errors.invalid(field, "", "the name must not be empty");
            } else {
                identifier(field, name, errors);
            }
        }
        // Upstream accepts names with more slashes.
        _ => {}
    }
}

fn identifier(field: &str, name: &str, errors: &mut Errors) {
    if name.len() > IDENTIFIER {
        errors.too_long(field, IDENTIFIER);
    }
    errors.complaints(field, name, formats::c_identifier(name));
}

fn configuration(field: &str, configuration: &Value, errors: &mut Errors) {
    let opaque = at(configuration, "opaque");
    if opaque.is_null() {
        return errors.required(format!("{field}.opaque"), "");
    }
    let driver = text(opaque, "driver");
    storage::driver_name(&format!("{field}.opaque.driver"), driver, errors);
    let field = format!("{field}.opaque.parameters");
    match at(opaque, "parameters") {
        Value::Null => errors.required(field, ""),
        Value::Object(parameters) => {
            // Serialization is only needed for objects that might be too long.
            if serde_json::to_string(parameters).is_ok_and(|text| text.len() > PARAMETERS) {
                errors.too_long(field, PARAMETERS);
            }
        }
        _ => errors.invalid(field, "<value omitted>", "must be a valid JSON object"),
    }
}

pub(super) fn class(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    selectors("spec.selectors", list(spec, "selectors"), errors);
    let configurations = list(spec, "config");
    if configurations.len() > CONFIGURATIONS {
        errors.too_many("spec.config", configurations.len(), CONFIGURATIONS);
    } else {
        for (index, item) in configurations.iter().enumerate() {
            configuration(&format!("spec.config[{index}]"), item, errors);
        }
    }
    if let Some(name) = at(spec, "extendedResourceName").as_str()
        && !is_extended(name)
    {
        errors.invalid(
            "spec.extendedResourceName",
            name,
            "must be a valid extended resource name",
        );
    }
}
