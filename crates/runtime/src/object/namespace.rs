//! Namespaces, of which only the metadata is read from the cache.

use serde::Deserialize;

use super::Object;
use super::meta::Meta;
use super::wire::{DecodeError, MetaWire};
use crate::resource::{self, ResourceType};

/// What the controllers read of a namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// Metadata, without annotations.
    pub meta: Meta,
}

#[derive(Deserialize)]
struct NamespaceWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a>,
}

impl Object for Namespace {
    const RESOURCE: &'static ResourceType = &resource::NAMESPACES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let NamespaceWire { metadata } =
            serde_json::from_slice(json).map_err(|source| DecodeError::Json {
                kind: "Namespace",
                source,
            })?;
        Ok(Self {
            meta: metadata.into_meta("Namespace")?,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_its_metadata() {
        let json = br#"{"metadata":{"name":"shop","uid":"u","resourceVersion":"7","deletionTimestamp":"2024-01-01T00:00:00Z"},
            "spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;
        let namespace = Namespace::decode(json).unwrap();
        assert_eq!(namespace.key().to_string(), "shop");
        assert!(namespace.meta.is_terminating());
        assert!(Namespace::decode(br#"{"kind":"Namespace"}"#).is_err());
    }
}
