//! One connection: TLS handshake, requests, and time limits for idle clients.
//!
//! Every step of a client has a time limit: the handshake, the head of a request, and the next
//! request. A slow or malicious client therefore cannot hold connections for ever. The limits of
//! heads, idle connections and HTTP/2 frames equal upstream's
//! (`k8s.io/apiserver/pkg/server/secure_serving.go`).

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::{Mutex, MutexGuard};
use steersman_runtime::workqueue::{ImmediateQueue, QueueMetrics};
use steersman_values::clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::path;
use crate::access::{Chain, OfAnonymous, Peer};
use crate::config::{self, Certificate, Serving};
use crate::tls::{self, Resolver, TlsError};

/// Time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit for the head of a request, from its first byte.
pub(super) const HEAD: Duration = Duration::from_secs(32);
/// Maximum time between requests of a connection.
const IDLE: Duration = Duration::from_secs(90);
/// Time limit for a client to react to a graceful shutdown of its connection.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// Maximum size of an HTTP/2 frame, and the flow-control window of a stream, in bytes.
const FRAME: u32 = 256 * 1024;
/// Maximum size of the head of an HTTP/1 request, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum size of the part of an answer that a connection holds for a client that does not read, in
/// bytes.
const MAX_SEND_BUFFER: usize = 16 * 1024;

