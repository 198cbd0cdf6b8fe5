//! Each rule with changes that break it, and with similar changes that keep it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::history::key_of;

const DEPLOYMENT: &str = "deployment-controller";
const SETS: &str = "replicaset-controller";
const COLLECTOR: &str = "generic-garbage-collector";
const POD_COLLECTOR: &str = "pod-garbage-collector";

/// One change: reason, existing objects, identity of the client, resource, kind of change, object,
/// and whether the change breaks the rule.
type Case = (
    &'static str,
    Vec<(&'static str, Value)>,
    &'static str,
    &'static str,
    ChangeKind,
    Value,
    bool,
);

fn put(state: &mut State, plural: &str, kind: ChangeKind, object: Value, by: &str) -> Change {
    put_at(0, state, plural, kind, object, by)
}

fn put_at(
    second: i64,
    state: &mut State,
    plural: &str,
    kind: ChangeKind,
    object: Value,
    by: &str,
) -> Change {
    let key = key_of(&object);
    let change = Change {
        revision: 1,
        at: Timestamp::from_second(second).unwrap(),
        plural: Arc::from(plural),
        kind,
        before: state.get(plural, &key).cloned().map(Arc::new),
        key: Arc::from(key),
        object: Arc::new(object),
        by: format!("kube-controller-manager/v1.36.2 (instance-1) kubernetes/0000000/{by}"),
    };
    state.apply(&change);
    change
}

fn check(rule: Rule, cases: impl IntoIterator<Item = Case>) {
    for (why, world, by, plural, kind, object, breaks) in cases {
        let mut state = State::default();
        for (plural, object) in world {
            put(&mut state, plural, ChangeKind::Created, object, "");
        }
        let change = put(&mut state, plural, kind, object, by);
        let verdict = (rule.check)(&state, &change);
        assert_eq!(
            verdict.is_err(),
            breaks,
            "{}: {why}: {verdict:?}",
            rule.name
        );
    }
}

fn object(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec})
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a path to a field");
    let parent = if parent.is_empty() {
        Some(&mut object)
    } else {
        object.pointer_mut(parent)
    };
    parent.expect("the parent of the field exists")[field] = value;
    object
}

fn terminating(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    )
}

fn owned(object: Value, kind: &str, owner: &str) -> Value {
    with(
        object,
        "/metadata/ownerReferences",
        json!([{"kind": kind, "name": owner, "uid": owner, "controller": true}]),
    )
}

fn rolling(replicas: usize, surge: Value, unavailable: Value) -> (&'static str, Value) {
    let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    (
        "deployments",
        object("web", json!({"replicas": replicas, "strategy": strategy})),
    )
}

fn recreating() -> (&'static str, Value) {
    (
        "deployments",
        object(
            "web",
            json!({"replicas": 1, "strategy": {"type": "Recreate"}}),
        ),
    )
}

/// A ReplicaSet of `web`. Its name is also its pod template hash.
fn set(name: &'static str, replicas: usize) -> Value {
    let set = owned(
        object(name, json!({ "replicas": replicas })),
        "Deployment",
        "web",
    );
    with(set, "/metadata/labels", json!({"pod-template-hash": name}))
}

fn pod(name: &str, owner: &str) -> Value {
    let pod = owned(
        object(name, json!({"nodeName": "one"})),
        "ReplicaSet",
        owner,
    );
    let pod = with(pod, "/metadata/labels", json!({"pod-template-hash": owner}));
    with(
        pod,
        "/status",
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    )
}

fn finished(pod: Value) -> Value {
    with(pod, "/status", json!({"phase": "Succeeded"}))
}

fn unready(pod: Value) -> Value {
    with(pod, "/status", json!({"phase": "Running"}))
}

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
    let (p, q, r) = (pod("p", "a"), pod("q", "a"), pod("r", "a"));
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
    let (p, q, r) = (pod("p", "a"), pod("q", "a"), pod("r", "a"));
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
    let (old, new) = (
        |replicas| revised(set("a", replicas), "1", "4"),
        |replicas| revised(set("b", replicas), "2", "4"),
    );
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
    let (p, q, r) = (pod("p", "a"), pod("q", "b"), pod("r", "b"));
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
    let (old, new) = (pod("p", "a"), pod("q", "b"));
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

