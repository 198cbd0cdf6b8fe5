//! The cached views of CSI drivers and of attachments of volumes.
//!
//! Upstream: `k8s.io/api/storage/v1`.

use steersman_values::intern::Sym;
use steersman_values::resource::{CSI_DRIVERS, VOLUME_ATTACHMENTS};

use crate::view;

view! {
    /// A CSI driver of the cluster.
    pub struct CsiDriver: CSI_DRIVERS {
        /// `spec`.
        pub spec: CsiDriverSpec,
    }

    /// `spec` of a driver.
    pub struct CsiDriverSpec {
        /// Whether volumes have to be attached to nodes; unset means that they have to.
        pub attach_required: Option<bool>,
        /// Whether volumes can be mounted with the SELinux label of a pod.
        #[serde(rename = "seLinuxMount")]
        pub se_linux_mount: bool,
    }
}

view! {
    /// The wish to attach a volume to a node, and the answer of the CSI driver's attacher.
    pub struct VolumeAttachment: VOLUME_ATTACHMENTS {
        /// `spec`.
        pub spec: VolumeAttachmentSpec,
        /// `status`.
        pub status: VolumeAttachmentStatus,
    }

    /// `spec` of an attachment.
    pub struct VolumeAttachmentSpec {
        /// Name of the driver.
        pub attacher: Sym,
        /// Name of the node.
        pub node_name: Sym,
        /// The volume.
        pub source: VolumeAttachmentSource,
    }

    /// The volume of an attachment.
    pub struct VolumeAttachmentSource {
        /// Name of the PersistentVolume; unset for a volume of a pod.
        pub persistent_volume_name: Option<Box<str>>,
    }

    /// `status` of an attachment.
    pub struct VolumeAttachmentStatus {
        /// Whether the volume is attached.
        pub attached: bool,
        /// The last failure to attach it.
        pub attach_error: Option<VolumeError>,
        /// The last failure to detach it.
        pub detach_error: Option<VolumeError>,
    }

    /// A failure of a driver.
    pub struct VolumeError {
        /// The message of the driver.
        pub message: Box<str>,
    }
}

impl CsiDriver {
    /// Whether volumes of the driver are used without an attachment.
    pub fn skips_attach(&self) -> bool {
        self.spec.attach_required == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    #[test]
    fn only_an_explicit_false_skips_the_attachment() {
        let cases = [
            (json!(false), true),
            (json!(true), false),
            (json!(null), false),
        ];
        for (required, skips) in cases {
            let spec = json!({"attachRequired": required, "seLinuxMount": true});
            let driver = json!({"metadata": {"name": "d"}, "spec": spec}).to_string();
            let driver = CsiDriver::decode(driver.as_bytes()).unwrap();
            assert_eq!(driver.skips_attach(), skips, "{required}");
            assert!(driver.spec.se_linux_mount);
        }
    }

    #[test]
    fn an_attachment_is_decoded() {
        let attachment = json!({
            "metadata": {"name": "csi-1"},
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
            "status": {"attached": false, "attachError": {"message": "boom"}},
        });
        let attachment = VolumeAttachment::decode(attachment.to_string().as_bytes()).unwrap();
        assert_eq!(attachment.spec.node_name, "n");
        assert_eq!(
            attachment.spec.source.persistent_volume_name.as_deref(),
            Some("pv")
        );
        let error = attachment.status.attach_error.unwrap();
        assert_eq!(&*error.message, "boom");
        assert!(!attachment.status.attached && attachment.status.detach_error.is_none());
    }
}
