//! Rollouts of Deployments.

use super::*;

fn recreating() -> (&'static str, Value) {
    (
        "deployments",
        object(
            "web",
            json!({"replicas": 1, "strategy": {"type": "Recreate"}}),
        ),
    )
}

#[test]
fn a_rollout_may_shrink_towards_its_surge_but_not_grow_above_it() {
    use ChangeKind::{Created, Deleted, Updated};
    let world = |web, old, new| {
        vec![
            web,
            ("replicasets", set("a", old)),
            ("replicasets", set("b", new)),
        ]
    };
    let one = || rolling(4, json!(1), json!(1));
    let quarter = || rolling(4, json!("25%"), json!(0));
    check(
        SURGE,
        [
            (
                "grows to six of five",
                world(one(), 4, 1),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("b", 2),
                true,
            ),
            (
                "grows to five of five",
                world(one(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("b", 1),
                false,
            ),
            (
                "a quarter of four is one",
                world(quarter(), 4, 1),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("b", 2),
                true,
            ),
            (
                "within a quarter",
                world(quarter(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("b", 1),
                false,
            ),
            (
                "is created too large",
                world(one(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Created,
                set("c", 2),
                true,
            ),
            (
                "shrinks, but not far enough",
                world(one(), 8, 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("a", 7),
                false,
            ),
            (
                "stays above",
                world(one(), 8, 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("a", 8),
                false,
            ),
            (
                "is deleted",
                world(one(), 8, 0),
                DEPLOYMENT,
                "replicasets",
                Deleted,
                set("a", 8),
                false,
            ),
            (
                "by a user",
                world(one(), 4, 1),
                "kubectl",
                "replicasets",
                Updated,
                set("b", 9),
                false,
            ),
            (
                "Recreate has no surge",
                world(recreating(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                set("b", 9),
                false,
            ),
        ],
    );
}

#[test]
fn old_pods_stay_until_new_ones_are_available() {
    use ChangeKind::Updated;
    let revised = |set: Value, revision: &str, size: &str| {
        let annotations = json!({"deployment.kubernetes.io/revision": revision, "deployment.kubernetes.io/desired-replicas": size});
        with(set, "/metadata/annotations", annotations)
    };
    let old = |replicas| revised(set("a", replicas), "1", "4");
    let new = |replicas| revised(set("b", replicas), "2", "4");
    // `maxUnavailable` is 1, so three of four pods stay available.
    let world = |sizes: (usize, usize), ready: usize| {
        let sets = [("replicasets", old(sizes.0)), ("replicasets", new(sizes.1))];
        let pods = (0..sizes.1)
            .map(|nth| pod(["p", "q", "r", "s"][nth], "b"))
            .enumerate();
        let pods = pods.map(|(nth, pod)| ("pods", if nth < ready { pod } else { unready(pod) }));
        std::iter::once(rolling(4, json!(1), json!(1)))
            .chain(sets)
            .chain(pods)
            .collect::<Vec<_>>()
    };
    let resized = revised(set("a", 1), "1", "2");
    check(
        NEW_PODS_AVAILABLE,
        [
            (
                "leaves three old pods",
                world((4, 1), 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                old(3),
                false,
            ),
            (
                "leaves two old pods and no available new one",
                world((3, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                old(2),
                true,
            ),
            (
                "leaves two old pods and one available new one",
                world((3, 2), 1),
                DEPLOYMENT,
                "replicasets",
                Updated,
                old(2),
                false,
            ),
            (
                "all new pods are ready",
                world((1, 4), 4),
                DEPLOYMENT,
                "replicasets",
                Updated,
                old(0),
                false,
            ),
            (
                "the new ReplicaSet shrinks",
                world((1, 4), 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                new(1),
                false,
            ),
            (
                "an old ReplicaSet grows",
                world((1, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                old(2),
                false,
            ),
            (
                "a resized Deployment scales in proportion",
                world((3, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Updated,
                resized,
                false,
            ),
            (
                "by a user",
                world((3, 2), 0),
                "kubectl",
                "replicasets",
                Updated,
                old(0),
                false,
            ),
        ],
    );
}

#[test]
fn a_ready_pod_is_deleted_only_while_enough_others_are_ready() {
    use ChangeKind::Updated;
    let world = |web, pods: &[Value]| {
        let sets = [("replicasets", set("a", 2)), ("replicasets", set("b", 2))];
        let pods = pods.iter().map(|pod| ("pods", pod.clone()));
        std::iter::once(web)
            .chain(sets)
            .chain(pods)
            .collect::<Vec<_>>()
    };
    let one = || rolling(3, json!(1), json!(1));
    let sized = |replicas: &str, pods: &[Value]| {
        let annotations = json!({"deployment.kubernetes.io/desired-replicas": replicas});
        let mut world = world(one(), pods);
        world[1].1 = with(set("a", 2), "/metadata/annotations", annotations);
        world
    };
    let none = || rolling(3, json!(0), json!("10%"));
    let p = pod("p", "a");
    let q = pod("q", "b");
    let r = pod("r", "b");
    check(
        MIN_AVAILABLE,
        [
            (
                "leaves one of two",
                world(one(), &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                true,
            ),
            (
                "leaves two of two",
                world(one(), &[p.clone(), q.clone(), r.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                false,
            ),
            (
                "an unready pod does not count",
                world(one(), &[p.clone(), q.clone(), unready(r.clone())]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                true,
            ),
            (
                "was not ready itself",
                world(one(), &[unready(p.clone())]),
                SETS,
                "pods",
                Updated,
                terminating(unready(p.clone())),
                false,
            ),
            (
                "one pod may be unavailable if both limits round to zero",
                world(none(), &[p.clone(), q.clone(), r]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                false,
            ),
            (
                "two pods may not",
                world(none(), &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                true,
            ),
            (
                "resized for fewer replicas",
                sized("2", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                false,
            ),
            (
                "resized for the same replicas",
                sized("3", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                true,
            ),
            (
                "resized for more replicas",
                sized("9", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Updated,
                terminating(p.clone()),
                true,
            ),
            (
                "by a user",
                world(one(), std::slice::from_ref(&p)),
                "kubectl",
                "pods",
                Updated,
                terminating(p.clone()),
                false,
            ),
            (
                "Recreate has no minimum",
                world(recreating(), std::slice::from_ref(&p)),
                SETS,
                "pods",
                Updated,
                terminating(p),
                false,
            ),
        ],
    );
}

#[test]
fn recreate_creates_new_pods_after_the_last_old_one_is_gone() {
    use ChangeKind::Created;
    let world = |web, old: &[Value]| {
        let sets = [("replicasets", set("a", 0)), ("replicasets", set("b", 1))];
        let old = old.iter().map(|pod| ("pods", pod.clone()));
        std::iter::once(web)
            .chain(sets)
            .chain(old)
            .collect::<Vec<_>>()
    };
    let old = pod("p", "a");
    let new = pod("q", "b");
    let surge = || rolling(1, json!(1), json!(1));
    check(
        RECREATE,
        [
            (
                "beside an old pod",
                world(recreating(), std::slice::from_ref(&old)),
                SETS,
                "pods",
                Created,
                new.clone(),
                true,
            ),
            (
                "beside a terminating old pod",
                world(recreating(), &[terminating(old.clone())]),
                SETS,
                "pods",
                Created,
                new.clone(),
                true,
            ),
            (
                "beside a finished old pod",
                world(recreating(), &[finished(old.clone())]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "without old pods",
                world(recreating(), &[]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "beside a pod of the new template",
                world(recreating(), &[pod("r", "b")]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "with RollingUpdate",
                world(surge(), &[old]),
                SETS,
                "pods",
                Created,
                new,
                false,
            ),
        ],
    );
}
