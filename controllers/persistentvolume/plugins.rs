//! The volume plugins of this manager, and the components that act in their place.
//!
//! Two plugins are left: `hostPath`, which can provision, delete and recycle, and NFS, which can
//! recycle. Everything else is external. Upstream: `findProvisionablePlugin` and
//! `findDeletablePlugin`.

use steersman_helpers::csi_migration::driver_of;
use steersman_objects::{PersistentVolume, StorageClass};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;

use super::classes;

/// Name of the plugin of `hostPath` volumes.
pub(super) const HOST_PATH: &str = "kubernetes.io/host-path";
/// Name of the plugin of NFS volumes.
pub(super) const NFS: &str = "kubernetes.io/nfs";

/// The name in metrics of an unknown plugin.
const NOT_AVAILABLE: &str = "N/A";
/// Names of in-tree plugins begin with it.
const IN_TREE: &str = "kubernetes.io/";

/// The component that creates or deletes volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agent {
    /// The external provisioner with this name.
    External(Sym),
    /// The plugin of `hostPath` volumes.
    HostPath,
}

/// No plugin can do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlugin {
    /// No plugin has the name.
    #[error("no volume plugin matched name: {0}")]
    Name(Sym),
    /// The plugin cannot provision.
    #[error("no provisionable volume plugin matched")]
    Provisionable,
    /// The plugin that provisioned the volume cannot delete.
    #[error("no deletable volume plugin matched")]
    Deletable,
    /// No plugin knows the source of the volume, or none that does can delete it.
    #[error("error getting deleter volume plugin for volume {volume:?}: {cause}")]
    Source {
        /// Name of the volume.
        volume: String,
        /// The failure of the search.
        cause: &'static str,
    },
}

/// The component that provisions volumes of `class`.
pub(super) fn provisioner(class: &StorageClass) -> Result<Agent, NoPlugin> {
    let name = &class.provisioner;
    match driver_of(name) {
        Some(driver) => Ok(Agent::External(Sym::new(driver))),
        None if *name == *HOST_PATH => Ok(Agent::HostPath),
        None if *name == *NFS => Err(NoPlugin::Provisionable),
        None if name.starts_with(IN_TREE) => Err(NoPlugin::Name(name.clone())),
        None => Ok(Agent::External(name.clone())),
    }
}

/// Whether this manager is to delete `volume`; false if an external component does.
pub(super) fn is_deleted_here(volume: &PersistentVolume) -> Result<bool, NoPlugin> {
    let provisioner = volume.annotations.provisioned_by.as_ref();
    if let Some(name) = provisioner.filter(|name| !name.is_empty()) {
        return match name.as_str() {
            HOST_PATH => Ok(true),
            NFS => Err(NoPlugin::Deletable),
            other if other.starts_with(IN_TREE) => Err(NoPlugin::Name(name.clone())),
            _ => Ok(false),
        };
    }
    if volume.annotations.migrated_to.is_some() || volume.spec.csi.is_some() {
        return Ok(false);
    }
    let cause = match of_source(volume) {
        Some(HOST_PATH) => return Ok(true),
        Some(_) => "no deletable volume plugin matched",
        None => "no volume plugin matched",
    };
    Err(NoPlugin::Source {
        volume: volume.meta.name.to_string(),
        cause,
    })
}

/// The plugin of the volume's source. Upstream: `FindPluginBySpec`.
fn of_source(volume: &PersistentVolume) -> Option<&'static str> {
    if volume.spec.host_path.is_some() {
        Some(HOST_PATH)
    } else if volume.spec.nfs.is_some() {
        Some(NFS)
    } else {
        None
    }
}

/// The name of the plugin of `volume` in metrics.
pub(super) fn name_of_source(volume: &PersistentVolume) -> &'static str {
    of_source(volume).unwrap_or(NOT_AVAILABLE)
}

/// The name in metrics of the component that deletes `volume`. Upstream:
/// `getProvisionerNameFromVolume`.
pub(super) fn name_of_deleter(volume: &PersistentVolume, known: &Store<StorageClass>) -> Sym {
    let external = || match classes::named(known, volume.class()) {
        Some(class) => {
            let driver = driver_of(&class.provisioner);
            driver.map_or_else(|| class.provisioner.clone(), Sym::new)
        }
        None => Sym::new(NOT_AVAILABLE),
    };
    match is_deleted_here(volume) {
        Ok(true) => Sym::new(HOST_PATH),
        Ok(false) => external(),
        Err(_) => Sym::new(NOT_AVAILABLE),
    }
}
