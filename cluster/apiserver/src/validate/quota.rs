//! ResourceQuotas and LimitRanges.
//!
//! Upstream is `pkg/apis/core/validation`, ValidateResourceQuota and ValidateLimitRange.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::formats;
use super::resource_names::{self, is_counted, is_of_quota};
use crate::apimachinery::path::Path;
use crate::schema::internal;
use crate::schema::quantity::Quantity;

/// Resources that the scopes of pods restrict.
const OF_PODS: [&str; 7] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.memory",
];

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];

pub(super) fn resource_quota(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let hard = at(spec, "hard");
    for (name, amount) in hard.as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        resource_names::check(&Path::new(&field), name, errors);
        if !name.contains('/') && !is_of_quota(name) {
            errors.invalid(
                field.as_str(),
                name.as_str(),
                "must be a standard resource for quota",
            );
        }
        let Some(quantity) = amount.as_str().and_then(Quantity::parse) else {
            continue;
        };
        if quantity.is_negative() {
            let why = "must be greater than or equal to 0";
            errors.invalid(field.as_str(), amount.clone(), why);
        }
        if is_counted(name) && quantity.to_f64().fract() != 0.0 {
            errors.invalid(field, amount.clone(), "must be an integer");
        }
    }
    let names: BTreeSet<&str> = hard
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .filter(|name| is_of_quota(name))
        .collect();
    let scopes = list(spec, "scopes");
    let mut found = HashSet::new();
    for scope in scopes {
        let scope = scope.as_str().unwrap_or("");
        if !SCOPES.contains(&scope) {
            errors.invalid("spec.scopes", scopes.to_vec(), "unsupported scope");
        }
        for _ in names.iter().filter(|name| !applies(scope, name)) {
            let why = "unsupported scope applied to resource";
            errors.invalid("spec.scopes", scopes.to_vec(), why);
        }
        found.insert(scope);
    }
    conflicts("spec.scopes", &found, scopes, errors);
    scope_selector(spec, &names, errors);
}

fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            ["persistentvolumeclaims", "requests.storage"].contains(&resource)
        }
        known if SCOPES.contains(&known) => OF_PODS.contains(&resource),
        _ => true,
    }
}

fn conflicts(field: &str, found: &HashSet<&str>, scopes: &[Value], errors: &mut Errors) {
    for pair in CONFLICTS {
        if pair.iter().all(|scope| found.contains(scope)) {
            let shown = if scopes.is_empty() {
                Value::Null
            } else {
                scopes.to_vec().into()
            };
            errors.invalid(field, shown, "conflicting scopes");
        }
    }
}

