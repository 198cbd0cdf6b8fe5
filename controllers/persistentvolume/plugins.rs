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
///
/// Upstream: `pluginNameNotAvailable`.
const NOT_AVAILABLE: &str = "N/A";
/// Names of in-tree plugins begin with it.
///
/// Any other name is that of an external component.
const IN_TREE: &str = "kubernetes.io/";

/// The component that creates or deletes volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agent {
    /// The external provisioner with this name.
    ///
    /// The CSI driver of a migrated plugin, or the name in the class as it is.
    External(Sym),
    /// The plugin of `hostPath` volumes.
    HostPath,
}

/// No plugin can do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlugin {
    /// No plugin has the name.
    ///
    /// Such as a plugin that a release has removed, and that no driver replaces.
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
///
/// Upstream: `findProvisionablePlugin`. Migrated plugins go first: no code of theirs is left here.
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
///
/// Upstream: `findDeletablePlugin`. The component that made a volume deletes it, so the annotation goes
/// first. The source decides about volumes that an administrator made.
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
    // An external provisioner deletes both kinds.
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
///
/// Only the plugins that are left here. A volume has one source.
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
///
/// Upstream: `getPVPluginName`. CSI volumes have no plugin in this manager, so they are `N/A` as well.
pub(super) fn name_of_source(volume: &PersistentVolume) -> &'static str {
    of_source(volume).unwrap_or(NOT_AVAILABLE)
}

/// The name in metrics of the component that deletes `volume`. Upstream:
/// `getProvisionerNameFromVolume`.
///
/// The class names an external component here. Upstream avoids the annotation, because some
/// provisioners put another name into each volume, and each would be a label value.
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
