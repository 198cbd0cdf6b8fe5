//! The next step of a claim.
//!
//! Upstream: `syncUnboundClaim` and `syncBoundClaim`.
//!
//! The comments `OBSERVATION` in `pv_controller.go` name the phases of each branch, and the functions
//! here follow these branches in order. All functions are pure.

use std::sync::Arc;

use steersman_objects::{
    Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;

use super::classes::{self, NoBindingMode};
use super::known::{Volumes, claim_of};
use super::matching::{self, AttributesClasses, MatchError};
use super::notice::Notice;

/// The step of a claim.
#[derive(Debug)]
pub(super) enum Step {
    /// Binds it to this volume, which the controller chose.
    ///
    /// It ends the time of the metric of provisioning, which `Complete` does not.
    Bind(Arc<PersistentVolume>),
    /// Binds it to this volume, or repairs the binding.
    ///
    /// The claim or an earlier sync named the volume. An unbroken binding needs no write.
    Complete(Arc<PersistentVolume>),
    /// Gives it the default class with this name.
    ///
    /// The claim has no class at all. An empty class means that its user wants none.
    Classify(Arc<str>),
    /// Asks the provisioner of its class for a volume.
    ///
    /// The claim keeps its status. Its provisioner works on its own, and the volume's event brings the
    /// claim back.
    Provision,
    /// Waits in the phase `Pending`.
    ///
    /// The next sync period looks for a volume again.
    Wait(Option<Notice>),
    /// Enters the phase `Lost`.
    ///
    /// Its data may be gone. If the volume comes back, a later sync binds the claim again.
    Lose(Notice),
    /// Keeps its state: the annotations of the claim contradict its volume.
    ///
    /// Only a removed annotation `bind-completed` leads here. Upstream: "THIS SHOULD NEVER HAPPEN".
    Refuse(Notice, Misbinding),
}

/// A claim that the controller bound to a volume of another claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid binding of claim {claim:?} to volume {volume:?}: volume already claimed by {other:?}"
)]
pub(super) struct Misbinding {
    claim: String,
    volume: String,
    other: String,
}

/// The step of a claim is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecideError {
    /// Its class is incomplete.
    #[error(transparent)]
    Class(#[from] NoBindingMode),
    /// No volume can be chosen for it.
    #[error("error finding PV for claim {claim:?}: {source}")]
    Match { claim: String, source: MatchError },
}

