//! The cached view of a ReplicaSet, and the decoder that ReplicationControllers share with it.
//!
//! The view keeps the served [`Document`], because upstream PUTs ReplicaSets and their status.
//! Upstream: `k8s.io/api/apps/v1`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::{self, ResourceType};

use super::Object;
use super::deployment::is_zero;
use super::document::{Document, Served};
use super::meta::{Annotations, Meta};
use super::wire::{Condition, DecodeError, MetaWire, nullable, parse};
use crate::template::PodTemplate;

/// A ReplicaSet: the fields that its own controller and the Deployment controller read, and the
/// document for their writes.
#[derive(Debug, Clone)]
pub struct ReplicaSet {
    /// Metadata.
    pub meta: Meta,
    /// Annotations.
    pub annotations: Annotations,
    /// Spec.
    pub spec: ReplicaSetSpec,
    /// Status.
    pub status: ReplicaSetStatus,
    /// The served JSON without `managedFields`.
    pub document: Document,
}

/// `spec` of a ReplicaSet or ReplicationController.
#[derive(Debug, Clone)]
pub struct ReplicaSetSpec {
    /// Desired number of pods; 1 when unset.
    pub replicas: i32,
    /// Seconds for which a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Parsed selector, or the error of parsing it.
    pub selector: Result<Selector, SelectorError>,
    /// Pod template.
    pub template: PodTemplate,
}

/// `status` of a ReplicaSet or ReplicationController. It serialises without the fields that Go
/// omits. Unknown fields stay in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Number of active pods. Finished and terminating pods do not count. Always serialised.
    pub replicas: i32,
    /// Number of active pods with all labels of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Number of ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Number of pods that have been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Number of terminating pods; unset where the controller does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Generation of the spec from which the controller computed this status.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Object for ReplicaSet {
    const RESOURCE: &'static ResourceType = &resource::REPLICA_SETS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let Parts {
            meta,
            annotations,
            spec,
            status,
            document,
        } = decode_parts::<WireSelector>(json, "ReplicaSet")?;
        Ok(Self {
            meta,
            annotations,
            spec,
            status,
            document,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn heap_size(&self) -> usize {
        self.meta.name.len() + self.document.size()
    }
}

/// The decoded parts of a ReplicaSet or ReplicationController.
pub(super) struct Parts {
    pub(super) meta: Meta,
    pub(super) annotations: Annotations,
    pub(super) spec: ReplicaSetSpec,
    pub(super) status: ReplicaSetStatus,
    pub(super) document: Document,
}

/// Decodes an object of the kind `kind` that has the JSON form of a ReplicaSet. Only the selector
/// may differ; it has the form `S`.
pub(super) fn decode_parts<'a, S>(json: &'a [u8], kind: &'static str) -> Result<Parts, DecodeError>
where
    S: Deserialize<'a> + Into<WireSelector>,
{
    let (wire, text): (Wire<'a, S>, &str) = parse(json, kind)?;
    let Served {
        object: metadata,
        managed_fields,
    } = wire.metadata;
    Ok(Parts {
        annotations: metadata.annotations.clone(),
        meta: metadata.into_meta(kind)?,
        spec: ReplicaSetSpec {
            replicas: wire.spec.replicas.unwrap_or(1),
            min_ready_seconds: wire.spec.min_ready_seconds,
            selector: Selector::parse(wire.spec.selector.map(Into::into).as_ref()),
            template: PodTemplate::served(wire.spec.template)
                .map_err(|source| DecodeError::Json { kind, source })?,
        },
        status: wire.status,
        document: Document::without(text, managed_fields, kind),
    })
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
struct Wire<'a, S> {
    #[serde(borrow)]
    metadata: Served<'a, MetaWire<'a, Annotations>>,
    #[serde(borrow)]
    spec: SpecWire<'a, S>,
    #[serde(default, deserialize_with = "nullable")]
    status: ReplicaSetStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a, S> {
    replicas: Option<i32>,
    #[serde(default, deserialize_with = "nullable")]
    min_ready_seconds: i32,
    selector: Option<S>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
}
