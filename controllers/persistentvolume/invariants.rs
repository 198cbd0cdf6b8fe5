//! The invariant of deletions: the data of a living claim stay.
//!
//! The check is the last one before the deletion of a folder. It repeats the decision by other means,
//! so that a fault of a cache or of a branch cannot delete data.

use steersman_client::Violation;
use steersman_objects::{PersistentVolume, PersistentVolumeClaim};

/// The invariant of this file.
///
/// Its name in metrics and logs.
pub(super) const BOUND_VOLUME: &str = "bound_volume";

/// `bound_volume`: neither a volume that was never bound is deleted, nor one whose claim lives and names
/// it. `claim` is the claim with the name that the volume states.
pub(super) fn lost_its_claim(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> Result<(), Violation> {
    let uid = volume.spec.claim_ref.as_ref();
    let uid = uid.and_then(|reference| reference.uid.as_ref());
    // The UID alone is not enough: a claim may have another volume by now, and this one is left over.
    let is_used = claim.is_some_and(|claim| {
        Some(&claim.meta.uid) == uid && claim.spec.volume_name[..] == volume.meta.name[..]
    });
    Violation::unless(uid.is_some() && !is_used, BOUND_VOLUME, || {
        let claim = claim.map(|claim| &*claim.meta.name);
        format!(
            "delete the volume of the claim {claim:?}, bound: {}",
            uid.is_some()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;
    use crate::persistentvolume::volume::may_be_reclaimed;

    #[test]
    fn only_a_volume_that_lost_its_claim_may_be_deleted() {
        let bound = json!({"namespace": "default", "name": "data", "uid": "a"});
        let reserved = json!({"namespace": "default", "name": "data"});
        let claim = |uid: &str, volume: &str| Some((uid.to_owned(), volume.to_owned()));
        // (why, claimRef, UID of the claim and its volume, allowed)
        let cases = [
            ("claim gone", &bound, None, true),
            ("another claim of that name", &bound, claim("b", "pv"), true),
            (
                "the claim has another volume",
                &bound,
                claim("a", "other"),
                true,
            ),
            ("bound", &bound, claim("a", "pv"), false),
            ("only reserved", &reserved, None, false),
            ("never bound", &Value::Null, None, false),
        ];
        for (why, reference, claim, allowed) in cases {
            let volume =
                json!({"metadata": {"name": "pv", "uid": "v"}, "spec": {"claimRef": reference}});
            let volume = PersistentVolume::decode(volume.to_string().as_bytes()).unwrap();
            let claim = claim.map(|(uid, volume)| {
                let claim = json!({"metadata": {"name": "data", "namespace": "default", "uid": uid}, "spec": {"volumeName": volume}});
                PersistentVolumeClaim::decode(claim.to_string().as_bytes()).unwrap()
            });
            let checked = lost_its_claim(&volume, claim.as_ref());
            assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
            assert_eq!(may_be_reclaimed(&volume, claim.as_ref()), allowed, "{why}");
        }
    }
}
