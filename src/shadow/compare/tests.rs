use http::Method;

use super::*;
use crate::shadow::write::tests::write;

const PATH: &str = "/apis/apps/v1/namespaces/n/replicasets/a";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

/// `made`, `stale`, or the paths that differ with both values.
fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Made => "made".to_owned(),
        Outcome::Stale => "stale".to_owned(),
        Outcome::Differs(fields) => {
            let fields = fields
                .iter()
                .map(|(path, f)| format!("{path}: {} -> {}", f.live, f.wanted));
            fields.collect::<Vec<_>>().join("; ")
        }
    }
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn a_put_differs_in_the_fields_that_it_would_change() {
    let live = "{metadata: {uid: u, resourceVersion: '7', labels: {a: b}, managedFields: [{}]}, spec: {replicas: 2}, \
                status: {replicas: 2, conditions: [{type: A, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}, {status: 'True', type: B}]}}";
    // (why, subresource, body, outcome)
    let cases = [
        (
            "the same",
            "",
            "{metadata: {uid: u, resourceVersion: '7', labels: {a: b}}, spec: {replicas: 2}}",
            "made",
        ),
        (
            "a field",
            "",
            "{metadata: {uid: u, resourceVersion: '7', labels: {a: b}}, spec: {replicas: 3}}",
            "spec.replicas: 2 -> 3",
        ),
        (
            "a removed label",
            "",
            "{metadata: {uid: u, resourceVersion: '7'}, spec: {replicas: 2}}",
            r#"metadata.labels: {"a":"b"} -> null"#,
        ),
        (
            "the object changed since",
            "",
            "{metadata: {uid: u, resourceVersion: '6', labels: {a: b}}, spec: {replicas: 3}}",
            "stale",
        ),
        (
            "the object changed to the same",
            "",
            "{metadata: {uid: u, resourceVersion: '6', labels: {a: b}}, spec: {replicas: 2}}",
            "made",
        ),
        (
            "another object has the name",
            "",
            "{metadata: {uid: v, resourceVersion: '6'}}",
            "made",
        ),
        (
            "order and times of conditions have no meaning",
            "/status",
            "{metadata: {uid: u, resourceVersion: '7'}, status: {replicas: 2, readyReplicas: 0, conditions: [{type: B, status: 'True'}, {type: A, status: 'True', lastTransitionTime: '2026-01-01T00:00:09Z'}]}}",
            "made",
        ),
        (
            "a condition differs",
            "/status",
            "{metadata: {uid: u, resourceVersion: '7'}, status: {replicas: 2, conditions: [{type: A, status: 'False', lastTransitionTime: '2026-01-01T00:00:09Z'}]}}",
            r#"status.conditions[A].status: "True" -> "False"; status.conditions[B]: {"status":"True","type":"B"} -> null"#,
        ),
        (
            "the scale",
            "/scale",
            "{metadata: {uid: u, resourceVersion: '7'}, spec: {replicas: 4}}",
            "spec.replicas: 2 -> 4",
        ),
    ];
    for (why, subresource, body, expected) in cases {
        let write = write(
            Method::PUT,
            &format!("{PATH}{subresource}"),
            "application/json",
            yaml(body),
        );
        assert_eq!(
            word(compare(&write, &Live::Object(yaml(live)))),
            expected,
            "{why}"
        );
    }
    let gone = write(
        Method::PUT,
        PATH,
        "application/json",
        yaml("{spec: {replicas: 9}}"),
    );
    assert_eq!(word(compare(&gone, &Live::Absent)), "made");
}

