//! Rolling updates: computes the growth of the new ReplicaSet and the reduction of the old ones.
//!
//! Upstream: `rolling.go`. An example: 10 replicas with `maxSurge` 3 and `maxUnavailable` 2, so 8
//! to 13 pods.
//!
//! * The new ReplicaSet starts with 3 pods; the total is 13. None of the 3 is available, so
//!   13 - 8 - 3 = 2 old pods may be removed; 8 old pods remain.
//! * The new ReplicaSet grows by 13 - 11 = 2 to 5 pods. Until some of them are available,
//!   13 - 8 - 5 = 0 old pods may be removed.
//! * All 5 become available: 13 - 8 - 0 = 5 old pods may be removed, 3 remain. The new ReplicaSet
//!   grows to 10. After these are available, the last 3 old pods are removed.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_objects::{Deployment, ReplicaSet, Strategy};

use super::limits::{self, LimitError};
use super::replica_sets::{ReplicaSets, is_active};
use super::resize::Resize;

/// The next size of the new ReplicaSet, given its current `size` and the `total` of all sizes.
///
/// Recreate gives the full size. A rolling update grows up to `spec.replicas`, as far as the surge
/// allows.
///
/// Upstream: `NewRSNewReplicas`. With a total at the limit the size stays, even if the pods of old
/// ReplicaSets are on their way out.
pub(super) fn new_size(d: &Deployment, size: i32, total: i32) -> Result<i32, LimitError> {
    let Strategy::RollingUpdate { max_surge, .. } = &d.spec.strategy else {
        return Ok(d.spec.replicas);
    };
    let cap = d
        .spec
        .replicas
        .saturating_add(limits::surge(max_surge.as_ref(), d.spec.replicas)?);
    Ok(if total >= cap {
        size
    } else {
        size + (cap - total).min(d.spec.replicas - size)
    })
}

/// The resize of the new ReplicaSet, or `None` if it keeps its size.
///
/// Upstream: `reconcileNewReplicaSet`. A new ReplicaSet beyond `spec.replicas` shrinks at once: a user has
/// lowered the number.
pub(super) fn resize_new(d: &Deployment, sets: &ReplicaSets) -> Result<Option<Resize>, LimitError> {
    let Some(new) = &sets.new else {
        return Ok(None);
    };
    let to = match new.spec.replicas.cmp(&d.spec.replicas) {
        Ordering::Equal => return Ok(None),
        Ordering::Greater => d.spec.replicas,
        Ordering::Less => new_size(d, new.spec.replicas, sets.size())?,
    };
    Ok((to != new.spec.replicas).then(|| Resize::lazy(new, to)))
}

/// The reduction of the old ReplicaSets. Each is computed from the state before the first write.
#[derive(Debug)]
pub(super) struct ScaleDown {
    /// Resizes in the order of the writes. A ReplicaSet may occur twice: first for its unavailable
    /// pods, then for available ones.
    pub(super) resizes: Vec<Resize>,
    /// A ReplicaSet reports more available pods than its size: its status is older than its last
    /// resize.
    ///
    /// `resizes` then has only the resizes before that ReplicaSet, which are still correct. As in
    /// upstream's `cleanupUnhealthyReplicas`, the step counts as one without effect.
    pub(super) stale: bool,
}

/// The old pods that may be removed now.
///
/// Unavailable old pods are removed first, because they serve no traffic. Then available ones
/// follow, as long as [`limits::min_available`] pods remain. Each unavailable pod of the new
/// ReplicaSet keeps one old pod.
///
/// A ReplicaSet has at most as many available pods as its size, because pods beyond it are on their way
/// out. Upstream counts all of the status, so it removes too many pods when a status is older than
/// the last resize.
pub(super) fn scale_down_old(d: &Deployment, sets: &ReplicaSets) -> ScaleDown {
    let mut down = ScaleDown {
        resizes: Vec::new(),
        stale: false,
    };
    // Only active ones can shrink, and the oldest comes first.
    let old: Vec<&Arc<ReplicaSet>> = sets.old.iter().filter(|rs| is_active(rs)).collect();
    let (new_size, new_available) = sets.new.as_ref().map_or((0, 0), |rs| {
        (rs.spec.replicas, remaining(rs, rs.spec.replicas))
    });
    let least = limits::min_available(d);
    // Upstream's `maxScaledDown`: the total, minus the minimum, minus the unavailable new pods.
    // These may stay unavailable, so they must not replace old pods.
    let room = sets
        .size()
        .saturating_sub(least)
        .saturating_sub(new_size.saturating_sub(new_available));
    if old.is_empty() || room <= 0 {
        return down;
    }
    let Some(sizes) = drop_unhealthy(&old, room, &mut down) else {
        down.stale = true;
        return down;
    };
    // Only available pods count here, because the step above removed only unavailable ones.
    let available = old
        .iter()
        .zip(&sizes)
        .map(|(rs, size)| remaining(rs, *size))
        .fold(new_available, i32::saturating_add);
    let mut surplus = available.saturating_sub(least);
    for (rs, size) in old.iter().zip(sizes) {
        if surplus <= 0 {
            break;
        }
        let gone = size.min(surplus);
        surplus -= gone;
        if gone > 0 {
            down.resizes.push(Resize::lazy(rs, size - gone));
        }
    }
    down
}

