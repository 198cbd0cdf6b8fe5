//! The cached view of a Deployment.
//!
//! The view keeps the served [`Document`], because upstream PUTs Deployments and their status.
//! Upstream: `k8s.io/api/apps/v1`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::DEPLOYMENTS;

use super::meta::Annotations;
use super::wire::{Condition, nullable};
use crate::template::PodTemplate;
use crate::view;

view! {
    /// A Deployment: the fields that its controller reads, and the document for its writes.
    pub struct Deployment: DEPLOYMENTS, annotations: Annotations, keeps document {
        /// Spec.
        pub spec: DeploymentSpec,
        /// Status.
        pub status: DeploymentStatus,
    }
}

/// `spec` of a Deployment.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SpecWire<'de>")]
pub struct DeploymentSpec {
    /// Desired number of pods; 1 when unset.
    pub replicas: i32,
    /// Parsed selector, or the error of parsing it.
    pub selector: Result<Selector, SelectorError>,
    /// Pod template.
    pub template: PodTemplate,
    /// Strategy that replaces old pods with new ones.
    pub strategy: Strategy,
    /// Seconds for which a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Number of old ReplicaSets to keep; `None` keeps all.
    pub revision_history_limit: Option<i32>,
    /// Whether roll-outs are paused.
    pub paused: bool,
    /// Seconds after which a roll-out without progress counts as failed; `None` means no limit.
    pub progress_deadline_seconds: Option<i32>,
}

/// `spec.strategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The controller creates new pods while it removes old ones.
    RollingUpdate {
        /// Maximum number of pods above the desired number; `None` when unset.
        max_surge: Option<IntOrPercent>,
        /// Maximum number of unavailable pods; `None` when unset.
        max_unavailable: Option<IntOrPercent>,
    },
    /// The controller removes all old pods before it creates new ones.
    Recreate,
    /// A type that the validation of the API server rejects.
    Other(String),
}

/// A number, or a string that should be a percentage. Upstream: `intstr.IntOrString`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// An absolute number.
    Int(i32),
    /// A string such as `25%`. The decoder does not check it.
    Percent(String),
}

/// A text that is no percentage. The validation of the API server rejects it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PercentError {
    /// The text has no percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// The text before the percent sign is not a whole number.
    #[error("invalid value for IntOrString: invalid value {text:?}: {source}")]
    NotANumber {
        /// The text as given.
        text: String,
        /// The parser's error.
        #[source]
        source: std::num::ParseIntError,
    },
}

impl IntOrPercent {
    /// The number itself, or the percentage of `total` in the rounding of `round`. Upstream:
    /// `GetScaledValueFromIntOrPercent`.
    pub fn of(&self, total: i32, round: fn(f64) -> f64) -> Result<i32, PercentError> {
        match self {
            Self::Int(number) => Ok(*number),
            Self::Percent(text) => {
                let number = text.strip_suffix('%').ok_or(PercentError::NotAPercentage)?;
                let percent: i32 = number.parse().map_err(|source| PercentError::NotANumber {
                    text: text.clone(),
                    source,
                })?;
                // `as` saturates; an i32 fits into an f64 without loss.
                Ok(round(f64::from(percent) * f64::from(total) / 100.0) as i32)
            }
        }
    }

    /// A hundred times the number, or the percentage of `total` as hundredths, in whole numbers.
    /// `None` if the text is no percentage. Checks of [`IntOrPercent::of`] use it.
    pub fn hundredths_of(&self, total: i32) -> Option<i64> {
        let (number, unit) = match self {
            Self::Int(number) => (*number, 100),
            Self::Percent(text) => (text.strip_suffix('%')?.parse().ok()?, total),
        };
        Some(i64::from(number) * i64::from(unit))
    }
}

/// `status` of a Deployment. It serialises in the order of upstream's Go type, and omits the fields
/// that Go omits. Unknown fields stay in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// Generation of the spec from which the controller computed this status.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Number of active pods. Finished and terminating pods do not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Number of active pods with the current template.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Number of ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Number of pods that have been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Number of pods that the Deployment lacks until all desired pods are available.
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    /// Number of terminating pods; unset when a ReplicaSet does not report its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Conditions, ordered by their last change.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Number of collisions of the template hash so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Whether Go's `omitempty` omits `number`.
pub(super) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    replicas: Option<i32>,
    selector: Option<WireSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "nullable")]
    strategy: StrategyWire,
    #[serde(default, deserialize_with = "nullable")]
    min_ready_seconds: i32,
    revision_history_limit: Option<i32>,
    #[serde(default, deserialize_with = "nullable")]
    paused: bool,
    progress_deadline_seconds: Option<i32>,
}

