//! The wire between a manager and the API server. It holds every request, answer and watch event
//! of the leading manager until the explorer lets it pass.
//!
//! Events, Leases, discovery and the first state of each watch pass at once: they are no choices of
//! an exploration. A former leader is not held either, but its writes are refused and recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use steersman_client::ResponseBody;
use steersman_devcluster::DevCluster;
use steersman_perturb::key_of;
use steersman_runtime::controller::INFORMERS;
use tokio::sync::{mpsc, oneshot, watch};
use tower::{BoxError, Service, ServiceExt};

use crate::target::Asked;

/// Resources whose requests and events always pass.
const FREE: &[&str] = &["events", "leases"];

/// The way of one held request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server handles it, and the manager gets the answer.
    Answer,
    /// The server handles it, and the answer waits for another verdict.
    Handle,
    /// The server handles it, and the connection breaks before the answer.
    Lose,
}

/// The knowledge of the manager about one of its own writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    UnderWay,
    Lost,
}

/// A request that waits for a verdict.
pub(crate) struct Held {
    id: u64,
    pub(crate) asked: Asked,
    /// The status of the answer, once the server has handled the request.
    pub(crate) handled: Option<u16>,
    go: Option<oneshot::Sender<Verdict>>,
}

/// A watch event that the manager has not received.
pub(crate) struct Pending {
    pub(crate) kind: String,
    pub(crate) object: Arc<Value>,
    line: Bytes,
}

/// A watch of the leading manager.
#[derive(Default)]
pub(crate) struct Watch {
    generation: u64,
    /// Whether the first state is not complete yet.
    is_initial: bool,
    /// The objects that the manager has received.
    pub(crate) cache: BTreeMap<String, Arc<Value>>,
    pub(crate) pending: Vec<Pending>,
    frames: Option<mpsc::UnboundedSender<Bytes>>,
}

/// The part of a controller's memory that depends on the order of events during its syncs: the
/// caches may have changed since its present syncs read them.
#[derive(Default)]
pub(crate) struct Since {
    /// Watches with an event since then, each with the former version of the object.
    pub(crate) delivered: Vec<(String, Option<Arc<Value>>)>,
    /// Requests that were answered since then, with the status; 0 for a lost answer.
    pub(crate) answered: Vec<(String, u16)>,
}

#[derive(Default)]
pub(crate) struct State {
    /// The number of the manager whose traffic is held.
    leader: usize,
    issued: u64,
    pub(crate) requests: Vec<Held>,
    pub(crate) watches: BTreeMap<String, Watch>,
    /// By revision, the fate of the answers to the leader's writes.
    pub(crate) fates: BTreeMap<u64, Fate>,
    /// By the identity of a controller with held requests.
    pub(crate) since: BTreeMap<String, Since>,
    /// Writes of former leaders.
    pub(crate) late_writes: Vec<String>,
    /// The first state of watches of this resource comes from the server's watch cache.
    cached: Option<String>,
}

/// Clones share their state.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Shared>);

struct Shared {
    cluster: DevCluster,
    state: Mutex<State>,
    /// Counts held requests and pending events.
    news: watch::Sender<u64>,
}