/// The available pods that a ReplicaSet keeps with this size. Upstream has no such limit: see the difference
/// above.
fn remaining(rs: &ReplicaSet, size: i32) -> i32 {
    rs.status.available_replicas.min(size)
}

/// Removes up to `room` unavailable pods from `old`, oldest ReplicaSet first. Returns the sizes
/// afterwards, or `None` if a status is stale.
///
/// Upstream: `cleanupUnhealthyReplicas`. The ReplicaSet controller deletes pods that are not ready first, so
/// a smaller size removes exactly the unavailable ones.
fn drop_unhealthy(old: &[&Arc<ReplicaSet>], room: i32, down: &mut ScaleDown) -> Option<Vec<i32>> {
    let mut sizes: Vec<i32> = old.iter().map(|rs| rs.spec.replicas).collect();
    let mut left = room;
    for (rs, size) in old.iter().zip(&mut sizes) {
        if left <= 0 {
            break;
        }
        let unhealthy = rs
            .spec
            .replicas
            .saturating_sub(rs.status.available_replicas);
        if unhealthy < 0 {
            return None;
        }
        let gone = unhealthy.min(left);
        if gone > 0 {
            left -= gone;
            *size -= gone;
            down.resizes.push(Resize::lazy(rs, *size));
        }
    }
    Some(sizes)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{ReplicaSetBuilder, deployment, replica_set};

    fn sets(new: ReplicaSetBuilder, old: Vec<ReplicaSetBuilder>) -> ReplicaSets {
        ReplicaSets {
            new: Some(Arc::new(new.build())),
            old: old.into_iter().map(|rs| Arc::new(rs.build())).collect(),
        }
    }

    fn rs(name: &str, size: i32, available: i32) -> ReplicaSetBuilder {
        replica_set(name).replicas(size).pods(available, available)
    }

    fn rolling(
        replicas: i32,
        surge: impl Into<Value>,
        unavailable: impl Into<Value>,
    ) -> Deployment {
        deployment("foo")
            .replicas(replicas)
            .rolling(surge, unavailable)
            .build()
    }

    /// Names and sizes of the resizes.
    fn sizes(down: &ScaleDown) -> Vec<(&str, i32)> {
        down.resizes
            .iter()
            .map(|resize| (&*resize.set.meta.name, resize.to))
            .collect()
    }

    #[test]
    fn test_new_rs_new_replicas() {
        // (name, recreate, replicas, new size, maxSurge, expected); all ReplicaSets add up to 5
        let cases = [
            ("can not scale up - to newRSReplicas", false, 1, 5, 1, 5),
            ("scale up - to depReplicas", false, 6, 2, 10, 6),
            ("recreate - to depReplicas", true, 3, 1, 1, 3),
        ];
        for (name, recreate, replicas, size, surge, expected) in cases {
            let d = deployment("nginx").replicas(replicas).rolling(surge, 1);
            let d = if recreate { d.recreate() } else { d }.build();
            assert_eq!(new_size(&d, size, 5), Ok(expected), "{name}");
        }
        assert_eq!(
            new_size(&rolling(6, Value::Null, 1), 2, 5),
            Err(LimitError::Unset)
        );
    }

    #[test]
    fn test_reconcile_new_replica_set() {
        // (replicas, maxSurge, old, new, expected)
        let cases = [
            (10, 0, 10, 0, None),
            (10, 2, 10, 0, Some(2)),
            (10, 2, 5, 0, Some(7)),
            (10, 2, 10, 2, None),
            (10, 2, 2, 11, Some(10)),
        ];
        for (replicas, surge, old, new, expected) in cases {
            let sets = sets(rs("foo-v2", new, 0), vec![rs("foo-v1", old, 0)]);
            let resize = resize_new(&rolling(replicas, surge, 0), &sets).unwrap();
            assert_eq!(
                resize.map(|resize| resize.to),
                expected,
                "{replicas} {surge} {old} {new}"
            );
        }
    }

    #[test]
    fn test_reconcile_old_replica_sets() {
        // (replicas, maxUnavailable, old, new, available of old, available of new, sizes of old)
        let cases: [(i32, i32, i32, i32, i32, i32, &[i32]); 5] = [
            // Both limits are zero, so one may be unavailable.
            (10, 0, 10, 0, 10, 0, &[9]),
            (10, 2, 10, 0, 10, 0, &[8]),
            // Unhealthy pods are removed.
            (10, 2, 10, 0, 8, 0, &[8]),
            // One unhealthy pod is removed, then one ready pod.
            (10, 2, 10, 0, 9, 0, &[9, 8]),
            // The unavailable pods of the new ReplicaSet keep the old pods.
            (10, 2, 8, 2, 8, 0, &[]),
        ];
        for (replicas, unavailable, old, new, old_available, new_available, expected) in cases {
            let sets = sets(
                rs("foo-new", new, new_available),
                vec![rs("foo-old", old, old_available)],
            );
            let down = scale_down_old(&rolling(replicas, 0, unavailable), &sets);
            assert_eq!(
                down.resizes
                    .iter()
                    .map(|resize| resize.to)
                    .collect::<Vec<_>>(),
                expected
            );
            assert!(!down.stale);
        }
    }

    #[test]
    fn test_cleanup_unhealthy_replicas() {
        // (old size, ready, room, expected removals)
        for (size, ready, room, expected) in
            [(10, 8, 1, 1), (10, 8, 3, 2), (10, 8, 0, 0), (10, 10, 3, 0)]
        {
            let old = Arc::new(rs("foo-v2", size, ready).build());
            let mut down = ScaleDown {
                resizes: vec![],
                stale: false,
            };
            assert_eq!(
                drop_unhealthy(&[&old], room, &mut down),
                Some(vec![size - expected]),
                "{size} {ready} {room}"
            );
            assert_eq!(down.resizes.len(), usize::from(expected > 0));
        }
    }

    #[test]
    fn test_scale_down_old_replica_sets_for_rolling_update() {
        // (maxUnavailable, ready, old size, expected); the new ReplicaSet is empty
        let cases = [
            (0, 10, 10, Some(9)),
            (2, 10, 10, Some(8)),
            (2, 8, 8, None),
            (2, 10, 0, None),
            (2, 1, 1, None),
        ];
        for (unavailable, ready, size, expected) in cases {
            let sets = sets(rs("foo-v2", 0, 0), vec![rs("foo-v1", size, ready)]);
            let down = scale_down_old(&rolling(10, 0, unavailable), &sets);
            assert_eq!(
                down.resizes.first().map(|resize| resize.to),
                expected,
                "{unavailable} {ready} {size}"
            );
        }
    }

    #[test]
    fn a_status_older_than_the_last_resize_stops_the_step() {
        let old = vec![
            rs("a", 4, 2).created(1),
            rs("b", 3, 5).created(2),
            rs("c", 3, 0).created(3),
        ];
        let down = scale_down_old(&rolling(10, 3, 8), &sets(rs("new", 3, 3), old));
        assert_eq!((sizes(&down), down.stale), (vec![("a", 2)], true));
    }

    /// After a roll-over and a rollback: the room for unavailable pods ends before the ReplicaSet with the
    /// stale status, so only its size tells how many of its pods stay.
    #[test]
    fn pods_beyond_the_size_do_not_count_as_available() {
        let old = vec![rs("a", 4, 2).created(1), rs("b", 2, 4).created(2)];
        let down = scale_down_old(&rolling(6, 0, 2), &sets(rs("new", 0, 0), old));
        assert_eq!((sizes(&down), down.stale), (vec![("a", 2)], false));
        let new = sets(rs("new", 3, 5), vec![rs("a", 5, 5)]);
        assert_eq!(sizes(&scale_down_old(&rolling(6, 2, 0), &new)), [("a", 3)]);
    }

    /// The example of the module header; one row per sync.
    #[test]
    fn the_example_of_a_rolling_update_is_correct() {
        let d = rolling(10, "25%", "25%");
        assert_eq!(new_size(&d, 0, 10), Ok(3), "size at creation");
        // (sync, old, old available, new, new available, new grows to, old shrinks to)
        let cases = [
            (1, 10, 10, 3, 0, None, Some(8)),
            (2, 8, 8, 3, 0, Some(5), None),
            (3, 8, 8, 5, 0, None, None),
            (4, 8, 8, 5, 5, None, Some(3)),
            (5, 3, 3, 5, 5, Some(10), None),
            (6, 3, 3, 10, 5, None, None),
            (7, 3, 3, 10, 10, None, Some(0)),
            (8, 0, 0, 10, 10, None, None),
        ];
        for (sync, old, old_available, new, new_available, grows, shrinks) in cases {
            let sets = sets(
                rs("new", new, new_available),
                vec![rs("old", old, old_available)],
            );
            assert_eq!(
                resize_new(&d, &sets).unwrap().map(|resize| resize.to),
                grows,
                "sync {sync}"
            );
            if grows.is_none() {
                let down = scale_down_old(&d, &sets);
                assert_eq!(
                    down.resizes
                        .iter()
                        .map(|resize| resize.to)
                        .collect::<Vec<_>>(),
                    Vec::from_iter(shrinks),
                    "sync {sync}"
                );
            }
        }
    }

    #[test]
    fn each_new_available_pod_replaces_one_old_pod() {
        let d = rolling(10, "25%", "25%");
        let mut old = 8;
        let mut new = 5;
        let mut available = 0;
        let mut seen = vec![(old, new)];
        for _ in 0..40 {
            let now = sets(rs("new", new, available), vec![rs("old", old, old)]);
            if let Some(resize) = resize_new(&d, &now).unwrap() {
                new = resize.to;
            } else if let Some(resize) = scale_down_old(&d, &now).resizes.first() {
                old = resize.to;
            } else if available < new {
                available += 1;
                continue;
            } else {
                break;
            }
            assert!(
                old + new <= 13 && old + available >= 8,
                "{old} {new} {available}"
            );
            seen.push((old, new));
        }
        let expected = [
            (8, 5),
            (7, 5),
            (7, 6),
            (6, 6),
            (6, 7),
            (5, 7),
            (5, 8),
            (4, 8),
            (4, 9),
            (3, 9),
            (3, 10),
            (2, 10),
            (1, 10),
            (0, 10),
        ];
        assert_eq!(seen, expected);
        assert_eq!(available, 10);
    }

    #[test]
    fn with_limits_that_round_to_zero_the_old_pod_is_removed_first() {
        let d = rolling(1, 0, "25%");
        assert_eq!(new_size(&d, 0, 1), Ok(0), "size at creation");
        let first = sets(rs("new", 0, 0), vec![rs("old", 1, 1)]);
        assert!(resize_new(&d, &first).unwrap().is_none());
        assert_eq!(sizes(&scale_down_old(&d, &first)), [("old", 0)]);
        let second = sets(rs("new", 0, 0), vec![rs("old", 0, 1)]);
        assert_eq!(
            resize_new(&d, &second).unwrap().map(|resize| resize.to),
            Some(1)
        );
    }

    #[test]
    fn undoing_a_broken_rollout_removes_its_broken_pods_first() {
        let d = rolling(8, 2, 1);
        // (why, new, old, new grows to, old shrink to)
        let cases = [
            (
                "B is created with 2",
                rs("b", 2, 0),
                vec![rs("a", 8, 8)],
                None,
                vec![("a", 7)],
            ),
            (
                "B grows",
                rs("b", 2, 0),
                vec![rs("a", 7, 7)],
                Some(3),
                vec![],
            ),
            ("stuck", rs("b", 3, 0), vec![rs("a", 7, 7)], None, vec![]),
            (
                "undone: B shrinks to 0",
                rs("a", 7, 7),
                vec![rs("b", 3, 0)],
                None,
                vec![("b", 0)],
            ),
            (
                "A grows back",
                rs("a", 7, 7),
                vec![rs("b", 0, 0)],
                Some(8),
                vec![],
            ),
            (
                "a third template instead",
                rs("c", 0, 0),
                vec![rs("a", 7, 7), rs("b", 3, 0)],
                None,
                vec![("b", 0)],
            ),
            (
                "C grows",
                rs("c", 0, 0),
                vec![rs("a", 7, 7), rs("b", 0, 0)],
                Some(3),
                vec![],
            ),
        ];
        assert_eq!(new_size(&d, 0, 8), Ok(2), "B");
        assert_eq!(new_size(&d, 0, 10), Ok(0), "C");
        for (why, new, old, grows, shrink) in cases {
            let sets = sets(new, old);
            let resize = resize_new(&d, &sets).unwrap();
            assert_eq!(resize.as_ref().map(|resize| resize.to), grows, "{why}");
            if resize.is_none() {
                assert_eq!(sizes(&scale_down_old(&d, &sets)), shrink, "{why}");
            }
        }
    }
}