impl Default for DeploymentSpec {
    fn default() -> Self {
        Self::try_from(SpecWire::default()).expect("the form without fields is valid")
    }
}

impl TryFrom<SpecWire<'_>> for DeploymentSpec {
    type Error = serde_json::Error;

    fn try_from(wire: SpecWire<'_>) -> Result<Self, Self::Error> {
        Ok(Self {
            replicas: wire.replicas.unwrap_or(1),
            selector: Selector::parse(wire.selector.as_ref()),
            template: PodTemplate::served(wire.template)?,
            strategy: wire.strategy.into(),
            min_ready_seconds: wire.min_ready_seconds,
            revision_history_limit: wire.revision_history_limit,
            paused: wire.paused,
            progress_deadline_seconds: wire.progress_deadline_seconds,
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StrategyWire {
    #[serde(rename = "type", default)]
    kind: String,
    rolling_update: Option<RollingUpdateWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RollingUpdateWire {
    max_surge: Option<IntOrPercent>,
    max_unavailable: Option<IntOrPercent>,
}

impl From<StrategyWire> for Strategy {
    fn from(wire: StrategyWire) -> Self {
        match &*wire.kind {
            "Recreate" => Self::Recreate,
            "RollingUpdate" => {
                let limits = wire.rolling_update.unwrap_or_default();
                Self::RollingUpdate {
                    max_surge: limits.max_surge,
                    max_unavailable: limits.max_unavailable,
                }
            }
            _ => Self::Other(wire.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;
    use crate::template;

    fn served(template: &str) -> String {
        let metadata = r#"{"managedFields":[{"manager":"m"}],"name":"web","new":{"a":[1]}}"#;
        format!(
            r#"{{"new":1,"metadata":{metadata},"spec":{{"new":2,"template":{template}}},"status":{{"new":3}}}}"#
        )
    }

    #[test]
    fn unknown_fields_stay_in_the_document() {
        let template = r#"{"metadata":{"labels":{"app":"web"}},"spec":{"new":[null]}}"#;
        let d = Deployment::decode(served(template).as_bytes()).unwrap();
        let mut expected: Map<String, Value> = serde_json::from_str(&served(template)).unwrap();
        expected["metadata"] = json!({"name": "web", "new": {"a": [1]}});
        assert_eq!(d.document.to_object(), expected);
        assert_eq!(d.status.extra["new"], 3);
        assert_eq!(d.spec.template.labels().get("app").unwrap().as_str(), "web");
    }

    #[test]
    fn a_template_decoded_from_text_equals_the_template_of_the_json_value() {
        // (case, text)
        let cases = [
            ("null", "null"),
            ("empty", "{}"),
            ("white space", " { \"spec\" : { } } "),
            ("repeated members", r#"{"spec":{"a":1},"spec":{"b":2}}"#),
            ("escapes", r#"{"sp\u0065c":{"nodeName":"\u0061"}}"#),
        ];
        for (case, text) in cases {
            let template = Deployment::decode(served(text).as_bytes());
            let json: Value = serde_json::from_str(text).unwrap();
            let expected = template::PodTemplate::new(&json);
            assert_eq!(template.unwrap().spec.template, expected, "{case}");
        }
        let absent = Deployment::decode(br#"{"metadata":{"name":"web"},"spec":{}}"#).unwrap();
        assert_eq!(absent.spec.template, PodTemplate::new(&Value::Null));
    }

    #[test]
    fn a_template_that_is_too_deep_or_malformed_is_an_error() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for template in [deep.as_str(), "1e999", "{"] {
            let error = Deployment::decode(served(template).as_bytes()).unwrap_err();
            assert!(
                error.to_string().starts_with("decode Deployment: "),
                "{error}"
            );
        }
        assert!(Deployment::decode(b"{\"metadata\":{\"name\":\"\xff\"},\"spec\":{}}").is_err());
    }
}
