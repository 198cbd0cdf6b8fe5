//! The revision history: selects the old ReplicaSets that exceed `revisionHistoryLimit`.
//!
//! Upstream: `cleanupDeployment` in `sync.go`.
//!
//! A Deployment is cleaned up after a complete rollout, and while it is paused: see `sync.rs`.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_objects::{Deployment, ReplicaSet};

use super::replica_sets::by_age;
use super::revision::revision;

/// The old ReplicaSets to delete, in that order: the lowest revisions beyond
/// `revisionHistoryLimit`.
///
/// A ReplicaSet stays if it still has pods, or if its status is older than its last resize. No
/// other ReplicaSet is deleted in its place.
pub(super) fn superfluous(d: &Deployment, old: &[Arc<ReplicaSet>]) -> Vec<Arc<ReplicaSet>> {
    // The maximum means "unlimited"; it was the default of `extensions/v1beta1`.
    let Some(limit) = d
        .spec
        .revision_history_limit
        .filter(|limit| *limit != i32::MAX)
    else {
        return Vec::new();
    };
    let mut candidates: Vec<_> = old.iter().filter(|rs| !rs.meta.is_terminating()).collect();
    let excess = candidates
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(0));
    sort_by_revision(&mut candidates);
    candidates
        .into_iter()
        .take(excess)
        .filter(|rs| is_empty(rs))
        .cloned()
        .collect()
}

/// Sorts by revision, lowest first; by age if revisions are equal or one is unreadable.
///
/// This comparison is not a total order if some revision is unreadable: 1 < 2 by number, but
/// 2 < x and x < 1 by age. `slice::sort_by` may panic on such a comparison. Insertion sort always
/// ends, and Go uses it too for short lists.
fn sort_by_revision(sets: &mut [&Arc<ReplicaSet>]) {
    for i in 1..sets.len() {
        for j in (1..=i).rev() {
            if by_revision(sets[j], sets[j - 1]) != Ordering::Less {
                break;
            }
            sets.swap(j, j - 1);
        }
    }
}

fn by_revision(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    match (revision(a), revision(b)) {
        (Some(x), Some(y)) if x != y => x.cmp(&y),
        _ => by_age(a, b),
    }
}

/// Whether size and status are 0, and the status is as new as the spec. An older status could hide
/// pods. A ReplicaSet that has just been resized to 0 may still have pods, which its status shows only later.
fn is_empty(rs: &ReplicaSet) -> bool {
    rs.status.replicas == 0
        && rs.spec.replicas == 0
        && rs.meta.generation <= rs.status.observed_generation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::annotations::REVISION;
    use crate::deployment::invariants;
    use crate::deployment::replica_sets::ReplicaSets;
    use crate::testing::{ReplicaSetBuilder, deployment, replica_set, time};

    fn names(limit: Option<i32>, old: Vec<ReplicaSetBuilder>) -> Vec<String> {
        let d = deployment("foo")
            .spec("revisionHistoryLimit", limit)
            .build();
        let old: Vec<_> = old.into_iter().map(|rs| Arc::new(rs.build())).collect();
        let superfluous = superfluous(&d, &old);
        let sets = ReplicaSets { new: None, old };
        assert_eq!(invariants::keeps_history(&d, &sets, &superfluous), Ok(()));
        superfluous
            .iter()
            .map(|rs| rs.meta.name.to_string())
            .collect()
    }

    #[test]
    fn test_cleanup_deployment() {
        let rs =
            |name: &str, size: i32, pods: i32| replica_set(name).replicas(size).pods(pods, pods);
        let terminating = rs("foo-1", 0, 0).metadata("deletionTimestamp", time(9));
        let three = || vec![rs("foo-1", 0, 0), rs("foo-2", 0, 0), rs("foo-3", 0, 0)];
        // (why, old, limit, deletions)
        let cases = [
            ("two beyond the limit", three(), Some(1), 2),
            (
                "only with size 0 and without pods",
                vec![
                    rs("foo-1", 0, 0),
                    rs("foo-2", 0, 1),
                    rs("foo-3", 1, 0),
                    rs("foo-4", 1, 1),
                ],
                Some(0),
                1,
            ),
            (
                "limit 0 deletes all",
                vec![rs("foo-1", 0, 0), rs("foo-2", 0, 0)],
                Some(0),
                2,
            ),
            (
                "all have pods",
                vec![rs("foo-1", 1, 1), rs("foo-2", 1, 1)],
                Some(0),
                0,
            ),
            ("terminating", vec![terminating], Some(0), 0),
            ("unlimited", three(), Some(i32::MAX), 0),
            ("no limit", three(), None, 0),
            (
                "last resize not observed",
                vec![rs("foo-1", 0, 0).metadata("generation", 2)],
                Some(0),
                0,
            ),
        ];
        for (why, old, limit, deletions) in cases {
            assert_eq!(names(limit, old).len(), deletions, "{why}");
        }
    }

    #[test]
    fn test_cleanup_deployment_order() {
        // Each ReplicaSet is younger than the previous one.
        let rs = |at: usize, size: i32, revision: &str| {
            let rs = replica_set(&format!("foo-{at}"))
                .replicas(size)
                .pods(size, size)
                .created(at as i64);
            if revision.is_empty() {
                rs
            } else {
                rs.annotation(REVISION, revision)
            }
        };
        type Rows = &'static [(i32, &'static str)];
        // (why, sizes and revisions, limit, deleted)
        let cases: [(&str, Rows, i32, &[&str]); 10] = [
            (
                "revision order: rs1 < rs2, delete rs1",
                &[(0, "1"), (0, "2")],
                1,
                &["foo-1"],
            ),
            (
                "revision order: rs2 < rs1, delete rs2",
                &[(0, "2"), (0, "1")],
                1,
                &["foo-2"],
            ),
            (
                "rs1 has revision but rs2 doesn't have revision, delete rs2",
                &[(0, "1"), (0, "")],
                1,
                &["foo-2"],
            ),
            (
                "rs1 doesn't have revision while rs2 has revision, delete rs1",
                &[(0, ""), (0, "2")],
                1,
                &["foo-1"],
            ),
            (
                "rs1 < rs2 < r3, but rs1 has replicas, delete rs2",
                &[(1, "1"), (0, "2"), (0, "3")],
                1,
                &["foo-2"],
            ),
            (
                "rs1 < rs2 < r3, both rs1 && rs2 have replicas, don't delete",
                &[(1, "1"), (1, "2"), (0, "3")],
                1,
                &[],
            ),
            (
                "rs2 < rs4 < rs1 < rs3, delete rs2 && rs4",
                &[(0, "3"), (0, "1"), (0, "4"), (0, "2")],
                2,
                &["foo-2", "foo-4"],
            ),
            (
                "equal revisions are ordered by age",
                &[(0, "1"), (0, "1")],
                1,
                &["foo-1"],
            ),
            (
                "unreadable revisions are ordered by age",
                &[(0, "x"), (0, "1")],
                1,
                &["foo-1"],
            ),
            (
                "sorting ends although the comparison has a cycle",
                &[(0, "2"), (0, "x"), (0, "1")],
                2,
                &["foo-1"],
            ),
        ];
        for (why, rows, limit, expected) in cases {
            let old = rows
                .iter()
                .enumerate()
                .map(|(i, (size, revision))| rs(i + 1, *size, revision))
                .collect();
            assert_eq!(names(Some(limit), old), expected, "{why}");
        }
    }
}
