//! Connections to one API server, as many as its limit of streams demands.
//!
//! request -> lane -> a free stream, or a new connection -> answer -> the stream is free again
//!
//! An HTTP/2 server limits the streams of each connection (kube-apiserver to 100) and may change
//! that limit at any time. A connection without a free stream is left alone and another one is
//! dialed, as Go's `http2.Transport` does; an HTTP/1.1 connection counts as one with a single
//! stream. Watches have connections of their own, the lane [`Lane::Watches`], so that any number of
//! them leaves requests room. A connection without streams is closed after [`IDLE`].
//!
//! A wait for a stream ends when the caller gives the request up; [`PoolMetrics`] shows how long
//! such waits take.

mod body;
mod http1;
mod http2;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response};
use kube::client::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service};

pub(super) use body::Incoming;
use metrics::LaneMetrics;
pub(super) use metrics::PoolMetrics;

/// A connection without streams is closed after this time, as Go's `IdleConnTimeout` has it.
const IDLE: Duration = Duration::from_secs(90);
/// Dials under way at once. A server that allows one stream per connection must not meet a hundred
/// TLS handshakes at once.
const MAX_DIALS: usize = 8;
/// Pause before another dial when one failed while other connections are open.
const REDIAL_PAUSE: Duration = Duration::from_secs(1);
/// Streams that a dialed connection is expected to have until its server has said so; Go's
/// `initialMaxConcurrentStreams`.
const EXPECTED_STREAMS: usize = 100;
/// How often a request that the server did not process is sent again, as Go's transport does.
const MAX_RETRIES: u32 = 6;
/// Pause before the second such attempt; doubles with each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Which connections carry a request. An extension of the request; without one it is
/// [`Lane::Requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Answered soon.
    Requests,
    /// Open for minutes.
    Watches,
}

/// Whether a request has left for the server. An extension of the request: until then it can be
/// given up without a trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent(Arc<SentState>);

#[derive(Debug, Default)]
struct SentState {
    sent: AtomicBool,
    changed: Notify,
}

impl Sent {
    pub(super) fn get(&self) -> bool {
        self.0.sent.load(Ordering::Acquire)
    }

    /// Comes when the request is here: it has not left, or came back unprocessed.
    pub(super) async fn is_here(&self) {
        loop {
            let changed = self.0.changed.notified();
            if !self.get() {
                return;
            }
            changed.await;
        }
    }

    /// The request with these extensions leaves now.
    pub(super) fn mark(extensions: &Extensions) {
        Self::set(extensions, true);
    }

    fn set(extensions: &Extensions, sent: bool) {
        if let Some(flag) = extensions.get::<Self>() {
            flag.0.sent.store(sent, Ordering::Release);
            flag.0.changed.notify_waiters();
        }
    }
}

/// When a silent connection counts as dead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pings {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// A byte stream to the server, TLS included.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection as it was dialed.
pub(super) struct Dialed {
    pub(super) io: Box<dyn Io>,
    /// The server chose HTTP/2; otherwise it speaks HTTP/1.1.
    pub(super) is_http2: bool,
}

/// Dials the server; must end by itself.
pub(super) type Dial = Arc<dyn Fn() -> BoxFuture<'static, Result<Dialed, BoxError>> + Send + Sync>;

/// Why no connection could be opened. Names the server.
#[derive(Debug, Clone)]
pub(super) struct DialError {
    server: Arc<str>,
    source: Arc<BoxError>,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect to {}", self.server)?;
        let mut shown = String::new();
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&**self.source);
        while let Some(error) = cause {
            let text = error.to_string();
            // Many foreign errors repeat their source.
            if !shown.contains(&text) {
                write!(f, ": {text}")?;
                shown.push_str(&text);
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for DialError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.source)
    }
}

/// Sends requests over connections to one server. Cheap to clone; clones share the connections,
/// which close with the last one.
#[derive(Clone)]
pub(super) struct Pool {
    requests: Arc<Connections>,
    watches: Arc<Connections>,
}

impl Pool {
    /// A pool without connections yet. `server` is the name of the server in errors.
    pub(super) fn new(server: &str, dial: Dial, pings: Pings, metrics: &PoolMetrics) -> Self {
        let lane = |name| {
            Arc::new(Connections {
                server: server.into(),
                dial: Arc::clone(&dial),
                pings,
                metrics: metrics.of(name),
                state: Mutex::new(State {
                    expected: EXPECTED_STREAMS,
                    ..State::default()
                }),
            })
        };
        Self {
            requests: lane("requests"),
            watches: lane("watches"),
        }
    }
}

impl Service<Request<Body>> for Pool {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let lane = match request.extensions().get() {
            Some(Lane::Watches) => Arc::clone(&self.watches),
            Some(Lane::Requests) | None => Arc::clone(&self.requests),
        };
        Box::pin(async move { lane.send(request).await })
    }
}

