//! The cached view of a HorizontalPodAutoscaler.
//!
//! The view keeps the served [`Document`](super::Document), because upstream PUTs the whole object to
//! the status endpoint. Upstream: `k8s.io/api/autoscaling/v2`.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use steersman_values::label_selector::LabelSelector;
use steersman_values::labels::SelectorError;
use steersman_values::quantity::Quantity;
use steersman_values::resource::HORIZONTAL_POD_AUTOSCALERS;

use super::wire::{Parsed, nullable, whole_seconds_time};
use super::{Condition, deployment::is_zero};
use crate::view;

view! {
    /// A HorizontalPodAutoscaler: the fields that its controller reads, and the document for its
    /// writes.
    pub struct HorizontalPodAutoscaler: HORIZONTAL_POD_AUTOSCALERS, keeps document {
        /// Spec.
        pub spec: AutoscalerSpec,
        /// Status.
        pub status: AutoscalerStatus,
    }

    /// `spec` of a HorizontalPodAutoscaler.
    pub struct AutoscalerSpec {
        /// The scaled object.
        pub scale_target_ref: CrossVersionReference,
        /// Lower limit of the size; unset means 1.
        pub min_replicas: Option<i32>,
        /// Upper limit of the size.
        pub max_replicas: i32,
        /// The metrics, in the served order.
        pub metrics: Vec<MetricSpec>,
        /// Rules for the speed of changes.
        pub behavior: Option<AutoscalerBehavior>,
    }

    /// One metric with its target. The type selects the member.
    pub struct MetricSpec {
        /// `Resource`, `ContainerResource`, `Pods`, `Object` or `External`.
        #[serde(rename = "type")]
        pub kind: String,
        /// A resource of the pods.
        pub resource: Option<ResourceMetric>,
        /// A resource of one container of the pods.
        pub container_resource: Option<ContainerResourceMetric>,
        /// A metric of the pods.
        pub pods: Option<PodsMetric>,
        /// A metric of another object.
        pub object: Option<ObjectMetric>,
        /// A metric without an object.
        pub external: Option<ExternalMetric>,
    }

    /// A resource of the pods.
    pub struct ResourceMetric {
        /// Name of the resource.
        pub name: String,
        /// Target.
        pub target: MetricTarget,
    }

    /// A resource of one container of the pods.
    pub struct ContainerResourceMetric {
        /// Name of the resource.
        pub name: String,
        /// Name of the container.
        pub container: String,
        /// Target.
        pub target: MetricTarget,
    }

    /// A metric of the pods.
    pub struct PodsMetric {
        /// The metric.
        pub metric: MetricIdentifier,
        /// Target.
        pub target: MetricTarget,
    }

    /// A metric of another object.
    pub struct ObjectMetric {
        /// The object.
        pub described_object: CrossVersionReference,
        /// The metric.
        pub metric: MetricIdentifier,
        /// Target.
        pub target: MetricTarget,
    }

    /// A metric without an object.
    pub struct ExternalMetric {
        /// The metric.
        pub metric: MetricIdentifier,
        /// Target.
        pub target: MetricTarget,
    }

    /// The wanted value of a metric.
    pub struct MetricTarget {
        /// `Utilization`, `Value` or `AverageValue`.
        #[serde(rename = "type")]
        pub kind: String,
        /// Value of the metric.
        pub value: Parsed<Quantity>,
        /// Value of the metric divided by the number of pods.
        pub average_value: Parsed<Quantity>,
        /// Mean of the resource over the pods, in percent of their requests.
        pub average_utilization: Option<i32>,
    }

    /// Rules for the speed of changes.
    pub struct AutoscalerBehavior {
        /// Rules for scaling up.
        pub scale_up: ScalingRules,
        /// Rules for scaling down.
        pub scale_down: ScalingRules,
    }

    /// The rules of one direction. The API server defaults all of them except the window and the
    /// tolerance for scaling down.
    pub struct ScalingRules {
        /// Seconds for which past recommendations count.
        pub stabilization_window_seconds: Option<i32>,
        /// `Max`, `Min` or `Disabled`; empty means `Max`.
        pub select_policy: String,
        /// Limits of changes in a period.
        pub policies: Vec<ScalingPolicy>,
        /// Deviation of the metric ratio from 1.0 that causes no change.
        pub tolerance: Parsed<Quantity>,
    }

    /// A limit of changes in a period.
    pub struct ScalingPolicy {
        /// `Pods` or `Percent`.
        #[serde(rename = "type")]
        pub kind: String,
        /// Number of pods, or percent of the size.
        pub value: i32,
        /// Length of the period.
        pub period_seconds: i32,
    }
}

/// A reference to an object of the same namespace, in any version of its API group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossVersionReference {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
}

/// Name of a metric, with a selector for its labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricIdentifier {
    /// Name.
    pub name: String,
    /// Selector of the metric's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<MetricSelector>,
}

/// A `LabelSelector` as served. Its `Display` is the text of Go's generated `String` method, which
/// Events and conditions show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSelector {
    /// Labels with exact values.
    #[serde(
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MetricSelectorRequirement>,
}

