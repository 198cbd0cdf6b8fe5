//! Tests of the graph, with the cases of upstream's `graph_builder_test.go` and `dump_test.go`.

use std::sync::Arc;

use steersman_objects::{CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use super::coordinates::Coordinates;
use super::dump::{Picture, asked_for};
use super::graph::{Effects, Graph, NodeKey, Seen};

/// An owner reference to an object of `v1`.
fn reference(kind: &str, name: &str, uid: &str, blocks: bool) -> OwnerReference {
    let api_version = "v1".into();
    let controller = false;
    OwnerReference {
        api_version,
        kind: kind.into(),
        name: name.into(),
        uid: Uid::new(uid),
        controller,
        block_owner_deletion: blocks,
    }
}

/// Metadata of an object with its UID as name.
fn meta(namespace: &str, uid: &str, owners: &[OwnerReference]) -> Meta {
    Meta {
        namespace: namespace.into(),
        name: Arc::from(uid),
        uid: Uid::new(uid),
        resource_version: 1,
        generation: 0,
        created: None,
        deleted: None,
        labels: Labels::default(),
        owners: Owners::new(owners),
        finalizers: CollectorFinalizers::default(),
    }
}

fn deleting(mut meta: Meta, finalizers: &[&str]) -> Meta {
    meta.deleted = Some(jiff::Timestamp::UNIX_EPOCH.into());
    meta.finalizers = CollectorFinalizers::among(finalizers.iter().copied());
    meta
}

fn coordinates(kind: &str, namespace: &str, name: &str, uid: &str) -> Coordinates {
    let kind = kind.into();
    let api_version = "v1".into();
    let namespace = namespace.into();
    Coordinates {
        kind,
        api_version,
        namespace,
        name: Arc::from(name),
        uid: Uid::new(uid),
    }
}

/// A graph of which every observed object is a Pod.
#[derive(Default)]
struct TestGraph(Graph);

fn uids(keys: &[NodeKey]) -> Vec<String> {
    let mut uids: Vec<String> = keys.iter().map(|key| key.uid.to_string()).collect();
    uids.sort();
    uids.dedup();
    uids
}

impl TestGraph {
    fn observe(&mut self, meta: &Meta) -> Effects {
        self.update(None, meta)
    }

    fn update(&mut self, old: Option<&Meta>, new: &Meta) -> Effects {
        self.0.observe(
            Seen {
                api_version: &Sym::new("v1"),
                kind: &Sym::new("Pod"),
                meta: new,
            },
            old,
        )
    }

    fn remove(&mut self, meta: &Meta) -> Effects {
        self.0.removed(Seen {
            api_version: &Sym::new("v1"),
            kind: &Sym::new("Pod"),
            meta,
        })
    }

    /// UIDs of all nodes, virtual ones in brackets.
    fn nodes(&self) -> Vec<String> {
        let shown = |uid: &Uid, is_virtual| {
            if is_virtual {
                format!("({uid})")
            } else {
                uid.to_string()
            }
        };
        let mut nodes: Vec<String> = self
            .0
            .iter()
            .map(|(n, ..)| shown(&n.coordinates.uid, n.is_virtual))
            .collect();
        nodes.sort();
        nodes
    }

    fn coordinates_of(&self, uid: &str) -> Option<Coordinates> {
        self.0
            .iter()
            .map(|(node, ..)| node.coordinates)
            .find(|c| c.uid == Uid::new(uid))
    }
}

#[test]
fn a_virtual_owner_lasts_until_it_is_observed_or_its_last_reference_is_removed() {
    let mut graph = TestGraph::default();
    let child = meta("a", "child", &[reference("Pod", "owner", "owner", false)]);
    assert_eq!(uids(&graph.observe(&child).delete), ["owner"]);
    assert_eq!(graph.nodes(), ["(owner)", "child"]);
    assert_eq!(
        graph.observe(&meta("a", "owner", &[])),
        Effects::default(),
        "the owner matches the reference"
    );
    assert_eq!(graph.nodes(), ["child", "owner"]);

    let mut graph = TestGraph::default();
    graph.observe(&child);
    graph.update(Some(&child), &meta("a", "child", &[]));
    assert_eq!(graph.nodes(), ["child"]);
    graph.observe(&child);
    graph.remove(&child);
    assert_eq!(graph.nodes(), Vec::<String>::new());
}

#[test]
fn dependents_with_wrong_references_are_enqueued_in_either_order_of_events() {
    // (why, namespace of the dependent, its reference, enqueued, gets an Event)
    let cases = [
        (
            "correct",
            "a",
            reference("Pod", "owner", "owner", true),
            false,
            false,
        ),
        (
            "wrong name",
            "a",
            reference("Pod", "other", "owner", true),
            true,
            false,
        ),
        (
            "wrong kind",
            "a",
            reference("Node", "owner", "owner", true),
            true,
            false,
        ),
        (
            "wrong namespace",
            "b",
            reference("Pod", "owner", "owner", true),
            true,
            true,
        ),
        (
            "cluster-scoped",
            "",
            reference("Pod", "owner", "owner", true),
            true,
            true,
        ),
    ];
    for (why, namespace, reference, enqueued, gets_event) in cases {
        let owner = meta("a", "owner", &[]);
        let child = meta(namespace, "child", std::slice::from_ref(&reference));
        let expected: &[&str] = if enqueued { &["child"] } else { &[] };
        let events: Vec<_> = gets_event
            .then(|| (coordinates("Pod", namespace, "child", "child"), reference))
            .into_iter()
            .collect();
        for owner_first in [true, false] {
            let mut graph = TestGraph::default();
            graph.observe(if owner_first { &owner } else { &child });
            let effects = graph.observe(if owner_first { &child } else { &owner });
            assert_eq!(
                (uids(&effects.delete), &effects.out_of_reach),
                (expected.iter().map(|s| (*s).to_owned()).collect(), &events),
                "{why}, owner first: {owner_first}"
            );
        }
    }
}

#[test]
fn a_deletion_enqueues_dependents_and_waiting_owners() {
    let mut graph = TestGraph::default();
    let owner = meta("a", "owner", &[]);
    let middle = meta("a", "middle", &[reference("Pod", "owner", "owner", true)]);
    let leaf = meta("a", "leaf", &[reference("Pod", "middle", "middle", false)]);
    [&owner, &middle, &leaf]
        .into_iter()
        .for_each(|meta| drop(graph.observe(meta)));
    assert_eq!(
        uids(
            &graph
                .update(
                    Some(&owner),
                    &deleting(owner.clone(), &["foregroundDeletion"])
                )
                .delete
        ),
        ["middle", "owner"]
    );
    let effects = graph.remove(&middle);
    assert_eq!(uids(&effects.delete), ["leaf", "owner"]);
    assert!(
        graph
            .0
            .absent
            .contains(&coordinates("Pod", "a", "middle", "middle"))
    );
    assert_eq!(
        graph.remove(&leaf),
        Effects::default(),
        "no waiting owner and no dependents"
    );
    assert_eq!(graph.nodes(), ["owner"]);
}

#[test]
fn only_the_start_of_a_deletion_enqueues_the_object() {
    let alive = meta("a", "x", &[]);
    let plain = deleting(alive.clone(), &[]);
    let foreground = deleting(alive.clone(), &["foregroundDeletion"]);
    let orphan = deleting(alive.clone(), &["orphan"]);
    let mut marked = alive.clone();
    marked.finalizers = foreground.finalizers;
    // (old, new, enqueued for deletion, enqueued for orphaning)
    let cases = [
        (None, &alive, false, false),
        (None, &marked, false, false),
        (None, &plain, false, false),
        (None, &foreground, true, false),
        (None, &orphan, false, true),
        (Some(&alive), &foreground, true, false),
        (Some(&marked), &foreground, true, false),
        (Some(&plain), &foreground, true, false),
        (Some(&foreground), &foreground, false, false),
        (Some(&foreground), &orphan, false, true),
        (Some(&orphan), &orphan, false, false),
    ];
    for (at, (old, new, deleted, orphaned)) in cases.into_iter().enumerate() {
        let effects = TestGraph::default().update(old, new);
        assert_eq!(
            (!effects.delete.is_empty(), !effects.orphan.is_empty()),
            (deleted, orphaned),
            "case {at}"
        );
    }
}

#[test]
fn an_owner_first_observed_during_its_deletion_waits_for_its_dependents() {
    let owner = deleting(meta("a", "owner", &[]), &["foregroundDeletion"]);
    let child = meta("a", "child", &[reference("Pod", "owner", "owner", true)]);
    let mut graph = TestGraph::default();
    assert_eq!(
        graph.update(Some(&owner), &owner),
        Effects::default(),
        "the deletion began before"
    );
    graph.observe(&child);
    assert_eq!(uids(&graph.remove(&child).delete), ["owner"]);
}

#[test]
fn further_references_to_the_same_uid_are_checked() {
    let right = reference("Pod", "owner", "owner", true);
    let wrong = reference("Pod", "other", "owner", true);
    // (before, after, enqueued)
    let cases: [(&[OwnerReference], &[OwnerReference], &[&str]); 4] = [
        (
            std::slice::from_ref(&right),
            &[right.clone(), wrong.clone()],
            &["child"],
        ),
        (
            std::slice::from_ref(&right),
            &[right.clone(), right.clone()],
            &[],
        ),
        (
            &[right.clone(), wrong.clone()],
            std::slice::from_ref(&right),
            &[],
        ),
        (&[right.clone(), wrong.clone()], &[], &["owner"]),
    ];
    for (before, after, enqueued) in cases {
        let mut graph = TestGraph::default();
        graph.observe(&meta("a", "owner", &[]));
        let old = meta("a", "child", before);
        graph.observe(&old);
        let effects = graph.update(Some(&old), &meta("a", "child", after));
        assert_eq!(uids(&effects.delete), enqueued, "{before:?} -> {after:?}");
        assert_eq!(
            graph.0.about_dependents(&Uid::new("owner")).0,
            !after.is_empty()
        );
    }
}

#[test]
fn an_owner_is_enqueued_when_a_reference_no_longer_blocks_it() {
    let blocking = || reference("Pod", "owner", "owner", true);
    let not_blocking = || reference("Pod", "owner", "owner", false);
    // (before, after, owner is enqueued)
    let cases: [(&[OwnerReference], &[OwnerReference], bool); 6] = [
        (&[blocking()], &[], true),
        (&[blocking()], &[not_blocking()], true),
        (&[not_blocking()], &[], false),
        (&[not_blocking()], &[blocking()], false),
        (&[blocking()], &[blocking()], false),
        (&[], &[blocking()], false),
    ];
    for (before, after, enqueued) in cases {
        let mut graph = TestGraph::default();
        graph.observe(&meta("a", "owner", &[]));
        let old = meta("a", "child", before);
        graph.observe(&old);
        let effects = graph.update(Some(&old), &meta("a", "child", after));
        assert_eq!(
            uids(&effects.delete) == ["owner"],
            enqueued,
            "{before:?} -> {after:?}"
        );
        let owner = graph
            .0
            .iter()
            .map(|(node, ..)| node.key)
            .find(|key| key.uid == Uid::new("owner"))
            .unwrap();
        let blocked = after.iter().any(|reference| reference.block_owner_deletion);
        assert_eq!(
            graph.0.blocking_dependents(&owner).len(),
            usize::from(blocked)
        );
    }
}

#[test]
fn a_virtual_owner_takes_each_identity_of_its_references_in_turn() {
    let mut graph = TestGraph::default();
    for (child, namespace, kind) in [
        ("1", "a", "B"),
        ("2", "a", "A"),
        ("3", "b", "B"),
        ("4", "a", "C"),
    ] {
        graph.observe(&meta(
            namespace,
            child,
            &[reference(kind, "x", "owner", true)],
        ));
    }
    assert_eq!(
        graph.coordinates_of("owner"),
        Some(coordinates("B", "a", "x", "owner")),
        "the identity of the first reference"
    );
    // (proven absent, enqueued dependent, next identity)
    let rounds = [
        (("B", "a"), "1", ("B", "b")),
        (("B", "b"), "3", ("C", "a")),
        (("C", "a"), "4", ("A", "a")),
        (("A", "a"), "2", ("B", "a")),
    ];
    for ((kind, namespace), enqueued, (next_kind, next_namespace)) in rounds {
        let effects = graph
            .0
            .proven_absent(&coordinates(kind, namespace, "x", "owner"));
        assert_eq!(
            (uids(&effects.delete), uids(&effects.delete_later)),
            (vec![enqueued.to_owned()], vec!["owner".to_owned()])
        );
        assert_eq!(
            graph.coordinates_of("owner"),
            Some(coordinates(next_kind, next_namespace, "x", "owner"))
        );
    }
}

#[test]
fn an_identity_of_a_cluster_scoped_type_has_no_namespace() {
    let mut graph = TestGraph::default();
    graph.observe(&meta("", "1", &[reference("Node", "x", "owner", true)]));
    graph.observe(&meta("a", "2", &[reference("Node", "y", "owner", true)]));
    graph
        .0
        .proven_absent(&coordinates("Node", "", "x", "owner"));
    assert_eq!(
        graph.coordinates_of("owner"),
        Some(coordinates("Node", "", "y", "owner"))
    );
}

#[test]
fn a_proof_of_absence_removes_only_a_node_with_these_coordinates() {
    let good = meta("a", "good", &[reference("Pod", "owner", "owner", true)]);
    let bad = meta("a", "bad", &[reference("Pod", "other", "owner", true)]);
    // (why, owner was observed, dependents, name proven absent, enqueued, nodes afterwards)
    let cases: [(&str, bool, &[&Meta], &str, &[&str], &[&str]); 5] = [
        (
            "virtual, all references match",
            false,
            &[&good],
            "owner",
            &["good"],
            &["good"],
        ),
        (
            "virtual, another reference remains",
            false,
            &[&good, &bad],
            "owner",
            &["good"],
            &["(owner)", "bad", "good"],
        ),
        (
            "virtual, absence of other coordinates",
            false,
            &[&good, &bad],
            "other",
            &["bad"],
            &["(owner)", "bad", "good"],
        ),
        (
            "observed, absence of other coordinates",
            true,
            &[&good, &bad],
            "other",
            &["bad"],
            &["bad", "good", "owner"],
        ),
        ("observed", true, &[&good], "owner", &["good"], &["good"]),
    ];
    for (why, observed, dependents, absent, enqueued, nodes) in cases {
        let mut graph = TestGraph::default();
        dependents.iter().for_each(|meta| drop(graph.observe(meta)));
        if observed {
            graph.observe(&meta("a", "owner", &[]));
        }
        let effects = graph
            .0
            .proven_absent(&coordinates("Pod", "a", absent, "owner"));
        assert_eq!(uids(&effects.delete), enqueued, "{why}");
        assert_eq!(graph.nodes(), nodes, "{why}");
        assert!(
            graph
                .0
                .absent
                .contains(&coordinates("Pod", "a", absent, "owner")),
            "{why}"
        );
    }
}

#[test]
fn an_object_may_own_itself_and_slots_are_reused() {
    let mut graph = TestGraph::default();
    let own = meta("a", "x", &[reference("Pod", "x", "x", true)]);
    graph.observe(&own);
    assert_eq!(graph.nodes(), ["x"]);
    assert_eq!(graph.remove(&own), Effects::default());
    graph.observe(&meta("a", "y", &[reference("Pod", "z", "z", true)]));
    assert_eq!(graph.nodes(), ["(z)", "y"]);
}

#[test]
fn memory_follows_the_number_of_nodes() {
    let mut graph = TestGraph::default();
    graph.observe(&meta("ns1", "first", &[]));
    let owned: Vec<Meta> = (0..1000)
        .map(|number| {
            meta(
                "ns1",
                &format!("pod-{number}"),
                &[reference("Pod", "first", "first", true)],
            )
        })
        .collect();
    for round in 0..3 {
        owned.iter().for_each(|pod| drop(graph.observe(pod)));
        assert!(graph.0.capacity() >= 1001, "round {round}");
        owned.iter().for_each(|pod| drop(graph.remove(pod)));
        assert_eq!(graph.nodes(), ["first"], "round {round}");
        assert!(
            graph.0.capacity() < 256,
            "round {round}: {}",
            graph.0.capacity()
        );
    }
}

#[test]
fn the_dot_page_equals_upstreams() {
    let mut graph = TestGraph::default();
    graph.observe(&deleting(meta("a", "owner", &[]), &["foregroundDeletion"]));
    graph.observe(&meta(
        "a",
        "child",
        &[reference("Pod", "owner", "owner", true)],
    ));
    graph.observe(&meta(
        "a",
        "other",
        &[reference("Pod", "gone", "gone", true)],
    ));
    graph.observe(&meta("a", "alone", &[]));
    let expected = r#"strict digraph full {
  // Node definitions.
  "child" [
    label="uid=child\nnamespace=a\nPod.v1/child\n"
    group=""
    version="v1"
    kind="Pod"
    namespace="a"
    name="child"
    uid="child"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  "owner" [
    label="uid=owner\nnamespace=a\nPod.v1/owner\nbeingDeleted,deletingDependents\n"
    group=""
    version="v1"
    kind="Pod"
    namespace="a"
    name="owner"
    uid="owner"
    missing="false"
    beingDeleted="true"
    deletingDependents="true"
    virtual="false"
  ];
  // Edge definitions.
  "child" -> "owner";
}
"#;
    assert_eq!(
        Picture::of(&graph.0, &[Uid::new("child")]).to_string(),
        expected
    );
    assert_eq!(
        Picture::of(&graph.0, &[Uid::new("unknown")]).to_string(),
        "strict digraph full {\n}\n"
    );
    let all = Picture::of(&graph.0, &[]).to_string();
    assert!(
        all.contains("Pod.v1/gone\\nvirtual\\n") && !all.contains("alone"),
        "{all}"
    );
}

#[test]
fn an_observed_object_is_removed_from_the_absent_owners() {
    let mut graph = TestGraph::default();
    let owner = meta("a", "owner", &[]);
    [
        &owner,
        &meta("a", "leaf", &[reference("Pod", "owner", "owner", true)]),
    ]
    .into_iter()
    .for_each(|meta| drop(graph.observe(meta)));
    graph.remove(&owner);
    assert!(
        graph
            .0
            .absent
            .contains(&coordinates("Pod", "a", "owner", "owner"))
    );
    graph.observe(&owner);
    assert!(
        !graph
            .0
            .absent
            .contains(&coordinates("Pod", "a", "owner", "owner"))
    );
}

/// Upstream: `TestProcessEvent`.
#[test]
fn owners_and_dependents_agree_after_every_event() {
    enum Event {
        Add(&'static str, &'static [&'static str]),
        Update(&'static str, &'static [&'static str]),
        Delete(&'static str),
    }
    use Event::{Add, Delete, Update};
    let cases: [(&str, &[Event]); 7] = [
        (
            "test1",
            &[Add("1", &[]), Add("2", &["1"]), Add("3", &["1", "2"])],
        ),
        (
            "test2",
            &[
                Add("1", &[]),
                Add("2", &["1"]),
                Add("3", &["1", "2"]),
                Add("4", &["2"]),
                Delete("2"),
            ],
        ),
        (
            "test3",
            &[
                Add("1", &[]),
                Add("2", &["1"]),
                Add("3", &["1", "2"]),
                Add("4", &["3"]),
                Update("2", &["4"]),
            ],
        ),
        (
            "reverse test2",
            &[
                Add("4", &["2"]),
                Add("3", &["1", "2"]),
                Add("2", &["1"]),
                Add("1", &[]),
                Delete("2"),
            ],
        ),
        // Cases of our own: after an etcd restore a removed owner exists again.
        (
            "owner observed again",
            &[
                Add("1", &[]),
                Add("2", &["1"]),
                Add("3", &["1"]),
                Delete("1"),
                Delete("3"),
                Add("1", &[]),
            ],
        ),
        (
            "owner referenced again",
            &[
                Add("1", &[]),
                Add("2", &["1"]),
                Delete("1"),
                Update("4", &["1"]),
                Add("1", &[]),
            ],
        ),
        (
            "reference removed before the owner is observed again",
            &[
                Add("1", &[]),
                Add("2", &["1"]),
                Delete("1"),
                Update("2", &[]),
                Add("1", &[]),
            ],
        ),
    ];
    let owned = |uid: &str, owners: &[&str]| {
        let references: Vec<OwnerReference> = owners
            .iter()
            .map(|owner| reference("Pod", owner, owner, false))
            .collect();
        meta("a", uid, &references)
    };
    for (name, events) in cases {
        let mut graph = TestGraph::default();
        for event in events {
            match event {
                Add(uid, owners) => drop(graph.observe(&owned(uid, owners))),
                Update(uid, owners) => {
                    drop(graph.update(Some(&owned(uid, &[])), &owned(uid, owners)))
                }
                Delete(uid) => drop(graph.remove(&owned(uid, &["doesn't matter"]))),
            }
            graph.verify(name);
        }
    }
}

impl TestGraph {
    /// Asserts that the dependents of each node are exactly the nodes that refer to it.
    fn verify(&self, name: &str) {
        for (owner, ..) in self.0.iter() {
            let refer = |owners: &Owners| {
                owners
                    .iter()
                    .any(|reference| reference.uid == owner.coordinates.uid)
            };
            let mut expected: Vec<NodeKey> = self
                .0
                .iter()
                .filter(|(_, owners, _)| refer(owners))
                .map(|(node, ..)| node.key)
                .collect();
            let mut dependents: Vec<NodeKey> = self
                .0
                .dependents(&owner.key)
                .into_iter()
                .map(|node| node.key)
                .collect();
            expected.sort_by_key(ToString::to_string);
            dependents.sort_by_key(ToString::to_string);
            assert_eq!(
                dependents, expected,
                "{name}: dependents of {}",
                owner.coordinates
            );
        }
    }
}

/// Upstream: `TestToDOTGraph`, `TestToDOTGraphObj`.
#[test]
fn to_dot_graph() {
    const ALPHA: (&str, &[&str]) = ("alpha", &["bravo", "charlie"]);
    const GOLF: [(&str, &[&str]); 3] = [
        ("delta", &["foxtrot"]),
        ("foxtrot", &["golf"]),
        ("golf", &[]),
    ];
    const FIRST: [&str; 2] = ["alpha-bravo", "alpha-charlie"];
    const SECOND: [&str; 2] = ["delta-foxtrot", "foxtrot-golf"];
    let simple = || vec![ALPHA, ("bravo", &[] as &[&str]), ("charlie", &[])];
    let missing = || vec![ALPHA, ("charlie", &[] as &[&str])];
    let two_chains = || [simple(), GOLF.to_vec()].concat();
    let both = || [FIRST, SECOND].concat();
    // (name, objects with their owners, requested UIDs, edges)
    let cases: Vec<(&str, Vec<(&str, &[&str])>, &[&str], Vec<&str>)> = vec![
        ("simple", simple(), &[], FIRST.to_vec()),
        ("missing", missing(), &[], FIRST.to_vec()),
        (
            "drop-no-ref",
            [simple(), vec![("echo", &[])]].concat(),
            &[],
            FIRST.to_vec(),
        ),
        ("two-chains", two_chains(), &[], both()),
        ("simple", simple(), &["bravo"], FIRST.to_vec()),
        ("missing", missing(), &["bravo"], vec![]),
        (
            "drop-no-ref",
            [simple(), vec![("echo", &[])]].concat(),
            &["echo"],
            vec![],
        ),
        (
            "two-chains-from-owner",
            two_chains(),
            &["golf"],
            SECOND.to_vec(),
        ),
        (
            "two-chains-from-child",
            two_chains(),
            &["delta"],
            SECOND.to_vec(),
        ),
        (
            "two-chains-choose-both",
            two_chains(),
            &["delta", "charlie"],
            both(),
        ),
    ];
    for (name, objects, requested, edges) in cases {
        let mut graph = TestGraph::default();
        for (uid, owners) in &objects {
            let owners: Vec<OwnerReference> = owners
                .iter()
                .map(|owner| reference("Pod", owner, owner, false))
                .collect();
            graph.observe(&meta("a", uid, &owners));
        }
        if name == "missing" {
            // A live read proved the owner absent; its dependents still refer to it.
            graph
                .0
                .proven_absent(&coordinates("Pod", "a", "bravo", "bravo"));
        }
        let picture = Picture::of(
            &graph.0,
            &requested
                .iter()
                .map(|uid| Uid::new(uid))
                .collect::<Vec<_>>(),
        )
        .to_string();
        let shown = |line: &&str| line.contains("->");
        let found: Vec<String> = picture
            .lines()
            .filter(shown)
            .map(|l| l.trim_matches([' ', ';']).replace("\" -> \"", "-"))
            .collect();
        assert_eq!(
            found,
            edges
                .iter()
                .map(|edge| format!("\"{edge}\""))
                .collect::<Vec<_>>(),
            "{name} {requested:?}"
        );
        let nodes: std::collections::BTreeSet<&str> =
            edges.iter().flat_map(|edge| edge.split('-')).collect();
        assert_eq!(
            picture.matches("\n    uid=").count(),
            nodes.len(),
            "{name} {requested:?}"
        );
        let absent = r#"label="uid=bravo\nnamespace=\nPod.v1/bravo\nmissingFromGraph\n""#;
        assert_eq!(
            picture.contains(absent),
            name == "missing" && requested.is_empty(),
            "{name} {requested:?} {picture}"
        );
    }
}

#[test]
fn a_query_may_have_several_uids() {
    for (query, expected) in [
        ("", &[] as &[&str]),
        ("x=1", &[]),
        ("uid=a&x&uid=b", &["a", "b"]),
        ("uid=", &[""]),
        ("uid", &[""]),
    ] {
        assert_eq!(
            asked_for(query),
            expected.iter().map(|uid| Uid::new(uid)).collect::<Vec<_>>(),
            "{query}"
        );
    }
}

/// Upstream: `TestMarshalDOT`, "escaping.dot".
#[test]
fn names_are_escaped_as_upstream_does() {
    let uid = "ref1-[]\"\\Iñtërnâtiônàlizætiøn,🐹";
    let mut graph = TestGraph::default();
    graph.observe(&meta(
        "ref1ns",
        uid,
        &[reference("ref2kind-", "ref2name-", "ref2-", false)],
    ));
    let picture = Picture::of(&graph.0, &[]).to_string();
    let edge = r#"  "ref1-[]\"\\Iñtërnâtiônàlizætiøn,🐹" -> "ref2-";"#;
    assert!(picture.lines().any(|line| line == edge), "{picture}");
    let label = r#"    label="uid=ref1-[]\"\\Iñtërnâtiônàlizætiøn,🐹\nnamespace=ref1ns\nPod.v1/ref1-[]\"\\Iñtërnâtiônàlizætiøn,🐹\n""#;
    assert!(picture.lines().any(|line| line == label), "{picture}");
    assert_eq!(
        Picture::of(&Graph::default(), &[]).to_string(),
        "strict digraph full {\n}\n",
        "empty.dot"
    );
}
