//! Pods of ReplicaSets.

use super::*;

/// A ReplicaSet of two replicas with these pods.
fn two(pods: &[Value]) -> Vec<(&'static str, Value)> {
    let pods = pods.iter().map(|pod| ("pods", pod.clone()));
    std::iter::once(("replicasets", set("a", 2)))
        .chain(pods)
        .collect()
}

#[test]
fn a_pod_beyond_the_replicas_is_a_surplus() {
    use ChangeKind::{Created, Updated};
    let p = pod("p", "a");
    let q = pod("q", "a");
    let r = pod("r", "a");
    let controller = (
        "replicationcontrollers",
        object("c", json!({"replicas": 0})),
    );
    let of_controller = owned(object("x", json!({})), "ReplicationController", "c");
    check(
        NO_SURPLUS,
        [
            (
                "the third pod of two replicas",
                two(&[p.clone(), q.clone()]),
                SETS,
                "pods",
                Created,
                r.clone(),
                true,
            ),
            (
                "the second pod of two replicas",
                two(std::slice::from_ref(&p)),
                SETS,
                "pods",
                Created,
                q.clone(),
                false,
            ),
            (
                "replaces a terminating pod",
                two(&[p.clone(), terminating(q.clone())]),
                SETS,
                "pods",
                Created,
                r.clone(),
                false,
            ),
            (
                "replaces a finished pod",
                two(&[p.clone(), finished(q.clone())]),
                SETS,
                "pods",
                Created,
                r.clone(),
                false,
            ),
            (
                "by a user",
                two(&[p.clone(), q.clone()]),
                "kubectl",
                "pods",
                Created,
                r.clone(),
                false,
            ),
            (
                "an update of an existing pod",
                two(&[p, q, r.clone()]),
                SETS,
                "pods",
                Updated,
                r,
                false,
            ),
            (
                "the first pod of zero replicas",
                vec![controller],
                "replication-controller",
                "pods",
                Created,
                of_controller,
                true,
            ),
        ],
    );
}

#[test]
fn a_deletion_below_the_replicas_is_a_shortage() {
    use ChangeKind::{Deleted, Updated};
    let p = pod("p", "a");
    let q = pod("q", "a");
    let r = pod("r", "a");
    let both = || two(&[p.clone(), q.clone()]);
    let deleted_owner = || {
        vec![
            ("replicasets", terminating(set("a", 2))),
            ("pods", p.clone()),
        ]
    };
    check(
        NO_SHORTAGE,
        [
            (
                "one of two gets a deletion timestamp",
                both(),
                SETS,
                "pods",
                Updated,
                terminating(q.clone()),
                true,
            ),
            (
                "one of two is removed at once",
                both(),
                SETS,
                "pods",
                Deleted,
                q.clone(),
                true,
            ),
            (
                "one of three",
                two(&[p.clone(), q.clone(), r]),
                SETS,
                "pods",
                Updated,
                terminating(q.clone()),
                false,
            ),
            (
                "one that was terminating",
                two(&[p.clone(), terminating(q.clone())]),
                SETS,
                "pods",
                Deleted,
                terminating(q.clone()),
                false,
            ),
            (
                "one that was finished",
                two(&[p.clone(), finished(q.clone())]),
                SETS,
                "pods",
                Deleted,
                finished(q.clone()),
                false,
            ),
            (
                "by a user",
                both(),
                "kubectl",
                "pods",
                Updated,
                terminating(q.clone()),
                false,
            ),
            (
                "of a terminating owner",
                deleted_owner(),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                false,
            ),
        ],
    );
}

/// A ReplicaSet is resized. Two seconds later a write for the old size is accepted, three seconds
/// later it is a violation.
#[test]
fn a_write_may_fit_a_recent_size_of_its_owner() {
    use ChangeKind::{Created, Deleted, Updated};
    let sized_for = |size: &str| {
        with(
            set("a", 2),
            "/metadata/annotations",
            json!({"deployment.kubernetes.io/desired-replicas": size}),
        )
    };
    let pods = ["p", "q"].map(|name| pod(name, "a"));
    // (rule, ReplicaSet before and after the resize, kind of change, pod)
    let cases = [
        (NO_SURPLUS, set("a", 3), set("a", 1), Created, pod("r", "a")),
        (
            NO_SHORTAGE,
            set("a", 1),
            set("a", 2),
            Deleted,
            pods[1].clone(),
        ),
        (
            MIN_AVAILABLE,
            sized_for("2"),
            sized_for("3"),
            Deleted,
            pods[1].clone(),
        ),
    ];
    for (rule, before, after, kind, touched) in cases {
        let verdict = |later: i64| {
            let mut state = State::default();
            let (plural, web) = rolling(3, json!(1), json!(1));
            put(&mut state, plural, Created, web, "");
            put(&mut state, "replicasets", Created, before.clone(), "");
            pods.iter()
                .for_each(|pod| drop(put(&mut state, "pods", Created, pod.clone(), "")));
            put_at(100, &mut state, "replicasets", Updated, after.clone(), "");
            let change = put_at(100 + later, &mut state, "pods", kind, touched.clone(), SETS);
            (rule.check)(&state, &change)
        };
        assert_eq!(verdict(2), Ok(()), "{}", rule.name);
        assert!(verdict(3).is_err(), "{}", rule.name);
    }
}
