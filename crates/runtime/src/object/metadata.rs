//! Objects of any type, of which only the metadata is known: what the garbage collector sees of the
//! world.

use serde::Deserialize;

use super::Object;
use super::meta::Meta;
use super::wire::{DecodeError, MetaWire, parse};
use crate::labels::Labels;
use crate::resource::{self, ResourceType};

/// The metadata of an object, without labels. Its type is that of the informer it comes from.
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
    /// What the API server calls an object shown like this.
    const RESOURCE: &'static ResourceType = &resource::PARTIAL_METADATA;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        const KIND: &str = "PartialObjectMetadata";
        let (ObjectWire { metadata }, _) = parse(json, KIND)?;
        Ok(Self {
            meta: Meta {
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
    use crate::object::CollectorFinalizers;

    #[test]
    fn metadata_is_read_from_partial_and_from_whole_objects() {
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
