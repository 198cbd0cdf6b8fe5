//! Stories of whole informers against a scripted server, in paused time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use prometheus::Registry;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use super::metrics::InformerMetrics;
use super::source::{Frames, ListWatch};
use super::{Change, SharedInformer};
use crate::client::ApiError;
use crate::object::{Node, Object, ObjectKey};
use crate::tasks::CancellationToken;

/// What the server does with one request. When the script is over, requests hang.
enum Reply {
    List(String),
    /// Frames, then the connection goes the way of `After`.
    Watch(Vec<String>, After),
    /// Frames as the test sends them; closed when it drops its end.
    Live(mpsc::UnboundedReceiver<String>),
    Refuse(ApiError),
}

#[derive(Clone, Copy)]
enum After {
    /// Open for this long, then closed.
    Close(Duration),
    /// Open for this long, then broken.
    Break(Duration),
    Hang,
}

const CLOSE: After = After::Close(Duration::from_secs(200));

#[derive(Default)]
struct Server {
    script: Mutex<VecDeque<Reply>>,
    /// Kind and query of every request, and when it came.
    asked: Mutex<Vec<(String, Instant)>>,
}

impl Server {
    fn new(script: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), asked: Mutex::default() })
    }

    fn next(&self, verb: &str, query: &str) -> Option<Reply> {
        // The drawn timeouts are cut off: what they are is told in progress.rs.
        let query = query.split("&timeout=").next().unwrap().replace("allowWatchBookmarks=true", "");
        let query = query.replace("resourceVersionMatch=NotOlderThan&sendInitialEvents=true", "initial");
        self.asked.lock().unwrap().push((format!("{verb} {}", query.trim_start_matches('&')), Instant::now()));
        self.script.lock().unwrap().pop_front()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(request, _)| request.clone()).collect()
    }

    /// Time between one request and the next.
    fn pauses(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    }
}

impl ListWatch for Server {
    fn list<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        match self.next("list", query) {
            Some(Reply::List(body)) => async { Ok(Bytes::from(body)) }.boxed(),
            Some(Reply::Refuse(error)) => async { Err(error) }.boxed(),
            Some(_) => panic!("the script has no list for {query}"),
            None => std::future::pending().boxed(),
        }
    }

    fn watch<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Frames, ApiError>> {
        let frames: Result<Frames, ApiError> = match self.next("watch", query) {
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
            Some(Reply::Live(lines)) => {
                Ok(stream::unfold(lines, |mut lines| async { lines.recv().await.map(|line| (Ok(Bytes::from(line)), lines)) })
                    .boxed())
            }
            Some(Reply::List(_)) => panic!("the script has no watch for {query}"),
            None => return std::future::pending().boxed(),
        };
        async { frames }.boxed()
    }
}

fn transport(kind: std::io::ErrorKind) -> ApiError {
    ApiError::Transport { request: "GET /api/v1/nodes".to_owned(), source: Box::new(std::io::Error::from(kind)) }
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({"kind": "Status", "code": code, "reason": reason, "message": format!("{reason}!")})
}

fn refuse(code: u16, reason: &str) -> Reply {
    let status = serde_json::from_value(status(code, reason)).unwrap();
    Reply::Refuse(ApiError::Status { request: "GET /api/v1/nodes".to_owned(), code, status })
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
    event("BOOKMARK", &json!({"kind": "Node", "metadata": {"resourceVersion": version.to_string()}}))
}

fn synced(version: u64) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    event("BOOKMARK", &json!({"kind": "Node", "metadata": {"resourceVersion": version.to_string(), "annotations": annotations}}))
}

fn page(version: u64, next: &str, items: &[serde_json::Value]) -> Reply {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    Reply::List(json!({"kind": "NodeList", "metadata": metadata, "items": items}).to_string())
}

/// An initial state of a streaming list, then what follows, then `after`.
fn streamed(objects: &[serde_json::Value], version: u64, then: &[String], after: After) -> Reply {
    let initial = objects.iter().map(|object| event("ADDED", object));
    Reply::Watch(initial.chain([synced(version)]).chain(then.iter().cloned()).collect(), after)
}

/// A running informer that writes down what its first handler hears.
struct Story {
    informer: SharedInformer<Node>,
    server: Arc<Server>,
    heard: Arc<Mutex<Vec<String>>>,
    registry: Registry,
    stop: CancellationToken,
}

