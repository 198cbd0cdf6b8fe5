//! The decision on an object with owner references: keep it, drop references, or delete it.
//!
//! Upstream: `attemptToDeleteItem` in `garbagecollector.go`. Its terms are solid, dangling and
//! waiting owners.

use steersman_client::writes::Propagation;
use steersman_objects::{CollectorFinalizers, Uid};

/// The state of the owner behind a reference, by live reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The owner exists. Also if it is terminating without the foreground finalizer: its end is
    /// another event.
    Solid,
    /// The owner does not exist. An object of its name with another UID is no owner.
    Dangling,
    /// The owner is terminating, and its deletion waits for its dependents. It has the finalizer
    /// `foregroundDeletion`.
    Waiting,
}

/// The decision on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Keep the object: it has solid owners only.
    Keep,
    /// Keep the object for its solid owner, and remove the references to these owners.
    DropReferences(Vec<Uid>),
    /// Delete the object: it has no solid owner.
    Delete {
        policy: Propagation,
        /// First set `blockOwnerDeletion` to false in its references. Otherwise two owners in a
        /// cycle would wait for each other for ever.
        unblock: bool,
    },
}

/// True if there are dependents, and true if one of them waits for its own dependents.
pub(super) type AboutDependents = (bool, bool);

/// Decides on an object with these owners, dependents and finalizers.
///
/// The order of the checks matters: one solid owner saves the object, and the other owners have no
/// say then. Only then a waiting owner demands foreground deletion. At last, finalizers of the
/// object decide, because a client may have asked for its deletion before. Every object here has an
/// owner.
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
        // References to waiting owners are removed too, since they block the deletion of these
        // owners.
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
        // The waiting owner asked for a foreground deletion, which includes the dependents of its
        // dependents. A waiting dependent may be waiting for this object, in a cycle.
        return Decision::Delete {
            policy: Propagation::Foreground,
            unblock: one_is_waiting,
        };
    }
    // A finalizer of the collector is an earlier wish of a client, and is honored.
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
    fn decision_follows_owners_dependents_and_finalizers() {
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
        let alone = (false, false);
        let owning = (true, false);
        let circular = (true, true);
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
