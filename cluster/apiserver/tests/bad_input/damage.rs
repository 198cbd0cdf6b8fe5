//! Random damage to valid requests.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::cases::{
    APPLY, DEPLOYMENT, JSON, JSON_PATCH, MAP, MERGE, PODS, STRATEGIC, cluster, deployment, pod,
};
use crate::support::ask;

/// The server answers every damaged request with an object of the API, and a refused request
/// changes no object.
#[tokio::test]
async fn damaged_requests_are_refused_or_applied() {
    let mut random = StdRng::seed_from_u64(7);
    let cluster = cluster().await;
    let client = cluster.client();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 2}});
    let strategic = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
        "containers": [{"name": "d", "image": "x", "ports": [{"containerPort": 1}]}, {"$patch": "delete", "name": "e"}],
    }}}});
    let operations = json!([
        {"op": "test", "path": "/kind", "value": "Deployment"},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "copy", "from": "/spec/template/spec/containers/0", "path": "/spec/template/spec/containers/-"},
        {"op": "replace", "path": "/spec/template/spec/containers/1/name", "value": "z"},
    ]);
    let options = json!({"propagationPolicy": "Orphan", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 5});
    let requests = [
        ("POST", PODS, JSON, pod()),
        (
            "POST",
            "/apis/apps/v1/namespaces/default/deployments",
            JSON,
            deployment(),
        ),
        ("PUT", DEPLOYMENT, JSON, deployment()),
        (
            "PATCH",
            DEPLOYMENT,
            MERGE,
            json!({"metadata": {"labels": {"a": null}}, "spec": {"replicas": 3}}),
        ),
        ("PATCH", DEPLOYMENT, STRATEGIC, strategic),
        ("PATCH", DEPLOYMENT, JSON_PATCH, operations),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/a?fieldManager=m",
            APPLY,
            applied,
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/a/scale",
            JSON,
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods/a/eviction",
            JSON,
            json!({"metadata": {"name": "a"}, "deleteOptions": options}),
        ),
        ("DELETE", MAP, JSON, options.clone()),
    ];
    for (method, path, content_type, body) in requests {
        let good = body.to_string().into_bytes();
        for _ in 0..300 {
            let damaged = damage(&good, &mut random);
            let before = cluster.revision();
            let asked = ask(&client, method, path, content_type, &damaged).await;
            let sent = String::from_utf8_lossy(&damaged);
            assert!(
                asked.body.is_object(),
                "{method} {path} {sent}: {}",
                asked.code
            );
            if asked.code >= 400 {
                assert_eq!(asked.body["status"], "Failure", "{method} {path} {sent}");
                assert_eq!(cluster.revision(), before, "{method} {path} {sent}");
                // Upstream's answers to these have no reason either: patches that lack a key,
                // invalid versions, applies of unknown fields.
                let known = [
                    "merge key",
                    "typed patch",
                    "ParseUint",
                    "resourceVersion should not be set",
                    "patch",
                    "unable to",
                ];
                let message = asked.body["message"].as_str().unwrap();
                assert!(
                    asked.code < 500 || known.iter().any(|known| message.contains(known)),
                    "{method} {path} {sent}: {message}"
                );
            }
        }
    }
    for plural in ["pods", "deployments", "configmaps"] {
        for object in cluster.objects(plural) {
            let path = cluster.path(
                plural,
                "default",
                object["metadata"]["name"].as_str().unwrap(),
            );
            if object["metadata"]["namespace"] == "default" {
                assert_eq!(
                    cluster.replace(object.clone()).await.unwrap(),
                    object,
                    "{path} can be written back"
                );
            }
        }
    }
}

/// Truncates, cuts, inserts or overwrites in one to three places.
fn damage(good: &[u8], random: &mut StdRng) -> Vec<u8> {
    const PIECES: [&str; 14] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "null",
        "true",
        "-1",
        "1e99",
        "\"x\"",
        "99999999999999999999",
        "\\u0000",
    ];
    let mut bytes = good.to_vec();
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = random.random(),
            2 => {
                let end = random.random_range(at..bytes.len());
                bytes.drain(at..end.max(at + 1).min(bytes.len()));
            }
            3 => {
                let piece = PIECES[random.random_range(0..PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            // Replaces a value with one of another type.
            _ => {
                let piece = PIECES[random.random_range(7..PIECES.len())];
                if let Some(colon) = bytes[at..].iter().position(|byte| *byte == b':') {
                    let start = at + colon + 1;
                    let end = bytes[start..]
                        .iter()
                        .position(|byte| b",}]".contains(byte))
                        .map_or(bytes.len(), |end| start + end);
                    bytes.splice(start..end, piece.bytes());
                }
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}