/// Binds the address of `serving`.
pub(super) fn listen(serving: &Serving) -> std::io::Result<TcpListener> {
    let bind = |address: SocketAddr| {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        // As in Go: after a restart, connections of the old process in TIME_WAIT must not block the
        // port.
        socket.set_reuseaddr(true)?;
        #[cfg(unix)]
        socket.set_reuseport(serving.share_port)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    let address = serving.address;
    if address.ip() == IpAddr::from([0, 0, 0, 0]) {
        // One socket for IPv4 and IPv6. Without IPv6 on this machine, bind the IPv4 address.
        match bind(SocketAddr::new(
            Ipv6Addr::UNSPECIFIED.into(),
            address.port(),
        )) {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    bind(address)
}

/// The settings that all connections share. Cloning is cheap.
#[derive(Clone)]
pub(super) struct ConnectionSettings {
    tls: Option<Tls>,
    builder: auto::Builder<TokioExecutor>,
}

/// The acceptor with its certificates.
#[derive(Clone)]
struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Resolver>,
    /// Workqueue metrics of upstream's controllers of certificates: each change counts as a processed
    /// item.
    changes: Arc<[ImmediateQueue]>,
}

impl ConnectionSettings {
    /// The settings in `serving`; `ask_for_certificates` requests client certificates.
    pub(super) fn new(
        serving: &Serving,
        clock: &Clock,
        ask_for_certificates: bool,
        queues: &QueueMetrics,
    ) -> Result<Self, TlsError> {
        let tls = match &serving.tls {
            Some(tls) => {
                let (config, certificates) = tls::server_config(tls, clock, ask_for_certificates)?;
                let names = queue_names(tls).into_iter();
                let changes = names.map(|name| queues.immediate(name)).collect();
                Some(Tls {
                    acceptor: TlsAcceptor::from(Arc::new(config)),
                    certificates,
                    changes,
                })
            }
            None => None,
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // hyper counts this time from the end of the previous request. `Traffic` limits the time of
        // the head.
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(MAX_HEAD);
        let streams = serving.tls.as_ref().map_or(100, |tls| tls.max_streams);
        builder
            .http2()
            .max_concurrent_streams(streams)
            .max_frame_size(FRAME)
            .initial_stream_window_size(FRAME)
            .max_send_buf_size(MAX_SEND_BUFFER);
        Ok(Self { tls, builder })
    }

    /// Whether connections use TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves one client until its connection ends.
    pub(super) async fn serve(self, stream: TcpStream, peer: SocketAddr, router: Router) {
        let address = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let mut peer = Peer {
            address,
            certificates: None,
        };
        let Some(tls) = self.tls else {
            return answer(stream, peer, self.builder, router, true).await;
        };
        match timeout(HANDSHAKE, handshake(stream, &tls)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                match Chain::read(session.peer_certificates().unwrap_or_default()) {
                    Ok(chain) => peer.certificates = chain.map(Arc::new),
                    // The handshake has checked them already.
                    Err(error) => {
                        return tracing::debug!(%address, %error, "invalid client certificates");
                    }
                }
                // ALPN has negotiated the protocol, so do not guess it from the first bytes.
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                let builder = if is_http2 {
                    self.builder.http2_only()
                } else {
                    self.builder.http1_only()
                };
                answer(stream, peer, builder, router, !is_http2).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
        }
    }
}

/// The queues of upstream's controllers of certificates.
///
/// Upstream: `SecureServingOptions.ApplyTo`. A generated pair without a directory has no file to follow.
fn queue_names(tls: &config::Tls) -> Vec<&'static str> {
    let mut names = vec!["DynamicServingCertificateController"];
    if tls.certificate != Certificate::Generated {
        names.push("DynamicCABundle-serving-cert");
    }
    if !tls.named.is_empty() {
        names.push("DynamicCABundle-sni-serving-cert");
    }
    names
}

/// Accepts a TLS connection, with the certificates as their files are now.
async fn handshake(
    mut stream: TcpStream,
    tls: &Tls,
) -> std::io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    let mut first = [0];
    // A TLS handshake begins with byte 22. Any other byte comes from a client that speaks plain
    // HTTP.
    if stream.peek(&mut first).await? == 1 && first[0] != 22 {
        let answer =
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        return Err(std::io::Error::other(
            "client sent an HTTP request to an HTTPS server",
        ));
    }
    let began = Instant::now();
    if tls.certificates.refresh().await {
        for queue in tls.changes.iter() {
            queue.processed(began.elapsed());
        }
    }
    tls.acceptor.accept(stream).await
}

/// Answers requests until the client closes the connection or exceeds a time limit. With
/// `has_heads`, bytes between requests belong to the head of a request (HTTP/1).
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    has_heads: bool,
) {
    let address = peer.address;
    let traffic = Arc::new(Traffic::new());
    let observed = Arc::clone(&traffic);
    let service =
        hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer.clone());
            if let Some(uri) = path::decoded(request.uri()) {
                *request.uri_mut() = uri;
            }
            let request_guard = RequestGuard::new(&observed);
            let is_late = observed.is_ending.load(Ordering::Relaxed);
            let answer = (!is_late).then(|| router.clone().call(request));
            let observed = Arc::clone(&observed);
            async move {
                let _guard = request_guard;
                // A client may open streams until it has confirmed the end. Browsers repeat refused requests.
                let answer = answer.ok_or(h2::Reason::REFUSED_STREAM)?;
                let Ok(answer) = answer.await;
                if answer.extensions().get::<OfAnonymous>().is_some() {
                    observed.is_ending.store(true, Ordering::Relaxed);
                    observed.ending.notify_one();
                }
                Ok::<_, h2::Error>(answer)
            }
        });
    let stream = ObservedStream {
        stream,
        traffic: has_heads.then(|| Arc::clone(&traffic)),
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let grace = tokio::select! {
        ended = &mut connection => return log_end(address, ended),
        // Requests in progress are still answered.
        () = traffic.ending.notified() => HEAD,
        () = traffic.timed_out() => SHUTDOWN_GRACE,
    };
    connection.as_mut().graceful_shutdown();
    let ended = timeout(grace, connection.as_mut()).await;
    log_end(address, ended.unwrap_or(Ok(())));
}

fn log_end(address: SocketAddr, ended: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::trace!(%address, error, "connection ended");
    }
}

/// Observes the requests of a connection, for its time limits.
struct Traffic {
    now: Mutex<Now>,
    /// Notified when the deadline may have changed.
    changed: Notify,
    /// Notified by the answer to a request of the anonymous user, which is the last one of an HTTP/2 connection.
    ending: Notify,
    /// Whether later requests are refused.
    is_ending: AtomicBool,
}

/// The current state of a connection.
struct Now {
    /// Number of requests in progress.
    requests: usize,
    /// When the last request ended.
    ended: Instant,
    /// When the first byte of the next head arrived.
    begun: Option<Instant>,
}

