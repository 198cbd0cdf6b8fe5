//! Each rule with changes that break it, and with similar changes that keep it.

mod accounts;
mod deployment;
mod disruption;
mod garbagecollector;
mod namespace;
mod podgc;
mod replicaset;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use steersman_values::version::GIT_VERSION;

use super::*;
use crate::history::key_of;

const DEPLOYMENT: &str = "deployment-controller";
const SETS: &str = "replicaset-controller";
const COLLECTOR: &str = "generic-garbage-collector";
const POD_COLLECTOR: &str = "pod-garbage-collector";

/// One change: reason, existing objects, identity of the client, resource, kind of change, object,
/// and whether the change breaks the rule.
pub(super) type Case = (
    &'static str,
    Vec<(&'static str, Value)>,
    &'static str,
    &'static str,
    ChangeKind,
    Value,
    bool,
);

pub(super) fn put(
    state: &mut State,
    plural: &str,
    kind: ChangeKind,
    object: Value,
    by: &str,
) -> Change {
    put_at(0, state, plural, kind, object, by)
}

pub(super) fn put_at(
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
        by: format!("kube-controller-manager/{GIT_VERSION} (instance-1) kubernetes/0000000/{by}"),
    };
    state.apply(&change);
    change
}

pub(super) fn check(rule: Rule, cases: impl IntoIterator<Item = Case>) {
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

pub(super) fn object(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec})
}

pub(super) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a path to a field");
    let parent = if parent.is_empty() {
        Some(&mut object)
    } else {
        object.pointer_mut(parent)
    };
    parent.expect("the parent of the field exists")[field] = value;
    object
}

pub(super) fn terminating(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    )
}

pub(super) fn owned(object: Value, kind: &str, owner: &str) -> Value {
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
