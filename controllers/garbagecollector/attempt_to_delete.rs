//! What becomes of an object, given how each of its owners stands.

use steersman_runtime::object::{CollectorFinalizers, Uid};
use steersman_runtime::writes::Propagation;

/// How the owner that a reference means stands, as the API server told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It exists.
    Solid,
    /// There is no such object.
    Dangling,
    /// It exists, and its deletion waits for its dependents.
    Waiting,
}

/// What to do with an object that has owner references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Somebody owns it.
    Keep,
    /// Somebody owns it; the references to these have no use any more.
    DropReferences(Vec<Uid>),
    /// Nobody owns it.
    Delete {
        policy: Propagation,
        /// First make its references block no owner: it may be waiting for itself in a circle.
        unblock: bool,
    },
}

/// Whether there are dependents, and whether one of them waits for its own dependents.
pub(super) type AboutDependents = (bool, bool);

/// Decides on an object with these references and finalizers.
pub(super) fn decide(
    owners: &[(Uid, Standing)],
    dependents: AboutDependents,
    finalizers: CollectorFinalizers,
) -> Decision {
    let with = |wanted| {
        owners
            .iter()
            .filter(move |(_, standing)| *standing == wanted)
            .map(|(uid, _)| uid.clone())
    };
    if with(Standing::Solid).next().is_some() {
        // References to waiting owners go as well, as those could otherwise never be deleted.
        let useless: Vec<Uid> = with(Standing::Dangling)
            .chain(with(Standing::Waiting))
            .collect();
        return if useless.is_empty() {
            Decision::Keep
        } else {
            Decision::DropReferences(useless)
        };
    }
    let (has_dependents, one_is_waiting) = dependents;
    if has_dependents && with(Standing::Waiting).next().is_some() {
        // What an owner waits for shall be gone with all that it owns. A dependent that waits may
        // do so for this very object.
        return Decision::Delete {
            policy: Propagation::Foreground,
            unblock: one_is_waiting,
        };
    }
    let policy = match finalizers {
        CollectorFinalizers { orphan: true, .. } => Propagation::Orphan,
        CollectorFinalizers {
            foreground: true, ..
        } => Propagation::Foreground,
        _ => Propagation::Background,
    };
    Decision::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::{Dangling, Solid, Waiting};
    use super::*;

    #[test]
    fn an_object_goes_when_nobody_owns_it_and_takes_its_dependents_along_when_somebody_waits() {
        let none = CollectorFinalizers::default();
        let foreground = CollectorFinalizers {
            foreground: true,
            orphan: false,
        };
        let orphan = CollectorFinalizers {
            foreground: false,
            orphan: true,
        };
        let both = CollectorFinalizers {
            foreground: true,
            orphan: true,
        };
        let delete = |policy| Decision::Delete {
            policy,
            unblock: false,
        };
        let drop_uids = |uids: &[usize]| {
            Decision::DropReferences(uids.iter().map(|n| Uid::new(&n.to_string())).collect())
        };
        let (alone, owning, circular) = ((false, false), (true, false), (true, true));
        // (owners, dependents, finalizers, expected)
        let cases: [(&[Standing], AboutDependents, CollectorFinalizers, Decision); 14] = [
            (&[Solid], alone, none, Decision::Keep),
            (&[Solid, Solid], owning, foreground, Decision::Keep),
            (&[Solid, Dangling], alone, none, drop_uids(&[1])),
            (
                &[Waiting, Solid, Dangling],
                circular,
                none,
                drop_uids(&[2, 0]),
            ),
            (&[Solid, Waiting], alone, none, drop_uids(&[1])),
            (&[Dangling], alone, none, delete(Propagation::Background)),
            (&[Dangling], circular, none, delete(Propagation::Background)),
            (
                &[Dangling],
                alone,
                foreground,
                delete(Propagation::Foreground),
            ),
            (&[Dangling], alone, orphan, delete(Propagation::Orphan)),
            (&[Dangling], alone, both, delete(Propagation::Orphan)),
            (&[Waiting], alone, none, delete(Propagation::Background)),
            (&[Waiting], owning, none, delete(Propagation::Foreground)),
            (
                &[Waiting, Dangling],
                owning,
                orphan,
                delete(Propagation::Foreground),
            ),
            (
                &[Waiting],
                circular,
                none,
                Decision::Delete {
                    policy: Propagation::Foreground,
                    unblock: true,
                },
            ),
        ];
        for (standings, dependents, finalizers, expected) in cases {
            let owners: Vec<_> = standings
                .iter()
                .enumerate()
                .map(|(n, s)| (Uid::new(&n.to_string()), *s))
                .collect();
            assert_eq!(
                decide(&owners, dependents, finalizers),
                expected,
                "{standings:?} {dependents:?} {finalizers:?}"
            );
        }
    }
}
