//! The cached view of a PersistentVolume.
//!
//! The view keeps the served [`Document`](super::Document), because upstream PUTs whole volumes to
//! bind and release them. Sources whose fields controllers rarely read are markers; their fields are
//! in the document. Upstream: `k8s.io/api/core/v1`.

use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;
use steersman_values::resource::PERSISTENT_VOLUMES;

use super::pod::Present;
use super::{Parsed, Uid};
use crate::view;

view! {
    /// A volume.
    pub struct PersistentVolume: PERSISTENT_VOLUMES, annotations: VolumeAnnotations, keeps document {
        /// `spec`.
        pub spec: VolumeSpec,
        /// `status`.
        pub status: VolumeStatus,
    }

    /// Annotations of a volume. Some have a meaning with an empty value, too.
    pub struct VolumeAnnotations {
        /// The binder chose the claim of this volume.
        #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
        pub bound_by_controller: Option<Sym>,
        /// The plugin or CSI driver that provisioned it.
        #[serde(rename = "pv.kubernetes.io/provisioned-by")]
        pub provisioned_by: Option<Sym>,
        /// The CSI driver that replaces its in-tree plugin.
        #[serde(rename = "pv.kubernetes.io/migrated-to")]
        pub migrated_to: Option<Sym>,
        /// Older form of `spec.storageClassName`.
        #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
        pub class: Option<Sym>,
        /// The capacity of the claim before an expansion that its node has not finished.
        #[serde(rename = "volume.alpha.kubernetes.io/pre-resize-capacity")]
        pub pre_resize_capacity: Option<Box<str>>,
    }

    /// `spec` of a volume.
    pub struct VolumeSpec {
        /// `capacity`.
        pub capacity: StorageAmount,
        /// Access modes, in the served order.
        pub access_modes: Vec<Sym>,
        /// The claim that the volume is bound to, or reserved for.
        pub claim_ref: Option<VolumeClaimRef>,
        /// `Retain`, `Recycle` or `Delete`.
        pub persistent_volume_reclaim_policy: Sym,
        /// Name of the class; empty without one.
        pub storage_class_name: Sym,
        /// Name of the VolumeAttributesClass.
        pub volume_attributes_class_name: Option<Sym>,
        /// `Filesystem` or `Block`.
        pub volume_mode: Option<Sym>,
        /// Source: a CSI driver.
        pub csi: Option<CsiSource>,
        /// Source: a folder of the node.
        pub host_path: Option<HostPathSource>,
        /// Source: a folder of an NFS server.
        pub nfs: Option<NfsSource>,
        /// Source: AWS, in tree.
        pub aws_elastic_block_store: Option<Present>,
        /// Source: Azure, in tree.
        pub azure_disk: Option<Present>,
        /// Source: Azure, in tree.
        pub azure_file: Option<Present>,
        /// Source: OpenStack, in tree.
        pub cinder: Option<Present>,
        /// Source: Google, in tree.
        pub gce_persistent_disk: Option<Present>,
        /// Source: Portworx, in tree.
        pub portworx_volume: Option<Present>,
        /// Source: vSphere, in tree.
        pub vsphere_volume: Option<Present>,
        /// Source: a Fibre Channel device.
        pub fc: Option<Present>,
        /// Source: a FlexVolume driver.
        pub flex_volume: Option<Present>,
        /// Source: an iSCSI device.
        pub iscsi: Option<Present>,
        /// Source: a device or folder of one node.
        pub local: Option<Present>,
    }

    /// A list of quantities, without other entries than `storage`.
    pub struct StorageAmount {
        /// The entry `storage`.
        pub storage: Parsed<Quantity>,
    }

    /// `claimRef` of a volume.
    pub struct VolumeClaimRef {
        /// Namespace of the claim.
        pub namespace: Sym,
        /// Name of the claim.
        pub name: Box<str>,
        /// UID of the claim.
        pub uid: Option<Uid>,
    }

    /// `csi` of a volume.
    pub struct CsiSource {
        /// Name of the driver.
        pub driver: Sym,
        /// Name of the volume, as its driver knows it.
        pub volume_handle: Box<str>,
    }

    /// `hostPath` of a volume.
    pub struct HostPathSource {
        /// Path on the node.
        pub path: Box<str>,
    }

    /// `nfs` of a volume.
    pub struct NfsSource {
        /// Address of the server.
        pub server: Sym,
        /// Path on the server.
        pub path: Box<str>,
    }

    /// `status` of a volume.
    pub struct VolumeStatus {
        /// `Pending`, `Available`, `Bound`, `Released` or `Failed`; empty when unset.
        pub phase: Sym,
    }
}

