//! Scenarios of the garbage collector: background, foreground and orphaning deletion.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::{deployment, garbagecollector, replicaset};
use steersman_perturb::rules;
use steersman_perturb::{AllowedError, Scenario, Step};
use steersman_runtime::controller::Descriptor;
use steersman_runtime::owner::OWNER_DELETED;

use crate::objects::{
    BLANK, config_map, count, delete, is_gone, patch, template, until_caches_are_current,
};

const BASE: Scenario = Scenario {
    controller: "garbagecollector",
    controllers: &[garbagecollector::DESCRIPTOR],
    rules: &[rules::LIVE_OWNER, rules::FOREGROUND],
    ..BLANK
};

const WORKLOADS: &[Descriptor] = &[
    garbagecollector::DESCRIPTOR,
    deployment::DESCRIPTOR,
    replicaset::DESCRIPTOR,
];

/// With a stale cache, the Deployment controller tries to adopt ReplicaSets of a deleted Deployment.
/// A live read stops it and logs this error, as upstream's `RecheckDeletionTimestamp` does. The one
/// Deployment is retried after 5 ms, 10 ms and so on, 14 times in 40 s.
const DELETED_OWNER: AllowedError =
    AllowedError::of(Category::Named(OWNER_DELETED), 16).from(deployment::DESCRIPTOR.name);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "background",
            steps: || cascade("Background"),
            ..BASE
        },
        Scenario {
            name: "foreground",
            steps: || cascade("Foreground"),
            ..BASE
        },
        Scenario {
            name: "orphan",
            steps: orphan,
            ..BASE
        },
        Scenario {
            name: "two-owners",
            steps: two_owners,
            ..BASE
        },
        Scenario {
            name: "absent-owner",
            steps: absent_owner,
            ..BASE
        },
        Scenario {
            name: "held-dependent",
            steps: held_dependent,
            ..BASE
        },
        Scenario {
            name: "deployment",
            controllers: WORKLOADS,
            nodes: 1,
            steps: whole_deployment,
            ..BASE
        },
        Scenario {
            name: "orphan-deployment",
            controllers: WORKLOADS,
            nodes: 1,
            errors: &[DELETED_OWNER],
            rules: &[
                rules::LIVE_OWNER,
                rules::NO_SURPLUS,
                rules::NO_SHORTAGE,
                rules::SURGE,
            ],
            steps: orphan_deployment,
            ..BASE
        },
    ]
}

/// A fixed UID for each name. The server draws UIDs, so owners are loaded with a UID that their
/// dependents can refer to.
fn uid(name: &str) -> String {
    format!(
        "00000000-0000-4000-8000-{:012x}",
        name.bytes()
            .fold(0_u64, |sum, byte| sum * 256 + u64::from(byte))
    )
}

fn named(name: &str) -> Step {
    let mut map = config_map(name);
    map["metadata"]["uid"] = json!(uid(name));
    map["metadata"]["namespace"] = json!("default");
    Step::Load(map)
}

fn reference(owner: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid(owner), "blockOwnerDeletion": true})
}

fn owned(name: &str, owners: &[&str]) -> Step {
    let mut map = config_map(name);
    map["metadata"]["uid"] = json!(uid(name));
    map["metadata"]["namespace"] = json!("default");
    map["metadata"]["ownerReferences"] = owners.iter().map(|owner| reference(owner)).collect();
    Step::Load(map)
}

fn delete_map(name: &str, policy: &str) -> Step {
    delete("configmaps", name, json!({ "propagationPolicy": policy }))
}

fn left(maps: usize) -> Step {
    Step::until("only the other ConfigMaps left", move |state| {
        count(state, "configmaps") == maps
    })
}

/// Waits until the garbage collector has the objects in its graph.
fn until_graph_is_current() -> Step {
    Step::Sleep(Duration::from_secs(5))
}

/// `a` owns `b` and `c`, `b` owns `d`, and `d` owns `e`. Only `f` has no owner and stays.
fn cascade(policy: &str) -> Vec<Step> {
    let mut steps = vec![named("a"), named("f")];
    steps.extend(
        [("b", "a"), ("c", "a"), ("d", "b"), ("e", "d")].map(|(name, owner)| owned(name, &[owner])),
    );
    steps.extend([until_graph_is_current(), delete_map("a", policy), left(1)]);
    steps
}

