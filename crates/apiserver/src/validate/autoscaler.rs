//! HorizontalPodAutoscalers in the stored version, autoscaling/v2.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::formats;

/// Types of metrics, and the field with the source of each type.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let least = at(object, "spec.minReplicas").as_i64();
    let most = at(object, "spec.maxReplicas").as_i64().unwrap_or(0);
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(
            "spec.minReplicas",
            least,
            "must be greater than or equal to 1",
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
    for field in ["kind", "name"] {
        let path = format!("spec.scaleTargetRef.{field}");
        match text(object, &path) {
            "" => errors.required(path, ""),
            name => errors.complaints(&path, name, formats::path_segment(name)),
        }
    }
    for (index, metric) in list(object, "spec.metrics").iter().enumerate() {
        check_metric(&format!("spec.metrics[{index}]"), metric, errors);
    }
}

/// Checks that a metric has a known type, and the source of that type only.
fn check_metric(path: &str, metric: &Value, errors: &mut Errors) {
    let kind = text(metric, "type");
    let Some((_, own)) = SOURCES.iter().find(|(known, _)| *known == kind) else {
        return match kind {
            "" => errors.required(format!("{path}.type"), "must specify a metric source type"),
            _ => errors.not_supported(
                format!("{path}.type"),
                kind,
                &SOURCES.map(|(known, _)| known),
            ),
        };
    };
    let has = |field: &str| metric.get(field).is_some_and(Value::is_object);
    if !has(own) {
        errors.required(
            format!("{path}.{own}"),
            "must populate information for the given metric source",
        );
    }
    for (_, field) in SOURCES
        .iter()
        .filter(|(_, field)| field != own && has(field))
    {
        errors.forbidden(
            format!("{path}.{field}"),
            "must populate the given metric source only",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_needs_a_target_limits_and_matching_metric_sources() {
        let good = json!({"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}});
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
                &["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"],
            ),
            (
                "scaleTargetRef",
                json!({"kind": "Deployment"}),
                &["spec.scaleTargetRef.name: Required value"],
            ),
            (
                "metrics",
                json!([{"type": "Mood"}]),
                &["spec.metrics[0].type: Unsupported value: \"Mood\""],
            ),
            (
                "metrics",
                json!([{"type": "Resource", "pods": {}}]),
                &[
                    "spec.metrics[0].resource: Required value",
                    "spec.metrics[0].pods: Forbidden",
                ],
            ),
        ];
        for (field, value, expected) in cases {
            let mut spec = good.clone();
            spec[field] = value.clone();
            let mut errors = Errors::default();
            check(&json!({"spec": spec}), &mut errors);
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