fn told(change: Change<'_, Node>) -> String {
    let shown = |node: &Node| format!("{}@{}", node.meta.name, node.meta.resource_version);
    match change {
        Change::Added { object, initial: true } => format!("initial {}", shown(object)),
        Change::Added { object, initial: false } => format!("added {}", shown(object)),
        Change::Updated { old, new } => format!("updated {} -> {}", shown(old), shown(new)),
        Change::Deleted { object, final_state_unknown: true } => format!("missed deletion of {}", shown(object)),
        Change::Deleted { object, final_state_unknown: false } => format!("deleted {}", shown(object)),
    }
}

fn listen(informer: &SharedInformer<Node>) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&heard);
    informer.add_handler(move |change| writer.lock().unwrap().push(told(change)));
    heard
}

impl Story {
    fn new(script: impl IntoIterator<Item = Reply>) -> Self {
        let registry = Registry::new();
        let informer = SharedInformer::new(InformerMetrics::register(&registry).unwrap().of(Node::RESOURCE));
        let heard = listen(&informer);
        Self { informer, server: Server::new(script), heard, registry, stop: CancellationToken::new() }
    }

    fn start(&self) {
        self.start_with_resync(Duration::ZERO);
    }

    fn start_with_resync(&self, resync: Duration) {
        let server: Arc<dyn ListWatch> = Arc::<Server>::clone(&self.server);
        tokio::spawn(self.informer.clone().run(server, resync, self.stop.clone()));
    }

    /// Runs a script until `requests` requests were made.
    async fn after(script: impl IntoIterator<Item = Reply>, requests: usize) -> Self {
        let story = Self::new(script);
        story.start();
        story.asked(requests).await;
        story
    }

