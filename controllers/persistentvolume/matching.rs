//! The best volume for a claim.
//!
//! Upstream: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume`, and `index.go`.

use std::sync::Arc;

use steersman_objects::{Object, PersistentVolume, PersistentVolumeClaim, StorageAmount};
use steersman_values::intern::Sym;
use steersman_values::labels::{Selector, SelectorError};
use steersman_values::quantity::Quantity;

use super::known::{Modes, Volumes};

/// The part of VolumeAttributesClasses in the choice of a volume, by the gate `VolumeAttributesClass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributesClasses {
    /// Volume and claim have the same class.
    Compared,
    /// Volume and claim have no class: the gate is off.
    Unsupported,
}

impl AttributesClasses {
    /// The part with the gate in the state `is_on`.
    pub(super) fn with_gate(is_on: bool) -> Self {
        if is_on {
            Self::Compared
        } else {
            Self::Unsupported
        }
    }

    /// The reason why the class of `volume` keeps it from `claim`. `None` if it does not.
    fn obstacle(
        self,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
    ) -> Option<&'static str> {
        let [offered, requested] = [
            attributes_class_of(volume),
            requested_attributes_class(claim),
        ];
        match self {
            Self::Compared => {
                (offered != requested).then_some("volumeAttributesClassName does not match")
            }
            Self::Unsupported => (!offered.is_empty() || !requested.is_empty()).then_some(
                "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled",
            ),
        }
    }
}

/// No volume can be chosen for a claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MatchError {
    /// Its selector is invalid.
    #[error("error creating internal label selector for claim: {claim}: {source}")]
    Selector {
        claim: String,
        source: SelectorError,
    },
    /// It has a VolumeAttributesClass, and the gate is off.
    #[error(
        "unsupported volumeAttributesClassName is set on claim {claim} when the feature-gate VolumeAttributesClass is disabled"
    )]
    AttributesClass { claim: String },
}

/// The volume to bind `claim` to: a volume that names the claim, or else the smallest free one that
/// fits, among those with the fewest access modes.
///
/// With `is_delayed` the scheduler chooses among the free volumes, so none of them matches.
///
/// A volume that names the claim is taken even if it is larger, in another phase or of another class.
/// Its creator, or an earlier try, has decided. Its size and modes have to suffice all the same.
pub(super) fn best(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    is_delayed: bool,
    attributes: AttributesClasses,
) -> Result<Option<Arc<PersistentVolume>>, MatchError> {
    if attributes == AttributesClasses::Unsupported && !requested_attributes_class(claim).is_empty()
    {
        return Err(MatchError::AttributesClass {
            claim: claim.key().to_string(),
        });
    }
    let selector = selector(claim)?;
    let best = volumes.candidates(claim).find_map(|group| {
        let mut smallest: Option<&Arc<PersistentVolume>> = None;
        for volume in group.filter(|volume| can_hold(volume, claim, attributes)) {
            if names(volume, claim) {
                return Some(volume);
            }
            // The cheap comparison of sizes spares most volumes the other checks.
            let is_smaller = smallest.is_none_or(|other| capacity(volume) < capacity(other));
            if !is_delayed && is_smaller && is_eligible(volume, claim, selector) {
                smallest = Some(volume);
            }
        }
        smallest
    });
    Ok(best.cloned())
}

/// The selector is parsed once, when the claim is decoded.
fn selector(claim: &PersistentVolumeClaim) -> Result<Option<&Selector>, MatchError> {
    let parsed = claim.spec.selector.as_ref().map(|selector| &selector.0);
    match parsed {
        Some(Err(source)) => Err(MatchError::Selector {
            claim: claim.key().to_string(),
            source: source.clone(),
        }),
        Some(Ok(selector)) => Ok(Some(selector)),
        None => Ok(None),
    }
}

/// Whether a volume, also one that names the claim, can be the volume of `claim`.
///
/// Upstream: the first half of the loop in `FindMatchingVolume`.
fn can_hold(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    attributes: AttributesClasses,
) -> bool {
    (volume.spec.claim_ref.is_none() || names(volume, claim))
        && capacity(volume) >= amount(&claim.spec.resources.requests)
        && !modes_differ(volume, claim)
        && attributes.obstacle(volume, claim).is_none()
        && !volume.meta.is_terminating()
}

/// Whether a volume without a claim is available for `claim`.
///
/// Upstream: the second half of that loop. A volume in another phase is about to change, and a write to
/// it would meet a conflict.
fn is_eligible(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    selector: Option<&Selector>,
) -> bool {
    volume.status.phase == "Available"
        && selector.is_none_or(|selector| selector.matches(&volume.meta.labels))
        && *volume.class() == *claim.class()
}

/// Whether `volume` is bound to `claim`, or reserved for it. A UID counts only if the volume has
/// one. Upstream: `IsVolumeBoundToClaim`.
///
/// `false` for a volume without `claimRef`.
pub(super) fn names(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|of| {
        of.name[..] == claim.meta.name[..]
            && of.namespace == claim.meta.namespace
            && of.uid().is_none_or(|uid| *uid == claim.meta.uid)
    })
}

/// Upstream: `CheckVolumeModeMismatches`.
///
/// Without a mode, an object has that of file systems: API servers set the field, and old objects may
/// lack it.
pub(super) fn modes_differ(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    fn mode(set: &Option<Sym>) -> &str {
        set.as_deref().unwrap_or("Filesystem")
    }
    mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode)
}

/// An absent class and an empty one are the same. Upstream: `ptr.Deref`.
fn attributes_class_of(volume: &PersistentVolume) -> &str {
    let class = volume.spec.volume_attributes_class_name.as_deref();
    class.unwrap_or_default()
}

fn requested_attributes_class(claim: &PersistentVolumeClaim) -> &str {
    let class = claim.spec.volume_attributes_class_name.as_deref();
    class.unwrap_or_default()
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    amount(&volume.spec.capacity)
}

/// The API server demands both sizes; zero is for objects without one.
fn amount(of: &StorageAmount) -> Quantity {
    of.storage.0.unwrap_or(Quantity::whole(0))
}

/// The reason why `claim` cannot have the volume that it requests by name. Selector, phase and node
/// affinity do not matter. Upstream: `checkVolumeSatisfyClaim`.
///
/// The first obstacle is the one that users read, so the order of checks is upstream's. Sizes are
/// compared in whole bytes here, as `Value` of a quantity in upstream.
pub(super) fn obstacle(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    attributes: AttributesClasses,
) -> Option<String> {
    let requested = amount(&claim.spec.resources.requests);
    let modes = Modes::offered(&volume.spec.access_modes);
    let obstacle = if volume.meta.is_terminating() {
        return Some(format!(
            "the volume is marked for deletion {:?}",
            volume.meta.name
        ));
    } else if capacity(volume).units() < requested.units() {
        "requested PV is too small"
    } else if *volume.class() != *claim.class() {
        "storageClassName does not match"
    } else if let Some(obstacle) = attributes.obstacle(volume, claim) {
        obstacle
    } else if modes_differ(volume, claim) {
        "incompatible volumeMode"
    } else if !modes.contain(&claim.spec.access_modes) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(obstacle.to_owned())
}
