//! Conversion between autoscaling/v1 and the stored version autoscaling/v2 of
//! HorizontalPodAutoscalers.
//!
//! Some fields of v2 do not exist in v1: metrics other than CPU utilization, behavior, current
//! metrics and conditions. In v1 they are annotations, with JSON of upstream's older types. These
//! annotations exist in v1 only, and changes by clients take effect.
//!
//! Upstream: `pkg/apis/autoscaling/v1/conversion.go` and `pkg/apis/autoscaling/helpers.go`.

use serde_json::{Map, Value, json};

use super::Conversion;
use crate::schema::quantity::Quantity;
use crate::schema::typed_form;

/// The conversion of `autoscaling/v1`.
pub(crate) static AUTOSCALERS: Conversion = Conversion {
    group: "autoscaling",
    version: "v2",
    to_kept: to_v2,
    from_kept: from_v2,
    errors: |_, errors| errors,
    update_errors: |_, _, errors| errors,
};

const KIND: &str = "HorizontalPodAutoscaler";
/// The target in percent of an autoscaler without metrics.
const DEFAULT_UTILIZATION: u32 = 80;
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// All annotations of the conversion, including those of older servers.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    BEHAVIOR,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The fields of metric sources, in the order of upstream's types.
const SOURCES: [&str; 5] = [
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
];

/// Converts v1 to v2. Annotations become fields; unreadable annotations are dropped.
fn to_v2(mut object: Value) -> Value {
    object["apiVersion"] = json!("autoscaling/v2");
    let values = take_annotations(&mut object);
    let annotation = |name: &str| {
        values
            .get(name)?
            .as_str()
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
    };
    let list = |name: &str| match annotation(name) {
        Some(Value::Array(list)) => Some(list),
        _ => None,
    };

    // Go's type has a spec in any case, and so the default metric.
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        let utilization = spec
            .remove("targetCPUUtilizationPercentage")
            .filter(|percent| !percent.is_null());
        let mut metrics: Vec<Value> = list(METRICS)
            .unwrap_or_default()
            .iter()
            .map(|metric| metric_to_v2(metric, Part::Target))
            .collect();
        metrics.extend(utilization.map(|percent| {
            cpu(
                "target",
                json!({"type": "Utilization", "averageUtilization": percent}),
            )
        }));
        if metrics.is_empty() {
            let target = json!({"type": "Utilization", "averageUtilization": DEFAULT_UTILIZATION});
            metrics.push(cpu("target", target));
        }
        put(spec, "metrics", metrics);
        if let Some(behavior) =
            annotation(BEHAVIOR).filter(|behavior| behavior.as_object().is_some_and(is_any_set))
        {
            spec.insert(
                "behavior".to_owned(),
                with_keys(behavior, |key| key.to_lowercase().collect()),
            );
        }
    }
    // Two annotations are parts of the status, which the object may lack.
    let about_status = [CURRENT_METRICS, CONDITIONS].map(|name| values.contains_key(name));
    if about_status.contains(&true) && !object["status"].is_object() {
        object["status"] = json!({});
    }
    if let Some(status) = object["status"].as_object_mut() {
        let utilization = status
            .remove("currentCPUUtilizationPercentage")
            .filter(|percent| !percent.is_null());
        let current = match list(CURRENT_METRICS) {
            Some(metrics) => metrics
                .iter()
                .map(|metric| metric_to_v2(metric, Part::Current))
                .collect(),
            None => utilization
                .map(|percent| cpu("current", json!({"averageUtilization": percent})))
                .into_iter()
                .collect(),
        };
        put(status, "currentMetrics", current);
        put(status, "conditions", list(CONDITIONS).unwrap_or_default());
    }
    typed_form::normalize_sent(KIND, &mut object);
    object
}