/// The connections of one lane.
struct Connections {
    server: Arc<str>,
    dial: Dial,
    pings: Pings,
    metrics: LaneMetrics,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that take further streams, oldest first.
    open: Vec<Open>,
    dialing: usize,
    /// Requests that wait for a stream, oldest first.
    waiting: VecDeque<oneshot::Sender<Result<Stream, DialError>>>,
    /// Streams that the next connection is expected to have.
    expected: usize,
    /// No dial before this time, because the last one failed.
    no_dial_before: Option<Instant>,
    next_id: u64,
}

struct Open {
    id: u64,
    sender: Arc<Sender>,
    /// Streams that the server allows.
    limit: usize,
    /// Streams in use.
    active: usize,
    /// When `active` last fell to zero.
    idle_since: Instant,
}

/// One end of a connection.
enum Sender {
    Http2(h2::client::SendRequest<Bytes>),
    Http1(http1::Sender),
}

/// The right to one stream of a connection; given back when it is dropped.
struct Stream {
    connections: Arc<Connections>,
    sender: Arc<Sender>,
    id: u64,
}

impl Stream {
    /// Its connection takes no further request.
    fn retire(&self) {
        self.connections.retire(self.id);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connections.release(self.id);
    }
}

/// Why a request got no answer.
struct Failure {
    error: BoxError,
    /// The request has left. Otherwise the connection had ended before, which says nothing about
    /// the next one.
    sent: bool,
    /// The server has not acted on the request, so that it may be sent again.
    unprocessed: bool,
    /// The connection takes no further request.
    broken: bool,
}

impl Connections {
    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let mut attempt = 0;
        loop {
            let stream = self.stream().await?;
            let id = stream.id;
            Sent::mark(&parts.extensions);
            let outcome = match &*Arc::clone(&stream.sender) {
                Sender::Http2(sender) => {
                    http2::send(sender.clone(), stream, parts.clone(), body.clone()).await
                }
                Sender::Http1(sender) => http1::send(sender, stream, parts.clone(), body.clone())
                    .await
                    .map(|(response, exchange)| {
                        response.map(|received| Incoming::http1(received, exchange))
                    }),
            };
            let Failure {
                error,
                sent,
                unprocessed,
                broken,
            } = match outcome {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if broken {
                self.retire(id);
            }
            if !unprocessed || attempt == MAX_RETRIES {
                return Err(error);
            }
            Sent::set(&parts.extensions, false);
            // A connection that had ended was retired, so that this comes to an end.
            if !sent {
                continue;
            }
            // A server that refuses streams wants a pause.
            if !broken && attempt > 0 {
                sleep(RETRY_PAUSE * 2_u32.pow(attempt - 1)).await;
            }
            attempt += 1;
        }
    }

    /// A stream, as soon as there is one. Waiting requests are served in turn.
    async fn stream(self: &Arc<Self>) -> Result<Stream, DialError> {
        let granted = {
            let mut state = self.state();
            if state.waiting.is_empty()
                && let Some(stream) = self.take(&mut state)
            {
                return Ok(stream);
            }
            let (waiting, granted) = oneshot::channel();
            state.waiting.push_back(waiting);
            self.dial_for_waiting(&mut state);
            granted
        };
        let began = Instant::now();
        let granted = granted.await;
        self.metrics.waited(began.elapsed());
        granted.unwrap_or_else(|_| Err(self.error("the connection task ended".into())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, source: BoxError) -> DialError {
        DialError {
            server: Arc::clone(&self.server),
            source: Arc::new(source),
        }
    }

    /// A free stream of the oldest connection that has one, so that the newest ones become idle and
    /// close.
    fn take(self: &Arc<Self>, state: &mut State) -> Option<Stream> {
        let open = state
            .open
            .iter_mut()
            .find(|open| open.active < open.limit)?;
        open.active += 1;
        Some(Stream {
            connections: Arc::clone(self),
            sender: Arc::clone(&open.sender),
            id: open.id,
        })
    }

    /// Hands free streams to waiting requests. Returns the streams of requests that were given up,
    /// to be dropped without the lock.
    #[must_use = "dropped under the lock, a stream waits for that lock for ever"]
    fn serve_waiting(self: &Arc<Self>, state: &mut State) -> Vec<Stream> {
        let mut unused = Vec::new();
        state.waiting.retain(|waiting| !waiting.is_closed());
        while !state.waiting.is_empty()
            && let Some(stream) = self.take(state)
        {
            let waiting = state.waiting.pop_front().expect("checked above");
            unused.extend(waiting.send(Ok(stream)).err().and_then(Result::ok));
        }
        self.dial_for_waiting(state);
        unused
    }

    /// Dials as many connections as the waiting requests need, beyond the dials under way.
    fn dial_for_waiting(self: &Arc<Self>, state: &mut State) {
        state.waiting.retain(|waiting| !waiting.is_closed());
        if state
            .no_dial_before
            .is_some_and(|time| Instant::now() < time)
        {
            return;
        }
        // There is none when the process ends while streams are dropped.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        while state.dialing.saturating_mul(state.expected) < state.waiting.len()
            && state.dialing < MAX_DIALS
        {
            state.dialing += 1;
            let id = state.next_id;
            state.next_id += 1;
            runtime.spawn(Arc::clone(self).run(id));
        }
    }

    /// Dials a connection and keeps it until it ends. Boxed, because an opened connection may lead
    /// to the next dial.
    fn run(self: Arc<Self>, id: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Made in here: a runtime that ends drops the future at once, under the lock of the
            // state.
            let dialing = Dialing(Some(self));
            let opened = dialing.pool().open().await;
            let pool = dialing.ended();
            match opened {
                Ok(connection) => {
                    let _counted = pool.metrics.connected();
                    let keeper = Keeper {
                        id,
                        pool: Arc::downgrade(&pool),
                    };
                    pool.opened(id, connection.sender(), connection.limit());
                    // From here on the pool may end before the connection does.
                    drop(pool);
                    connection.drive(keeper).await;
                }
                Err(error) => pool.dial_failed(error),
            }
        })
    }

