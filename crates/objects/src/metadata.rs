//! Objects of any type with their metadata only. The garbage collector caches objects in this form.
//!
//! The API server sends such objects as `PartialObjectMetadata`, so a custom resource needs no view
//! and costs little memory. Upstream: `k8s.io/client-go/metadata`.

use serde::Deserialize;

use steersman_values::labels::Labels;
use steersman_values::resource::{self, ResourceType};

use super::Object;
use super::meta::Meta;
use super::wire::{DecodeError, MetaWire, parse};

/// The metadata of an object, without labels. The informer knows the type of its objects.
#[derive(Debug, Clone)]
pub struct ObjectMetadata {
    /// Metadata.
    pub meta: Meta,
}

#[derive(Deserialize)]
struct ObjectWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a>,
}

impl Object for ObjectMetadata {
    /// The type in which the API server sends metadata of any object.
    const RESOURCE: &'static ResourceType = &resource::PARTIAL_METADATA;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        const KIND: &str = "PartialObjectMetadata";
        let (ObjectWire { metadata }, _) = parse(json, KIND)?;
        Ok(Self {
            meta: Meta {
                // The garbage collector reads no labels, and it caches every object.
                labels: Labels::default(),
                ..metadata.into_meta(KIND)?
            },
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectorFinalizers;

    #[test]
    fn metadata_of_partial_and_complete_objects_is_decoded() {
        // (finalizers, foreground, orphan)
        let cases = [
            (r#"["a", "foregroundDeletion"]"#, true, false),
            (r#"["orphan"]"#, false, true),
            ("null", false, false),
            (r#"["example.com/orphan"]"#, false, false),
        ];
        for (finalizers, foreground, orphan) in cases {
            let owner = r#"{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "blockOwnerDeletion": true}"#;
            let json = format!(
                r#"{{"kind": "PartialObjectMetadata", "spec": {{}}, "metadata": {{
                    "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "7", "labels": {{"x": "y"}},
                    "ownerReferences": [{owner}], "finalizers": {finalizers}}}}}"#
            );
            let ObjectMetadata { meta } = ObjectMetadata::decode(json.as_bytes()).unwrap();
            assert_eq!(
                meta.finalizers,
                CollectorFinalizers { foreground, orphan },
                "{finalizers}"
            );
            assert_eq!(
                (&*meta.name, &*meta.namespace, meta.resource_version),
                ("a", "b", 7)
            );
            assert!(meta.owners[0].block_owner_deletion && meta.labels == Labels::default());
        }
    }
}
