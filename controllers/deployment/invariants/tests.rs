//! All steps of small roll-outs are allowed, and wrong ones are refused.

use serde_json::{Value, json};

use super::*;
use crate::deployment::{new_replica_set, recreate, rolling};
use crate::testing::{deployment, replica_set};

fn rs(name: &str, size: i32, available: i32) -> Arc<ReplicaSet> {
    let rs = replica_set(name).replicas(size).pods(available, available);
    Arc::new(rs.build())
}

/// ReplicaSets of few sizes, with every number of available pods and one that is too high, as an older
/// status has it.
fn variants(name: &str) -> Vec<Arc<ReplicaSet>> {
    let sizes = [0, 1, 4].into_iter();
    sizes
        .flat_map(|size| (0..=size + 1).map(move |available| (size, available)))
        .map(|(size, available)| rs(name, size, available))
        .collect()
}

/// Deployments of few sizes, with all pairs of limits.
fn deployments() -> Vec<Deployment> {
    let limits = || [json!(0), json!(1), json!("25%"), json!("150%")];
    let mut all = Vec::new();
    for replicas in [0, 1, 3, 6] {
        for surge in limits() {
            for unavailable in limits() {
                let d = deployment("web").replicas(replicas);
                all.push(d.rolling(surge.clone(), unavailable).build());
            }
        }
        all.push(deployment("web").replicas(replicas).recreate().build());
    }
    all
}

fn all_sets() -> Vec<ReplicaSets> {
    let news = variants("new").into_iter().map(Some).chain([None]);
    let [first, second] = ["one", "two"].map(variants);
    let mut all = Vec::new();
    for new in news {
        for one in &first {
            for two in &second {
                let old = vec![Arc::clone(one), Arc::clone(two)];
                let new = new.clone();
                all.push(ReplicaSets { new, old });
            }
        }
    }
    all
}

#[test]
fn every_step_of_a_rolling_update_is_allowed_and_each_growth_is_the_largest_one() {
    let sets = all_sets();
    let mut steps = [0; 3];
    for d in deployments() {
        for sets in &sets {
            let case = || format!("{:?} {:?} {sets:?}", d.spec.replicas, d.spec.strategy);
            let grown = if sets.new.is_some() {
                let resize = rolling::resize_new(&d, sets).unwrap();
                resize.map(|resize| resize.to)
            } else {
                let size = new_replica_set::build(&d, sets, |_| "1".to_owned());
                Some(size.unwrap().size)
            };
            if let Some(to) = grown {
                let from = sets.new.as_ref().map_or(0, |rs| rs.spec.replicas);
                let checked = stays_within_surge(&d, sets, to);
                assert_eq!(checked, Ok(()), "{}", case());
                if to >= from {
                    steps[0] += 1;
                    let checked = stays_within_surge(&d, sets, to + 1);
                    let violation = checked.expect_err("one more is too many");
                    assert_eq!(violation.invariant, "rollout_surge");
                }
            }
            let down = rolling::scale_down_old(&d, sets);
            let checked = keeps_available(&d, sets, &down.resizes);
            assert_eq!(checked, Ok(()), "{}", case());
            steps[1] += usize::from(!down.resizes.is_empty());
            if recreate::empty_old(sets).is_empty() && !recreate::old_pods_running(sets, &[]) {
                assert_eq!(starts_alone(sets), Ok(()), "{}", case());
                steps[2] += 1;
            }
        }
    }
    assert!(steps.iter().all(|steps| *steps > 500), "{steps:?}");
}