/// The step of `claim`. `users` returns the pods with a volume of the claim.
///
/// Upstream: `syncClaim`. The annotation `bind-completed` decides first: such a claim must never take
/// another volume, since its data are on the first one.
pub(super) fn step(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    classes: &Store<StorageClass>,
    attributes: AttributesClasses,
    users: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Result<Step, DecideError> {
    if claim.annotations.bind_completed.is_some() {
        Ok(bound(claim, volume_of(claim, volumes)))
    } else if claim.spec.volume_name.is_empty() {
        unbound(claim, volumes, classes, attributes, users)
    } else {
        Ok(requesting(claim, volumes, attributes))
    }
}

/// The step of a claim that takes any volume.
///
/// A volume that exists goes before a new one, and before the default class. The scheduler has to
/// choose a node before a claim of a delayed class is provisioned.
fn unbound(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    classes: &Store<StorageClass>,
    attributes: AttributesClasses,
    users: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Result<Step, DecideError> {
    let is_delayed = classes::is_delayed(claim, classes)?;
    let best = matching::best(claim, volumes, is_delayed, attributes);
    let best = best.map_err(|source| DecideError::Match {
        claim: claim.key().to_string(),
        source,
    })?;
    if let Some(volume) = best {
        return Ok(Step::Bind(volume));
    }
    // A claim may be older than the first default class. It gets the class when no existing volume
    // fits.
    if !claim.has_class()
        && let Some(class) = classes::default(classes)
    {
        return Ok(Step::Classify(Arc::clone(&class.meta.name)));
    }
    Ok(if is_delayed && claim.annotations.selected_node.is_none() {
        Step::Wait(Some(awaited_pods(&users())))
    // No status is written, as upstream: the claim is `Pending` already, and the operation may write to
    // it.
    } else if !claim.class().is_empty() {
        Step::Provision
    } else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        Step::Wait(Some(Notice::normal("FailedBinding", message)))
    })
}

/// The Event about the pods for which a claim waits.
///
/// Upstream: `emitEventForUnboundDelayBindingClaim` and `findNonScheduledPodsByPVC`.
fn awaited_pods(users: &[Arc<Pod>]) -> Notice {
    let waits = |pod: &&Arc<Pod>| !pod.is_terminated() && pod.node.is_none();
    let names: Vec<&str> = users
        .iter()
        .filter(waits)
        .map(|pod| &*pod.meta.name)
        .collect();
    let scheduled = |message| Notice::normal("WaitForPodScheduled", message);
    match &names[..] {
        [] => Notice::normal(
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        [name] => scheduled(format!("waiting for pod {name} to be scheduled")),
        names => scheduled(format!(
            "waiting for pods {} to be scheduled",
            names.join(",")
        )),
    }
}

/// The known volume that the claim names.
fn volume_of(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Option<Arc<PersistentVolume>> {
    volumes.get(&ObjectKey::new("", &claim.spec.volume_name))
}

/// The step of a claim that asks for one volume.
///
/// Upstream: the second half of `syncUnboundClaim`. The size and the class of the volume count only if
/// it names no claim yet: a reservation by its creator stands above them.
fn requesting(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    attributes: AttributesClasses,
) -> Step {
    // No Event, as upstream: the volume may be on its way.
    let Some(volume) = volume_of(claim, volumes) else {
        return Step::Wait(None);
    };
    let Some(other) = claim_of(&volume) else {
        return match matching::obstacle(&volume, claim, attributes) {
            Some(cause) => {
                let name = &volume.meta.name;
                let message = format!("Cannot bind to requested volume {name:?}: {cause}");
                Step::Wait(Some(Notice::warning("VolumeMismatch", message)))
            }
            None => Step::Complete(volume),
        };
    };
    if matching::names(&volume, claim) {
        return Step::Complete(volume);
    }
    let name = &volume.meta.name;
    let message = format!("volume {name:?} already bound to a different claim.");
    let notice = Notice::warning("FailedBinding", message);
    // Without the annotation, a user has named the volume, and may wait for it.
    if claim.annotations.bound_by_controller.is_none() {
        return Step::Wait(Some(notice));
    }
    let misbinding = Misbinding {
        claim: claim.key().to_string(),
        volume: claim.spec.volume_name.to_string(),
        other: other.to_string(),
    };
    Step::Refuse(notice, misbinding)
}

/// The step of a claim that was bound once. `volume` is the volume that it names, if that exists.
///
/// Upstream: `syncBoundClaim`. A volume without `claimRef` is bound again: the controller may only have
/// missed the event of its own write. One with the right UID needs a repair at most.
pub(super) fn bound(claim: &PersistentVolumeClaim, volume: Option<Arc<PersistentVolume>>) -> Step {
    let lost = |message: &str| Step::Lose(Notice::warning("ClaimLost", message));
    if claim.spec.volume_name.is_empty() {
        return lost(
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = volume else {
        return lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match &volume.spec.claim_ref {
        Some(other) if other.uid() != Some(&claim.meta.uid) => Step::Lose(Notice::warning(
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        )),
        _ => Step::Complete(volume),
    }
}

/// The name of the volume that is provisioned for `claim`.
///
/// Upstream: `getProvisionedVolumeNameForClaim`. External provisioners use the same name by default, so
/// a second try finds the first volume.
pub(super) fn provisioned_name(claim: &PersistentVolumeClaim) -> Sym {
    Sym::new(&format!("pvc-{}", claim.meta.uid))
}