/// Converts v2 to v1. Fields that v1 lacks become annotations.
fn from_v2(mut object: Value) -> Value {
    object["apiVersion"] = json!("autoscaling/v1");
    take_annotations(&mut object);
    let mut annotations: Vec<(&str, String)> = Vec::new();
    if let Some(spec) = object["spec"].as_object_mut() {
        let metrics = take_list(spec, "metrics");
        if let Some(percent) = metrics.iter().find_map(cpu_target) {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        let others: Vec<Value> = metrics
            .iter()
            .filter(|metric| cpu_target(metric).is_none())
            .map(|metric| metric_from_v2(metric, Part::Target))
            .collect();
        if !others.is_empty() {
            annotations.push((METRICS, Value::from(others).to_string()));
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, behavior_in_annotation(&behavior).to_string()));
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        let current = take_list(status, "currentMetrics");
        let of_cpu = current
            .iter()
            .filter(|metric| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu");
        let mut percents =
            of_cpu.filter_map(|metric| metric["resource"]["current"].get("averageUtilization"));
        if let Some(percent) = percents.next_back() {
            status.insert(
                "currentCPUUtilizationPercentage".to_owned(),
                percent.clone(),
            );
        }
        if !current.is_empty() {
            let current: Vec<Value> = current
                .iter()
                .map(|metric| metric_from_v2(metric, Part::Current))
                .collect();
            annotations.push((CURRENT_METRICS, Value::from(current).to_string()));
        }
        let conditions = take_list(status, "conditions");
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, Value::from(conditions).to_string()));
        }
    }
    if !annotations.is_empty() && !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    for (name, text) in annotations {
        object["metadata"]["annotations"][name] = Value::from(text);
    }
    typed_form::normalize_sent(KIND, &mut object);
    object
}

/// Removes and returns the annotations that stand for fields of v2.
fn take_annotations(object: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(annotations) = object["metadata"]
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return taken;
    };
    for name in ANNOTATIONS {
        if let Some(text) = annotations.shift_remove(name) {
            taken.insert(name.to_owned(), text);
        }
    }
    if annotations.is_empty() {
        object["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("annotations"));
    }
    taken
}

fn take_list(fields: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match fields.remove(name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), Value::from(list));
    }
}

fn is_any_set(fields: &Map<String, Value>) -> bool {
    fields.values().any(|value| !value.is_null())
}

/// The CPU metric, the only one with a field in v1.
fn cpu(part: &str, amount: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", part: amount}})
}

/// The target utilization, if the metric is that of the CPU resource.
fn cpu_target(metric: &Value) -> Option<&Value> {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    metric["resource"]["target"]
        .get("averageUtilization")
        .filter(|percent| is_cpu && !percent.is_null())
}

/// The target or the current value of a metric. The older types have it in their field names.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Target,
    Current,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Current => "current",
        }
    }

    fn field(self, amount: &str) -> String {
        format!("{}{amount}", self.name())
    }

    /// Current amounts are always written, target amounts only if they are set.
    fn always(self, value: Option<Value>) -> Option<Value> {
        value.or_else(|| (self == Self::Current).then(zero))
    }
}

fn zero() -> Value {
    json!("0")
}

/// An object of the fields that have a value.
fn of<K: Into<String>>(fields: impl IntoIterator<Item = (K, Option<Value>)>) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value.filter(|value| !value.is_null())?)));
    Value::Object(present.collect())
}

/// A metric in the older form of the annotations.
fn metric_from_v2(metric: &Value, part: Part) -> Value {
    let source = |field: &'static str| {
        let source = metric.get(field).filter(|source| source.is_object())?;
        let amount = &source[part.name()];
        let of_metric = &source["metric"];
        let value = amount.get("value").cloned();
        let average = amount.get("averageValue").cloned();
        let name = of_metric.get("name").cloned();
        let selector = of_metric.get("selector").cloned();
        let own = |field: &str| source.get(field).cloned();
        let fields = match field {
            "object" => vec![
                ("target".to_owned(), own("describedObject")),
                ("metricName".to_owned(), name),
                (part.field("Value"), value.or_else(|| Some(zero()))),
                ("selector".to_owned(), selector),
                ("averageValue".to_owned(), average),
            ],
            "pods" => vec![
                ("metricName".to_owned(), name),
                (part.field("AverageValue"), average.or_else(|| Some(zero()))),
                ("selector".to_owned(), selector),
            ],
            "external" => vec![
                ("metricName".to_owned(), name),
                ("metricSelector".to_owned(), selector),
                (part.field("Value"), part.always(value)),
                (part.field("AverageValue"), average),
            ],
            _ => vec![
                ("name".to_owned(), own("name")),
                (
                    part.field("AverageUtilization"),
                    amount.get("averageUtilization").cloned(),
                ),
                (part.field("AverageValue"), part.always(average)),
                ("container".to_owned(), own("container")),
            ],
        };
        Some((field.to_owned(), Some(of(fields))))
    };
    let kind = ("type".to_owned(), metric.get("type").cloned());
    of(std::iter::once(kind).chain(SOURCES.into_iter().filter_map(source)))
}