#[test]
fn a_reduction_below_the_minimum_is_refused() {
    let d = deployment("web").replicas(10).rolling(3, 2).build();
    // (why, new size, available new, (size, available) of old ones, their sizes afterwards, allowed)
    type Old = &'static [(i32, i32)];
    let cases: [(&str, i32, i32, Old, &[i32], bool); 9] = [
        ("two may be unavailable", 3, 0, &[(10, 10)], &[8], true),
        ("a third one may not", 3, 0, &[(10, 10)], &[7], false),
        (
            "available new pods replace old ones",
            5,
            5,
            &[(8, 8)],
            &[3],
            true,
        ),
        (
            "beyond the available new pods",
            5,
            5,
            &[(8, 8)],
            &[2],
            false,
        ),
        (
            "over two ReplicaSets",
            4,
            4,
            &[(3, 3), (3, 3)],
            &[1, 3],
            true,
        ),
        (
            "too many over two ReplicaSets",
            4,
            4,
            &[(3, 3), (3, 3)],
            &[1, 2],
            false,
        ),
        ("unavailable old pods", 3, 0, &[(10, 4)], &[8], true),
        ("a stale status", 0, 0, &[(5, 9)], &[0], true),
        ("nothing", 3, 0, &[(2, 2)], &[2], true),
    ];
    for (why, size, available, old, after, allowed) in cases {
        let named = |at: usize| format!("old-{at}");
        let old: Vec<_> = old
            .iter()
            .enumerate()
            .map(|(at, (size, available))| rs(&named(at), *size, *available))
            .collect();
        // The first write of a ReplicaSet is for its unavailable pods, and the last one counts.
        let resizes: Vec<_> = old
            .iter()
            .zip(after)
            .filter(|(rs, to)| rs.spec.replicas != **to)
            .flat_map(|(rs, to)| [rs.spec.replicas - 1, *to].map(|to| Resize::lazy(rs, to)))
            .collect();
        let sets = ReplicaSets {
            new: Some(rs("new", size, available)),
            old,
        };
        let checked = keeps_available(&d, &sets, &resizes);
        assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
    }
}

#[test]
fn limits_equal_those_of_the_decisions() {
    use crate::deployment::limits::{max_surge, max_unavailable};
    let texts = [
        "0%",
        "1%",
        "24%",
        "25%",
        "33%",
        "50%",
        "99%",
        "100%",
        "101%",
        "333%",
        "2147483647%",
    ];
    let limits = texts.map(Value::from);
    let limits = limits
        .into_iter()
        .chain([0, 1, 7, 1_000_000].map(Value::from));
    let limits: Vec<_> = limits.collect();
    for replicas in [0, 1, 2, 3, 7, 10, 99, 100, 101, 12_345, 2_000_000_000] {
        for (surge, unavailable) in limits
            .iter()
            .flat_map(|s| limits.iter().map(move |u| (s, u)))
        {
            let d = deployment("web").replicas(replicas);
            let d = d.rolling(surge.clone(), unavailable.clone()).build();
            let (found_surge, found_unavailable) = super::limits(&d).unwrap();
            let found_surge = found_surge.min(i64::from(i32::MAX));
            assert_eq!(
                (found_surge, found_unavailable),
                (i64::from(max_surge(&d)), i64::from(max_unavailable(&d))),
                "{surge} {unavailable} of {replicas}"
            );
        }
    }
    let unreadable = deployment("web").replicas(3).rolling("x", 1).build();
    assert_eq!(super::limits(&unreadable), None);
}

#[test]
fn a_clean_up_deletes_neither_pods_nor_the_new_replica_set_nor_the_history() {
    let d = deployment("web").spec("revisionHistoryLimit", 1).build();
    let of = |new: Option<&Arc<ReplicaSet>>, old: &[&Arc<ReplicaSet>]| ReplicaSets {
        new: new.map(Arc::clone),
        old: old.iter().copied().map(Arc::clone).collect(),
    };
    let [a, b] = ["a", "b"].map(|name| rs(name, 0, 0));
    let sized = rs("sized", 1, 0);
    let with_pods = rs("with-pods", 0, 1);
    let sets = of(None, &[&a, &b, &sized, &with_pods]);
    // (why, ReplicaSets, deletions, allowed)
    let cases = [
        ("nothing", sets.clone(), vec![], true),
        ("empty ones", sets.clone(), vec![&a, &b], true),
        ("with a size", sets.clone(), vec![&a, &sized], false),
        ("with pods", sets, vec![&with_pods], false),
        (
            "the last one of the history",
            of(None, &[&a, &b]),
            vec![&a, &b],
            false,
        ),
        ("the new one", of(Some(&a), &[&a, &b]), vec![&a], false),
    ];
    for (why, sets, deletions, allowed) in cases {
        let deletions: Vec<_> = deletions.into_iter().map(Arc::clone).collect();
        let checked = keeps_history(&d, &sets, &deletions);
        assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
    }
}

#[test]
fn recreate_starts_no_pod_beside_old_ones() {
    let old = |size, pods| ReplicaSets {
        new: None,
        old: vec![rs("empty", 0, 0), rs("old", size, pods)],
    };
    assert_eq!(starts_alone(&old(0, 0)), Ok(()));
    for (size, pods) in [(1, 0), (0, 1)] {
        let violation = starts_alone(&old(size, pods)).unwrap_err();
        assert_eq!(violation.invariant, "recreate_overlap");
    }
}
