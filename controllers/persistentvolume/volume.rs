//! The next step of a volume.
//!
//! Upstream: `syncVolume`.
//!
//! All functions are pure. The caller has confirmed that a missing claim is gone.

use steersman_objects::{
    Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeClaimRef,
};

use super::matching;
use super::notice::Notice;

/// The step of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Enters this phase.
    ///
    /// Only `Bound` by now: an unbound volume is handled before.
    Enter(&'static str),
    /// Enters the phase `Released`, then follows the reclaim policy.
    ///
    /// A volume that was released before keeps its phase.
    Reclaim,
    /// The claim binds it.
    ///
    /// The binding was interrupted after its first half, or a provisioner made the volume.
    WakeClaim(ObjectKey),
    /// The claim cannot bind it; Events about the volume and about the claim.
    ///
    /// Its claim would never find it, so only these Events tell the users.
    Mismatch { volume: Notice, claim: Notice },
    /// The claim has another volume.
    ///
    /// The volume is not wanted: it lost a race, or a user bound the claim elsewhere.
    Unbind,
}

/// Whether `volume` is bound to a claim. A volume that is only reserved for a name is available.
pub(super) fn is_bound(volume: &PersistentVolume) -> bool {
    let bound = volume.spec.claim_ref.as_ref();
    bound.and_then(VolumeClaimRef::uid).is_some()
}

/// The step of a volume that is bound to `claim`; `None` is a claim that is gone.
///
/// The claim decides, since it is the second half of a binding: its `volumeName` is empty, this volume,
/// or another one.
pub(super) fn step(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let Some(claim) = claim else {
        return Step::Reclaim;
    };
    if claim.spec.volume_name.is_empty() {
        return if matching::modes_differ(volume, claim) {
            mismatch(volume, claim)
        } else {
            Step::WakeClaim(claim.key())
        };
    }
    if claim.spec.volume_name[..] == volume.meta.name[..] {
        return Step::Enter("Bound");
    }
    let is_provisioned = volume.annotations.provisioned_by.is_some();
    // It was made for this claim alone, so no other claim shall get it. One with another policy is
    // kept.
    if is_provisioned && volume.spec.persistent_volume_reclaim_policy == "Delete" {
        Step::Reclaim
    } else {
        Step::Unbind
    }
}

/// Each object gets an Event, since they have different owners.
fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Step {
    let notice = |message| Notice::warning("VolumeMismatch", message);
    Step::Mismatch {
        volume: notice(format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
            claim.meta.name
        )),
        claim: notice(format!(
            "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
            volume.meta.name
        )),
    }
}

/// Whether the reclaim policy of `volume` has already begun.
///
/// `Failed` counts: only a reclaim leads there.
pub(super) fn is_released(volume: &PersistentVolume) -> bool {
    matches!(volume.status.phase.as_str(), "Released" | "Failed")
}

/// Whether `volume` may be recycled or deleted: its claim, as known, is gone or has another volume.
/// Upstream: `isVolumeReleased`.
///
/// The check before data is destroyed. A claim without a volume still waits for this one, so it counts
/// as a user.
pub(super) fn may_be_reclaimed(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> bool {
    let bound = volume.spec.claim_ref.as_ref();
    let Some(uid) = bound.and_then(VolumeClaimRef::uid) else {
        return false;
    };
    match claim.filter(|claim| claim.meta.uid == *uid) {
        Some(claim) => {
            let of = &claim.spec.volume_name;
            !of.is_empty() && of[..] != volume.meta.name[..]
        }
        None => true,
    }
}