/// A metric of the annotations in the form of v2.
fn metric_to_v2(metric: &Value, part: Part) -> Value {
    let source = |field: &'static str| {
        let source = metric.get(field).filter(|source| source.is_object())?;
        let own = |field: &str| source.get(field).cloned().filter(|value| !value.is_null());
        let value = own(&part.field("Value"));
        let average = own(&part.field("AverageValue"));
        let of_metric = |selector: &str| {
            Some(of([
                ("name", own("metricName")),
                ("selector", own(selector)),
            ]))
        };
        // Only targets have a `type`, which selects the effective amount.
        let amount = |kind: &str, amounts: Vec<(&str, Option<Value>)>| {
            let kind = (part == Part::Target).then(|| Value::from(kind));
            Some(of(std::iter::once(("type", kind)).chain(amounts)))
        };
        let fields = match field {
            "object" => {
                let average = own("averageValue");
                let kind = if average.is_some() {
                    "AverageValue"
                } else {
                    "Value"
                };
                let value = value
                    .filter(|value| average.is_none() || part == Part::Current || !is_zero(value));
                vec![
                    ("describedObject", own("target")),
                    ("metric", of_metric("selector")),
                    (
                        part.name(),
                        amount(kind, vec![("value", value), ("averageValue", average)]),
                    ),
                ]
            }
            "pods" => {
                vec![
                    ("metric", of_metric("selector")),
                    (
                        part.name(),
                        amount("AverageValue", vec![("averageValue", average)]),
                    ),
                ]
            }
            "external" => {
                let kind = if value.is_some() {
                    "Value"
                } else {
                    "AverageValue"
                };
                vec![
                    ("metric", of_metric("metricSelector")),
                    (
                        part.name(),
                        amount(kind, vec![("value", value), ("averageValue", average)]),
                    ),
                ]
            }
            _ => {
                let utilization = own(&part.field("AverageUtilization"));
                let kind = if utilization.is_some() {
                    "Utilization"
                } else {
                    "AverageValue"
                };
                let amounts = vec![
                    ("averageValue", average),
                    ("averageUtilization", utilization),
                ];
                vec![
                    ("name", own("name")),
                    (part.name(), amount(kind, amounts)),
                    ("container", own("container")),
                ]
            }
        };
        Some((field, Some(of(fields))))
    };
    let kind = ("type", metric.get("type").cloned());
    of(std::iter::once(kind).chain(SOURCES.into_iter().filter_map(source)))
}

fn is_zero(quantity: &Value) -> bool {
    quantity
        .as_str()
        .and_then(Quantity::parse)
        .is_some_and(|quantity| quantity.is_zero())
}

/// Behavior as upstream writes it into the annotation. The type there has no JSON names: fields
/// have their Go names, and unset fields are null.
fn behavior_in_annotation(behavior: &Value) -> Value {
    let policy = |policy: &Value| {
        let field = |name: &str| policy.get(name).cloned().unwrap_or(Value::Null);
        json!({"Type": field("type"), "Value": field("value"), "PeriodSeconds": field("periodSeconds")})
    };
    let rules = |name: &str| match behavior.get(name) {
        None | Some(Value::Null) => Value::Null,
        Some(rules) => {
            let field = |name: &str| rules.get(name).cloned().unwrap_or(Value::Null);
            let policies = rules["policies"]
                .as_array()
                .map(|policies| policies.iter().map(policy).collect::<Vec<_>>());
            json!({
                "StabilizationWindowSeconds": field("stabilizationWindowSeconds"), "SelectPolicy": field("selectPolicy"),
                "Policies": policies, "Tolerance": field("tolerance"),
            })
        }
    };
    json!({"ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown")})
}