#[test]
fn a_patch_differs_in_the_fields_that_it_has() {
    let live = "{metadata: {uid: u, resourceVersion: '7', finalizers: [x, w], ownerReferences: [{name: p, uid: o}]}, \
                spec: {taints: [{key: k}]}, status: {conditions: [{status: 'True', type: A}]}}";
    // (why, kind, body, outcome)
    let cases = [
        (
            "the same label",
            MERGE,
            "{metadata: {finalizers: [x, w]}}",
            "made",
        ),
        (
            "a replaced list",
            MERGE,
            "{metadata: {finalizers: [x]}}",
            r#"metadata.finalizers: ["x","w"] -> ["x"]"#,
        ),
        (
            "a removed field",
            MERGE,
            "{status: {conditions: null}}",
            r#"status.conditions: [{"status":"True","type":"A"}] -> null"#,
        ),
        (
            "another uid",
            MERGE,
            "{metadata: {uid: v, finalizers: []}}",
            "made",
        ),
        (
            "another version",
            MERGE,
            "{metadata: {resourceVersion: '6', finalizers: []}}",
            "stale",
        ),
        (
            "a new condition",
            STRATEGIC,
            "{status: {conditions: [{status: 'True', type: B}]}}",
            r#"status.conditions[B].status: null -> "True"; status.conditions[B].type: null -> "B""#,
        ),
        (
            "a known condition",
            STRATEGIC,
            "{status: {$setElementOrder/conditions: [{type: A}], conditions: [{type: A, status: 'True'}]}}",
            "made",
        ),
        (
            "a finalizer to remove",
            STRATEGIC,
            "{metadata: {$deleteFromPrimitiveList/finalizers: [x, z]}}",
            r#"metadata.finalizers[x]: "x" -> null"#,
        ),
        (
            "a finalizer to add",
            STRATEGIC,
            "{metadata: {finalizers: [w, z]}}",
            r#"metadata.finalizers[z]: null -> "z""#,
        ),
        (
            "an owner to remove",
            STRATEGIC,
            "{metadata: {uid: u, ownerReferences: [{$patch: delete, uid: o}]}}",
            r#"metadata.ownerReferences[o]: {"name":"p","uid":"o"} -> null"#,
        ),
        (
            "an owner that is gone",
            STRATEGIC,
            "{metadata: {uid: u, ownerReferences: [{$patch: delete, uid: q}]}}",
            "made",
        ),
        (
            "taints replace taints",
            STRATEGIC,
            "{spec: {taints: []}}",
            r#"spec.taints: [{"key":"k"}] -> []"#,
        ),
        (
            "a test fails",
            OPERATIONS,
            "[{op: test, path: /metadata/uid, value: v}]",
            "stale",
        ),
        (
            "a member to add",
            OPERATIONS,
            "[{op: add, path: /metadata/labels, value: {a: b}}]",
            r#"/metadata/labels: null -> {"a":"b"}"#,
        ),
        (
            "an item to append",
            OPERATIONS,
            "[{op: add, path: /metadata/finalizers/-, value: w}]",
            "made",
        ),
        (
            "a member to remove",
            OPERATIONS,
            "[{op: remove, path: /metadata/annotations}]",
            "made",
        ),
    ];
    for (why, kind, body, expected) in cases {
        let write = write(Method::PATCH, PATH, kind, yaml(body));
        assert_eq!(
            word(compare(&write, &Live::Object(yaml(live)))),
            expected,
            "{why}"
        );
    }
}

#[test]
fn creations_and_deletions_differ_until_the_object_exists_or_goes() {
    let pods = "/api/v1/namespaces/n/pods";
    let pod = |text: &str| Live::Object(yaml(text));
    let list = |items: &[&str]| Live::List(items.iter().map(|item| yaml(item)).collect());
    let child = "{metadata: {generateName: a-, ownerReferences: [{uid: o, controller: true}]}}";
    let evict = "{metadata: {name: p}, deleteOptions: {preconditions: {uid: u}}}";
    let delete = "{preconditions: {uid: u}}";
    let now = "{preconditions: {uid: u}, gracePeriodSeconds: 0}";
    let ends = "{metadata: {uid: u, deletionTimestamp: t}}";
    // (why, method, part of the path, body, live, outcome)
    let cases = [
        (
            "no object",
            Method::POST,
            "",
            "{metadata: {name: p}}",
            Live::Absent,
            r#": null -> "an object""#,
        ),
        (
            "an object",
            Method::POST,
            "",
            "{metadata: {name: p}}",
            pod("{}"),
            "made",
        ),
        (
            "only children of the owner count",
            Method::POST,
            "",
            child,
            list(&[
                "{metadata: {name: x, ownerReferences: [{uid: o}]}}",
                "{metadata: {name: y}}",
            ]),
            r#": ["x"] -> "one more object""#,
        ),
        (
            "to delete",
            Method::DELETE,
            "/p",
            delete,
            pod("{metadata: {uid: u}}"),
            r#": "an object" -> null"#,
        ),
        (
            "terminating",
            Method::DELETE,
            "/p",
            delete,
            pod(ends),
            "made",
        ),
        (
            "to end at once",
            Method::DELETE,
            "/p",
            now,
            pod(ends),
            r#": "an object" -> null"#,
        ),
        ("gone", Method::DELETE, "/p", now, Live::Absent, "made"),
        (
            "another pod",
            Method::DELETE,
            "/p",
            delete,
            pod("{metadata: {uid: v}}"),
            "made",
        ),
        (
            "to evict",
            Method::POST,
            "/p/eviction",
            evict,
            pod("{metadata: {uid: u}}"),
            r#": "an object" -> null"#,
        ),
        (
            "evicted",
            Method::POST,
            "/p/eviction",
            evict,
            pod(ends),
            "made",
        ),
        (
            "all terminating",
            Method::DELETE,
            "",
            "{}",
            list(&[ends]),
            "made",
        ),
        (
            "some left",
            Method::DELETE,
            "",
            "{}",
            list(&[ends, "{}"]),
            r#": "1 objects" -> null"#,
        ),
    ];
    for (why, method, part, body, live, expected) in cases {
        let write = write(
            method,
            &format!("{pods}{part}"),
            "application/json",
            yaml(body),
        );
        assert_eq!(word(compare(&write, &live)), expected, "{why}");
    }
}
