//! Services and Nodes as served, for providers.
//!
//! Controllers elsewhere cache few fields of an object. A provider may need any of them, such as an
//! annotation of its cloud, so these caches hold the complete types of `k8s-openapi`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use steersman_objects::{DecodeError, Meta, Object, ObjectMetadata};
use steersman_values::resource::{NODES, ResourceType, SERVICES};

/// A kind of objects that providers read.
pub(crate) trait Kind: DeserializeOwned + Send + Sync + 'static {
    const RESOURCE: &'static ResourceType;
    const NAME: &'static str;
    fn metadata(&mut self) -> &mut ObjectMeta;
}

impl Kind for Node {
    const RESOURCE: &'static ResourceType = &NODES;
    const NAME: &'static str = "Node";
    fn metadata(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Kind for Service {
    const RESOURCE: &'static ResourceType = &SERVICES;
    const NAME: &'static str = "Service";
    fn metadata(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A complete object.
#[derive(Debug)]
pub(crate) struct Served<K> {
    pub(crate) meta: Meta,
    /// The object without `managedFields`.
    pub(crate) object: Arc<K>,
}

impl<K: Kind> Object for Served<K> {
    const RESOURCE: &'static ResourceType = K::RESOURCE;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let mut object: K = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: K::NAME,
            source,
        })?;
        object.metadata().managed_fields = None;
        Ok(Self {
            meta: ObjectMetadata::decode(json)?.meta,
            object: Arc::new(object),
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}
