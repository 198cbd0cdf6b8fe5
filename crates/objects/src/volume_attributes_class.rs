//! The cached view of a VolumeAttributesClass.
//!
//! Upstream: `k8s.io/api/storage/v1`.

use steersman_values::resource::VOLUME_ATTRIBUTES_CLASSES;

use crate::view;

view! {
    /// A class of mutable volume attributes: its metadata, and the document for its writes.
    pub struct VolumeAttributesClass: VOLUME_ATTRIBUTES_CLASSES, keeps document {
    }
}
