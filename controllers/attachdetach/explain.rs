//! Why a volume of a pod is not attached to its node.
//!
//! The answer comes from VolumeAttachments and the memory of the controller, since Events of the pod
//! may be gone.

use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, VOLUME_ATTACHMENTS};
use steersman_why::{Code, Doc, Explanation, Reason, World, claim_names, pod};

use super::NAME;

/// Adds the state of the attachments of `doc`, a pod whose containers wait.
///
/// Only pending pods with claims are looked at: other pods have their volumes. The list of
/// VolumeAttachments is needed for any answer.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let node = doc.text("/spec/nodeName");
    let claims = claim_names(doc);
    if node.is_empty() || claims.is_empty() || doc.text("/status/phase") != "Pending" {
        return;
    }
    let Some(attachments) = world.list(&VOLUME_ATTACHMENTS, "") else {
        return;
    };
    for name in claims {
        let Some(claim) = world
            .get(&PERSISTENT_VOLUME_CLAIMS, doc.namespace(), &name)
            .found()
        else {
            continue;
        };
        let volume = claim.text("/spec/volumeName");
        let of_volume = attachments.iter().filter(|at| {
            !volume.is_empty() && at.text("/spec/source/persistentVolumeName") == volume
        });
        // A volume that several nodes may have excludes no node.
        let is_shared = claim.texts("/spec/accessModes").contains(&"ReadWriteMany");
        for at in of_volume {
            if let Some(reason) = attachment(at, (volume, node), is_shared) {
                add(world, doc, volume, reason, answer);
            }
            let key = format!("{}/{}", at.text("/spec/nodeName"), at.name());
            // The memory knows the time of a detach by force, which no object shows.
            answer.reasons.extend(world.memory(NAME, &key));
        }
    }
}

/// Adds `reason`. The Event of a Multi-Attach error tells the same about `volume` with fewer names.
fn add(world: &World, doc: &Doc, volume: &str, reason: Reason, answer: &mut Explanation) {
    if reason.code != Code::AttachedElsewhere {
        answer.add(reason);
        return;
    }
    let quoted = format!("{volume:?}");
    let is_same = |known: &&mut Reason| {
        known.code == Code::AttachedElsewhere && known.message.contains(&quoted)
    };
    match answer.reasons.iter_mut().find(is_same) {
        Some(known) => {
            known.message = format!(
                "{}; {}",
                known.message.trim_end_matches('.'),
                reason.message
            );
        }
        None => answer.add(pod::name_user(world, doc, volume, reason)),
    }
}

/// The reason if `at` is an attachment of `volume` to another node than `node`, or one that is not made.
fn attachment(at: &Doc, (volume, node): (&str, &str), is_shared: bool) -> Option<Reason> {
    let holder = at.text("/spec/nodeName");
    let attacher = at.text("/spec/attacher");
    let is_attached = at
        .at("/status/attached")
        .is_some_and(|attached| attached == true);
    let since = at.deleted().or(at.time("/metadata/creationTimestamp"));
    if holder != node && !is_shared {
        let detaching = match at.text("/status/detachError/message") {
            "" if at.deleted().is_some() => ", and is being detached".to_owned(),
            "" => String::new(),
            error => format!(", and detaching failed: {error}"),
        };
        let message = format!("volume {volume} is attached to node {holder}{detaching}");
        let who = format!("owner of the pod on {holder}, or administrator of that node");
        let reason = Reason::new(Code::AttachedElsewhere, NAME, message).who(who);
        Some(reason.since(since))
    } else if holder == node && !is_attached {
        let message = match at.text("/status/attachError/message") {
            "" => format!("{attacher} has not attached volume {volume} to {node}"),
            error => format!("{attacher} cannot attach volume {volume} to {node}: {error}"),
        };
        let who = format!("operator of the storage driver {attacher}");
        let reason = Reason::new(Code::AttachPending, attacher, message).who(who);
        Some(reason.since(since))
    } else {
        None
    }
}