/// Orphaning deletion removes the references of direct dependents, and all of them stay.
fn orphan() -> Vec<Step> {
    let has_no_owner = |map: &Value| {
        map["metadata"]
            .get("ownerReferences")
            .is_none_or(|owners| owners == &json!([]))
    };
    let orphaned = Step::until("orphaned", move |state| {
        ["default/b", "default/c"]
            .iter()
            .all(|key| state.get("configmaps", key).is_some_and(has_no_owner))
    });
    let begin = vec![
        named("a"),
        owned("b", &["a"]),
        owned("c", &["a"]),
        owned("d", &["c"]),
        until_graph_is_current(),
    ];
    begin
        .into_iter()
        .chain([
            delete_map("a", "Orphan"),
            is_gone("configmaps", "default/a"),
            orphaned,
            until_graph_is_current(),
            left(3),
        ])
        .collect()
}

/// A dependent of two owners loses one reference with the first owner, and is deleted with the
/// second.
fn two_owners() -> Vec<Step> {
    let lost_one = Step::until("with one owner", |state| {
        let map = state.get("configmaps", "default/both");
        map.is_some_and(|map| {
            map["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.len() == 1)
        })
    });
    let begin = vec![
        named("a"),
        named("b"),
        owned("both", &["a", "b"]),
        owned("one", &["a"]),
        until_graph_is_current(),
    ];
    begin
        .into_iter()
        .chain([
            delete_map("a", "Background"),
            lost_one,
            delete_map("b", "Background"),
            left(0),
        ])
        .collect()
}

/// A dependent of an absent owner is deleted, and then its own dependent.
fn absent_owner() -> Vec<Step> {
    vec![
        named("here"),
        owned("kept", &["here"]),
        owned("lost", &["nobody"]),
        owned("next", &["lost"]),
        left(2),
    ]
}

/// A finalizer of a dependent delays the foreground deletion of its owner.
fn held_dependent() -> Vec<Step> {
    let hold = patch(
        "configmaps",
        "b",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    let release = patch("configmaps", "b", json!({"metadata": {"finalizers": null}}));
    let terminating = Step::until("terminating", |state| {
        state
            .get("configmaps", "default/b")
            .is_some_and(rules::is_terminating)
    });
    let begin = vec![
        named("a"),
        owned("b", &["a"]),
        owned("c", &["b"]),
        hold,
        until_graph_is_current(),
    ];
    begin
        .into_iter()
        .chain([delete_map("a", "Foreground"), terminating, release, left(0)])
        .collect()
}

fn web() -> Step {
    Step::Create(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    }))
}

fn two_run() -> Step {
    Step::until("two pods ready", |state| {
        state.all("pods").filter(|pod| rules::is_ready(pod)).count() == 2
    })
}

/// Foreground deletion of a Deployment while its controllers run.
fn whole_deployment() -> Vec<Step> {
    let gone = Step::until("gone", |state| {
        ["deployments", "replicasets", "pods"]
            .iter()
            .all(|plural| count(state, plural) == 0)
    });
    vec![
        web(),
        two_run(),
        until_graph_is_current(),
        delete(
            "deployments",
            "web",
            json!({"propagationPolicy": "Foreground"}),
        ),
        gone,
    ]
}

/// The Deployment is deleted and orphans its ReplicaSet, which keeps its pods. The next Deployment
/// of its name adopts the ReplicaSet unchanged.
fn orphan_deployment() -> Vec<Step> {
    let orphan = delete("deployments", "web", json!({"propagationPolicy": "Orphan"}));
    let owners = |set: &Value| {
        set["metadata"]["ownerReferences"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let orphaned = Step::until("orphaned", move |state| {
        count(state, "deployments") == 0
            && count(state, "replicasets") == 1
            && state.all("replicasets").all(|set| owners(set) == 0)
    });
    let adopted = Step::until("adopted", move |state| {
        state.all("replicasets").all(|set| owners(set) == 1)
    });
    vec![
        web(),
        two_run(),
        until_caches_are_current(),
        orphan,
        orphaned,
        until_caches_are_current(),
        web(),
        adopted,
        two_run(),
    ]
}
