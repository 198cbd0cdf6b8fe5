//! Tests of whole informers against a scripted server, in paused time. This file has the server and
//! helpers.

mod delivery;
#[cfg(feature = "shuttle")]
mod interleavings;
mod rounds;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use steersman_client::{ApiError, Query};
use steersman_objects::{Node, Object, ObjectKey, Pod};
use steersman_values::resource::ResourceType;

use super::metrics::InformerMetrics;
use super::source::{Form, Frames, ListWatch};
use super::{Change, InformerFactory, MetadataChange, SharedInformer};
use crate::tasks::{CancellationToken, Tasks};

/// The server's reply to one request. After the last reply of a script, requests get no answer.
enum Reply {
    List(String),
    /// Frames, and then the end of the stream.
    Watch(Vec<String>, After),
    /// Frames that the test sends. The stream ends when the test drops its sender.
    Live(mpsc::UnboundedReceiver<String>),
    Refuse(ApiError),
}

#[derive(Clone, Copy)]
enum After {
    /// The stream closes after this time.
    Close(Duration),
    /// The connection breaks after this time.
    Break(Duration),
    /// The stream stays open and silent.
    Hang,
}

const CLOSE: After = After::Close(Duration::from_secs(200));

#[derive(Default)]
struct Server {
    script: Mutex<VecDeque<Reply>>,
    /// Verb and query of each request, with its time.
    requests: Mutex<Vec<(String, Instant)>>,
}

impl Server {
    fn new(script: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(script.into_iter().collect()),
            requests: Mutex::default(),
        })
    }

    fn next(&self, verb: &str, query: &str) -> Option<Reply> {
        // The timeouts are random, so they are cut off. The tests of progress.rs check them.
        let query = query
            .split("&timeout=")
            .next()
            .unwrap()
            .replace("allowWatchBookmarks=true", "");
        let query = query.replace(
            "resourceVersionMatch=NotOlderThan&sendInitialEvents=true",
            "initial",
        );
        self.requests.lock().push((
            format!("{verb} {}", query.trim_start_matches('&')),
            Instant::now(),
        ));
        self.script.lock().pop_front()
    }

    fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .iter()
            .map(|(request, _)| request.clone())
            .collect()
    }

    /// The times between consecutive requests.
    fn pauses(&self) -> Vec<Duration> {
        self.requests
            .lock()
            .windows(2)
            .map(|pair| pair[1].1 - pair[0].1)
            .collect()
    }
}

impl ListWatch for Server {
    fn list<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        match self.next("list", query.as_str()) {
            Some(Reply::List(body)) => async { Ok(Bytes::from(body)) }.boxed(),
            Some(Reply::Refuse(error)) => async { Err(error) }.boxed(),
            Some(_) => panic!("the script has no list for {query:?}"),
            None => std::future::pending().boxed(),
        }
    }

    fn watch<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Frames, ApiError>> {
        let frames: Result<Frames, ApiError> = match self.next("watch", query.as_str()) {
            Some(Reply::Refuse(error)) => Err(error),
            Some(Reply::Watch(lines, after)) => {
                let lines = stream::iter(lines.into_iter().map(|line| Ok(Bytes::from(line))));
                let end = stream::once(async move {
                    match after {
                        After::Close(lived) => time::sleep(lived).await,
                        After::Break(lived) => {
                            time::sleep(lived).await;
                            return Some(Err(transport(std::io::ErrorKind::ConnectionReset)));
                        }
                        After::Hang => std::future::pending().await,
                    }
                    None
                });
                Ok(lines.chain(end.filter_map(std::future::ready)).boxed())
            }
            Some(Reply::Live(lines)) => Ok(stream::unfold(lines, |mut lines| async {
                lines
                    .recv()
                    .await
                    .map(|line| (Ok(Bytes::from(line)), lines))
            })
            .boxed()),
            Some(Reply::List(_)) => panic!("the script has no watch for {query:?}"),
            None => return std::future::pending().boxed(),
        };
        async { frames }.boxed()
    }
}

fn transport(kind: std::io::ErrorKind) -> ApiError {
    ApiError::Transport {
        request: "GET /api/v1/nodes".to_owned(),
        source: Box::new(std::io::Error::from(kind)),
    }
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({"kind": "Status", "code": code, "reason": reason, "message": format!("{reason}!")})
}

fn refuse(code: u16, reason: &str) -> Reply {
    let status = serde_json::from_value(status(code, reason)).unwrap();
    Reply::Refuse(ApiError::Status {
        request: "GET /api/v1/nodes".to_owned(),
        code,
        status,
    })
}

