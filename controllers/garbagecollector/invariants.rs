//! The invariant of deletions: an object with a living owner stays.

use steersman_client::Violation;
use steersman_objects::{OwnerReference, Uid};

use super::attempt_to_delete::Standing;

/// The invariant of this file.
pub(super) const LIVING_OWNER: &str = "living_owner";

/// `living_owner`: an object is deleted only if it has owners, and if each of its references leads to an
/// owner that is absent, or that waits for its dependents in a foreground deletion.
pub(super) fn has_no_living_owner(
    references: &[OwnerReference],
    owners: &[(Uid, Standing)],
) -> Result<(), Violation> {
    // An owner without a standing may live: the sync skipped its lookup.
    let is_gone = |reference: &OwnerReference| {
        let mut standings = owners.iter().filter(|(uid, _)| *uid == reference.uid);
        let is_there = standings.clone().next().is_some();
        is_there && standings.all(|(_, standing)| *standing != Standing::Solid)
    };
    let living = references.iter().find(|reference| !is_gone(reference));
    let holds = !references.is_empty() && living.is_none();
    Violation::unless(holds, LIVING_OWNER, || match living {
        Some(OwnerReference {
            kind, name, uid, ..
        }) => {
            format!("delete a dependent of {kind} {name} ({uid}), which may live")
        }
        None => "delete an object without owners".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::Standing::{Dangling, Solid, Waiting};
    use super::*;

    fn reference(uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: Uid::new(uid),
            controller: true,
            block_owner_deletion: false,
        }
    }

    #[test]
    fn every_owner_has_to_be_gone_or_waiting() {
        // (why, UIDs of references, standings, allowed)
        type Owners = &'static [(&'static str, Standing)];
        let cases: [(&str, &[&str], Owners, bool); 9] = [
            ("absent", &["a"], &[("a", Dangling)], true),
            ("in foreground deletion", &["a"], &[("a", Waiting)], true),
            (
                "absent and waiting",
                &["a", "b"],
                &[("a", Dangling), ("b", Waiting)],
                true,
            ),
            (
                "referred to twice",
                &["a", "a"],
                &[("a", Dangling), ("a", Dangling)],
                true,
            ),
            ("living", &["a"], &[("a", Solid)], false),
            (
                "one of two lives",
                &["a", "b"],
                &[("a", Dangling), ("b", Solid)],
                false,
            ),
            (
                "lives by one of two references",
                &["a", "a"],
                &[("a", Dangling), ("a", Solid)],
                false,
            ),
            (
                "one was not looked at",
                &["a", "b"],
                &[("a", Dangling)],
                false,
            ),
            ("no owner", &[], &[], false),
        ];
        for (why, references, owners, allowed) in cases {
            let references: Vec<_> = references.iter().map(|uid| reference(uid)).collect();
            let owners: Vec<_> = owners
                .iter()
                .map(|(uid, standing)| (Uid::new(uid), *standing))
                .collect();
            let checked = has_no_living_owner(&references, &owners);
            assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
        }
    }
}
