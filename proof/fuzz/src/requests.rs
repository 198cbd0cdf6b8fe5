//! Fuzz target: whole requests to the embedded API server.
//!
//! Controllers must be able to read every object that the server accepts, and a write of an
//! unchanged object must change nothing. Each input starts from the same snapshot of a cluster.

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::time::Duration;
use steersman_devcluster::{DevCluster, Snapshot};
use steersman_objects::{
    Deployment, Namespace, Node, Object, ObjectMetadata, Pod, ReplicaSet, ReplicationController,
};
use steersman_values::clock::Clock;
use tokio::runtime::Runtime;
use tower::Service;

/// Separates requests. UTF-8 text never has this byte, and protobuf messages rarely do.
const NEXT: u8 = 0xff;

/// Time after which an open watch is dropped, on the paused clock.
const WATCH_LIMIT: Duration = Duration::from_secs(5);

/// Decodes an object as controllers do; the error is that of the decoder.
type Reader = fn(&[u8]) -> Result<(), String>;

/// The resources to check, and how controllers decode each.
const READERS: &[(&str, Reader)] = &[
    ("configmaps", read::<ObjectMetadata>),
    ("deployments", read::<Deployment>),
    ("namespaces", read::<Namespace>),
    ("nodes", read::<Node>),
    ("pods", read::<Pod>),
    ("replicasets", read::<ReplicaSet>),
    ("replicationcontrollers", read::<ReplicationController>),
    ("services", read::<ObjectMetadata>),
];

thread_local! {
    /// Prepared once per thread, because a new cluster for each input would take most of the time.
    static START: (Runtime, Snapshot) = prepare();
}

fn read<T: Object>(data: &[u8]) -> Result<(), String> {
    T::decode(data).map(drop).map_err(|error| error.to_string())
}

fn prepare() -> (Runtime, Snapshot) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let objects = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["a/b"]}, "data": {"k": "v"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}}, "spec": pod()}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod()},
            },
        }),
    ];
    let snapshot = runtime.block_on(async {
        let cluster = DevCluster::full(Clock::runtime(
            "2026-01-01T00:00:00Z".parse().expect("a time"),
        ));
        cluster
            .create_all(objects)
            .await
            .expect("the objects are valid");
        cluster.snapshot()
    });
    (runtime, snapshot)
}

fn pod() -> Value {
    json!({"containers": [{"name": "main", "image": "web:1"}]})
}

/// Up to six requests. Each is a line with method, target, content type and accepted type, followed
/// by the body.
pub fn requests(data: &[u8]) {
    START.with(|(runtime, snapshot)| {
        runtime.block_on(async {
            let cluster = snapshot.fork();
            let begun = cluster.revision();
            for request in data
                .split(|byte| *byte == NEXT)
                .take(6)
                .filter_map(request_of)
            {
                send(&cluster, request).await;
            }
            check_changed_objects(&cluster, begun).await;
        });
    });
}

fn request_of(data: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = data
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(data.len());
    let mut words = std::str::from_utf8(&data[..end]).ok()?.split(' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    for (name, word) in [
        (header::CONTENT_TYPE, words.next()),
        (header::ACCEPT, words.next()),
    ] {
        if let Some(word) = word.filter(|word| !word.is_empty()) {
            request = request.header(name, word);
        }
    }
    let body = data.get(end + 1..).unwrap_or_default();
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

/// Sends a request. A JSON response must be valid, and an error must have a message.
async fn send(cluster: &DevCluster, request: Request<Full<Bytes>>) {
    let line = format!("{} {}", request.method(), request.uri());
    let answer = cluster
        .service()
        .call(request)
        .await
        .expect("no connection is reset");
    let status = answer.status();
    let is_json = is_json(&answer);
    // A watch does not end by itself.
    let Ok(Ok(body)) = tokio::time::timeout(WATCH_LIMIT, answer.into_body().collect()).await else {
        return;
    };
    if is_json {
        let body = body.to_bytes();
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&body)
            .into_iter()
            .collect();
        let documents = documents.unwrap_or_else(|error| panic!("{line}: {error}"));
        if status.is_client_error() || status.is_server_error() {
            assert!(
                documents[0]["message"]
                    .as_str()
                    .is_some_and(|message| !message.is_empty()),
                "{line}: {documents:?}"
            );
        }
    }
}

fn is_json<B>(answer: &Response<B>) -> bool {
    answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// Controllers can read every object that the requests changed, and writing it back unchanged
/// changes nothing.
async fn check_changed_objects(cluster: &DevCluster, begun: u64) {
    for (plural, read) in READERS {
        for object in cluster.objects(plural) {
            let text = |field: &str| {
                object["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            if text("resourceVersion")
                .parse::<u64>()
                .is_ok_and(|version| version <= begun)
            {
                continue;
            }
            let path = cluster.path(plural, &text("namespace"), &text("name"));
            let stored = cluster
                .get(&path)
                .await
                .unwrap_or_else(|error| panic!("GET {path}: {error:?}"));
            if let Err(error) = read(stored.to_string().as_bytes()) {
                panic!("{path}: {error}: {stored}");
            }
            let before = cluster.revision();
            let written = cluster.replace(stored.clone()).await;
            assert!(written.is_ok(), "PUT {path}: {written:?}: {stored}");
            assert_eq!(
                cluster.revision(),
                before,
                "PUT {path} changed {stored} to {written:?}"
            );
        }
    }
}