impl Wire {
    pub(crate) fn to(cluster: &DevCluster) -> Self {
        Self(Arc::new(Shared {
            cluster: cluster.clone(),
            state: Mutex::default(),
            news: watch::Sender::new(0),
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Tells of held requests and pending events that come from now on.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// Holds the traffic of manager `number` from now on. Held requests of its predecessor never
    /// reach the server. `cached` names a resource of which it reads an old list.
    pub(crate) fn led_by(&self, number: usize, cached: Option<String>) {
        let mut state = self.state();
        let late_writes = std::mem::take(&mut state.late_writes);
        *state = State {
            leader: number,
            issued: state.issued,
            late_writes,
            cached,
            ..State::default()
        };
    }

    /// Decides about the first held request with this label in this phase. False if there is none.
    pub(crate) fn decide(&self, label: &str, is_handled: bool, verdict: Verdict) -> bool {
        let mut state = self.state();
        let held = state
            .requests
            .iter_mut()
            .find(|held| held.handled.is_some() == is_handled && held.asked.label() == label);
        let go = held.and_then(|held| held.go.take());
        go.is_some_and(|go| go.send(verdict).is_ok())
    }

    /// Delivers the next event of a watch. False if there is none.
    pub(crate) fn deliver(&self, name: &str) -> bool {
        let mut state = self.state();
        let Some(watch) = state
            .watches
            .get_mut(name)
            .filter(|w| !w.pending.is_empty())
        else {
            return false;
        };
        let event = watch.pending.remove(0);
        let key = key_of(&event.object);
        let before = match event.kind.as_str() {
            "DELETED" => watch.cache.remove(&key),
            _ => watch.cache.insert(key, event.object),
        };
        let is_open = watch
            .frames
            .as_ref()
            .is_some_and(|frames| frames.send(event.line).is_ok());
        for since in state.since.values_mut() {
            since.delivered.push((name.to_owned(), before.clone()));
        }
        is_open
    }

    /// Forgets requests that the manager has given up, and memories of controllers at rest.
    pub(crate) fn prune(&self) {
        let mut state = self.state();
        state
            .requests
            .retain(|held| held.go.as_ref().is_some_and(|go| !go.is_closed()));
        let busy: Vec<String> = state
            .requests
            .iter()
            .map(|held| held.asked.identity.clone())
            .collect();
        state.since.retain(|identity, _| busy.contains(identity));
    }

    async fn carry(self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let asked = Asked::of(&parts, &body);
        let is_leader = asked.instance == self.state().leader;
        let is_free = asked.resource.is_empty() || FREE.contains(&asked.resource.as_str());
        if !is_leader && asked.is_write() && !is_free {
            self.state().late_writes.push(asked.label());
            return Err(reset());
        }
        match asked.verb {
            "watch" if is_leader && !is_free => self.watch(&asked, parts, body).await,
            "list" if asked.identity == INFORMERS => self.send(parts, body).await,
            _ if is_leader && !is_free => self.hold(asked, parts, body).await,
            _ => self.send(parts, body).await,
        }
    }

    async fn send(&self, parts: Parts, body: Bytes) -> Result<Response<ResponseBody>, BoxError> {
        let request = Request::from_parts(parts, Full::new(body));
        let answer = self.0.cluster.service().oneshot(request).await?;
        Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    async fn hold(
        &self,
        asked: Asked,
        parts: Parts,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let label = asked.label();
        let identity = asked.identity.clone();
        let (id, decision) = self.register(asked);
        let verdict = decision.await.map_err(|_| reset())?;
        let before = self.0.cluster.revision();
        let answer = self.send(parts, body).await?;
        let revisions = before + 1..=self.0.cluster.revision();
        let status = answer.status().as_u16();
        let fate = match verdict {
            Verdict::Answer => Fate::Answered,
            Verdict::Lose => Fate::Lost,
            Verdict::Handle => {
                self.record(revisions.clone(), Fate::UnderWay);
                let decision = self.handled(id, status);
                match decision.await {
                    Ok(Verdict::Answer | Verdict::Handle) => Fate::Answered,
                    Ok(Verdict::Lose) | Err(_) => Fate::Lost,
                }
            }
        };
        self.record(revisions, fate);
        let known = if fate == Fate::Answered { status } else { 0 };
        let mut state = self.state();
        state
            .since
            .entry(identity)
            .or_default()
            .answered
            .push((label, known));
        if fate == Fate::Answered {
            Ok(answer)
        } else {
            Err(reset())
        }
    }

    fn register(&self, asked: Asked) -> (u64, oneshot::Receiver<Verdict>) {
        let (go, decision) = oneshot::channel();
        let mut state = self.state();
        state.issued += 1;
        let id = state.issued;
        state.since.entry(asked.identity.clone()).or_default();
        state.requests.push(Held {
            id,
            asked,
            handled: None,
            go: Some(go),
        });
        drop(state);
        self.0.news.send_modify(|count| *count += 1);
        (id, decision)
    }

    /// Holds the answer of a handled request.
    fn handled(&self, id: u64, status: u16) -> oneshot::Receiver<Verdict> {
        let (go, decision) = oneshot::channel();
        let mut state = self.state();
        if let Some(held) = state.requests.iter_mut().find(|held| held.id == id) {
            held.handled = Some(status);
            held.go = Some(go);
        }
        decision
    }

    fn record(&self, revisions: std::ops::RangeInclusive<u64>, fate: Fate) {
        let mut state = self.state();
        state
            .fates
            .extend(revisions.map(|revision| (revision, fate)));
    }

    async fn watch(
        &self,
        asked: &Asked,
        mut parts: Parts,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let is_cached = self.state().cached.as_deref() == Some(&asked.resource);
        parts.uri = watch_uri(asked, is_cached)?;
        let answer = self.send(parts, body).await?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        let (head, mut body) = answer.into_parts();
        let (frames, received) = mpsc::unbounded_channel();
        let name = asked.watch_name();
        let generation = self.open(
            &name,
            asked.query.contains("sendInitialEvents=true"),
            frames,
        );
        let wire = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let line = frame.into_data().unwrap_or_default();
                if !wire.arrived(&name, generation, line) {
                    return;
                }
            }
            wire.close(&name, generation);
        });
        let stream = futures::stream::unfold(received, |mut received| async move {
            let line = received.recv().await?;
            Some((Ok::<_, BoxError>(Frame::data(line)), received))
        });
        Ok(Response::from_parts(
            head,
            StreamBody::new(stream).boxed_unsync(),
        ))
    }

    fn open(&self, name: &str, is_initial: bool, frames: mpsc::UnboundedSender<Bytes>) -> u64 {
        let mut state = self.state();
        state.issued += 1;
        let generation = state.issued;
        let watch = state.watches.entry(name.to_owned()).or_default();
        let cache = std::mem::take(&mut watch.cache);
        *watch = Watch {
            generation,
            is_initial,
            cache: if is_initial { BTreeMap::new() } else { cache },
            pending: Vec::new(),
            frames: Some(frames),
        };
        generation
    }

    /// Ends the stream of the manager, too.
    fn close(&self, name: &str, generation: u64) {
        let mut state = self.state();
        let watch = state.watches.get_mut(name);
        if let Some(watch) = watch.filter(|watch| watch.generation == generation) {
            watch.frames = None;
            watch.pending.clear();
        }
    }

    /// Handles a line from the server. False if the watch is no longer read.
    fn arrived(&self, name: &str, generation: u64, line: Bytes) -> bool {
        let frame: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = frame["type"].as_str().unwrap_or_default();
        let object = &frame["object"];
        let mut state = self.state();
        let watch = state.watches.get_mut(name);
        let Some(watch) = watch.filter(|watch| watch.generation == generation) else {
            return false;
        };
        match kind {
            "BOOKMARK" if !watch.is_initial => return true,
            "BOOKMARK" => {
                let annotation = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                watch.is_initial = annotation != "true";
            }
            "ERROR" => {}
            _ if watch.is_initial => {
                watch.cache.insert(key_of(object), Arc::new(object.clone()));
            }
            kind => {
                let object = Arc::new(object.clone());
                watch.pending.push(Pending {
                    kind: kind.to_owned(),
                    object,
                    line,
                });
                drop(state);
                self.0.news.send_modify(|count| *count += 1);
                return true;
            }
        }
        watch
            .frames
            .as_ref()
            .is_some_and(|frames| frames.send(line).is_ok())
    }
}

/// The address of a watch. It lasts longer than any run, so that its end is no event of the run.
fn watch_uri(asked: &Asked, is_cached: bool) -> Result<Uri, http::uri::InvalidUri> {
    let parts = asked
        .query
        .split('&')
        .filter(|part| !part.starts_with("timeout"));
    let mut query: Vec<&str> = parts.collect();
    query.push("timeoutSeconds=100000");
    if is_cached {
        query.push("resourceVersion=0");
    }
    format!("{}?{}", asked.path, query.join("&")).parse()
}

fn reset() -> BoxError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

impl Service<Request<Body>> for Wire {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}
