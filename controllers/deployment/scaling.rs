//! Proportional scaling: a Deployment changes its size during a rollout or while it is paused.
//!
//! Each ReplicaSet gets a share of the change in proportion to its size. Thus scaling up does not
//! speed up a rollout that may be broken. Scaling down does not remove only working pods.
//! Upstream: `scale` in `sync.go`.
//!
//! It does not touch the rollout's progress: the next sync continues from the new sizes.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use steersman_objects::{Deployment, ReplicaSet, Strategy};

use super::annotations::{self, DESIRED_REPLICAS, MAX_REPLICAS};
use super::limits;
use super::replica_sets::{ReplicaSets, by_age, is_active, sum};
use super::resize::Resize;

/// Whether the annotation of an active ReplicaSet states another `spec.replicas` of the Deployment
/// than the current one.
///
/// Upstream: `isScalingEvent`. An unreadable annotation is no event.
pub(super) fn is_scaling_event(d: &Deployment, sets: &ReplicaSets) -> bool {
    sets.active()
        .filter_map(|rs| annotations::non_negative(&rs.annotations, DESIRED_REPLICAS))
        .any(|n| n != d.spec.replicas)
}

/// The resizes that follow from the size of `d`, in the order of the writes. Resizes without a
/// change are omitted.
///
/// Upstream: `scale` and `FindActiveOrLatest`. The order of cases matters: with one active ReplicaSet there
/// is nothing to distribute, and a saturated new one needs the others no more.
pub(super) fn resizes(d: &Deployment, sets: &ReplicaSets) -> Vec<Resize> {
    let active: Vec<&Arc<ReplicaSet>> = sets.active().collect();
    let mut resizes = match active[..] {
        // With at most one active ReplicaSet no rollout is in progress: one gets the full size.
        [] => latest(sets)
            .map(|rs| Resize::lazy(rs, d.spec.replicas))
            .into_iter()
            .collect(),
        [only] => vec![Resize::lazy(only, d.spec.replicas)],
        // For example after the adoption of a ReplicaSet with pods.
        _ if is_saturated(d, sets) => sets
            .old
            .iter()
            .filter(|rs| is_active(rs))
            .rev()
            .map(|rs| Resize::lazy(rs, 0))
            .collect(),
        _ if matches!(d.spec.strategy, Strategy::RollingUpdate { .. }) => proportional(d, sets),
        // The rollout of Recreate sets all sizes itself.
        _ => Vec::new(),
    };
    resizes.retain(|resize| resize.is_due(d));
    resizes
}

/// The ReplicaSet to scale if none is active: the new one, or else the youngest.
fn latest(sets: &ReplicaSets) -> Option<&Arc<ReplicaSet>> {
    sets.new.as_ref().or(sets.old.last())
}

/// Whether the new ReplicaSet has its final size and all its pods are available. The old
/// ReplicaSets are then superfluous. Upstream: `IsSaturated`. The annotation is compared, so a size that
/// another client has set does not count.
fn is_saturated(d: &Deployment, sets: &ReplicaSets) -> bool {
    let replicas = d.spec.replicas;
    sets.new.as_ref().is_some_and(|rs| {
        let desired = rs
            .annotations
            .get(DESIRED_REPLICAS)
            .and_then(|text| text.parse::<i64>().ok());
        rs.spec.replicas == replicas
            && desired == Some(replicas.into())
            && rs.status.available_replicas == replicas
    })
}

