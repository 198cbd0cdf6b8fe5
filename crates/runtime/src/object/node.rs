//! Nodes, as controllers read them.

use serde::Deserialize;

use super::Object;
use super::meta::Meta;
use super::wire::{DecodeError, MetaWire, Pairs, Text, nullable};
use crate::intern::Sym;
use crate::resource::{self, ResourceType};

/// What the controllers read of a node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Metadata, without annotations.
    pub meta: Meta,
    /// Whether the `Ready` condition is `True`; false when it is missing.
    pub ready: bool,
    /// Taints.
    pub taints: Vec<Taint>,
    /// The value of [`TTL_ANNOTATION`]; `None` when it is missing or no number.
    pub ttl: Option<i64>,
}

/// Seconds for which the kubelet of the node may cache Secrets and ConfigMaps.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// One taint of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Key, such as `node.kubernetes.io/out-of-service`.
    pub key: Sym,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Sym,
}

#[derive(Deserialize)]
struct NodeWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a, Pairs<'a>>,
    #[serde(borrow, default)]
    spec: SpecWire<'a>,
    #[serde(borrow, default)]
    status: StatusWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    taints: Vec<TaintWire<'a>>,
}

#[derive(Deserialize)]
struct TaintWire<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    effect: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<ConditionWire<'a>>,
}

#[derive(Deserialize)]
struct ConditionWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
}

impl Object for Node {
    const RESOURCE: &'static ResourceType = &resource::NODES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let NodeWire {
            metadata,
            spec,
            status,
        } = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "Node",
            source,
        })?;
        let ready = status.conditions.iter().find(|c| &*c.kind == "Ready");
        let taint = |t: &TaintWire| Taint {
            key: Sym::new(&t.key),
            effect: Sym::new(t.effect.as_deref().unwrap_or_default()),
        };
        Ok(Self {
            ready: ready.is_some_and(|c| c.status.as_deref() == Some("True")),
            taints: spec.taints.iter().map(taint).collect(),
            ttl: metadata
                .annotations
                .get(TTL_ANNOTATION)
                .and_then(|seconds| seconds.parse().ok()),
            meta: metadata.into_meta("Node")?,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}