impl PersistentVolume {
    /// Name of its class; empty without one. Upstream: `GetPersistentVolumeClass`.
    pub fn class(&self) -> &Sym {
        let older = self.annotations.class.as_ref();
        older.unwrap_or(&self.spec.storage_class_name)
    }

    /// Name of the in-tree plugin of its source, if a CSI driver replaces that plugin.
    pub fn migrated_plugin(&self) -> Option<&'static str> {
        let spec = &self.spec;
        let sources = [
            (&spec.aws_elastic_block_store, "kubernetes.io/aws-ebs"),
            (&spec.azure_disk, "kubernetes.io/azure-disk"),
            (&spec.azure_file, "kubernetes.io/azure-file"),
            (&spec.cinder, "kubernetes.io/cinder"),
            (&spec.gce_persistent_disk, "kubernetes.io/gce-pd"),
            (&spec.portworx_volume, "kubernetes.io/portworx-volume"),
            (&spec.vsphere_volume, "kubernetes.io/vsphere-volume"),
        ];
        let set = sources.into_iter().find(|(source, _)| source.is_some());
        set.map(|(_, plugin)| plugin)
    }
}

impl VolumeClaimRef {
    /// The UID of the claim; `None` if the volume is only reserved for a claim of that name.
    pub fn uid(&self) -> Option<&Uid> {
        let is_set = |uid: &&Uid| !matches!(uid, Uid::Other(text) if text.is_empty());
        self.uid.as_ref().filter(is_set)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn decoded(annotations: Value, spec: Value) -> PersistentVolume {
        let metadata = json!({"name": "pv", "uid": "u", "annotations": annotations});
        let volume = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}});
        PersistentVolume::decode(volume.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_volume_is_decoded() {
        let volume = decoded(
            json!({"pv.kubernetes.io/bound-by-controller": "", "other": "x"}),
            json!({
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"},
                "claimRef": {"namespace": "n", "name": "c", "uid": "u"}, "storageClassName": "gold",
                "csi": {"driver": "d", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Delete",
            }),
        );
        assert!(volume.annotations.bound_by_controller.is_some());
        assert!(volume.annotations.provisioned_by.is_none());
        assert_eq!(volume.class(), "gold");
        assert_eq!(volume.spec.capacity.storage.0, Quantity::parse("5Gi"));
        assert_eq!(volume.spec.claim_ref.unwrap().uid(), Some(&Uid::new("u")));
        assert_eq!(volume.spec.csi.unwrap().driver, "d");
        assert_eq!(volume.status.phase, "Bound");
    }

    #[test]
    fn a_reservation_has_no_uid() {
        for claim in [json!({"name": "c"}), json!({"name": "c", "uid": ""})] {
            let volume = decoded(Value::Null, json!({"claimRef": claim}));
            assert_eq!(volume.spec.claim_ref.unwrap().uid(), None);
        }
    }

    #[test]
    fn the_older_annotation_decides_about_the_class() {
        let older = json!({"volume.beta.kubernetes.io/storage-class": ""});
        let volume = decoded(older, json!({"storageClassName": "gold"}));
        assert_eq!(volume.class(), "");
    }

    #[test]
    fn in_tree_sources_name_their_plugin() {
        let plugin = |spec| decoded(Value::Null, spec).migrated_plugin();
        let cinder = json!({"cinder": {"volumeID": "v"}});
        assert_eq!(plugin(cinder), Some("kubernetes.io/cinder"));
        assert_eq!(plugin(json!({"nfs": {"server": "s", "path": "/"}})), None);
    }
}
