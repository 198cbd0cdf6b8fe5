//! Annotations and finalizers that tell whether a CSI driver has taken over from an in-tree plugin.
//!
//! Upstream: `updateMigrationAnnotations` and `modifyDeletionFinalizers`.
//!
//! The migration of all in-tree plugins is complete, so the table of drivers decides alone. The checks
//! stay for objects of older releases. External provisioners recognize migrated objects by the
//! annotation.

use steersman_helpers::csi_migration::driver_of;
use steersman_objects::{PersistentVolume, PersistentVolumeClaim};
use steersman_values::intern::Sym;

use super::body::Body;

/// The annotation with the CSI driver.
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// Protects volumes that this manager deletes.
///
/// Upstream: `PVDeletionInTreeProtectionFinalizer`. It keeps the object until its storage is deleted.
pub(super) const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// Protects volumes that an external provisioner deletes.
///
/// Upstream: `PVDeletionProtectionFinalizer`.
const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A change of the annotation [`MIGRATED_TO`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A driver has taken over, and the annotation is absent or names another one.
    Set(&'static str),
    /// The provisioner has no driver in the table, as after a rollback of upstream's migration.
    Remove,
}

impl Change {
    /// The change for an object of `provisioner` with this annotation. `None` if it is right.
    ///
    /// `None` as well for an object without a provisioner: only a provisioned volume can have migrated.
    pub(super) fn of(provisioner: Option<&str>, migrated_to: Option<&Sym>) -> Option<Self> {
        let present = migrated_to.map_or("", Sym::as_str);
        match driver_of(provisioner?) {
            Some(driver) => (present != driver).then_some(Self::Set(driver)),
            None => (!present.is_empty()).then_some(Self::Remove),
        }
    }

    pub(super) fn apply(self, body: &mut Body) {
        match self {
            Self::Set(driver) => body.annotate(MIGRATED_TO, driver),
            Self::Remove => body.remove_annotation(MIGRATED_TO),
        }
    }
}

/// The provisioner that the annotations of a claim name.
///
/// The newer annotation goes first, as upstream; objects of older releases have only the other one.
fn provisioner_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotations = &claim.annotations;
    let name = annotations.provisioner.as_ref();
    name.or(annotations.older_provisioner.as_ref())
        .map(Sym::as_str)
}

/// `claim` with the right annotation. `None` if it has it.
///
/// Upstream: `updateClaimMigrationAnnotations`.
pub(super) fn annealed_claim(claim: &PersistentVolumeClaim) -> Option<Body> {
    let migrated_to = claim.annotations.migrated_to.as_ref();
    let change = Change::of(provisioner_of(claim), migrated_to)?;
    let mut body = Body::of(claim);
    change.apply(&mut body);
    Some(body)
}

/// `volume` with the right annotation and finalizers. `None` if it has them.
///
/// Upstream: `updateVolumeMigrationAnnotationsAndFinalizers`. One PUT serves both.
pub(super) fn annealed_volume(volume: &PersistentVolume) -> Option<Body> {
    let annotations = &volume.annotations;
    let provisioner = annotations.provisioned_by.as_deref();
    let change = Change::of(provisioner, annotations.migrated_to.as_ref());
    let finalizers = finalizers(volume);
    if change.is_none() && finalizers.is_none() {
        return None;
    }
    let mut body = Body::of(volume);
    if let Some(change) = change {
        change.apply(&mut body);
    }
    if let Some(finalizers) = finalizers {
        body.set_finalizers(finalizers);
    }
    Some(body)
}

/// The finalizers of `volume` after the change that they need. `None` if they need none.
///
/// A volume that an administrator made is left alone. One of an external provisioner keeps its own:
/// only in-tree plugins and their successors are looked at.
fn finalizers(volume: &PersistentVolume) -> Option<Vec<String>> {
    let provisioner = volume.annotations.provisioned_by.as_ref()?;
    let is_migrated = driver_of(provisioner).is_some();
    if !is_migrated && !provisioner.starts_with("kubernetes.io/") {
        return None;
    }
    let policy = volume.spec.persistent_volume_reclaim_policy.as_str();
    let served = volume.document.finalizers();
    let is_gone = |name: &str| match name {
        // The policy may change from `Delete` to another one; the storage then outlives the object.
        IN_TREE_FINALIZER => is_migrated || matches!(policy, "Retain" | "Recycle"),
        EXTERNAL_FINALIZER => !is_migrated,
        _ => false,
    };
    let mut wanted = served.clone();
    wanted.retain(|name| !is_gone(name));
    let is_protected = wanted.iter().any(|name| name == IN_TREE_FINALIZER);
    if !is_migrated && policy == "Delete" && !is_protected {
        wanted.push(IN_TREE_FINALIZER.to_owned());
    }
    (wanted != served).then_some(wanted)
}
