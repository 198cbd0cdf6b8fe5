//! The next step of a claim.
//!
//! Upstream: `syncUnboundClaim` and `syncBoundClaim`.

use std::sync::Arc;

use steersman_objects::{
    Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;

use super::classes::{self, NoBindingMode};
use super::known::{Volumes, claim_of};
use super::matching::{self, MatchError};
use super::notice::Notice;

/// The step of a claim.
#[derive(Debug)]
pub(super) enum Step {
    /// Binds it to this volume, which the controller chose.
    Bind(Arc<PersistentVolume>),
    /// Binds it to this volume, or repairs the binding.
    Complete(Arc<PersistentVolume>),
    /// Gives it the default class with this name.
    Classify(Arc<str>),
    /// Asks the provisioner of its class for a volume.
    Provision,
    /// Waits in the phase `Pending`.
    Wait(Option<Notice>),
    /// Enters the phase `Lost`.
    Lose(Notice),
    /// Keeps its state: the annotations of the claim contradict its volume.
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
    /// Its selector is invalid.
    #[error("error finding PV for claim {claim:?}: {source}")]
    Match { claim: String, source: MatchError },
}

/// The step of `claim`. `users` returns the pods with a volume of the claim.
pub(super) fn step(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    classes: &Store<StorageClass>,
    users: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Result<Step, DecideError> {
    if claim.annotations.bind_completed.is_some() {
        Ok(bound(claim, volume_of(claim, volumes)))
    } else if claim.spec.volume_name.is_empty() {
        unbound(claim, volumes, classes, users)
    } else {
        Ok(requesting(claim, volumes))
    }
}

/// The step of a claim that takes any volume.
fn unbound(
    claim: &PersistentVolumeClaim,
    volumes: &Volumes,
    classes: &Store<StorageClass>,
    users: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Result<Step, DecideError> {
    let is_delayed = classes::is_delayed(claim, classes)?;
    let best = matching::best(claim, volumes, is_delayed);
    let best = best.map_err(|source| DecideError::Match {
        claim: claim.key().to_string(),
        source,
    })?;
    if let Some(volume) = best {
        return Ok(Step::Bind(volume));
    }
    if !claim.has_class()
        && let Some(class) = classes::default(classes)
    {
        return Ok(Step::Classify(Arc::clone(&class.meta.name)));
    }
    Ok(if is_delayed && claim.annotations.selected_node.is_none() {
        Step::Wait(Some(awaited_pods(&users())))
    } else if !claim.class().is_empty() {
        Step::Provision
    } else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        Step::Wait(Some(Notice::normal("FailedBinding", message)))
    })
}

/// The Event about the pods for which a claim waits.
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

fn volume_of(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Option<Arc<PersistentVolume>> {
    volumes.get(&ObjectKey::new("", &claim.spec.volume_name))
}

/// The step of a claim that asks for one volume.
fn requesting(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Step {
    let Some(volume) = volume_of(claim, volumes) else {
        return Step::Wait(None);
    };
    let Some(other) = claim_of(&volume) else {
        return match matching::obstacle(&volume, claim) {
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
pub(super) fn provisioned_name(claim: &PersistentVolumeClaim) -> Sym {
    Sym::new(&format!("pvc-{}", claim.meta.uid))
}
