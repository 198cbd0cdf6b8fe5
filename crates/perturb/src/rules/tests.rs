//! Each rule against changes that break it, and against those next to them that do not.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::film::key_of;

const DEPLOYMENT: &str = "deployment-controller";
const SETS: &str = "replicaset-controller";
const COLLECTOR: &str = "generic-garbage-collector";
const POD_COLLECTOR: &str = "pod-garbage-collector";

/// One change in a world: what there was, who did what to which object, and whether it breaks the
/// rule.
type Case = (
    &'static str,
    Vec<(&'static str, Value)>,
    &'static str,
    &'static str,
    Happened,
    Value,
    bool,
);

fn put(state: &mut State, plural: &str, happened: Happened, object: Value, by: &str) -> Frame {
    put_at(0, state, plural, happened, object, by)
}

fn put_at(
    second: i64,
    state: &mut State,
    plural: &str,
    happened: Happened,
    object: Value,
    by: &str,
) -> Frame {
    let key = key_of(&object);
    let frame = Frame {
        revision: 1,
        at: Timestamp::from_second(second).unwrap(),
        plural: Arc::from(plural),
        happened,
        before: state.get(plural, &key).cloned().map(Arc::new),
        key: Arc::from(key),
        object: Arc::new(object),
        by: format!("kube-controller-manager/v1.36.2 (instance-1) kubernetes/0000000/{by}"),
    };
    state.apply(&frame);
    frame
}

fn check(rule: Rule, cases: impl IntoIterator<Item = Case>) {
    for (why, world, by, plural, happened, object, breaks) in cases {
        let mut state = State::default();
        for (plural, object) in world {
            put(&mut state, plural, Happened::Created, object, "");
        }
        let frame = put(&mut state, plural, happened, object, by);
        let verdict = (rule.check)(&state, &frame);
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
    parent.expect("what the field is of")[field] = value;
    object
}

fn going(object: Value) -> Value {
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

/// A ReplicaSet of `web`, whose name is its hash, too.
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

/// A set of two with these pods.
fn two(pods: &[Value]) -> Vec<(&'static str, Value)> {
    let pods = pods.iter().map(|pod| ("pods", pod.clone()));
    std::iter::once(("replicasets", set("a", 2)))
        .chain(pods)
        .collect()
}

#[test]
fn one_pod_more_than_asked_for_is_a_surplus() {
    use Happened::{Changed, Created};
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
                "the third of two",
                two(&[p.clone(), q.clone()]),
                SETS,
                "pods",
                Created,
                r.clone(),
                true,
            ),
            (
                "the second of two",
                two(std::slice::from_ref(&p)),
                SETS,
                "pods",
                Created,
                q.clone(),
                false,
            ),
            (
                "in place of one that goes",
                two(&[p.clone(), going(q.clone())]),
                SETS,
                "pods",
                Created,
                r.clone(),
                false,
            ),
            (
                "in place of one that is done",
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
                "no new pod",
                two(&[p, q, r.clone()]),
                SETS,
                "pods",
                Changed,
                r,
                false,
            ),
            (
                "the first of none",
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
fn one_pod_fewer_than_asked_for_is_a_shortage() {
    use Happened::{Changed, Deleted};
    let (p, q, r) = (pod("p", "a"), pod("q", "a"), pod("r", "a"));
    let both = || two(&[p.clone(), q.clone()]);
    let ending = || vec![("replicasets", going(set("a", 2))), ("pods", p.clone())];
    check(
        NO_SHORTAGE,
        [
            (
                "one of two is marked",
                both(),
                SETS,
                "pods",
                Changed,
                going(q.clone()),
                true,
            ),
            (
                "one of two goes at once",
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
                Changed,
                going(q.clone()),
                false,
            ),
            (
                "one that was going",
                two(&[p.clone(), going(q.clone())]),
                SETS,
                "pods",
                Deleted,
                going(q.clone()),
                false,
            ),
            (
                "one that was done",
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
                Changed,
                going(q.clone()),
                false,
            ),
            (
                "of an owner that goes",
                ending(),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                false,
            ),
        ],
    );
}

/// A set is sized anew, and what its controller does after that meets what was asked for until then
/// for two seconds, and no longer.
#[test]
fn what_was_wanted_a_moment_ago_may_still_be_acted_on() {
    use Happened::{Changed, Created, Deleted};
    let of_noted = |size: &str| {
        with(
            set("a", 2),
            "/metadata/annotations",
            json!({"deployment.kubernetes.io/desired-replicas": size}),
        )
    };
    let pods = ["p", "q"].map(|name| pod(name, "a"));
    // (rule, the set before and after, what happens to which pod)
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
            AVAILABLE,
            of_noted("2"),
            of_noted("3"),
            Deleted,
            pods[1].clone(),
        ),
    ];
    for (rule, before, after, happened, touched) in cases {
        let verdict = |later: i64| {
            let mut state = State::default();
            let (plural, web) = rolling(3, json!(1), json!(1));
            put(&mut state, plural, Created, web, "");
            put(&mut state, "replicasets", Created, before.clone(), "");
            pods.iter()
                .for_each(|pod| drop(put(&mut state, "pods", Created, pod.clone(), "")));
            put_at(100, &mut state, "replicasets", Changed, after.clone(), "");
            let frame = put_at(
                100 + later,
                &mut state,
                "pods",
                happened,
                touched.clone(),
                SETS,
            );
            (rule.check)(&state, &frame)
        };
        assert_eq!(verdict(2), Ok(()), "{}", rule.name);
        assert!(verdict(3).is_err(), "{}", rule.name);
    }
}

#[test]
fn a_rollout_above_its_surge_is_told_from_one_that_shrinks_towards_it() {
    use Happened::{Changed, Created, Deleted};
    let world = |web, old, new| {
        vec![
            web,
            ("replicasets", set("a", old)),
            ("replicasets", set("b", new)),
        ]
    };
    let one = || rolling(4, json!(1), json!(1));
    let share = || rolling(4, json!("25%"), json!(0));
    check(
        SURGE,
        [
            (
                "grows to six of five",
                world(one(), 4, 1),
                DEPLOYMENT,
                "replicasets",
                Changed,
                set("b", 2),
                true,
            ),
            (
                "grows to five of five",
                world(one(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                set("b", 1),
                false,
            ),
            (
                "a quarter of four is one",
                world(share(), 4, 1),
                DEPLOYMENT,
                "replicasets",
                Changed,
                set("b", 2),
                true,
            ),
            (
                "within a quarter",
                world(share(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
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
                Changed,
                set("a", 7),
                false,
            ),
            (
                "stays above",
                world(one(), 8, 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                set("a", 8),
                false,
            ),
            (
                "goes",
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
                Changed,
                set("b", 9),
                false,
            ),
            (
                "no surge to keep",
                world(recreating(), 4, 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                set("b", 9),
                false,
            ),
        ],
    );
}

#[test]
fn old_pods_stay_for_new_ones_that_are_not_available_yet() {
    use Happened::Changed;
    let revised = |set: Value, revision: &str, size: &str| {
        let noted = json!({"deployment.kubernetes.io/revision": revision, "deployment.kubernetes.io/desired-replicas": size});
        with(set, "/metadata/annotations", noted)
    };
    let (old, new) = (
        |replicas| revised(set("a", replicas), "1", "4"),
        |replicas| revised(set("b", replicas), "2", "4"),
    );
    // Three of four stay available.
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
    let shared_out = revised(set("a", 1), "1", "2");
    check(
        HELD_BACK,
        [
            (
                "leaves three",
                world((4, 1), 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                old(3),
                false,
            ),
            (
                "leaves two and none",
                world((3, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                old(2),
                true,
            ),
            (
                "leaves two and one",
                world((3, 2), 1),
                DEPLOYMENT,
                "replicasets",
                Changed,
                old(2),
                false,
            ),
            (
                "all new ones are ready",
                world((1, 4), 4),
                DEPLOYMENT,
                "replicasets",
                Changed,
                old(0),
                false,
            ),
            (
                "the new one shrinks",
                world((1, 4), 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                new(1),
                false,
            ),
            (
                "an old one grows",
                world((1, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                old(2),
                false,
            ),
            (
                "another size is shared out",
                world((3, 2), 0),
                DEPLOYMENT,
                "replicasets",
                Changed,
                shared_out,
                false,
            ),
            (
                "by a user",
                world((3, 2), 0),
                "kubectl",
                "replicasets",
                Changed,
                old(0),
                false,
            ),
        ],
    );
}

#[test]
fn a_ready_pod_goes_only_while_enough_others_are_ready() {
    use Happened::Changed;
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
        let noted = json!({"deployment.kubernetes.io/desired-replicas": replicas});
        let mut world = world(one(), pods);
        world[1].1 = with(set("a", 2), "/metadata/annotations", noted);
        world
    };
    let none = || rolling(3, json!(0), json!("10%"));
    let (p, q, r) = (pod("p", "a"), pod("q", "b"), pod("r", "b"));
    check(
        AVAILABLE,
        [
            (
                "leaves one of two",
                world(one(), &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                true,
            ),
            (
                "leaves two of two",
                world(one(), &[p.clone(), q.clone(), r.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                false,
            ),
            (
                "one that is not ready does not count",
                world(one(), &[p.clone(), q.clone(), unready(r.clone())]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                true,
            ),
            (
                "was not ready itself",
                world(one(), &[unready(p.clone())]),
                SETS,
                "pods",
                Changed,
                going(unready(p.clone())),
                false,
            ),
            (
                "limits that round to nothing let one go",
                world(none(), &[p.clone(), q.clone(), r]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                false,
            ),
            (
                "and not two",
                world(none(), &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                true,
            ),
            (
                "promised to fewer",
                sized("2", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                false,
            ),
            (
                "promised as much",
                sized("3", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                true,
            ),
            (
                "promised to more",
                sized("9", &[p.clone(), q.clone()]),
                SETS,
                "pods",
                Changed,
                going(p.clone()),
                true,
            ),
            (
                "by a user",
                world(one(), std::slice::from_ref(&p)),
                "kubectl",
                "pods",
                Changed,
                going(p.clone()),
                false,
            ),
            (
                "promises nothing",
                world(recreating(), std::slice::from_ref(&p)),
                SETS,
                "pods",
                Changed,
                going(p),
                false,
            ),
        ],
    );
}

#[test]
fn a_pod_of_a_recreated_template_comes_after_the_last_old_one() {
    use Happened::Created;
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
                "beside an old one",
                world(recreating(), std::slice::from_ref(&old)),
                SETS,
                "pods",
                Created,
                new.clone(),
                true,
            ),
            (
                "beside one on its way",
                world(recreating(), &[going(old.clone())]),
                SETS,
                "pods",
                Created,
                new.clone(),
                true,
            ),
            (
                "after one that is done",
                world(recreating(), &[finished(old.clone())]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "after all",
                world(recreating(), &[]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "beside its own kind",
                world(recreating(), &[pod("r", "b")]),
                SETS,
                "pods",
                Created,
                new.clone(),
                false,
            ),
            (
                "while rolling",
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
fn what_an_owner_still_holds_is_not_collected() {
    use Happened::{Changed, Deleted};
    let of = |owner: &str| owned(object("b", json!({})), "ConfigMap", owner);
    let world = |owner: Value| vec![("configmaps", owner), ("configmaps", of("a"))];
    let a = || object("a", json!({}));
    check(
        OWNED,
        [
            (
                "goes",
                world(a()),
                COLLECTOR,
                "configmaps",
                Deleted,
                of("a"),
                true,
            ),
            (
                "is marked",
                world(a()),
                COLLECTOR,
                "configmaps",
                Changed,
                going(of("a")),
                true,
            ),
            (
                "loses a finalizer",
                world(a()),
                COLLECTOR,
                "configmaps",
                Changed,
                of("a"),
                false,
            ),
            (
                "its owner goes",
                world(going(a())),
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
                "another object has the name",
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
fn an_owner_in_the_foreground_goes_after_its_dependents() {
    use Happened::{Changed, Deleted};
    let waiting = || {
        with(
            going(object("a", json!({}))),
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
            going(object("a", json!({}))),
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
        WAITED_FOR,
        [
            (
                "goes",
                world(waiting(), true),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                true,
            ),
            (
                "waits no longer",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Changed,
                without(),
                true,
            ),
            (
                "goes on waiting",
                world(held(), true),
                COLLECTOR,
                "configmaps",
                Changed,
                waiting(),
                false,
            ),
            (
                "nothing blocks it",
                world(waiting(), false),
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "nothing is left",
                vec![("configmaps", waiting())],
                COLLECTOR,
                "configmaps",
                Deleted,
                waiting(),
                false,
            ),
            (
                "waits for something else",
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
fn a_namespace_goes_after_its_content() {
    use Happened::{Changed, Deleted};
    let shop = || json!({"metadata": {"name": "shop"}});
    let inside = json!({"metadata": {"name": "a", "namespace": "shop"}});
    let elsewhere = ("configmaps", object("a", json!({})));
    let full = || vec![("namespaces", shop()), ("configmaps", inside.clone())];
    check(
        EMPTY,
        [
            ("full", full(), "", "namespaces", Deleted, shop(), true),
            (
                "still there",
                full(),
                "",
                "namespaces",
                Changed,
                going(shop()),
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
fn a_running_pod_of_a_node_that_is_there_stays() {
    use Happened::{Changed, Deleted};
    let node = |spec: Value| ("nodes", json!({"metadata": {"name": "one"}, "spec": spec}));
    let p = || pod("p", "a");
    let on = |node: (&'static str, Value), pod: Value| vec![node, ("pods", pod)];
    let taint = json!({"taints": [{"key": "node.kubernetes.io/out-of-service"}]});
    let other = json!({"taints": [{"key": "node.kubernetes.io/unreachable"}]});
    check(
        HOSTED,
        [
            (
                "runs",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "is marked",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Changed,
                going(p()),
                true,
            ),
            (
                "is told to have failed",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Changed,
                finished(p()),
                true,
            ),
            (
                "another taint",
                on(node(other), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "out of service",
                on(node(taint), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                false,
            ),
            (
                "gets a condition",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Changed,
                unready(p()),
                false,
            ),
            (
                "done",
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
