//! The in-tree volume plugins that CSI drivers replace. Their names stay in StorageClasses and
//! annotations.
//!
//! Upstream: `k8s.io/csi-translation-lib`, and `csimigration` in `pkg/volume`. All of these plugins
//! are migrated since 1.31, and no feature gate switches one back.

/// In-tree plugins, and the CSI drivers in their place.
const DRIVERS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The CSI driver that replaces the in-tree plugin `plugin`. `None` for other names.
pub fn driver_of(plugin: &str) -> Option<&'static str> {
    let pair = DRIVERS.iter().find(|(name, _)| *name == plugin);
    pair.map(|(_, driver)| *driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_migrated_plugins_have_a_driver() {
        assert_eq!(driver_of("kubernetes.io/aws-ebs"), Some("ebs.csi.aws.com"));
        for other in ["kubernetes.io/nfs", "ebs.csi.aws.com", ""] {
            assert_eq!(driver_of(other), None, "{other}");
        }
    }
}