impl Traffic {
    fn new() -> Self {
        Self {
            now: Mutex::new(Now {
                requests: 0,
                ended: Instant::now(),
                begun: None,
            }),
            changed: Notify::new(),
            ending: Notify::new(),
            is_ending: AtomicBool::new(false),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock()
    }

    /// Call it when bytes have arrived.
    fn received(&self) {
        let mut now = self.now();
        if now.requests == 0 && now.begun.is_none() {
            now.begun = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    /// The instant by which the next request must have arrived; `None` during a request.
    fn deadline(&self) -> Option<Instant> {
        let now = self.now();
        let idle = now.ended + IDLE;
        (now.requests == 0).then(|| now.begun.map_or(idle, |begun| idle.min(begun + HEAD)))
    }

    /// Waits until the connection has been idle for [`IDLE`], or a head is incomplete after
    /// [`HEAD`].
    async fn timed_out(&self) {
        loop {
            match self.deadline() {
                Some(deadline) if Instant::now() >= deadline => return,
                Some(deadline) => tokio::select! {
                    () = sleep_until(deadline) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

/// A request in progress, until the head of its response exists. Sending the body does not count,
/// because bodies are complete in memory. A client that needs longer than [`IDLE`] to read one is
/// not reading at all.
struct RequestGuard(Arc<Traffic>);

impl RequestGuard {
    fn new(traffic: &Arc<Traffic>) -> Self {
        let mut now = traffic.now();
        now.requests += 1;
        now.begun = None;
        drop(now);
        Self(Arc::clone(traffic))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut now = self.0.now();
        now.ended = Instant::now();
        now.requests -= 1;
        self.0.changed.notify_one();
    }
}

/// A stream that reports received bytes to `traffic`.
struct ObservedStream<S> {
    stream: S,
    traffic: Option<Arc<Traffic>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(traffic) = self
            .traffic
            .as_ref()
            .filter(|_| buf.filled().len() > before)
        {
            traffic.received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::config::{Access, Tls as TlsSettings};

    async fn ok() -> &'static str {
        "ok"
    }

    /// Connects to a server with the route `ok`, and sends `sent`. Returns the received bytes, and
    /// the time until the server closed the connection.
    async fn client(sent: &[u8], secure: bool) -> (String, Duration) {
        let tls = secure.then(TlsSettings::default);
        let serving = Serving {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls,
            share_port: false,
            access: Access::Open,
        };
        let queues = QueueMetrics::register(&prometheus::Registry::new()).unwrap();
        let terms = ConnectionSettings::new(&serving, &Clock::system(), false, &queues).unwrap();
        let listener = listen(&serving).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        stream.write_all(sent).await.unwrap();
        let start = Instant::now();
        let serving = tokio::spawn(terms.serve(
            accepted,
            peer,
            Router::new().route("/", get(ok)).route("/ok", get(ok)),
        ));
        let mut got = Vec::new();
        // A reset connection counts as its end, too.
        let _ = stream.read_to_end(&mut got).await;
        serving.await.unwrap();
        (String::from_utf8_lossy(&got).into_owned(), start.elapsed())
    }

    async fn marked() -> impl axum::response::IntoResponse {
        (axum::Extension(OfAnonymous), "ok")
    }

    /// The time from the answer to a request by HTTP/2 until the server has closed the connection.
    async fn lifetime_after(path: &str) -> Duration {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let peer = Peer {
            address: SocketAddr::from(([192, 0, 2, 1], 4000)),
            certificates: None,
        };
        let router = Router::new()
            .route("/ok", get(ok))
            .route("/marked", get(marked));
        let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
        tokio::spawn(answer(far, peer, builder, router, false));
        let executor = TokioExecutor::new();
        let client = hyper::client::conn::http2::handshake(executor, TokioIo::new(near));
        let (mut sender, connection) = client.await.unwrap();
        let connection = tokio::spawn(connection);
        let request = http::Request::get(format!("http://x{path}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = axum::body::to_bytes(axum::body::Body::new(response.into_body()), 100);
        assert_eq!(&body.await.unwrap()[..], b"ok");
        let start = Instant::now();
        let _ = connection.await.unwrap();
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_the_anonymous_user_is_the_last_one_of_its_connection() {
        let [kept, ended] = ["/ok", "/marked"].map(lifetime_after);
        assert!(kept.await >= IDLE);
        assert_eq!(ended.await, Duration::ZERO);
    }

    /// A frame of HTTP/2.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
        [&head[..], payload].concat()
    }

    /// A GET over HTTP/2, in literals of HPACK.
    fn get_request(stream: u8, path: &str) -> Vec<u8> {
        let length = u8::try_from(path.len()).unwrap();
        let literals = [0x82, 0x86, 0x01, 1, b'x', 0x04, length];
        let headers = [&literals[..], path.as_bytes()].concat();
        // HEADERS with END_HEADERS and END_STREAM.
        frame(1, 5, stream, &headers)
    }

    /// The kind, stream and payload of the next frame; `None` once the server has closed the connection.
    async fn next_frame(stream: &mut (impl AsyncRead + Unpin)) -> Option<(u8, u8, Vec<u8>)> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.ok()?;
        Some((head[3], head[8], payload))
    }

    /// The client never confirms the end of the connection.
    #[tokio::test(start_paused = true)]
    async fn later_requests_of_the_anonymous_user_are_refused() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let peer = Peer {
            address: SocketAddr::from(([192, 0, 2, 1], 4000)),
            certificates: None,
        };
        let router = Router::new().route("/marked", get(marked));
        let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
        let served = tokio::spawn(answer(far, peer, builder, router, false));
        let settings = frame(4, 0, 0, &[]);
        let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
        near.write_all(&preface).await.unwrap();
        near.write_all(&get_request(1, "/marked")).await.unwrap();
        let start = Instant::now();
        let mut answered = false;
        loop {
            let (kind, stream, _) = next_frame(&mut near).await.unwrap();
            answered |= (kind, stream) == (1, 1);
            // GOAWAY.
            if kind == 7 {
                break;
            }
        }
        near.write_all(&get_request(3, "/marked")).await.unwrap();
        let mut later = Vec::new();
        while let Some((kind, stream, payload)) = next_frame(&mut near).await {
            answered |= (kind, stream) == (1, 1);
            if stream == 3 {
                later.push((kind, payload));
            }
        }
        assert!(answered);
        // RST_STREAM with REFUSED_STREAM, after which clients repeat the request elsewhere.
        assert_eq!(later, [(3, vec![0, 0, 0, 7])]);
        assert_eq!(start.elapsed(), HEAD);
        served.await.unwrap();
    }

    /// Paused time advances only while the server waits, so the elapsed time is the server's limit.
    #[tokio::test(start_paused = true)]
    async fn slow_clients_are_disconnected_at_the_time_limits() {
        let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        // (client's behaviour, bytes sent, over TLS, beginning of the response, seconds until the
        // end)
        let cases = [
            ("no TLS handshake", "", true, "", 10),
            ("half of a handshake", "\x16\x03\x01\x02", true, "", 10),
            (
                "half of a request head",
                "GET / HTTP/1.1\r\nhost:",
                false,
                "",
                32,
            ),
            (
                "one request, then idle",
                request,
                false,
                "HTTP/1.1 200 OK",
                90,
            ),
            (
                "a request with an escaped path",
                "GET /%6fk HTTP/1.1\r\nhost: x\r\n\r\n",
                false,
                "HTTP/1.1 200 OK",
                90,
            ),
            (
                "one request, then half of the next head",
                &format!("{request}GET"),
                false,
                "HTTP/1.1 200 OK",
                90,
            ),
            ("no bytes on a plain connection", "", false, "", 90),
            ("half of the HTTP/2 preface", "PRI * HT", false, "", 32),
            (
                "HTTP/2 without ALPN and without a request",
                preface,
                false,
                "\0",
                32,
            ),
        ];
        for (what, sent, secure, beginning, seconds) in cases {
            let (got, waited) = client(sent.as_bytes(), secure).await;
            assert!(
                got.starts_with(beginning) && got.is_empty() == beginning.is_empty(),
                "{what}: {got:?}"
            );
            let least = Duration::from_secs(seconds);
            let most = Duration::from_secs(seconds + 2);
            assert!((least..most).contains(&waited), "{what}: {waited:?}");
        }
    }
}
