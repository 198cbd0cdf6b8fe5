//! How far an owner is from its size, and what closes the gap.

use std::cmp::Ordering;

/// The most pods one sync creates or deletes, so that one huge owner cannot starve the others.
pub(super) const BURST: usize = 500;

/// What brings the number of active pods to the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Nothing: it is there.
    Steady,
    /// So many pods more.
    Create(usize),
    /// So many pods less.
    Delete(usize),
}

/// `active` counts the pods of the owner that are neither finished nor terminating.
pub(super) fn decide(active: usize, replicas: i32) -> Scale {
    let wanted = usize::try_from(replicas).unwrap_or(0);
    match active.cmp(&wanted) {
        Ordering::Equal => Scale::Steady,
        Ordering::Less => Scale::Create((wanted - active).min(BURST)),
        Ordering::Greater => Scale::Delete((active - wanted).min(BURST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_closed_at_most_one_burst_at_a_time() {
        // (why, active, replicas, expected)
        let cases = [
            ("at size", 3, 3, Scale::Steady),
            ("none wanted, none there", 0, 0, Scale::Steady),
            ("too few", 1, 3, Scale::Create(2)),
            ("too many", 3, 1, Scale::Delete(2)),
            ("all go", 3, 0, Scale::Delete(3)),
            ("far too few", 0, 1200, Scale::Create(BURST)),
            ("one burst away", 0, 500, Scale::Create(500)),
            ("far too many", 1200, 0, Scale::Delete(BURST)),
        ];
        for (why, active, replicas, expected) in cases {
            assert_eq!(decide(active, replicas), expected, "{why}");
        }
    }
}