/// Distributes the pods to add or to remove over the active ReplicaSets, in proportion to their
/// sizes.
///
/// The largest ReplicaSet comes first and gets the rounding remainder. Of equal sizes, the youngest
/// grows first and the oldest shrinks first.
///
/// An example: 10 to 15 replicas with a surge of 4, during a rollout with 8 old and 5 new pods.
/// The pods to add are 19 - 13 = 6. The old ReplicaSet gets round(8 * 19/13) - 8 = 4, the new one
/// round(5 * 19/13) - 5 = 2.
///
/// Upstream: `GetReplicaSetProportion` and the loops of `scale`. A remainder comes from rounding, and from
/// the limit `left`.
fn proportional(d: &Deployment, sets: &ReplicaSets) -> Vec<Resize> {
    let mut active: Vec<_> = sets
        .old
        .iter()
        .rev()
        .chain(&sets.new)
        .filter(|rs| is_active(rs))
        .collect();
    // A Deployment of size 0 has no surge, so all pods go.
    let allowed = if d.spec.replicas > 0 {
        limits::max_replicas(d)
    } else {
        0
    };
    let to_add = allowed.saturating_sub(sum(active.iter().copied(), |rs| rs.spec.replicas));
    match to_add.cmp(&0) {
        Ordering::Greater => active.sort_by(|a, b| by_size(a, b).then_with(|| by_age(b, a))),
        Ordering::Less => active.sort_by(|a, b| by_size(a, b).then_with(|| by_age(a, b))),
        // Only annotations can change.
        Ordering::Equal => {
            return active
                .into_iter()
                .map(|rs| Resize::forced(rs, rs.spec.replicas))
                .collect();
        }
    }
    let mut left = to_add;
    let mut resizes: Vec<Resize> = Vec::with_capacity(active.len());
    for rs in active {
        let fraction = fraction(d, rs);
        let share = if to_add > 0 {
            fraction.min(left)
        } else {
            fraction.max(left)
        };
        // After everything is distributed, a share is 0, even if the fraction has the other sign.
        let share = if left == 0 { 0 } else { share };
        left = left.saturating_sub(share);
        resizes.push(Resize::forced(rs, rs.spec.replicas.saturating_add(share)));
    }
    if let Some(first) = resizes.first_mut() {
        first.to = first.to.saturating_add(left).max(0);
    }
    resizes
}

fn by_size(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    Reverse(a.spec.replicas).cmp(&Reverse(b.spec.replicas))
}

