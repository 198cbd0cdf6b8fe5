//! The cached view of a Deployment.
//!
//! The view keeps the served [`Document`], because upstream PUTs Deployments and their status.
//! Upstream: `k8s.io/api/apps/v1`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Object;
use super::document::{Document, Served};
use super::meta::{Annotations, Meta};
use super::wire::{Condition, DecodeError, MetaWire, Pairs, nullable, parse};
use crate::labels::{Selector, SelectorError, WireSelector};
use crate::resource::{self, ResourceType};
use crate::template::PodTemplate;

/// A Deployment: the fields that its controller reads, and the document for its writes.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Metadata.
    pub meta: Meta,
    /// Annotations.
    pub annotations: Annotations,
    /// Spec.
    pub spec: DeploymentSpec,
    /// Status.
    pub status: DeploymentStatus,
    /// The served JSON without `managedFields`.
    pub document: Document,
}

/// `spec` of a Deployment.
#[derive(Debug, Clone)]
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

impl Object for Deployment {
    const RESOURCE: &'static ResourceType = &resource::DEPLOYMENTS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (wire, text): (Wire<'_>, &str) = parse(json, "Deployment")?;
        let Served {
            object: metadata,
            managed_fields,
        } = wire.metadata;
        let strategy = match wire.spec.strategy {
            StrategyWire { kind, .. } if kind == "Recreate" => Strategy::Recreate,
            StrategyWire {
                kind,
                rolling_update,
            } if kind == "RollingUpdate" => {
                let limits = rolling_update.unwrap_or_default();
                Strategy::RollingUpdate {
                    max_surge: limits.max_surge,
                    max_unavailable: limits.max_unavailable,
                }
            }
            StrategyWire { kind, .. } => Strategy::Other(kind),
        };
        Ok(Self {
            annotations: metadata.annotations.to_annotations(),
            meta: metadata.into_meta("Deployment")?,
            spec: DeploymentSpec {
                replicas: wire.spec.replicas.unwrap_or(1),
                selector: Selector::parse(wire.spec.selector.as_ref()),
                template: PodTemplate::served(wire.spec.template).map_err(|source| {
                    DecodeError::Json {
                        kind: "Deployment",
                        source,
                    }
                })?,
                strategy,
                min_ready_seconds: wire.spec.min_ready_seconds,
                revision_history_limit: wire.spec.revision_history_limit,
                paused: wire.spec.paused,
                progress_deadline_seconds: wire.spec.progress_deadline_seconds,
            },
            status: wire.status,
            document: Document::without(text, &managed_fields),
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn heap_size(&self) -> usize {
        self.meta.name.len() + self.document.len()
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Served<'a, MetaWire<'a, Pairs<'a>>>,
    #[serde(borrow)]
    spec: SpecWire<'a>,
    #[serde(default, deserialize_with = "nullable")]
    status: DeploymentStatus,
}

#[derive(Deserialize)]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
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
