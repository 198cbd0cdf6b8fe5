//! Which claims wait for an expansion, and for which component.
//!
//! Upstream: `syncHandler`.

use steersman_helpers::csi_migration::driver_of;
use steersman_objects::{PersistentVolume, PersistentVolumeClaim, StorageAmount};
use steersman_values::quantity::Quantity;

/// The component that expands a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resizer {
    /// The external resizer of the driver that replaces an in-tree plugin.
    Migrated {
        plugin: &'static str,
        driver: &'static str,
    },
    /// Any other external component.
    External,
}

/// Whether `claim` is in the phase `Bound`.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.phase == "Bound"
}

/// Whether a bound claim asks for more than before, or has more than before.
pub(super) fn has_grown(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    is_bound(new) && (requested(new) > requested(old) || capacity(new) > capacity(old))
}

/// Whether `volume` is bound to `claim`.
pub(super) fn is_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume
        .spec
        .claim_ref
        .as_ref()
        .is_some_and(|of| of.namespace == claim.meta.namespace && of.uid() == Some(&claim.meta.uid))
}

/// The component that is to expand `volume` for `claim`. `None` if the claim has what it asks for.
pub(super) fn resizer(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Resizer> {
    let is_pending = volume.annotations.pre_resize_capacity.is_some();
    if requested(claim) <= capacity(claim) && !is_pending {
        return None;
    }
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

fn amount(of: Option<&StorageAmount>) -> Quantity {
    of.and_then(|of| of.storage.0).unwrap_or(Quantity::whole(0))
}
