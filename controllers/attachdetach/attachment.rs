//! VolumeAttachments: their names, their bodies, and the answers of the attacher in them.
//!
//! Upstream: `pkg/volume/csi/csi_attacher.go`.

use std::fmt::Write;

use ring::digest;
use serde_json::{Value, json};
use steersman_helpers::volume::{CsiVolume, Volume};
use steersman_objects::VolumeAttachment;

/// Name of the attachment of a volume to a node. Upstream: `getAttachmentName`.
///
/// Handle, driver and node follow each other without a separator. Kubelets compute the same name to
/// find the attachment of a volume.
pub(super) fn name(volume: &CsiVolume, node: &str) -> String {
    let mut text = digest::Context::new(&digest::SHA256);
    for part in [&*volume.handle, &*volume.driver, node] {
        text.update(part.as_bytes());
    }
    let mut name = "csi-".to_owned();
    for byte in text.finish().as_ref() {
        write!(name, "{byte:02x}").expect("writing to a string succeeds");
    }
    name
}

/// The attachment to create.
///
/// Upstream: `Attach`. A translated volume of a pod has no PersistentVolume, so its whole spec goes
/// into the source. Upstream's encoder writes the empty status as well.
pub(super) fn body(name: &str, volume: &Volume, driver: &str, node: &str) -> Value {
    let source = match &volume.inline_spec {
        Some(spec) => json!({"inlineVolumeSpec": spec}),
        None => json!({"persistentVolumeName": volume.name}),
    };
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": driver, "source": source, "nodeName": node},
        "status": {"attached": false},
    })
}

/// The answer of an attacher.
///
/// Attachers write it to the status of the VolumeAttachment, or delete the object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// None yet.
    Pending,
    /// The volume is as wished.
    Done,
    /// It failed, for this reason.
    Failed(&'a str),
}

/// The answer to the wish to attach. Upstream: `verifyAttachmentStatus`.
///
/// An absent object is one that the cache has yet to show. A deleted one is about to go, so a fresh one
/// has to be made; the back-off gives the attacher time. `attached` outweighs an error of an earlier
/// try.
pub(super) fn attach_answer(attachment: Option<&VolumeAttachment>) -> Answer<'_> {
    let Some(attachment) = attachment else {
        return Answer::Pending;
    };
    if attachment.meta.is_terminating() {
        return Answer::Failed("volume attachment is being deleted");
    }
    match &attachment.status.attach_error {
        _ if attachment.status.attached => Answer::Done,
        Some(error) => Answer::Failed(&error.message),
        None => Answer::Pending,
    }
}

/// The answer to the wish to detach. Upstream: `verifyDetachmentStatus`.
///
/// The attacher removes its finalizer after the detach, and the object goes. A later success replaces
/// an error by the absence of the object.
pub(super) fn detach_answer(attachment: Option<&VolumeAttachment>) -> Answer<'_> {
    match attachment.map(|attachment| &attachment.status.detach_error) {
        None => Answer::Done,
        Some(Some(error)) => Answer::Failed(&error.message),
        Some(None) => Answer::Pending,
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn names_are_those_of_upstream() {
        const CASES: &str =
            include_str!("../../crates/helpers/src/volume/testdata/volume-attachment-names.json");
        let cases: Value = serde_json::from_str(CASES).unwrap();
        let text = |case: &Value, field: &str| case[field].as_str().unwrap().to_owned();
        let mut count = 0;
        for list in ["names", "migrated"] {
            for case in cases[list].as_array().unwrap() {
                let unique = text(case, "uniqueVolumeName");
                let volume = CsiVolume::of_unique_name(&unique).unwrap();
                let found = name(&volume, &text(case, "nodeName"));
                assert_eq!(found, text(case, "name"), "{case}");
                count += 1;
            }
        }
        assert_eq!(count, 35);
    }

    #[test]
    fn the_status_has_the_answer_of_the_attacher() {
        let error = json!({"message": "boom"});
        let deleted = json!("2026-01-02T03:04:05Z");
        use Answer::{Done, Failed, Pending};
        // (deleted, status, answer to attach, answer to detach)
        let cases = [
            (json!(null), json!({"attached": false}), Pending, Pending),
            (json!(null), json!({"attached": true}), Done, Pending),
            (
                json!(null),
                json!({"attached": true, "attachError": error}),
                Done,
                Pending,
            ),
            (
                json!(null),
                json!({"attached": false, "attachError": error}),
                Failed("boom"),
                Pending,
            ),
            (
                deleted,
                json!({"attached": true, "detachError": error}),
                Failed("volume attachment is being deleted"),
                Failed("boom"),
            ),
        ];
        for (deleted, status, attach, detach) in cases {
            let metadata = json!({"name": "a", "deletionTimestamp": deleted});
            let object = json!({"metadata": metadata, "status": status}).to_string();
            let object = VolumeAttachment::decode(object.as_bytes()).unwrap();
            assert_eq!(attach_answer(Some(&object)), attach, "{status}");
            assert_eq!(detach_answer(Some(&object)), detach, "{status}");
        }
        assert_eq!((attach_answer(None), detach_answer(None)), (Pending, Done));
    }
}
