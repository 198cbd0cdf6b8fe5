//! The connections to one API server. The pool opens as many as the server's limit of streams
//! requires.
//!
//! request -> lane -> a free stream, or a new connection -> answer -> the stream is free again
//!
//! An HTTP/2 server limits the streams of each connection (kube-apiserver: 100) and may change the
//! limit at any time. If all connections are full, the pool dials another, as Go's
//! `http2.Transport` does. An HTTP/1.1 connection counts as one with a single stream.
//!
//! Watches have their own connections, the lane [`Lane::Watches`]. So they cannot take all streams
//! from other requests. A connection without streams closes after [`IDLE`].
//!
//! A wait for a stream ends when the caller drops the request. [`PoolMetrics`] shows the duration
//! of such waits.

mod body;
mod http1;
mod http2;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Extensions, Request, Response};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service};

pub(super) use body::Incoming;
use metrics::LaneMetrics;
pub(super) use metrics::PoolMetrics;

/// A connection without streams closes after this time. The value is that of Go's
/// `IdleConnTimeout`.
const IDLE: Duration = Duration::from_secs(90);
/// The most concurrent dials. Otherwise a server with one stream per connection could get a hundred
/// TLS handshakes at once.
const MAX_DIALS: usize = 8;
/// Pause after a failed dial, if other connections are open.
const REDIAL_PAUSE: Duration = Duration::from_secs(1);
/// The assumed limit of streams before the server has sent its limit. Go's
/// `initialMaxConcurrentStreams`.
const EXPECTED_STREAMS: usize = 100;
/// The most retries of a request that the server did not process, as in Go's transport.
const MAX_RETRIES: u32 = 6;
/// Pause before the second such retry. It doubles with each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The group of connections for a request. It is an extension of the request; the default is
/// [`Lane::Requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Requests with a short answer.
    Requests,
    /// Watches, which stay open for minutes.
    Watches,
}

/// Tells whether a request was sent to the server. It is an extension of the request.
///
/// Before a request is sent, its caller can drop it, and the server never sees it. The write gate
/// depends on this.
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

    /// Resolves when the request is unsent: still waiting, or returned unprocessed by the server.
    pub(super) async fn is_unsent(&self) {
        loop {
            let changed = self.0.changed.notified();
            if !self.get() {
                return;
            }
            changed.await;
        }
    }

    /// Marks the request with these extensions as sent.
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

/// The times after which a silent connection counts as broken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pings {
    /// A ping is sent after this silence.
    pub(super) interval: Duration,
    /// The connection is closed if the ping has no answer for this time.
    pub(super) timeout: Duration,
}

/// A byte stream to the server, TLS included.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A new connection.
pub(super) struct Dialed {
    pub(super) io: Box<dyn Io>,
    /// True if the server chose HTTP/2, false for HTTP/1.1.
    pub(super) is_http2: bool,
}

/// Dials the server. It must have its own time limit.
pub(super) type Dial = Arc<dyn Fn() -> BoxFuture<'static, Result<Dialed, BoxError>> + Send + Sync>;

/// A failed dial. The text names the server.
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
            // Errors of many libraries already contain the text of their source.
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

/// Sends requests over connections to one server. Cheap to clone. Clones share the connections,
/// which close with the last clone.
#[derive(Clone)]
pub(super) struct Pool {
    requests: Arc<Connections>,
    watches: Arc<Connections>,
}

impl Pool {
    /// A pool without connections. `server` is the server's name in errors.
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
    /// Connections that accept further streams, oldest first.
    open: Vec<Open>,
    /// Pending dials.
    dialing: usize,
    /// Requests that wait for a stream, oldest first.
    waiting: VecDeque<oneshot::Sender<Result<Stream, DialError>>>,
    /// The assumed limit of streams of the next connection.
    expected: usize,
    /// The earliest time of the next dial, after a failed one.
    no_dial_before: Option<Instant>,
    next_id: u64,
}

/// A connection that accepts further streams.
struct Open {
    id: u64,
    sender: Arc<Sender>,
    /// The server's limit of streams.
    limit: usize,
    /// Streams in use.
    active: usize,
    /// When `active` last fell to zero.
    idle_since: Instant,
}

/// The sending side of a connection.
enum Sender {
    Http2(h2::client::SendRequest<Bytes>),
    Http1(http1::Sender),
}