fn scope_selector(spec: &Value, names: &BTreeSet<&str>, errors: &mut Errors) {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let selector = at(spec, "scopeSelector");
    let mut found = HashSet::new();
    for expression in list(selector, "matchExpressions") {
        let scope = text(expression, "scopeName");
        let operator = text(expression, "operator");
        let values = list(expression, "values");
        if !SCOPES.contains(&scope) {
            errors.invalid(format!("{FIELD}.scopeName"), scope, "unsupported scope");
        }
        for _ in names.iter().filter(|name| !applies(scope, name)) {
            let why = "unsupported scope applied to resource";
            errors.invalid(FIELD, internal::form("core.ScopeSelector", selector), why);
        }
        let has_values = ["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        if SCOPES.contains(&scope) && !has_values && operator != "Exists" {
            errors.invalid(
                format!("{FIELD}.operator"),
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.required(
                format!("{FIELD}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                format!("{FIELD}.values"),
                values.to_vec(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(
                format!("{FIELD}.operator"),
                other,
                "not a valid selector operator",
            ),
        }
        found.insert(scope);
    }
    conflicts(FIELD, &found, list(spec, "scopes"), errors);
}

/// The scopes of a quota cannot change.
pub(super) fn scopes_unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    let scopes = |object| -> BTreeSet<&str> {
        let scopes = list(object, "spec.scopes").iter();
        scopes.filter_map(Value::as_str).collect()
    };
    if scopes(new) != scopes(old) {
        let shown = at(new, "spec.scopes").clone();
        errors.invalid("spec.scopes", shown, "field is immutable");
    }
}

/// The amounts of a limit, in upstream's order of checks.
const BOUNDS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

pub(super) fn limit_range(object: &Value, errors: &mut Errors) {
    let mut kinds = HashSet::new();
    for (index, limit) in list(object, "spec.limits").iter().enumerate() {
        let field = format!("spec.limits[{index}]");
        let kind = text(limit, "type");
        let at_type = format!("{field}.type");
        let complaints = formats::qualified_name(kind);
        let known = ["Container", "PersistentVolumeClaim", "Pod"];
        if complaints.is_empty() && !kind.contains('/') && !known.contains(&kind) {
            let why = "must be a standard limit type or fully qualified";
            errors.invalid(at_type.as_str(), kind, why);
        }
        errors.complaints(&at_type, kind, complaints);
        if !kinds.insert(kind) {
            errors.duplicate(at_type, kind);
        }
        for bound in BOUNDS {
            let amounts = at(limit, bound).as_object().filter(|map| !map.is_empty());
            let Some(amounts) = amounts else { continue };
            if kind == "Pod" && ["default", "defaultRequest"].contains(&bound) {
                let why = "may not be specified when `type` is 'Pod'";
                errors.forbidden(format!("{field}.{bound}"), why);
                continue;
            }
            let check = match kind {
                "Container" | "Pod" => resource_names::check_of_container,
                _ => resource_names::check,
            };
            for name in amounts.keys() {
                let field = format!("{field}.{bound}[{name}]");
                check(&Path::new(&field), name, errors);
            }
        }
        let has_storage = |bound: &str| !at(at(limit, bound), "storage").is_null();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            errors.required(
                format!("{field}.limits"),
                "either minimum or maximum storage value is required, but neither was provided",
            );
        }
        let names: BTreeSet<&String> = BOUNDS
            .iter()
            .filter_map(|bound| at(limit, bound).as_object())
            .flat_map(|amounts| amounts.keys())
            .collect();
        for name in names {
            compared(&field, kind, limit, name, errors);
        }
    }
}

/// Compares the amounts of one resource.
fn compared(field: &str, kind: &str, limit: &Value, name: &str, errors: &mut Errors) {
    let amount = |bound: &str| {
        let is_ignored = kind == "Pod" && bound.starts_with("default");
        let text = at(limit, bound).get(name).and_then(Value::as_str);
        let text = text.filter(|_| !is_ignored)?;
        Some((text, Quantity::parse(text)?))
    };
    let pairs = [
        ("min", "max", "min", "min value", "max value", 0),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "min value",
            "default request value",
            1,
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "default request value",
            "max value",
            0,
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "default request value",
            "default limit value",
            0,
        ),
        ("min", "default", "default", "min value", "default value", 0),
        ("default", "max", "default", "default value", "max value", 1),
    ];
    for (less, more, at_bound, one, other, shown) in pairs {
        let Some(less) = amount(less) else {
            continue;
        };
        let Some(more) = amount(more) else {
            continue;
        };
        if less.1 > more.1 {
            let value = [less.0, more.0][shown];
            let why = format!("{one} {} is greater than {other} {}", less.0, more.0);
            errors.invalid(format!("{field}.{at_bound}[{name}]"), value, why);
        }
    }
    let Some((ratio_text, ratio)) = amount("maxLimitRequestRatio") else {
        return;
    };
    let at_ratio = format!("{field}.maxLimitRequestRatio[{name}]");
    if ratio < Quantity::whole(1) {
        let why = format!("ratio {ratio_text} is less than 1");
        errors.invalid(at_ratio.as_str(), ratio_text, why);
    }
    if let Some((_, least)) = amount("min")
        && let Some((_, most)) = amount("max")
    {
        let highest = most.to_f64() / least.to_f64();
        if ratio.to_f64() > highest {
            let why = format!("ratio {ratio_text} is greater than max/min = {highest:.6}");
            errors.invalid(at_ratio, ratio_text, why);
        }
    }
}