fn node(name: &str, version: u64) -> serde_json::Value {
    node_with_uid(name, version, name)
}

fn node_with_uid(name: &str, version: u64, uid: &str) -> serde_json::Value {
    json!({"kind": "Node", "metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()}})
}

fn event(kind: &str, object: &serde_json::Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

fn bookmark(version: u64) -> String {
    event(
        "BOOKMARK",
        &json!({"kind": "Node", "metadata": {"resourceVersion": version.to_string()}}),
    )
}

fn synced(version: u64) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    event(
        "BOOKMARK",
        &json!({"kind": "Node", "metadata": {"resourceVersion": version.to_string(), "annotations": annotations}}),
    )
}

fn page(version: u64, next: &str, items: &[serde_json::Value]) -> Reply {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    Reply::List(json!({"kind": "NodeList", "metadata": metadata, "items": items}).to_string())
}

/// A streaming list of `objects` at `version`, then the events `then`, then `after`.
fn streamed(objects: &[serde_json::Value], version: u64, then: &[String], after: After) -> Reply {
    let initial = objects.iter().map(|object| event("ADDED", object));
    Reply::Watch(
        initial
            .chain([synced(version)])
            .chain(then.iter().cloned())
            .collect(),
        after,
    )
}

/// An informer with a handler that records its changes as text.
struct TestInformer {
    informer: SharedInformer<Node>,
    server: Arc<Server>,
    changes: Arc<Mutex<Vec<String>>>,
    registry: Registry,
    stop: CancellationToken,
}

fn describe(change: Change<'_, Node>) -> String {
    let shown = |node: &Node| format!("{}@{}", node.meta.name, node.meta.resource_version);
    match change {
        Change::Added {
            object,
            initial: true,
        } => format!("initial {}", shown(object)),
        Change::Added {
            object,
            initial: false,
        } => format!("added {}", shown(object)),
        Change::Updated { old, new } => format!("updated {} -> {}", shown(old), shown(new)),
        Change::Deleted {
            object,
            final_state_unknown: true,
        } => format!("missed deletion of {}", shown(object)),
        Change::Deleted {
            object,
            final_state_unknown: false,
        } => format!("deleted {}", shown(object)),
    }
}

fn record_changes(informer: &SharedInformer<Node>) -> Arc<Mutex<Vec<String>>> {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&changes);
    informer.add_handler(move |change| writer.lock().push(describe(change)));
    changes
}

impl TestInformer {
    fn new(script: impl IntoIterator<Item = Reply>) -> Self {
        let registry = Registry::new();
        let informer = SharedInformer::new(
            InformerMetrics::register(&registry)
                .unwrap()
                .of(Node::RESOURCE, ""),
        );
        let changes = record_changes(&informer);
        Self {
            informer,
            server: Server::new(script),
            changes,
            registry,
            stop: CancellationToken::new(),
        }
    }

    fn start(&self) {
        self.start_with_resync(Duration::ZERO);
    }

    fn start_with_resync(&self, resync: Duration) {
        let server: Arc<dyn ListWatch> = Arc::<Server>::clone(&self.server);
        tokio::spawn(self.informer.clone().run(server, resync, self.stop.clone()));
    }

    /// Starts an informer and waits until it has sent this number of requests.
    async fn after(script: impl IntoIterator<Item = Reply>, requests: usize) -> Self {
        let test = Self::new(script);
        test.start();
        test.wait_for_requests(requests).await;
        test
    }

    async fn wait_for_requests(&self, requests: usize) {
        until(
            || self.server.requests().len() >= requests,
            || format!("{:?}", self.server.requests()),
        )
        .await;
    }

    fn changes(&self) -> Vec<String> {
        self.changes.lock().clone()
    }

    async fn wait_for_changes(&self, count: usize) -> Vec<String> {
        until(
            || self.changes.lock().len() >= count,
            || format!("{:?}", self.changes()),
        )
        .await;
        self.changes()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .informer
            .store()
            .list()
            .iter()
            .map(|n| format!("{}@{}", n.meta.name, n.meta.resource_version))
            .collect();
        names.sort();
        names
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let metric = &families
            .iter()
            .find(|family| family.name() == name)
            .unwrap()
            .get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

impl Drop for TestInformer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn until(condition: impl Fn() -> bool, shown: impl Fn() -> String) {
    let limit = time::timeout(Duration::from_secs(7200), async {
        while !condition() {
            time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(limit.await.is_ok(), "not within two hours: {}", shown());
}