#[test]
fn a_dependent_of_a_live_owner_is_not_collected() {
    use ChangeKind::{Deleted, Updated};
    let of = |owner: &str| owned(object("b", json!({})), "ConfigMap", owner);
    let world = |owner: Value| vec![("configmaps", owner), ("configmaps", of("a"))];
    let a = || object("a", json!({}));
    check(
        LIVE_OWNER,
        [
            (
                "is removed",
                world(a()),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                true,
            ),
            (
                "gets a deletion timestamp",
                world(a()),
                COLLECTOR,
                "configmaps",
                Updated,
                terminating(of("a")),
                true,
            ),
            (
                "loses a finalizer",
                world(a()),
                COLLECTOR,
                "configmaps",
                Updated,
                of("a"),
                false,
            ),
            (
                "its owner is terminating",
                world(terminating(a())),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "its owner is gone",
                vec![("configmaps", of("a"))],
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "another object has the name of the owner",
                world(with(a(), "/metadata/uid", json!("z"))),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
            (
                "by a user",
                world(a()),
                "kubectl",
                "configmaps",
                Deleted,
                of("a"),
                false,
            ),
        ],
    );
}

#[test]
fn foreground_deletion_removes_an_owner_after_its_dependents() {
    use ChangeKind::{Deleted, Updated};
    let waiting = || {
        with(
            terminating(object("a", json!({}))),
            "/metadata/finalizers",
            json!(["foregroundDeletion"]),
        )
    };
    let held = || {
        with(
            waiting(),
            "/metadata/finalizers",
            json!(["foregroundDeletion", "example.com/hold"]),
        )
    };
    let without = || {
        with(
            terminating(object("a", json!({}))),
            "/metadata/finalizers",
            json!(["example.com/hold"]),
        )
    };
    let of = |blocks: bool| {
        with(
            owned(object("b", json!({})), "ConfigMap", "a"),
            "/metadata/ownerReferences/0/blockOwnerDeletion",
            json!(blocks),
        )
    };
    let world =
        |owner: Value, blocks: bool| vec![("configmaps", owner), ("configmaps", of(blocks))];
    check(
        FOREGROUND,
        [
            (
                "is removed",
                world(waiting(), true),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                true,
            ),
            (
                "loses the finalizer foregroundDeletion",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Updated,
                without(),
                true,
            ),
            (
                "loses another finalizer",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Updated,
                waiting(),
                false,
            ),
            (
                "its dependent does not block",
                world(waiting(), false),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "its dependents are gone",
                vec![("configmaps", waiting())],
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "has only another finalizer",
                world(without(), true),
                COLLECTOR,
                "configmaps",
                Deleted,
                without(),
                false,
            ),
            (
                "by a user",
                world(waiting(), true),
                "kubectl",
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
        ],
    );
}

#[test]
fn a_namespace_is_removed_after_its_content() {
    use ChangeKind::{Deleted, Updated};
    let shop = || json!({"metadata": {"name": "shop"}});
    let inside = json!({"metadata": {"name": "a", "namespace": "shop"}});
    let elsewhere = ("configmaps", object("a", json!({})));
    let full = || vec![("namespaces", shop()), ("configmaps", inside.clone())];
    check(
        EMPTY_NAMESPACE,
        [
            (
                "with content",
                full(),
                "",
                "namespaces",
                Deleted,
                shop(),
                true,
            ),
            (
                "gets a deletion timestamp",
                full(),
                "",
                "namespaces",
                Updated,
                terminating(shop()),
                false,
            ),
            (
                "empty",
                vec![("namespaces", shop()), elsewhere],
                "",
                "namespaces",
                Deleted,
                shop(),
                false,
            ),
        ],
    );
}

#[test]
fn a_running_pod_of_an_existing_node_stays() {
    use ChangeKind::{Deleted, Updated};
    let node = |spec: Value| ("nodes", json!({"metadata": {"name": "one"}, "spec": spec}));
    let p = || pod("p", "a");
    let on = |node: (&'static str, Value), pod: Value| vec![node, ("pods", pod)];
    let taint = json!({"taints": [{"key": "node.kubernetes.io/out-of-service"}]});
    let other = json!({"taints": [{"key": "node.kubernetes.io/unreachable"}]});
    check(
        LIVE_NODE,
        [
            (
                "running pod is removed",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "running pod gets a deletion timestamp",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                terminating(p()),
                true,
            ),
            (
                "running pod gets a final phase",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                finished(p()),
                true,
            ),
            (
                "node has another taint",
                on(node(other), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "node is out of service",
                on(node(taint), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                false,
            ),
            (
                "only conditions change",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                unready(p()),
                false,
            ),
            (
                "finished pod",
                on(node(json!({})), finished(p())),
                POD_COLLECTOR,
                "pods",
                Deleted,
                finished(p()),
                false,
            ),
            (
                "its node is gone",
                vec![("pods", p())],
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                false,
            ),
            (
                "by a user",
                on(node(json!({})), p()),
                "kubectl",
                "pods",
                Deleted,
                p(),
                false,
            ),
        ],
    );
}
