//! ReplicaSets, and what other kinds share with them on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Object;
use super::deployment::is_zero;
use super::document::{Document, Served};
use super::meta::{Annotations, Meta};
use super::wire::{Condition, DecodeError, MetaWire, Pairs, nullable, parse};
use crate::labels::{Selector, SelectorError, WireSelector};
use crate::resource::{self, ResourceType};
use crate::template::PodTemplate;

/// A ReplicaSet with everything its own and the Deployment controller decide by, and the document
/// their writes start from.
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
    /// The object as served, without managedFields.
    pub document: Document,
}

/// `spec` of a ReplicaSet or ReplicationController.
#[derive(Debug, Clone)]
pub struct ReplicaSetSpec {
    /// Wanted pods; 1 when unset.
    pub replicas: i32,
    /// Seconds a pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// Parsed selector, or why it cannot be.
    pub selector: Result<Selector, SelectorError>,
    /// Pod template.
    pub template: PodTemplate,
}

/// `status` of a ReplicaSet or ReplicationController, with the omissions of the wire. Fields
/// unknown to us are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Pods that are neither finished nor terminating; always on the wire.
    pub replicas: i32,
    /// Those that carry all labels of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those that have been ready for minReadySeconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Pods on their way out; unset where the controller does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Generation of the spec this status was computed from.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Everything else.
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
        self.meta.name.len() + self.document.len()
    }
}

/// What is decoded of every kind that keeps a number of equal pods.
pub(super) struct Parts {
    pub(super) meta: Meta,
    pub(super) annotations: Annotations,
    pub(super) spec: ReplicaSetSpec,
    pub(super) status: ReplicaSetStatus,
    pub(super) document: Document,
}

/// Decodes an object of kind `kind` that is served like a ReplicaSet, except that its selector has
/// the form `S`.
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
        annotations: metadata.annotations.to_annotations(),
        meta: metadata.into_meta(kind)?,
        spec: ReplicaSetSpec {
            replicas: wire.spec.replicas.unwrap_or(1),
            min_ready_seconds: wire.spec.min_ready_seconds,
            selector: Selector::parse(wire.spec.selector.map(Into::into).as_ref()),
            template: PodTemplate::served(wire.spec.template)
                .map_err(|source| DecodeError::Json { kind, source })?,
        },
        status: wire.status,
        document: Document::without(text, &managed_fields),
    })
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
struct Wire<'a, S> {
    #[serde(borrow)]
    metadata: Served<'a, MetaWire<'a, Pairs<'a>>>,
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
