//! HorizontalPodAutoscalers in the stored version, autoscaling/v2.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, resource_names};
use crate::apimachinery::path::Path;
use crate::schema::quantity::Quantity;

/// Types of metrics, and the field with the source of each type.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// The sources in upstream's order of checks.
const CHECKED: [&str; 5] = [
    "object",
    "external",
    "pods",
    "resource",
    "containerResource",
];

/// Longest stabilisation window, and longest period of a scaling policy, in seconds.
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let least = at(object, "spec.minReplicas").as_i64();
    let most = at(object, "spec.maxReplicas").as_i64().unwrap_or(0);
    let lowest = i64::from(!errors.release().enables("HPAScaleToZero"));
    if let Some(least) = least.filter(|least| *least < lowest) {
        errors.invalid(
            "spec.minReplicas",
            least,
            format!("must be greater than or equal to {lowest}"),
        );
    }
    match most {
        0 => errors.required("spec.maxReplicas", "must be set and greater than 0"),
        ..0 => errors.invalid(
            "spec.maxReplicas",
            most,
            "must be greater than or equal to 1",
        ),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(
            "spec.maxReplicas",
            most,
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = at(object, "spec.scaleTargetRef");
    let is_kept = old.is_some_and(|old| {
        let before = at(old, "spec.scaleTargetRef");
        ["kind", "apiVersion"]
            .iter()
            .all(|name| at(before, name) == at(target, name))
    });
    let needs_group = !is_kept && text(target, "kind") != "ReplicationController";
    reference("spec.scaleTargetRef", target, needs_group, errors);
    let metrics = list(object, "spec.metrics");
    for (index, metric) in metrics.iter().enumerate() {
        check_metric(&format!("spec.metrics[{index}]"), metric, errors);
    }
    let is_independent = |metric: &Value| ["External", "Object"].contains(&text(metric, "type"));
    if least == Some(0) && !metrics.iter().any(is_independent) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden("spec.metrics", why);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let path = format!("spec.behavior.{direction}");
        let rules = at(object, &path);
        if !rules.is_null() {
            scaling_rules(&path, rules, errors);
        }
    }
}

/// A reference to an object. With `with_group`, its version needs a group.
fn reference(path: &str, reference: &Value, with_group: bool, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let value = text(reference, field);
        errors.required_format(format!("{path}.{field}"), value, formats::path_segment);
    }
    let version = text(reference, "apiVersion");
    let why = match version.matches('/').count() {
        0 if with_group => "apiVersion must specify API group".to_owned(),
        0 | 1 => return,
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    errors.invalid(format!("{path}.apiVersion"), version, why);
}

/// Checks that a metric has a known type, and the source of that type only.
fn check_metric(path: &str, metric: &Value, errors: &mut Errors) {
    let kind = text(metric, "type");
    let at_type = format!("{path}.type");
    let known = SOURCES.map(|(known, _)| known);
    let own = SOURCES.iter().find(|(known, _)| *known == kind);
    if kind.is_empty() {
        errors.required(at_type.as_str(), "must specify a metric source type");
    }
    if own.is_none() {
        errors.not_supported(at_type.as_str(), kind, &known);
    }
    let has = |field: &&str| metric.get(*field).is_some_and(Value::is_object);
    let present: Vec<&str> = CHECKED.into_iter().filter(has).collect();
    if let Some(field) = present.first() {
        source(&format!("{path}.{field}"), field, at(metric, field), errors);
    }
    let own = own.map(|(_, field)| *field);
    match own {
        Some(own) if !present.contains(&own) => errors.required(
            format!("{path}.{own}"),
            "must populate information for the given metric source",
        ),
        Some(_) => {}
        None => errors.not_supported(at_type, kind, &known),
    }
    // Upstream accepts a single source of another type, beside the missing one.
    if present.len() > 1 {
        for field in present.iter().filter(|field| Some(**field) != own) {
            errors.forbidden(
                format!("{path}.{field}"),
                "must populate the given metric source only",
            );
        }
    }
}

