//! The cached view of a DaemonSet.
//!
//! The view keeps the served [`Document`], because upstream PUTs the status, and because pods and
//! revisions contain the whole template. Upstream: `k8s.io/api/apps/v1`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::DAEMON_SETS;

use super::deployment::{IntOrPercent, is_zero};
use super::meta::Annotations;
use super::scheduling::Constraints;
use super::wire::nullable;
use crate::template::PodTemplate;
use crate::view;

/// Annotation with the number of changes of the template, which the API server counts.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// `revisionHistoryLimit` of a DaemonSet without one, as the API server sets it.
const REVISION_HISTORY_LIMIT: i32 = 10;

view! {
    /// A DaemonSet: the fields that its controller reads, and the document for its writes.
    pub struct DaemonSet: DAEMON_SETS, annotations: Annotations, keeps document {
        /// Spec.
        pub spec: DaemonSetSpec,
        /// Status.
        pub status: DaemonSetStatus,
    }
}

/// `spec` of a DaemonSet.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SpecWire<'de>")]
pub struct DaemonSetSpec {
    /// Parsed selector, or the error of parsing it.
    pub selector: Result<Selector, SelectorError>,
    /// Pod template.
    pub template: PodTemplate,
    /// The part of the template that restricts the nodes.
    pub constraints: Constraints,
    /// Strategy that replaces old pods with new ones.
    pub update_strategy: DaemonSetStrategy,
    /// Seconds for which a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Number of old revisions to keep.
    pub revision_history_limit: i32,
}

/// `spec.updateStrategy` of a DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonSetStrategy {
    /// The controller replaces old pods node by node. `None` if `rollingUpdate` is unset.
    RollingUpdate(Option<RollingLimits>),
    /// Users delete old pods, and the controller creates new ones in their place.
    OnDelete,
    /// A type that the validation of the API server rejects.
    Other(String),
}

/// `spec.updateStrategy.rollingUpdate` of a DaemonSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingLimits {
    /// Maximum number of nodes with an additional pod; `None` when unset.
    pub max_surge: Option<IntOrPercent>,
    /// Maximum number of nodes without an available pod; `None` when unset.
    pub max_unavailable: Option<IntOrPercent>,
}

/// `status` of a DaemonSet. It serialises in the order of upstream's Go type, and omits the fields
/// that Go omits. Unknown fields and conditions stay in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Number of nodes that should run a pod, and have one.
    pub current_number_scheduled: i32,
    /// Number of nodes that have a pod, and should run none.
    pub number_misscheduled: i32,
    /// Number of nodes that should run a pod.
    pub desired_number_scheduled: i32,
    /// Number of nodes that should run a pod, and have a ready one.
    pub number_ready: i32,
    /// Generation of the spec from which the controller computed this status.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Number of nodes that should run a pod, and have one of the current template.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i32,
    /// Number of nodes that should run a pod, and have an available one.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i32,
    /// Number of nodes that should run a pod, and have no available one.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i32,
    /// Number of collisions of the template hash so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl DaemonSet {
    /// `spec.template` as served.
    pub fn template(&self) -> Value {
        #[derive(Deserialize)]
        struct Object {
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            #[serde(default)]
            template: Value,
        }
        let object: Object = serde_json::from_str(&self.document.text())
            .expect("the document is the text that the view was decoded from");
        object.spec.template
    }

    /// The number of changes of the template; `None` if the annotation is missing or malformed.
    /// Upstream: `GetTemplateGeneration`.
    pub fn template_generation(&self) -> Option<i64> {
        self.annotations.get(TEMPLATE_GENERATION)?.parse().ok()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    selector: Option<WireSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "nullable")]
    update_strategy: StrategyWire,
    #[serde(default, deserialize_with = "nullable")]
    min_ready_seconds: i32,
    revision_history_limit: Option<i32>,
}

impl Default for DaemonSetSpec {
    fn default() -> Self {
        Self::try_from(SpecWire::default()).expect("the form without fields is valid")
    }
}

impl TryFrom<SpecWire<'_>> for DaemonSetSpec {
    type Error = serde_json::Error;

    fn try_from(wire: SpecWire<'_>) -> Result<Self, Self::Error> {
        Ok(Self {
            selector: Selector::parse(wire.selector.as_ref()),
            template: PodTemplate::served(wire.template)?,
            constraints: Constraints::of_template(wire.template)?,
            update_strategy: wire.update_strategy.into(),
            min_ready_seconds: wire.min_ready_seconds,
            revision_history_limit: wire
                .revision_history_limit
                .unwrap_or(REVISION_HISTORY_LIMIT),
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StrategyWire {
    #[serde(rename = "type", default)]
    kind: String,
    rolling_update: Option<RollingLimits>,
}

impl From<StrategyWire> for DaemonSetStrategy {
    fn from(wire: StrategyWire) -> Self {
        match wire.kind.as_str() {
            "RollingUpdate" => Self::RollingUpdate(wire.rolling_update),
            "OnDelete" => Self::OnDelete,
            _ => Self::Other(wire.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn decode(object: &Value) -> DaemonSet {
        DaemonSet::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_fields_of_a_daemon_set_are_decoded() {
        let object = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
                "annotations": {TEMPLATE_GENERATION: "3"}, "managedFields": [{}],
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "new": 1, "minReadySeconds": 5,
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"nodeName": "", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k"}]},
                },
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
            },
            "status": {"numberReady": 2, "collisionCount": 0, "conditions": [{"type": "A"}]},
        });
        let ds = decode(&object);
        let spec = &ds.spec;
        let status = &ds.status;
        assert_eq!(ds.template_generation(), Some(3));
        assert_eq!(
            (spec.min_ready_seconds, spec.revision_history_limit),
            (5, 10)
        );
        assert_eq!(
            spec.update_strategy,
            DaemonSetStrategy::RollingUpdate(Some(RollingLimits {
                max_surge: Some(IntOrPercent::Int(0)),
                max_unavailable: Some(IntOrPercent::Percent("25%".to_owned())),
            }))
        );
        assert_eq!(spec.constraints.node_name, None);
        assert_eq!(
            &**spec.constraints.node_selector.get("disk").unwrap(),
            "ssd"
        );
        assert_eq!(spec.constraints.tolerations.len(), 1);
        assert_eq!((status.number_ready, status.collision_count), (2, Some(0)));
        let mut document = object;
        document["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(Value::Object(ds.document.to_object()), document);
    }

    #[test]
    fn a_status_is_serialised_as_upstream_does() {
        let served = json!({"conditions": [{"type": "A"}], "observedGeneration": 4});
        let status: DaemonSetStatus = serde_json::from_str(&served.to_string()).unwrap();
        let expected = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0, "observedGeneration": 4, "conditions": [{"type": "A"}],
        });
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
    }

    #[test]
    fn template_generation_is_a_decimal_number() {
        // (annotation, generation)
        let cases = [
            (json!("12"), Some(12)),
            (json!("x"), None),
            (json!(""), None),
            (Value::Null, None),
        ];
        for (annotation, expected) in cases {
            let mut metadata = json!({"name": "web", "annotations": {}});
            if !annotation.is_null() {
                metadata["annotations"][TEMPLATE_GENERATION] = annotation.clone();
            }
            let ds = decode(
                &json!({"metadata": metadata, "spec": {"updateStrategy": {"type": "OnDelete"}}}),
            );
            assert_eq!(ds.template_generation(), expected, "{annotation}");
            assert_eq!(ds.spec.update_strategy, DaemonSetStrategy::OnDelete);
        }
    }
}