/// One requirement of a [`MetricSelector`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricSelectorRequirement {
    /// Key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl MetricIdentifier {
    /// The selector as the value of a query parameter; empty without one. Upstream:
    /// `LabelSelectorAsSelector`.
    pub fn query(&self) -> Result<String, SelectorError> {
        let Some(selector) = &self.selector else {
            return Ok(String::new());
        };
        let equals = selector.match_labels.iter();
        let equals = equals.map(|(key, value)| Ok(format!("{key}={value}")));
        let others = selector.match_expressions.iter();
        let others = others.map(MetricSelectorRequirement::query);
        let terms: Vec<String> = equals.chain(others).collect::<Result<_, _>>()?;
        let text = terms.join(",");
        // The texts of valid requirements parse. Their canonical form is sorted.
        Ok(LabelSelector::parse(&text).map_or(text, |selector| selector.to_string()))
    }

    /// The selector as Go prints it; `nil` without one.
    pub fn printed_selector(&self) -> String {
        let selector = self.selector.as_ref();
        selector.map_or_else(|| "nil".to_owned(), ToString::to_string)
    }
}

impl MetricSelectorRequirement {
    fn query(&self) -> Result<String, SelectorError> {
        let Self {
            key,
            operator,
            values,
        } = self;
        let list = values.join(",");
        match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => Err(SelectorError::NoValues(key.clone())),
            "In" => Ok(format!("{key} in ({list})")),
            "NotIn" => Ok(format!("{key} notin ({list})")),
            "Exists" => Ok(key.clone()),
            "DoesNotExist" => Ok(format!("!{key}")),
            other => Err(SelectorError::Operator(other.to_owned())),
        }
    }
}

impl fmt::Display for MetricSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &self.match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for requirement in &self.match_expressions {
            let MetricSelectorRequirement {
                key,
                operator,
                values,
            } = requirement;
            let values = values.join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}")
    }
}

/// `status` of a HorizontalPodAutoscaler. It serialises without the fields that Go omits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerStatus {
    /// Never set by upstream's controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Time of the last change of the size, in whole seconds.
    #[serde(
        deserialize_with = "whole_seconds_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_scale_time: Option<Timestamp>,
    /// Size of the target before the last sync.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Size that the last sync computed.
    #[serde(deserialize_with = "nullable")]
    pub desired_replicas: i32,
    /// The last value of each metric. `None` is written as `null`, as Go does.
    pub current_metrics: Option<Vec<Value>>,
    /// Conditions, in the order of their first appearance.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn decode(spec: &Value, status: &Value) -> HorizontalPodAutoscaler {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
            "spec": spec, "status": status,
        });
        HorizontalPodAutoscaler::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_status_is_written_back_as_it_was_served() {
        let status = json!({
            "observedGeneration": 1, "lastScaleTime": "2026-01-02T03:04:05Z", "currentReplicas": 3, "desiredReplicas": 4,
            "currentMetrics": [{"type": ""}],
            "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R", "message": "m"}],
        });
        let served = decode(&json!({}), &status).status;
        assert_eq!(serde_json::to_value(served).unwrap(), status);
        let fresh = serde_json::to_value(decode(&json!({}), &Value::Null).status).unwrap();
        assert_eq!(fresh, json!({"desiredReplicas": 0, "currentMetrics": null}));
    }

    #[test]
    fn metrics_and_rules_are_decoded() {
        let spec = json!({
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
            "minReplicas": 2, "maxReplicas": 9,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1500m"}}},
                {"type": "New"},
            ],
            "behavior": {"scaleUp": {"tolerance": "100m"}, "scaleDown": null},
        });
        let spec = decode(&spec, &Value::Null).spec;
        assert_eq!((spec.min_replicas, spec.max_replicas), (Some(2), 9));
        let resource = spec.metrics[0].resource.as_ref().unwrap();
        assert_eq!(resource.target.average_utilization, Some(50));
        let external = spec.metrics[1].external.as_ref().unwrap();
        let value = external.target.value.0.map(Quantity::milli_value);
        assert_eq!(value, Some(1500));
        assert_eq!(spec.metrics[2].kind, "New");
        let behavior = spec.behavior.unwrap();
        assert_eq!(behavior.scale_up.tolerance.0, Quantity::parse("0.1"));
        assert_eq!(behavior.scale_down, ScalingRules::default());
    }

    #[test]
    fn selectors_of_metrics_have_two_texts() {
        // (selector, query, printed)
        let cases = [
            (Value::Null, Some(""), "nil"),
            (
                json!({}),
                Some(""),
                "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                json!({"matchLabels": {"q": "a", "b": "c"}}),
                Some("b=c,q=a"),
                "&LabelSelector{MatchLabels:map[string]string{b: c,q: a,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                json!({"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}),
                Some("a in (x,y),z=1"),
                "&LabelSelector{MatchLabels:map[string]string{z: 1,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[y x],},},}",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
                None,
                "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:Near,Values:[],},},}",
            ),
        ];
        for (selector, query, printed) in cases {
            let metric = json!({"name": "m", "selector": selector});
            let metric: MetricIdentifier = serde_json::from_value(metric).unwrap();
            assert_eq!(metric.query().ok().as_deref(), query, "{selector}");
            assert_eq!(metric.printed_selector(), printed);
        }
    }
}
