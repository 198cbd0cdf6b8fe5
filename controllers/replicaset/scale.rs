//! The number of pods that one sync creates or deletes.
//!
//! Upstream: the first part of `manageReplicas` in `replica_set.go`.

use std::cmp::Ordering;

/// Maximum of pods that one sync creates or deletes, so one huge owner cannot block the others.
/// Upstream: `BurstReplicas`.
pub(super) const BURST: usize = 500;

/// The change from the number of active pods towards `spec.replicas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// The numbers are equal.
    Steady,
    /// Create this many pods.
    Create(usize),
    /// Delete this many pods.
    Delete(usize),
}

/// Compares the number of active pods of an owner with its `replicas`. Negative sizes count as 0; API
/// validation rejects them.
pub(super) fn decide(active: usize, replicas: i32) -> Scale {
    let desired = usize::try_from(replicas).unwrap_or(0);
    match active.cmp(&desired) {
        Ordering::Equal => Scale::Steady,
        Ordering::Less => Scale::Create((desired - active).min(BURST)),
        Ordering::Greater => Scale::Delete((active - desired).min(BURST)),
    }
}

/// Whether one sync cannot create or delete all pods. Then another one follows at once.
pub(super) fn exceeds_burst(active: usize, replicas: i32) -> bool {
    active.abs_diff(usize::try_from(replicas).unwrap_or(0)) > BURST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sync_creates_or_deletes_at_most_one_burst() {
        // (why, active, replicas, expected)
        let cases = [
            ("at size", 3, 3, Scale::Steady),
            ("at size zero", 0, 0, Scale::Steady),
            ("too few", 1, 3, Scale::Create(2)),
            ("too many", 3, 1, Scale::Delete(2)),
            ("scaled to zero", 3, 0, Scale::Delete(3)),
            ("more than a burst missing", 0, 1200, Scale::Create(BURST)),
            ("one burst missing", 0, 500, Scale::Create(500)),
            ("more than a burst too many", 1200, 0, Scale::Delete(BURST)),
        ];
        for (why, active, replicas, expected) in cases {
            assert_eq!(decide(active, replicas), expected, "{why}");
        }
        assert!(!exceeds_burst(0, 500) && !exceeds_burst(500, -1));
        assert!(exceeds_burst(0, 501) && exceeds_burst(501, 0) && exceeds_burst(501, -1));
    }
}
