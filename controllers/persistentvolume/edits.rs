//! The bodies of the controller's writes: whole objects with one change.
//!
//! Each body carries the resource version of the object that it changes, so a write after a foreign
//! change is a conflict. All functions are pure.
//!
//! `None` in place of a body means that the object is right already. A binding has four writes, and
//! after an interruption the next sync does only those that are missing.

use serde_json::{Map, Value, json};
use steersman_objects::{PersistentVolume, PersistentVolumeClaim, StorageAmount};
use steersman_values::quantity::Quantity;

use super::body::{Body, member};
use super::matching::{self, AttributesClasses};
use super::migration::Change;

/// The controller chose the other side of the binding.
///
/// On a volume, an unbinding then removes the claim; without it, the reservation of its creator stays.
/// On a claim, it tells that the controller chose the volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// From then on, a missing volume means a loss.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The older key is for external provisioners that know only this one.
const PROVISIONERS: [&str; 2] = [
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];
/// The scheduler writes it, and provisioning waits for it.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A volume has no capacity, so its claim cannot have one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PersistentVolume {0:?} is without a storage capacity")]
pub(super) struct NoCapacity(String);

/// `claimRef` of a volume that is bound to `claim`.
///
/// Upstream: `GetReference` of client-go.
pub(super) fn reference_to(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.meta.namespace,
        "name": *claim.meta.name,
        "uid": claim.meta.uid,
        "resourceVersion": claim.meta.resource_version.to_string(),
    })
}

/// `volume` with the pointer to `claim`. `None` if it has it. Upstream: `GetBindVolumeToClaim`.
///
/// A reservation without UID is completed. A volume that did not name the claim before gets
/// `bound-by-controller`.
pub(super) fn volume_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Body> {
    let is_complete = volume
        .spec
        .claim_ref
        .as_ref()
        .is_some_and(|of| matching::names(volume, claim) && of.uid() == Some(&claim.meta.uid));
    let is_chosen =
        !matching::names(volume, claim) && volume.annotations.bound_by_controller.is_none();
    if is_complete && !is_chosen {
        return None;
    }
    let mut body = Body::of(volume);
    if !is_complete {
        body.spec()
            .insert("claimRef".to_owned(), reference_to(claim));
    }
    if is_chosen {
        body.annotate(BOUND_BY_CONTROLLER, "yes");
    }
    Some(body)
}