/// One stream of a connection. It becomes free when this is dropped.
struct Stream {
    connections: Arc<Connections>,
    sender: Arc<Sender>,
    id: u64,
}

impl Stream {
    /// Removes the stream's connection from the pool.
    fn retire(&self) {
        self.connections.retire(self.id);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connections.release(self.id);
    }
}

/// A request without an answer.
struct Failure {
    error: BoxError,
    /// The request was sent. False if the connection had ended before.
    sent: bool,
    /// The server did not process the request, so it can be sent again.
    unprocessed: bool,
    /// The connection cannot send further requests.
    broken: bool,
}

impl Connections {
    /// Sends a request. It is repeated if the server did not process it.
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
            // The ended connection was removed above, so this loop ends.
            if !sent {
                continue;
            }
            // The server refused the stream on an intact connection, so wait before the next retry.
            if !broken && attempt > 0 {
                sleep(RETRY_PAUSE * 2_u32.pow(attempt - 1)).await;
            }
            attempt += 1;
        }
    }

    /// Waits for a free stream. Waiting requests get streams in the order of their arrival.
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
        self.state.lock()
    }

    fn error(&self, source: BoxError) -> DialError {
        DialError {
            server: Arc::clone(&self.server),
            source: Arc::new(source),
        }
    }

    /// A free stream of the oldest connection that has one. So the newest connections become idle
    /// and close.
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

    /// Gives free streams to waiting requests. Returns the streams of dropped requests; the caller
    /// must drop them after the lock.
    #[must_use = "the drop of a stream takes the lock, so it must come after the lock"]
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

    /// Dials as many connections as the waiting requests need in addition to the pending dials.
    fn dial_for_waiting(self: &Arc<Self>, state: &mut State) {
        state.waiting.retain(|waiting| !waiting.is_closed());
        if state
            .no_dial_before
            .is_some_and(|time| Instant::now() < time)
        {
            return;
        }
        // There is no runtime if streams are dropped at the end of the process.
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

    /// Dials a connection and drives it until it ends. The future is boxed because it is recursive:
    /// an opened connection may start the next dial.
    fn run(self: Arc<Self>, id: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Created inside the future: a runtime that shuts down drops the future inside `spawn`,
            // where the state is locked. The drop of `dialing` would then deadlock.
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
                    // From here on, the pool may be dropped before the connection ends.
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

    /// Adds a new connection to the pool.
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

    /// Handles a failed dial.
    ///
    /// Without an open connection, all waiting requests fail. Otherwise they wait for a stream of
    /// an open connection, and another dial follows after [`REDIAL_PAUSE`].
    fn dial_failed(self: &Arc<Self>, error: BoxError) {
        let error = self.error(error);
        let mut state = self.state();
        state.dialing -= 1;
        if state.open.is_empty() && state.dialing == 0 {
            for waiting in state.waiting.drain(..) {
                // An error means that the request was dropped meanwhile.
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
        tracing::warn!(%error, "cannot open another connection to the API server");
        state.no_dial_before = Some(Instant::now() + REDIAL_PAUSE);
        // There is no runtime if the process ends during a dial.
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

    /// Frees a stream of connection `id`.
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

    /// Removes connection `id` from the pool. It closes when its last stream ends.
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

    /// Sets the limit of streams of connection `id`.
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

    /// Removes connection `id` from the pool if it had no stream for [`IDLE`].
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

/// A pending dial. If it panics, its drop reports a failed dial, so that waiting requests get an
/// error.
struct Dialing(Option<Arc<Connections>>);

impl Dialing {
    fn pool(&self) -> &Connections {
        self.0.as_ref().expect("only `ended` takes the value")
    }

    fn ended(mut self) -> Arc<Connections> {
        self.0.take().expect("only `ended` takes the value, once")
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.dial_failed("the dial was not finished".into());
        }
    }
}

/// The link from the task of a connection to its pool, which may be dropped already.
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

/// An open connection.
trait Kept: Send {
    fn sender(&self) -> Sender;

    /// The server's current limit of streams.
    fn limit(&self) -> usize;

    /// Sends and receives until the connection ends.
    fn drive(self: Box<Self>, keeper: Keeper) -> BoxFuture<'static, ()>;
}