/// The pods to add to `rs` (or, if negative, to remove) so that it keeps its share of the
/// Deployment. The share is relative to the annotation `max-replicas` of its last resize.
///
/// Upstream: `getReplicaSetFraction`. It multiplies in 32 bits and overflows for huge sizes; this computes in
/// `f64`.
fn fraction(d: &Deployment, rs: &ReplicaSet) -> i32 {
    let size = rs.spec.replicas;
    if d.spec.replicas == 0 {
        return -size;
    }
    let before = match annotations::non_negative(&rs.annotations, MAX_REPLICAS) {
        // The annotation was edited or removed; the current number of pods is the best estimate.
        None | Some(0) => d.status.replicas,
        Some(before) => before,
    };
    if before == 0 {
        return 0;
    }
    let scaled = f64::from(size) * f64::from(limits::max_replicas(d)) / f64::from(before);
    // `round` rounds half away from zero, as upstream does; `as` saturates.
    (scaled.round() as i32).saturating_sub(size)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{DeploymentBuilder, ReplicaSetBuilder, deployment, replica_set};

    fn rolling(
        replicas: i32,
        surge: impl Into<Value>,
        unavailable: impl Into<Value>,
    ) -> DeploymentBuilder {
        deployment("foo")
            .replicas(replicas)
            .rolling(surge, unavailable)
    }

    fn rs(name: &str, size: i32, created: i64) -> ReplicaSetBuilder {
        replica_set(name).replicas(size).created(created)
    }

    /// Sizes by name after the resizes.
    fn scaled(d: &Deployment, sets: &ReplicaSets) -> BTreeMap<String, i32> {
        let mut sizes: BTreeMap<_, _> = sets
            .all()
            .map(|rs| (rs.meta.name.to_string(), rs.spec.replicas))
            .collect();
        sizes.extend(
            resizes(d, sets)
                .into_iter()
                .map(|resize| (resize.set.meta.name.to_string(), resize.to)),
        );
        sizes
    }

    /// One case of upstream's table.
    ///
    /// `before` and `after` are replicas and surge of the Deployment. `sizes` are those of the
    /// ReplicaSets foo-v1 (the oldest), foo-v2 and so on. If `has_new`, the last is the new one.
    struct Case {
        name: &'static str,
        before: (i32, i32),
        after: (i32, i32),
        sizes: &'static [i32],
        has_new: bool,
        expected: &'static [i32],
    }

    const fn case(
        name: &'static str,
        before: i32,
        after: i32,
        sizes: &'static [i32],
        has_new: bool,
        expected: &'static [i32],
    ) -> Case {
        Case {
            name,
            before: (before, 0),
            after: (after, 0),
            sizes,
            has_new,
            expected,
        }
    }

    #[test]
    fn test_scale() {
        let cases = [
            case("normal scaling event: 10 -> 12", 10, 12, &[10], true, &[12]),
            case("normal scaling event: 10 -> 5", 10, 5, &[10], true, &[5]),
            case(
                "proportional scaling: 5 -> 10",
                5,
                10,
                &[3, 2],
                true,
                &[6, 4],
            ),
            case("proportional scaling: 5 -> 3", 5, 3, &[3, 2], true, &[2, 1]),
            case("proportional scaling: 9 -> 4", 9, 4, &[1, 8], true, &[0, 4]),
            case(
                "proportional scaling: 7 -> 10",
                7,
                10,
                &[2, 3, 2],
                true,
                &[3, 4, 3],
            ),
            case(
                "proportional scaling: 13 -> 8",
                13,
                8,
                &[3, 8, 2],
                true,
                &[2, 5, 1],
            ),
            case(
                "leftover distribution: 3 -> 4",
                3,
                4,
                &[1, 1, 1],
                true,
                &[1, 1, 2],
            ),
            case(
                "leftover distribution: 3 -> 2",
                3,
                2,
                &[1, 1, 1],
                true,
                &[0, 1, 1],
            ),
            case(
                "proportional scaling (no new rs): 4 -> 5",
                4,
                5,
                &[2, 2],
                false,
                &[2, 3],
            ),
            case(
                "proportional scaling: 6 -> 0",
                6,
                0,
                &[1, 2, 3],
                true,
                &[0, 0, 0],
            ),
            case(
                "proportional scaling: 0 -> 6",
                6,
                6,
                &[0, 0, 0],
                true,
                &[0, 0, 6],
            ),
            Case {
                before: (10, 2),
                after: (20, 2),
                ..case("deployment with surge pods", 0, 0, &[6, 6], true, &[11, 11])
            },
            Case {
                before: (10, 3),
                after: (50, 6),
                ..case("change both surge and size", 0, 0, &[8, 5], true, &[34, 22])
            },
            case(
                "change both size and template",
                10,
                14,
                &[3, 7],
                false,
                &[4, 10],
            ),
            Case {
                before: (2, 1),
                after: (2, 1),
                ..case(
                    "saturated but broken new replica set does not affect old pods",
                    0,
                    0,
                    &[1, 2],
                    true,
                    &[1, 2],
                )
            },
        ];
        for Case {
            name,
            before,
            after,
            sizes,
            has_new,
            expected,
        } in cases
        {
            let desired = before.0.to_string();
            let max = (before.0 + before.1).to_string();
            let build = |(i, size): (usize, &i32)| {
                let rs = rs(&format!("foo-v{}", i + 1), *size, i as i64);
                Arc::new(
                    rs.annotation(DESIRED_REPLICAS, &desired)
                        .annotation(MAX_REPLICAS, &max)
                        .build(),
                )
            };
            let mut sets = ReplicaSets {
                new: None,
                old: sizes.iter().enumerate().map(build).collect(),
            };
            sets.new = if has_new { sets.old.pop() } else { None };
            let d = rolling(after.0, after.1, 1).build();
            assert_eq!(
                scaled(&d, &sets).into_values().collect::<Vec<_>>(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_failed_resize_is_repeated() {
        // Upstream's "failed rs update": from 3 to 5 replicas. Only foo-v2 still has the
        // annotation 3.
        let set = |name: &str, size: i32, created: i64, desired: &str| {
            Arc::new(
                rs(name, size, created)
                    .annotation(DESIRED_REPLICAS, desired)
                    .annotation(MAX_REPLICAS, desired)
                    .build(),
            )
        };
        let sets = ReplicaSets {
            new: Some(set("foo-v3", 2, 3, "5")),
            old: vec![set("foo-v1", 1, 1, "5"), set("foo-v2", 1, 2, "3")],
        };
        let d = rolling(5, 0, 1).build();
        assert!(is_scaling_event(&d, &sets));
        let sizes: Vec<_> = resizes(&d, &sets)
            .iter()
            .map(|resize| (resize.set.meta.name.to_string(), resize.to))
            .collect();
        assert_eq!(sizes, [("foo-v2".to_owned(), 2)]);
    }

    #[test]
    fn test_get_replica_set_fraction() {
        // (name, replicas, status.replicas, surge, size, max-replicas, expected)
        let cases = [
            (
                "empty deployment always scales to 0",
                0,
                0,
                0,
                10,
                None,
                -10,
            ),
            (
                "unsynced deployment does not scale when max-replicas annotation is missing",
                10,
                0,
                0,
                5,
                None,
                0,
            ),
            (
                "unsynced deployment does not scale when max-replicas annotation is incorrectly set to 0",
                10,
                0,
                0,
                5,
                Some("0"),
                0,
            ),
            (
                "scale up by 1/5 when max-replicas annotation is missing",
                120,
                100,
                0,
                50,
                None,
                10,
            ),
            (
                "scale up by 1/5 when max-replicas annotation is incorrectly set to 0",
                120,
                100,
                0,
                50,
                Some("0"),
                10,
            ),
            (
                "scale up by 1/5 should increase RS replicas by 1/5",
                120,
                0,
                0,
                50,
                Some("100"),
                10,
            ),
            (
                "scale up with maxSurge by 1/5 should increase RS replicas approximately",
                120,
                0,
                10,
                50,
                Some("110"),
                9,
            ),
            (
                "scale down by 1/6 should decrease RS replicas by 1/6",
                10,
                0,
                0,
                6,
                Some("12"),
                -1,
            ),
            (
                "scale down with maxSurge by 1/6 should decrease RS replicas approximately",
                100,
                0,
                10,
                50,
                Some("130"),
                -8,
            ),
        ];
        for (name, replicas, there, surge, size, max, expected) in cases {
            let d = rolling(replicas, surge, 1)
                .status("replicas", there)
                .build();
            let rs = max
                .into_iter()
                .fold(rs("web-1", size, 0), |rs, max| {
                    rs.annotation(MAX_REPLICAS, max)
                })
                .build();
            assert_eq!(fraction(&d, &rs), expected, "{name}");
        }
    }

    /// ReplicaSets in the middle of a rollout, sized for `max` pods.
    fn midway(max: &str, old: &[(&str, i32)], new: Option<(&str, i32)>) -> ReplicaSets {
        let mut created = 0;
        let mut build = |(name, size): &(&str, i32)| {
            created += 1;
            Arc::new(
                rs(name, *size, created)
                    .annotation(DESIRED_REPLICAS, "10")
                    .annotation(MAX_REPLICAS, max)
                    .build(),
            )
        };
        let old = old.iter().map(&mut build).collect();
        ReplicaSets {
            new: new.as_ref().map(build),
            old,
        }
    }

    #[test]
    fn rollouts_in_progress_scale_in_proportion() {
        // (why, replicas, surge, max-replicas before, old, new, expected)
        type Sizes = &'static [(&'static str, i32)];
        let cases: [(&str, i32, Value, &str, Sizes, Option<(&str, i32)>, Sizes); 6] = [
            (
                "10 to 15",
                15,
                json!("25%"),
                "13",
                &[("o", 8)],
                Some(("n", 5)),
                &[("n", 7), ("o", 12)],
            ),
            (
                "then 15 to 6",
                6,
                json!("25%"),
                "19",
                &[("o", 12)],
                Some(("n", 7)),
                &[("n", 3), ("o", 5)],
            ),
            (
                "10 to 15, surge 3",
                15,
                json!(3),
                "13",
                &[("o", 8)],
                Some(("n", 5)),
                &[("n", 7), ("o", 11)],
            ),
            (
                "remainder of scaling up",
                17,
                json!(2),
                "13",
                &[("x", 5), ("y", 5), ("z", 3)],
                None,
                &[("x", 7), ("y", 8), ("z", 4)],
            ),
            (
                "remainder of scaling down",
                5,
                json!(2),
                "13",
                &[("x", 5), ("y", 5), ("z", 3)],
                None,
                &[("x", 2), ("y", 3), ("z", 2)],
            ),
            (
                "to zero",
                0,
                json!(3),
                "13",
                &[("o", 8)],
                Some(("n", 5)),
                &[("n", 0), ("o", 0)],
            ),
        ];
        for (why, replicas, surge, max, old, new, expected) in cases {
            let sets = midway(max, old, new);
            let expected: BTreeMap<_, _> = expected
                .iter()
                .map(|(name, size)| ((*name).to_owned(), *size))
                .collect();
            assert_eq!(
                scaled(&rolling(replicas, surge, 2).build(), &sets),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn scaling_to_zero_keeps_the_surge_in_the_annotation() {
        let d = rolling(0, 3, 0).build();
        let resizes = resizes(&d, &midway("13", &[("o", 8)], Some(("n", 5))));
        assert_eq!(resizes.len(), 2);
        assert_eq!(
            resizes[0].object(&d)["metadata"]["annotations"][MAX_REPLICAS],
            "3"
        );
    }

    #[test]
    fn old_replica_sets_scale_to_zero_once_the_new_one_is_saturated() {
        let d = rolling(3, 1, 0).build();
        let new = rs("new", 3, 9)
            .annotation(DESIRED_REPLICAS, "3")
            .pods(3, 3)
            .build();
        let sets = ReplicaSets {
            new: Some(Arc::new(new)),
            old: vec![
                Arc::new(rs("a", 1, 1).build()),
                Arc::new(rs("b", 0, 2).build()),
                Arc::new(rs("c", 2, 3).build()),
            ],
        };
        let sizes: Vec<_> = resizes(&d, &sets)
            .iter()
            .map(|resize| (resize.set.meta.name.to_string(), resize.to))
            .collect();
        assert_eq!(sizes, [("c".to_owned(), 0), ("a".to_owned(), 0)]);
    }

    #[test]
    fn only_readable_annotations_of_active_replica_sets_make_a_scaling_event() {
        let d = deployment("web").replicas(3).build();
        // (size, annotation, event)
        let cases = [
            (2, Some("3"), false),
            (2, Some("5"), true),
            (0, Some("5"), false),
            (2, None, false),
            (2, Some("-5"), false),
            (2, Some("x"), false),
        ];
        for (size, desired, event) in cases {
            let set = desired.into_iter().fold(rs("web-1", size, 0), |rs, text| {
                rs.annotation(DESIRED_REPLICAS, text)
            });
            for as_new in [true, false] {
                let set = Arc::new(set.clone().build());
                let sets = if as_new {
                    ReplicaSets {
                        new: Some(set),
                        old: vec![],
                    }
                } else {
                    ReplicaSets {
                        new: None,
                        old: vec![set],
                    }
                };
                assert_eq!(is_scaling_event(&d, &sets), event, "{size} {desired:?}");
            }
        }
    }

    #[test]
    fn recreate_deployments_are_not_scaled_proportionally() {
        let d = deployment("web").replicas(3).recreate().build();
        assert!(resizes(&d, &midway("13", &[("o", 8)], Some(("n", 5)))).is_empty());
    }
}