    async fn asked(&self, requests: usize) {
        until(|| self.server.asked().len() >= requests, || format!("{:?}", self.server.asked())).await;
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    async fn hears(&self, count: usize) -> Vec<String> {
        until(|| self.heard.lock().unwrap().len() >= count, || format!("{:?}", self.heard())).await;
        self.heard()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.informer.store().list().iter().map(|n| format!("{}@{}", n.meta.name, n.meta.resource_version)).collect();
        names.sort();
        names
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let metric = &families.iter().find(|family| family.name() == name).unwrap().get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

impl Drop for Story {
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

#[tokio::test(start_paused = true)]
async fn a_streamed_list_goes_on_as_the_watch() {
    let events =
        [event("ADDED", &node("c", 11)), event("MODIFIED", &node("a", 12)), event("DELETED", &node("b", 13)), bookmark(20)];
    let story = Story::new([streamed(&[node("a", 3), node("b", 4)], 10, &events, CLOSE)]);
    assert!(!story.informer.is_synced());
    story.start();
    let mut heard = story.hears(5).await;
    heard[..2].sort();
    assert_eq!(heard, ["initial a@3", "initial b@4", "added c@11", "updated a@3 -> a@12", "deleted b@13"]);
    story.asked(2).await;
    assert!(story.informer.is_synced());
    assert_eq!(story.names(), ["a@12", "c@11"]);
    assert_eq!(story.informer.store().resource_version(), 20);
    assert_eq!(story.server.asked(), ["watch initial", "watch resourceVersion=20"]);
    assert_eq!(story.server.pauses(), [Duration::from_secs(200)], "a watch that timed out is opened again at once");
    assert_eq!(story.metric("steersman_informer_objects"), 2.0);
    assert_eq!(story.metric("steersman_informer_relists_total"), 1.0);
    assert_eq!(story.metric("steersman_informer_watch_events_total"), 7.0);
}

#[tokio::test(start_paused = true)]
async fn changes_within_the_initial_state_are_part_of_it() {
    let frames = vec![
        event("ADDED", &node("a", 3)),
        event("ADDED", &node("b", 4)),
        event("MODIFIED", &node("a", 5)),
        event("DELETED", &node("b", 6)),
        bookmark(7),
        synced(9),
    ];
    let story = Story::new([Reply::Watch(frames, After::Hang)]);
    story.start();
    assert_eq!(story.hears(1).await, ["initial a@5"]);
    assert_eq!(story.informer.store().resource_version(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_empty_type_syncs() {
    let story = Story::new([streamed(&[], 5, &[], After::Hang)]);
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    assert!(story.informer.store().is_empty() && story.heard().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_listed_in_the_same_round() {
    for code in [(422, "Invalid"), (404, "NotFound"), (500, "InternalError")] {
        let script =
            [refuse(code.0, code.1), page(10, "", &[node("a", 3)]), Reply::Watch(vec![event("ADDED", &node("b", 11))], CLOSE)];
        let story = Story::after(script, 4).await;
        assert_eq!(story.heard(), ["initial a@3", "added b@11"], "{code:?}");
        assert_eq!(
            story.server.asked(),
            ["watch initial", "list limit=500&resourceVersion=0", "watch resourceVersion=10", "watch resourceVersion=11"]
        );
        assert_eq!(story.server.pauses()[..2], [Duration::ZERO; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_stream_is_asked_for_again_after_a_pause() {
    let story = Story::after([refuse(429, "TooManyRequests"), streamed(&[node("a", 3)], 10, &[], After::Hang)], 2).await;
    assert_eq!(story.hears(1).await, ["initial a@3"]);
    assert_eq!(story.server.asked(), ["watch initial", "watch initial"]);
    let pause = story.server.pauses()[0];
    assert!((Duration::from_millis(800)..Duration::from_millis(1700)).contains(&pause), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_that_breaks_off_leaves_nothing_behind() {
    let partial = Reply::Watch(vec![event("ADDED", &node("ghost", 3))], After::Break(Duration::from_secs(2)));
    let story = Story::after([partial, streamed(&[node("a", 4)], 10, &[], After::Hang)], 2).await;
    assert_eq!(story.hears(1).await, ["initial a@4"]);
    assert_eq!(story.names(), ["a@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages() {
    let script = [
        refuse(422, "Invalid"),
        page(10, "to/b", &[node("a", 3)]),
        page(10, "", &[node("b", 4)]),
        Reply::Watch(vec![], After::Close(Duration::ZERO)),
        refuse(422, "Invalid"),
        page(12, "", &[node("b", 4)]),
    ];
    let story = Story::after(script, 7).await;
    let asked = story.server.asked();
    assert_eq!(asked[1..3], ["list limit=500&resourceVersion=0", "list continue=to%2Fb&limit=500"]);
    assert_eq!(asked[5], "list limit=500&resourceVersion=10", "a server that pages its cache is asked for pages again");
    let mut heard = story.heard();
    heard[..2].sort();
    assert_eq!(heard, ["initial a@3", "initial b@4", "missed deletion of a@3"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_makes_it_a_list_in_one_piece() {
    let script = [refuse(422, "Invalid"), page(10, "b", &[node("a", 3)]), refuse(410, "Expired"), page(12, "", &[node("b", 4)])];
    let story = Story::after(script, 5).await;
    assert_eq!(story.server.asked()[2..4], ["list continue=b&limit=500", "list resourceVersion=0"]);
    assert_eq!(story.heard(), ["initial b@4"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_asks_for_at_least_what_it_had_and_a_too_large_version_for_the_latest() {
    let expired = event("ERROR", &status(410, "Expired"));
    let mut too_large = status(504, "Timeout");
    too_large["details"] = json!({"causes": [{"reason": "ResourceVersionTooLarge"}]});
    let script = [
        streamed(&[node("a", 3)], 10, &[event("MODIFIED", &node("a", 11)), expired], After::Hang),
        Reply::Watch(vec![event("ERROR", &too_large)], After::Hang),
        streamed(&[node("a", 5)], 7, &[], After::Hang),
    ];
    let story = Story::after(script, 3).await;
    assert_eq!(story.server.asked(), ["watch initial", "watch resourceVersion=11&initial", "watch initial"]);
    assert_eq!(story.server.pauses()[1], Duration::ZERO);
    let heard = story.hears(3).await;
    assert_eq!(heard[2], "updated a@11 -> a@5", "a server restored from a backup is followed");
    assert_eq!(story.informer.store().resource_version(), 7);
}

#[tokio::test(start_paused = true)]
async fn what_happened_during_a_gap_is_told_as_a_difference() {
    let before = [node("kept", 1), node("changed", 2), node("gone", 3), node_with_uid("reborn", 4, "first")];
    let after = [node("kept", 1), node("changed", 12), node_with_uid("reborn", 14, "second"), node("new", 15)];
    let expired = event("ERROR", &status(410, "Expired"));
    let story = Story::new([
        streamed(&before, 10, &[event("MODIFIED", &node("gone", 11)), expired], After::Hang),
        streamed(&after, 20, &[], After::Hang),
    ]);
    let uids = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&uids);
    story.informer.add_handler(move |change| {
        if let Change::Updated { old, new } = change
            && old.meta.uid != new.meta.uid
        {
            writer.lock().unwrap().push(format!("{:?} -> {:?}", old.meta.uid, new.meta.uid));
        }
    });
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    let kept = ObjectKey::new("", "kept");
    let held = story.informer.store().get(&kept).unwrap();
    let heard = story.hears(9).await;
    assert_eq!(heard[5], "missed deletion of gone@11", "deletions come first, with the last known state");
    let mut rest = heard[6..].to_vec();
    rest.sort();
    assert_eq!(rest, ["added new@15", "updated changed@2 -> changed@12", "updated reborn@4 -> reborn@14"]);
    assert_eq!(*uids.lock().unwrap(), ["first -> second"]);
    assert!(Arc::ptr_eq(&held, &story.informer.store().get(&kept).unwrap()), "what did not change is kept once");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_changes_is_silent() {
    let nodes = [node("a", 3), node("b", 4)];
    let expired = event("ERROR", &status(410, "Expired"));
    let script = [streamed(&nodes, 10, &[expired], After::Hang), streamed(&nodes, 20, &[], After::Hang)];
    let story = Story::after(script, 2).await;
    until(|| story.informer.store().resource_version() == 20, String::new).await;
    assert_eq!(story.heard().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke() {
    let script = [
        streamed(&[node("a", 3)], 10, &[event("ADDED", &node("b", 11))], After::Break(Duration::from_secs(9))),
        Reply::Refuse(transport(std::io::ErrorKind::ConnectionRefused)),
        Reply::Refuse(transport(std::io::ErrorKind::ConnectionRefused)),
        Reply::Watch(vec![event("DELETED", &node("a", 12))], After::Hang),
    ];
    let story = Story::after(script, 4).await;
    let asked = story.server.asked();
    assert_eq!(asked, ["watch initial", "watch resourceVersion=11", "watch resourceVersion=11", "watch resourceVersion=11"]);
    assert_eq!(story.hears(3).await, ["initial a@3", "added b@11", "deleted a@12"]);
    let pauses = story.server.pauses();
    assert_eq!(pauses[0], Duration::from_secs(9));
    assert!(pauses[1] >= Duration::from_millis(800) && pauses[2] >= Duration::from_millis(1600), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_not_asked_for_without_pause() {
    let at_once = || Reply::Watch(vec![bookmark(11)], After::Close(Duration::ZERO));
    let script = [streamed(&[], 10, &[], After::Close(Duration::ZERO)), at_once(), at_once(), at_once()];
    let story = Story::after(script, 5).await;
    assert!(story.server.pauses().iter().all(|pause| *pause >= Duration::from_millis(800)), "{:?}", story.server.pauses());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_not_lost() {
    let events =
        [event("MODIFIED", &node("a", 11)), event("ADDED", &json!({"metadata": {"name": 5}})), event("ADDED", &node("c", 13))];
    let script = [
        streamed(&[node("a", 3)], 10, &events, After::Hang),
        streamed(&[node("a", 11), node("b", 12), node("c", 13)], 14, &[], After::Hang),
    ];
    let story = Story::after(script, 2).await;
    assert_eq!(story.server.asked()[1], "watch resourceVersion=11&initial", "from before the event");
    let mut heard = story.hears(4).await;
    heard[2..].sort();
    assert_eq!(heard, ["initial a@3", "updated a@3 -> a@11", "added b@12", "added c@13"]);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_does_not_replace_the_one_there_is() {
    let script = [
        streamed(&[node("a", 3)], 10, &[event("ERROR", &status(410, "Expired"))], After::Hang),
        refuse(500, "InternalError"),
        page(12, "", &[node("b", 4), json!({"metadata": {}})]),
        streamed(&[node("b", 4)], 13, &[], After::Hang),
    ];
    let story = Story::new(script);
    story.start();
    story.asked(3).await;
    assert_eq!(story.names(), ["a@3"]);
    story.asked(4).await;
    assert_eq!(story.hears(3).await, ["initial a@3", "missed deletion of a@3", "added b@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up() {
    let script = [streamed(&[node("a", 3)], 10, &[], After::Hang), streamed(&[node("a", 3)], 11, &[], After::Hang)];
    let story = Story::after(script, 2).await;
    let pause = story.server.pauses()[0];
    assert!((Duration::from_secs(330)..Duration::from_secs(640)).contains(&pause), "{pause:?}");
    assert_eq!(story.server.asked()[1], "watch resourceVersion=10&initial");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_asked_again() {
    let story = Story::new([]);
    story.start();
    story.asked(2).await;
    assert!(!story.informer.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_hears_of_every_object_exactly_once() {
    let (send, lines) = mpsc::unbounded_channel();
    let story = Story::new([Reply::Live(lines)]);
    story.start();
    send.send(synced(1)).unwrap();
    let feeder = tokio::spawn(async move {
        for i in 0..500 {
            send.send(event("ADDED", &node(&format!("n{i}"), 10 + i))).unwrap();
            tokio::task::yield_now().await;
        }
        send
    });
    let mut late = Vec::new();
    for i in 1..=5 {
        story.hears(i * 80).await;
        late.push(listen(&story.informer));
    }
    story.hears(500).await;
    let _open = feeder.await.unwrap();
    for heard in late {
        let heard = heard.lock().unwrap();
        let mut names: Vec<&str> = heard.iter().map(|line| line.split(' ').next_back().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((heard.len(), names.len()), (500, 500));
        assert!(heard.iter().is_sorted_by_key(|line| line.starts_with("added")), "what was there comes before what came");
    }
}

#[tokio::test(start_paused = true)]
async fn every_handler_hears_everything_in_order() {
    const EVENTS: u64 = 100_000;
    let events: Vec<String> = (0..EVENTS).map(|i| event("MODIFIED", &node(&format!("n{}", i % 10), 11 + i))).collect();
    let story = Story::new([streamed(&[], 10, &events, After::Hang)]);
    let versions = [Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new()))];
    for versions in &versions {
        let (versions, store) = (Arc::clone(versions), story.informer.store());
        story.informer.add_handler(move |change| {
            let (Change::Added { object, .. } | Change::Updated { new: object, .. }) = change else { return };
            assert!(Arc::ptr_eq(&store.get(&object.key()).unwrap(), object), "the store shows what is told");
            versions.lock().unwrap().push(object.meta.resource_version);
        });
    }
    story.start();
    story.hears(EVENTS as usize).await;
    let expected: Vec<u64> = (11..11 + EVENTS).collect();
    for versions in versions {
        assert_eq!(*versions.lock().unwrap(), expected);
    }
    assert_eq!(story.metric("steersman_informer_handler_panics_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_harms_nobody_else() {
    let story = Story::new([streamed(&[node("a", 3)], 10, &[event("ADDED", &node("b", 11))], After::Hang)]);
    story.informer.add_handler(|_| panic!("on purpose"));
    let after = listen(&story.informer);
    story.start();
    assert_eq!(story.hears(2).await, ["initial a@3", "added b@11"]);
    assert_eq!(*after.lock().unwrap(), story.heard());
    assert_eq!(story.metric("steersman_informer_handler_panics_total"), 2.0);
    assert_eq!(story.informer.store().resource_version(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_resync_tells_every_object_again() {
    let story = Story::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    let started = Instant::now();
    story.start_with_resync(Duration::from_secs(60));
    assert_eq!(story.hears(3).await, ["initial a@3", "updated a@3 -> a@3", "updated a@3 -> a@3"]);
    assert!(started.elapsed() >= Duration::from_secs(120));
    assert_eq!(story.server.asked().len(), 1, "without a request");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_seen_once_the_handlers_have_heard_of_it() {
    let (send, lines) = mpsc::unbounded_channel();
    let story = Story::new([Reply::Live(lines)]);
    story.start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let expect = |version| {
        let (seen, heard) = (Arc::clone(&seen), Arc::clone(&story.heard));
        story.informer.when_seen(version, move || seen.lock().unwrap().push((version, heard.lock().unwrap().len())));
    };
    for version in [12, 10, 12, 15, 30] {
        expect(version);
    }
    story.informer.when_seen(11, || panic!("on purpose"));
    let at = |count: usize| {
        let seen = Arc::clone(&seen);
        async move { until(|| seen.lock().unwrap().len() >= count, String::new).await }
    };
    for line in [event("ADDED", &node("a", 3)), synced(10)] {
        send.send(line).unwrap();
    }
    at(1).await;
    send.send(event("DELETED", &node("a", 12))).unwrap();
    at(3).await;
    send.send(bookmark(20)).unwrap();
    at(4).await;
    assert_eq!(*seen.lock().unwrap(), [(10, 1), (12, 2), (12, 2), (15, 2)]);
    expect(20);
    assert_eq!(seen.lock().unwrap().last(), Some(&(20, 2)), "at once when it was reached before");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_ends_when_history_goes_back() {
    let expired = event("ERROR", &status(410, "Expired"));
    let story = Story::new([streamed(&[], 100, &[expired], After::Hang), streamed(&[], 7, &[], After::Hang)]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    story.informer.when_seen(150, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    until(|| story.informer.store().resource_version() == 7, String::new).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_when_told() {
    let story = Story::new([]);
    let server: Arc<dyn ListWatch> = Arc::<Server>::clone(&story.server);
    let task = tokio::spawn(story.informer.clone().run(server, Duration::ZERO, story.stop.clone()));
    story.asked(1).await;
    story.stop.cancel();
    time::timeout(Duration::from_secs(1), task).await.unwrap().unwrap();
}