/// Checks the source of a metric: the measured object, and the target.
fn source(path: &str, kind: &str, source: &Value, errors: &mut Errors) {
    match kind {
        "containerResource" | "resource" => {
            let name = text(source, "name");
            if name.is_empty() {
                errors.required(format!("{path}.name"), "must specify a resource name");
            } else if kind == "containerResource" {
                let field = format!("{path}.name");
                resource_names::check_of_container(&Path::new(&field), name, errors);
            }
            if kind == "containerResource" {
                let at_container = format!("{path}.container");
                match text(source, "container") {
                    "" => errors.required(at_container, "must specify a container"),
                    name => errors.complaints(&at_container, name, formats::label(name)),
                }
            }
        }
        _ => {
            if kind == "object" {
                let described = at(source, "describedObject");
                reference(&format!("{path}.describedObject"), described, false, errors);
            }
            let at_name = format!("{path}.metric.name");
            match text(source, "metric.name") {
                "" => errors.required(at_name, "must specify a metric name"),
                name => errors.complaints(&at_name, name, formats::path_segment(name)),
            }
        }
    }
    let at_target = format!("{path}.target");
    let target = at(source, "target");
    self::target(&at_target, target, errors);
    let has = |name: &str| !at(target, name).is_null();
    let value = has("value");
    let average = has("averageValue");
    let share = has("averageUtilization");
    let at_average = format!("{at_target}.averageValue");
    match kind {
        "object" if !value && !average => {
            errors.required(at_average, "must set either a target value or averageValue");
        }
        "external" if !value && !average => errors.required(
            at_average,
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            format!("{at_target}.value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            errors.required(at_average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !share && !average => errors.required(
            format!("{at_target}.averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if share && average => errors.forbidden(
            at_average,
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn target(path: &str, target: &Value, errors: &mut Errors) {
    let kind = text(target, "type");
    let at_type = format!("{path}.type");
    if kind.is_empty() {
        errors.required(at_type.as_str(), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.invalid(at_type, kind, why);
    }
    for name in ["value", "averageValue"] {
        let amount = text(target, name);
        let quantity = Quantity::parse(amount);
        if quantity.is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
            errors.invalid(format!("{path}.{name}"), amount, "must be positive");
        }
    }
    let share = at(target, "averageUtilization").as_i64();
    if let Some(share) = share.filter(|share| *share < 1) {
        let why = "must be greater than 0";
        errors.invalid(format!("{path}.averageUtilization"), share, why);
    }
}

/// Checks the rules of one direction of scaling.
fn scaling_rules(path: &str, rules: &Value, errors: &mut Errors) {
    let at_window = format!("{path}.stabilizationWindowSeconds");
    match at(rules, "stabilizationWindowSeconds").as_i64() {
        Some(window) if window < 0 => {
            errors.invalid(at_window, window, "must be greater than or equal to zero");
        }
        Some(window) if window > LONGEST_WINDOW => errors.invalid(
            at_window,
            window,
            format!("must be less than or equal to {LONGEST_WINDOW}"),
        ),
        _ => {}
    }
    if let Some(select) = at(rules, "selectPolicy").as_str() {
        let known = ["Disabled", "Max", "Min"];
        errors.one_of(format!("{path}.selectPolicy"), select, &known);
    }
    let policies = list(rules, "policies");
    if policies.is_empty() {
        let why = "must specify at least one Policy";
        errors.required(format!("{path}.policies"), why);
    }
    for (index, policy) in policies.iter().enumerate() {
        let field = |name: &str| format!("{path}.policies[{index}].{name}");
        errors.one_of(field("type"), text(policy, "type"), &["Percent", "Pods"]);
        for name in ["value", "periodSeconds"] {
            let number = at(policy, name).as_i64().unwrap_or(0);
            if number <= 0 {
                errors.invalid(field(name), number, "must be greater than zero");
            } else if name == "periodSeconds" && number > LONGEST_PERIOD {
                let why = format!("must be less than or equal to {LONGEST_PERIOD}");
                errors.invalid(field(name), number, why);
            }
        }
    }
    let tolerance = text(rules, "tolerance");
    if Quantity::parse(tolerance).is_some_and(|tolerance| tolerance.is_negative()) {
        errors.invalid(
            format!("{path}.tolerance"),
            tolerance,
            "must be greater than or equal to 0",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_needs_a_target_limits_and_matching_metric_sources() {
        let good = json!({"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        // (changed field, its value, parts of the errors)
        let cases: [(&str, Value, &[&str]); 8] = [
            ("maxReplicas", json!(3), &[]),
            (
                "maxReplicas",
                json!(0),
                &[
                    "spec.maxReplicas: Required value: must be set and greater than 0",
                    "`minReplicas`",
                ],
            ),
            (
                "maxReplicas",
                json!(-1),
                &["must be greater than or equal to 1", "`minReplicas`"],
            ),
            (
                "minReplicas",
                json!(4),
                &[
                    "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
                ],
            ),
            (
                "minReplicas",
                json!(0),
                &[
                    "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                    "spec.metrics: Forbidden",
                ],
            ),
            (
                "scaleTargetRef",
                json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
                &["spec.scaleTargetRef.name: Required value"],
            ),
            (
                "metrics",
                json!([{"type": "Mood"}]),
                &[
                    "spec.metrics[0].type: Unsupported value: \"Mood\"",
                    "spec.metrics[0].type: Unsupported value: \"Mood\"",
                ],
            ),
            (
                "metrics",
                json!([{"type": "Resource", "pods": {"metric": {"name": "a"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]),
                &["spec.metrics[0].resource: Required value"],
            ),
        ];
        for (field, value, expected) in cases {
            let mut spec = good.clone();
            spec[field] = value.clone();
            let mut errors = Errors::default();
            check(&json!({"spec": spec}), None, &mut errors);
            let found: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
            assert!(
                found.len() == expected.len()
                    && found
                        .iter()
                        .zip(expected)
                        .all(|(found, words)| found.contains(words)),
                "{field} {value}: {found:?}"
            );
        }
    }
}