/// `value` with the first letter of each key changed by `first`.
fn with_keys(value: Value, first: fn(char) -> String) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.into_iter().map(|(key, value)| {
                let mut letters = key.chars();
                let start = letters.next().map(first).unwrap_or_default();
                (
                    format!("{start}{}", letters.as_str()),
                    with_keys(value, first),
                )
            });
            Value::Object(renamed.collect())
        }
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| with_keys(item, first))
                .collect(),
        ),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn autoscaler(version: &str, annotations: Value, spec: Value, status: Value) -> Value {
        let metadata = if annotations == json!({}) {
            json!({"name": "a"})
        } else {
            json!({"name": "a", "annotations": annotations})
        };
        let mut object = json!({
            "kind": KIND, "apiVersion": format!("autoscaling/{version}"), "metadata": metadata,
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3},
            "status": {"desiredReplicas": 2, "currentReplicas": 1},
        });
        for (part, more) in [("spec", spec), ("status", status)] {
            object[part]
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
        }
        typed_form::normalize_sent(KIND, &mut object);
        object
    }

    #[test]
    fn cpu_utilization_is_a_field_of_v1() {
        let v1 = autoscaler(
            "v1",
            json!({"x": "y"}),
            json!({"targetCPUUtilizationPercentage": 50}),
            json!({}),
        );
        let cpu = json!([cpu(
            "target",
            json!({"type": "Utilization", "averageUtilization": 50})
        )]);
        let v2 = autoscaler("v2", json!({"x": "y"}), json!({"metrics": cpu}), json!({}));
        assert_eq!(to_v2(v1.clone()), v2);
        assert_eq!(from_v2(v2), v1);
        let found = autoscaler(
            "v1",
            json!({}),
            json!({}),
            json!({"currentCPUUtilizationPercentage": 40}),
        );
        assert_eq!(
            to_v2(found)["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"],
            40
        );
    }

    #[test]
    fn other_metrics_are_annotations_of_v1_and_survive_conversion() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let service = json!({"kind": "Service", "name": "s", "apiVersion": "v1"});
        let metrics = json!([
            {"type": "Object", "object": {"describedObject": service, "target": {"type": "Value", "value": "3"}, "metric": {"name": "m"}}},
            {"type": "Object", "object": {"describedObject": service, "target": {"type": "AverageValue", "averageValue": "3"}, "metric": {"name": "m"}}},
            {"type": "Pods", "pods": {"metric": {"name": "m", "selector": selector}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
            {"type": "ContainerResource",
             "containerResource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}, "container": "c"}},
            {"type": "External", "external": {"metric": {"name": "q", "selector": selector}, "target": {"type": "Value", "value": "30"}}},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        ]);
        let current = json!([
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "200m", "averageUtilization": 20}}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "5"}}},
        ]);
        let rules = json!({"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]});
        let condition = json!({"type": "AbleToScale", "status": "True", "lastTransitionTime": null, "reason": "r", "message": "m"});
        let v2 = autoscaler(
            "v2",
            json!({"x": "y"}),
            json!({"metrics": metrics, "behavior": {"scaleUp": rules}}),
            json!({"currentMetrics": current, "conditions": [condition]}),
        );
        let v1 = from_v2(v2.clone());
        assert_eq!(
            (
                &v1["spec"]["targetCPUUtilizationPercentage"],
                &v1["status"]["currentCPUUtilizationPercentage"]
            ),
            (&json!(50), &json!(20))
        );
        assert!(
            v1["spec"].get("metrics").is_none() && v1["status"].get("conditions").is_none(),
            "{v1}"
        );
        assert_eq!(
            v1["metadata"]["annotations"][BEHAVIOR],
            r#"{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#
        );
        assert_eq!(
            v1["metadata"]["annotations"][CURRENT_METRICS],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":20,"currentAverageValue":"200m"}},{"type":"Pods","pods":{"metricName":"m","currentAverageValue":"5"}}]"#
        );
        assert_eq!(to_v2(v1), v2);
    }

    #[test]
    fn unreadable_annotations_are_dropped() {
        let v1 = autoscaler(
            "v1",
            json!({METRICS: "{", BEHAVIOR: "7"}),
            json!({}),
            json!({}),
        );
        // An autoscaler without metrics gets the default one.
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let spec = json!({"metrics": [cpu("target", target)]});
        assert_eq!(to_v2(v1), autoscaler("v2", json!({}), spec, json!({})));
    }
}
