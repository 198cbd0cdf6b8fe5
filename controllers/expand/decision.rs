//! Which claims wait for an expansion, and for which component.
//!
//! Upstream: `syncHandler`.
//!
//! All functions are pure. The sync reads the live volume and writes; see `sync.rs`.

use steersman_helpers::csi_migration::driver_of;
use steersman_objects::{PersistentVolume, PersistentVolumeClaim, StorageAmount};
use steersman_values::quantity::Quantity;

/// The component that expands a volume.
///
/// Upstream has a third one, the in-tree FlexVolume plugin of the manager; see the module `expand`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resizer {
    /// The external resizer of the driver that replaces an in-tree plugin.
    Migrated {
        plugin: &'static str,
        driver: &'static str,
    },
    /// Any other external component.
    ///
    /// Upstream: no plugin comes from `FindExpandablePluginBySpec`. The external component may be
    /// absent, and then the Event repeats with each later growth.
    External,
}

/// Whether `claim` is in the phase `Bound`.
///
/// Upstream: the condition of `enqueuePVC` in `volume/expand/expand_controller.go`. A claim that is
/// pending or lost has no volume to expand.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.phase == "Bound"
}

/// Whether a bound claim asks for more than before, or has more than before.
///
/// Upstream: `UpdateFunc` in `NewExpandController`. A request that shrinks causes no sync. A larger
/// capacity follows the resize of a file system on a node, and the volume may still carry the
/// annotation of that resize.
pub(super) fn has_grown(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    is_bound(new) && (requested(new) > requested(old) || capacity(new) > capacity(old))
}

/// Whether `volume` is bound to `claim`.
///
/// Upstream: the check of `claimRef` in `syncHandler`. The UID decides, so the volume of a deleted
/// claim of the same name is refused. A `claimRef` without UID is only a reservation, and is refused as
/// well.
pub(super) fn is_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume
        .spec
        .claim_ref
        .as_ref()
        .is_some_and(|of| of.namespace == claim.meta.namespace && of.uid() == Some(&claim.meta.uid))
}

/// The component that is to expand `volume` for `claim`. `None` if the claim has what it asks for.
///
/// Upstream: `syncHandler`, from the comparison of sizes on. The annotation
/// `volume.alpha.kubernetes.io/pre-resize-capacity` keeps a resize open after the sizes agree. The
/// external resizer sets it when a node has yet to grow the file system.
pub(super) fn resizer(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Resizer> {
    let is_pending = volume.annotations.pre_resize_capacity.is_some();
    if requested(claim) <= capacity(claim) && !is_pending {
        return None;
    }
    // Each migrated plugin has a driver in the table, so upstream's error "error getting CSI driver
    // name" cannot occur.
    let migrated = volume
        .migrated_plugin()
        .and_then(|plugin| Some((plugin, driver_of(plugin)?)));
    Some(match migrated {
        Some((plugin, driver)) => Resizer::Migrated { plugin, driver },
        None => Resizer::External,
    })
}

fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    amount(Some(&claim.spec.resources.requests))
}

fn capacity(claim: &PersistentVolumeClaim) -> Quantity {
    amount(claim.status.capacity.as_ref())
}

/// The storage in `of`. An absent map or entry is zero, as in a Go map, so a claim without capacity
/// always waits for an expansion.
fn amount(of: Option<&StorageAmount>) -> Quantity {
    of.and_then(|of| of.storage.0).unwrap_or(Quantity::whole(0))
}