    async fn open(&self) -> Result<Box<dyn Kept>, BoxError> {
        match (self.dial)().await? {
            Dialed { io, is_http2: true } => http2::open(io, self.pings).await,
            Dialed {
                io,
                is_http2: false,
            } => http1::open(io).await,
        }
    }

    fn opened(self: &Arc<Self>, id: u64, sender: Sender, limit: usize) {
        let unused = {
            let mut state = self.state();
            state.dialing -= 1;
            state.expected = limit;
            state.no_dial_before = None;
            state.open.push(Open {
                id,
                sender: Arc::new(sender),
                limit,
                active: 0,
                idle_since: Instant::now(),
            });
            self.serve_waiting(&mut state)
        };
        drop(unused);
    }

    fn dial_failed(self: &Arc<Self>, error: BoxError) {
        let error = self.error(error);
        let mut state = self.state();
        state.dialing -= 1;
        if state.open.is_empty() && state.dialing == 0 {
            for waiting in state.waiting.drain(..) {
                // Fails when the request was given up meanwhile.
                let _ = waiting.send(Err(error.clone()));
            }
            return;
        }
        if state
            .no_dial_before
            .is_some_and(|time| Instant::now() < time)
        {
            return;
        }
        tracing::warn!(%error, "another connection to the API server is needed");
        state.no_dial_before = Some(Instant::now() + REDIAL_PAUSE);
        // There is none when the process ends in the middle of a dial.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            sleep(REDIAL_PAUSE).await;
            if let Some(pool) = pool.upgrade() {
                let mut state = pool.state();
                pool.dial_for_waiting(&mut state);
            }
        });
    }

    /// A stream of connection `id` is free again.
    fn release(self: &Arc<Self>, id: u64) {
        let unused = {
            let mut state = self.state();
            if let Some(open) = state.open.iter_mut().find(|open| open.id == id) {
                open.active -= 1;
                open.idle_since = Instant::now();
            }
            self.serve_waiting(&mut state)
        };
        drop(unused);
    }

    /// Connection `id` takes no further requests, and closes when its last stream ends.
    fn retire(self: &Arc<Self>, id: u64) {
        let (retired, unused) = {
            let mut state = self.state();
            let at = state.open.iter().position(|open| open.id == id);
            (
                at.map(|at| state.open.remove(at)),
                self.serve_waiting(&mut state),
            )
        };
        drop((retired, unused));
    }

    /// The server allows connection `id` this many streams from now on.
    fn limited(self: &Arc<Self>, id: u64, limit: usize) {
        let unused = {
            let mut state = self.state();
            if let Some(open) = state.open.iter_mut().find(|open| open.id == id) {
                open.limit = limit;
            }
            self.serve_waiting(&mut state)
        };
        drop(unused);
    }

    /// Takes connection `id` out of the pool if it has carried no stream for [`IDLE`].
    fn retire_idle(self: &Arc<Self>, id: u64) {
        let is_idle =
            |open: &Open| open.id == id && open.active == 0 && open.idle_since.elapsed() >= IDLE;
        let retired = {
            let mut state = self.state();
            let at = state.open.iter().position(is_idle);
            at.map(|at| state.open.remove(at))
        };
        drop(retired);
    }
}

/// A dial under way. A dial that panics has failed, too, and the waiting requests must hear of
/// that.
struct Dialing(Option<Arc<Connections>>);

impl Dialing {
    fn pool(&self) -> &Connections {
        self.0.as_ref().expect("taken at the end only")
    }

    fn ended(mut self) -> Arc<Connections> {
        self.0.take().expect("taken here only")
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.dial_failed("the dial was not finished".into());
        }
    }
}

/// What the task of a connection tells its pool, which may be gone.
struct Keeper {
    id: u64,
    pool: std::sync::Weak<Connections>,
}

impl Keeper {
    fn limited(&self, limit: usize) {
        if let Some(pool) = self.pool.upgrade() {
            pool.limited(self.id, limit);
        }
    }

    fn retire_idle(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.retire_idle(self.id);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.retire(self.id);
        }
    }
}

/// A connection that was opened and is to be kept.
trait Kept: Send {
    fn sender(&self) -> Sender;

    /// Streams that the server allows now.
    fn limit(&self) -> usize;

    /// Moves bytes until the connection ends.
    fn drive(self: Box<Self>, keeper: Keeper) -> BoxFuture<'static, ()>;
}
