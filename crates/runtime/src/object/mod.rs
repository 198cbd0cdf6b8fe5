//! Cached views of API objects: only the fields that some controller reads, decoded straight from
//! the wire.
//!
//! A view is never written back. What we own is patched, and where upstream PUTs a whole object the
//! view keeps the served [`Document`], so that fields unknown to us survive the write.

mod conditions;
mod deployment;
mod document;
mod meta;
mod metadata;
mod namespace;
mod node;
mod pod;
mod replica_set;
mod replication_controller;
mod selects;
mod view;
mod wire;

use std::fmt;
use std::sync::Arc;

pub use conditions::{ConditionState, Conditions};
pub use deployment::{Deployment, DeploymentSpec, DeploymentStatus, IntOrPercent, Strategy};
pub use document::Document;
pub use meta::{Annotations, CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
pub use metadata::ObjectMetadata;
pub use namespace::Namespace;
pub use node::{Node, NodeAnnotations, NodeSpec, NodeStatus, TTL_ANNOTATION, Taint};
pub use pod::{
    Container, ContainerPort, Phase, Pod, PodAffinities, PodAffinity, PodAffinityTerm,
    PodCondition, PodDetails, PodResourceClaim, PodSpec, PodVolume, Present, Readiness,
    ResourceClaimStatus, ResourceList, Resources, TerminatedContainer, Toleration, VolumeSource,
    WeightedPodAffinityTerm,
};
pub use replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use replication_controller::ReplicationController;
pub use selects::Selects;
pub use wire::{Condition, DecodeError, Identity, Parsed};

use crate::intern::Sym;
use crate::resource::ResourceType;

/// Namespace (empty for cluster-scoped objects) and name: what upstream calls a key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace, or the empty string.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Sym::new(namespace),
            name: Arc::from(name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An object that informers can cache.
pub trait Object: Send + Sync + Sized + 'static {
    /// The resource it is watched under.
    const RESOURCE: &'static ResourceType;

    /// Decodes one object as the API server sent it (JSON).
    fn decode(json: &[u8]) -> Result<Self, DecodeError>;

    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Bytes of the heap that belong to it alone, about: texts that many objects share are not
    /// counted.
    fn heap_size(&self) -> usize {
        self.meta().name.len()
    }

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        let meta = self.meta();
        ObjectKey {
            namespace: meta.namespace.clone(),
            name: Arc::clone(&meta.name),
        }
    }
}

/// What an event, an owner reference or a log line needs to know of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectReference {
    /// `apps/v1`, `v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version of the copy in hand; empty when unknown.
    pub resource_version: String,
}

impl ObjectReference {
    /// A reference to a cached object.
    pub fn of<T: Object>(object: &T) -> Self {
        let meta = object.meta();
        Self {
            api_version: T::RESOURCE.api_version().into_owned(),
            kind: T::RESOURCE.kind.clone().into_owned(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            resource_version: meta.resource_version.to_string(),
        }
    }
}
