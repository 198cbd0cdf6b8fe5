//! The cached view of a PersistentVolumeClaim.
//!
//! The view keeps the served [`Document`](super::Document), because upstream PUTs whole claims: the
//! StatefulSet controller to change their owner references, and the binder to bind them. Upstream:
//! `k8s.io/api/core/v1`.

use serde::Deserialize;
use serde::de::Deserializer;

use steersman_values::intern::Sym;
use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::PERSISTENT_VOLUME_CLAIMS;

use super::persistent_volume::StorageAmount;
use super::pod::Present;
use crate::view;

view! {
    /// A claim for a volume.
    pub struct PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIMS, annotations: ClaimAnnotations,
        keeps document {
        /// `spec`.
        pub spec: ClaimSpec,
        /// `status`.
        pub status: ClaimStatus,
    }

    /// Annotations of a claim. Some have a meaning with an empty value, too.
    pub struct ClaimAnnotations {
        /// The claim has been bound once.
        #[serde(rename = "pv.kubernetes.io/bind-completed")]
        pub bind_completed: Option<Sym>,
        /// The binder chose the volume of this claim.
        #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
        pub bound_by_controller: Option<Sym>,
        /// The CSI driver that replaces its in-tree provisioner.
        #[serde(rename = "pv.kubernetes.io/migrated-to")]
        pub migrated_to: Option<Sym>,
        /// The node of its first pod, for a class that waits for it.
        #[serde(rename = "volume.kubernetes.io/selected-node")]
        pub selected_node: Option<Sym>,
        /// The provisioner.
        #[serde(rename = "volume.kubernetes.io/storage-provisioner")]
        pub provisioner: Option<Sym>,
        /// Older form of the provisioner.
        #[serde(rename = "volume.beta.kubernetes.io/storage-provisioner")]
        pub older_provisioner: Option<Sym>,
        /// Older form of `spec.storageClassName`.
        #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
        pub class: Option<Sym>,
    }

    /// `spec` of a claim.
    pub struct ClaimSpec {
        /// Requested access modes, in the served order.
        pub access_modes: Vec<Sym>,
        /// Source of the first content, such as a snapshot.
        pub data_source: Option<Present>,
        /// `resources`.
        pub resources: ClaimResources,
        /// The labels of volumes that match; unset for all volumes.
        pub selector: Option<VolumeSelector>,
        /// Name of the class; an empty one is set, too.
        pub storage_class_name: Option<Sym>,
        /// Name of the VolumeAttributesClass.
        pub volume_attributes_class_name: Option<Sym>,
        /// `Filesystem` or `Block`.
        pub volume_mode: Option<Sym>,
        /// Name of the volume; empty while unbound.
        pub volume_name: Box<str>,
    }

    /// `resources` of a claim.
    pub struct ClaimResources {
        /// The least capacity of its volume.
        pub requests: StorageAmount,
    }

    /// `status` of a claim.
    pub struct ClaimStatus {
        /// `Pending`, `Bound` or `Lost`; empty when unset.
        pub phase: Sym,
        /// Access modes of its volume.
        pub access_modes: Vec<Sym>,
        /// The amount that an expansion has reserved.
        pub allocated_resources: StorageAmount,
        /// Capacity of its volume.
        pub capacity: Option<StorageAmount>,
        /// Name of the VolumeAttributesClass of its volume.
        pub current_volume_attributes_class_name: Option<Sym>,
        /// A change of the VolumeAttributesClass under way.
        pub modify_volume_status: Option<ModifyVolumeStatus>,
    }

    /// `modifyVolumeStatus` of a claim.
    pub struct ModifyVolumeStatus {
        /// Name of the new VolumeAttributesClass.
        pub target_volume_attributes_class_name: Sym,
    }
}

impl PersistentVolumeClaim {
    /// Name of its class; empty without one. Upstream: `GetPersistentVolumeClaimClass`.
    pub fn class(&self) -> &str {
        let class = self.annotations.class.as_ref();
        let class = class.or(self.spec.storage_class_name.as_ref());
        class.map_or("", Sym::as_str)
    }

    /// Whether it names a class, be it an empty one. Upstream: `PersistentVolumeClaimHasClass`.
    pub fn has_class(&self) -> bool {
        self.annotations.class.is_some() || self.spec.storage_class_name.is_some()
    }
}

/// `selector` of a claim: the parsed selector, or the error of parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSelector(pub Result<Selector, SelectorError>);

impl<'de> Deserialize<'de> for VolumeSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireSelector::deserialize(deserializer)?;
        Ok(Self(Selector::parse(Some(&wire))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_values::quantity::Quantity;

    use super::*;
    use crate::Object;

    fn decoded(annotations: Value, spec: Value) -> PersistentVolumeClaim {
        let metadata = json!({"name": "c", "namespace": "n", "annotations": annotations});
        let claim = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}});
        PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_claim_is_decoded() {
        let claim = decoded(
            json!({"volume.kubernetes.io/selected-node": "", "other": "x"}),
            json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "selector": {}, "volumeName": "pv", "dataSource": {"kind": "VolumeSnapshot"},
            }),
        );
        assert!(claim.annotations.selected_node.is_some());
        assert!(claim.annotations.bind_completed.is_none());
        let request = claim.spec.resources.requests.storage.0;
        assert_eq!(request, Quantity::parse("1Gi"));
        assert!(claim.spec.selector.unwrap().0.unwrap().is_everything());
        assert!(claim.spec.data_source.is_some());
        assert_eq!(&*claim.spec.volume_name, "pv");
        assert_eq!(claim.status.phase, "Pending");
        assert!(claim.status.capacity.is_none());
    }

    #[test]
    fn the_older_annotation_decides_about_the_class() {
        let older = json!({"volume.beta.kubernetes.io/storage-class": ""});
        let gold = json!({"storageClassName": "gold"});
        // (annotations, spec, class, has a class)
        let cases = [
            (Value::Null, json!({}), "", false),
            (Value::Null, json!({"storageClassName": ""}), "", true),
            (Value::Null, gold.clone(), "gold", true),
            (older, gold, "", true),
        ];
        for (annotations, spec, class, has_class) in cases {
            let claim = decoded(annotations, spec);
            assert_eq!((claim.class(), claim.has_class()), (class, has_class));
        }
    }

    #[test]
    fn an_invalid_selector_keeps_its_error() {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        let claim = decoded(Value::Null, json!({"selector": selector}));
        assert!(claim.spec.selector.unwrap().0.is_err());
    }
}
