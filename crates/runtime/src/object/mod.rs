//! Cached views of API objects: the fields that upstream's controllers read, decoded from the JSON
//! of the API server in one pass.
//!
//! JSON of a list item or watch event -> [`Object::decode`] -> view -> store of an informer
//!
//! Upstream caches the complete Go types of `k8s.io/api`. Complete types would be most of our
//! memory in a large cluster; `docs/decisions/0003-lean-views.md` has the measurements.
//!
//! Controllers never write a view back. They patch the fields that they own. Where upstream PUTs
//! a whole object, the view keeps the served [`Document`], so unknown fields survive the write.

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

/// The key of an object: its namespace and name. Queues and stores identify objects by it, as
/// upstream's do by the string of `MetaNamespaceKeyFunc`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key `namespace/name`. An empty namespace means a cluster-scoped object.
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

/// An object that informers can cache. Each view implements it.
pub trait Object: Send + Sync + Sized + 'static {
    /// The resource that an informer lists and watches.
    const RESOURCE: &'static ResourceType;

    /// Decodes one object from the JSON that the API server sent.
    ///
    /// Fails for malformed JSON, for JSON of another shape, and for a resource version that is not
    /// a decimal number.
    fn decode(json: &[u8]) -> Result<Self, DecodeError>;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// An estimate of the heap memory of this object, in bytes. Strings and lists that many
    /// objects share do not count.
    fn heap_size(&self) -> usize {
        self.meta().name.len()
    }

    /// The key: namespace and name.
    fn key(&self) -> ObjectKey {
        let meta = self.meta();
        ObjectKey {
            namespace: meta.namespace.clone(),
            name: Arc::clone(&meta.name),
        }
    }
}

/// The identity of an object for Events, owner references and log lines. Upstream:
/// `ObjectReference` of `k8s.io/api/core/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectReference {
    /// API version, such as `apps/v1` or `v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Resource version of the referenced copy; empty when unknown.
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