/// `claim` with the pointer to `volume`. `None` if it has it. Upstream: `bindClaimToVolume`.
///
/// A claim whose user named the volume does not get `bound-by-controller`.
pub(super) fn claim_on(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Body> {
    let annotations = &claim.annotations;
    let is_bound = claim.spec.volume_name[..] == volume.meta.name[..];
    if is_bound && annotations.bind_completed.is_some() {
        return None;
    }
    let mut body = Body::of(claim);
    if !is_bound {
        body.spec()
            .insert("volumeName".to_owned(), json!(*volume.meta.name));
        if annotations.bound_by_controller.is_none() {
            body.annotate(BOUND_BY_CONTROLLER, "yes");
        }
    }
    if annotations.bind_completed.is_none() {
        body.annotate(BIND_COMPLETED, "yes");
    }
    Some(body)
}

/// `volume` without its claim. A volume that its creator reserved stays reserved. Upstream:
/// `unbindVolume`.
///
/// The UID of a reservation goes, so that the next claim of the name fits.
pub(super) fn unbound(volume: &PersistentVolume) -> Body {
    let mut body = Body::of(volume);
    if volume.annotations.bound_by_controller.is_some() {
        body.spec().remove("claimRef");
        body.remove_annotation(BOUND_BY_CONTROLLER);
    } else {
        member(body.spec(), "claimRef").remove("uid");
    }
    body
}

/// `volume` in `phase`. `None` if it is in this phase; the message then stays, too.
///
/// Upstream: `updateVolumePhase`. The phase `Failed` thus keeps its first message.
pub(super) fn volume_in(volume: &PersistentVolume, phase: &str, message: &str) -> Option<Body> {
    if volume.status.phase == *phase {
        return None;
    }
    let mut body = Body::of(volume);
    body.status().insert("phase".to_owned(), json!(phase));
    if message.is_empty() {
        body.status().remove("message");
    } else {
        body.status().insert("message".to_owned(), json!(message));
    }
    Some(body)
}

/// `claim` in a phase without a volume. `None` if its status says so.
///
/// Upstream: `updateClaimStatus` without a volume.
pub(super) fn claim_without_volume(claim: &PersistentVolumeClaim, phase: &str) -> Option<Body> {
    let status = &claim.status;
    let is_right = status.phase == *phase
        && status.access_modes.is_empty()
        && status.capacity.is_none()
        && status.current_volume_attributes_class_name.is_none();
    if is_right {
        return None;
    }
    let mut body = Body::of(claim);
    let status = body.status();
    status.insert("phase".to_owned(), json!(phase));
    for field in [
        "accessModes",
        "capacity",
        "currentVolumeAttributesClassName",
    ] {
        status.remove(field);
    }
    Some(body)
}

/// `claim` in the phase `Bound`, with the status of `volume`. `None` if it has it. Upstream:
/// `updateClaimStatus`.
///
/// The capacity is that of the volume at the time of binding. Later differences are intended, for
/// example during an expansion.
pub(super) fn bound_claim(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    attributes: AttributesClasses,
) -> Result<Option<Body>, NoCapacity> {
    let is_bound = claim.status.phase == "Bound";
    if is_bound && claim.status.access_modes == volume.spec.access_modes {
        return Ok(None);
    }
    let mut body = Body::of(claim);
    let status = body.status();
    set(status, "accessModes", json!(volume.spec.access_modes));
    if !is_bound {
        status.insert("phase".to_owned(), json!("Bound"));
        set_capacity(status, claim, volume)?;
    }
    let class = &volume.spec.volume_attributes_class_name;
    // Only at the binding: afterwards the external resizer owns the field, and both would write it.
    if attributes == AttributesClasses::Compared
        && claim.status.phase == "Pending"
        && claim.status.current_volume_attributes_class_name != *class
    {
        set(status, "currentVolumeAttributesClassName", json!(class));
    }
    Ok(Some(body))
}

/// A volume whose file system is yet to grow gives its claim the size from before. An unreadable
/// annotation gives that of the volume, as upstream.
fn set_capacity(
    status: &mut Map<String, Value>,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), NoCapacity> {
    let mut document = volume.document.to_object();
    let served = member(&mut document, "spec").remove("capacity");
    let Some(capacity) = volume.spec.capacity.storage.0 else {
        return Err(NoCapacity(volume.meta.name.to_string()));
    };
    let present = |amount: &StorageAmount| amount.storage.0;
    if let Some(before) = &volume.annotations.pre_resize_capacity {
        let before = Quantity::stored(before).map(Value::from);
        let storage = before.or_else(|| served.and_then(|served| served.get("storage").cloned()));
        member(status, "capacity").insert("storage".to_owned(), json!(storage));
    } else if claim.status.capacity.as_ref().and_then(present) != Some(capacity) {
        set(status, "capacity", json!(served));
    }
    Ok(())
}

/// Sets the member `name`, or removes it for an empty value, as Go's `omitempty` does.
fn set(object: &mut Map<String, Value>, name: &str, value: Value) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        object.remove(name);
    } else {
        object.insert(name.to_owned(), value);
    }
}

/// `claim` with this class.
///
/// Upstream: `assignDefaultStorageClass`.
pub(super) fn classified(claim: &PersistentVolumeClaim, class: &str) -> Body {
    let mut body = Body::of(claim);
    body.spec()
        .insert("storageClassName".to_owned(), json!(class));
    body
}

/// `claim` with the annotations that hand it to `provisioner`. `None` if it has them. Upstream:
/// `setClaimProvisioner`.
///
/// External provisioners start at this annotation. Only the newer key is compared, as upstream.
pub(super) fn handed_to(claim: &PersistentVolumeClaim, provisioner: &str) -> Option<Body> {
    let annotations = &claim.annotations;
    if annotations.provisioner.as_deref() == Some(provisioner) {
        return None;
    }
    let mut body = Body::of(claim);
    for key in PROVISIONERS {
        body.annotate(key, provisioner);
    }
    if let Some(change) = Change::of(Some(provisioner), annotations.migrated_to.as_ref()) {
        change.apply(&mut body);
    }
    Some(body)
}

/// `claim` without the node that the scheduler chose, so that it chooses again.
///
/// Upstream: `rescheduleProvisioning`.
pub(super) fn without_node(claim: &PersistentVolumeClaim) -> Body {
    let mut body = Body::of(claim);
    body.remove_annotation(SELECTED_NODE);
    body
}
