//! The HTTPS server: health, metrics and configuration, from before the election until the process ends.
//!
//! accept -> TLS -> `Cache-Control` -> who may see this path -> exact paths
//!
//! `/version`, `/livez` and `/readyz` are ours: upstream's manager has none of them, though its API server does.
//!
//! Requests are not authenticated yet. Until they are, whoever is on this machine may see everything, and everyone else what
//! `--authorization-always-allow-paths` opens; the rest is answered as upstream answers a stranger.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::FutureExt;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use prometheus::Registry;
use steersman_runtime::clock::Clock;
use steersman_runtime::controller::{DebugAnswer, DebugPages};
use steersman_runtime::tasks::CancellationToken;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::config::Serving;
use crate::exposition;
use crate::health::{HealthChecks, Probe};
use crate::tls::{self, TlsError};
use crate::version;

/// Time for a client to finish its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for a client to send the head of a request.
const HEAD: Duration = Duration::from_secs(32);
/// Largest HTTP/2 frame, and what may be buffered per stream.
const FRAME: u32 = 256 * 1024;

/// The server cannot start. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error("failed to create listener: failed to listen on {address}: listen tcp {address}: bind: {}", reason(.source))]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The reason alone, without the number that `std` adds.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    }
}

/// What is served.
#[derive(Clone)]
pub struct Endpoints {
    /// `/healthz`, `/livez`, `/readyz`.
    pub health: HealthChecks,
    /// `/metrics`.
    pub metrics: Registry,
    /// `/metrics/slis`.
    pub slis: Registry,
    /// Families that `/metrics` leaves out.
    pub disabled_metrics: Arc<[String]>,
    /// `/configz`.
    pub configz: Arc<str>,
    /// Paths open to everyone.
    pub always_allow: Arc<[String]>,
    /// Debug pages of controllers.
    pub debug: DebugPages,
    /// When the process started, in Unix seconds.
    pub started: i64,
}

/// A bound server that does not answer yet.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    builder: auto::Builder<TokioExecutor>,
}

/// Who sent a request.
#[derive(Clone, Copy)]
struct Peer(SocketAddr);

impl Server {
    /// Takes the address of `serving` and prepares its certificate.
    pub fn bind(serving: &Serving, clock: &Clock) -> Result<Self, ServeError> {
        let tls = match &serving.tls {
            Some(tls) => Some(TlsAcceptor::from(Arc::new(tls::server_config(tls, clock)?))),
            None => None,
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
        let streams = serving.tls.as_ref().map_or(100, |tls| tls.max_streams);
        builder.http2().max_concurrent_streams(streams).max_frame_size(FRAME).initial_stream_window_size(FRAME);
        let listener = listen(serving).map_err(|source| ServeError::Listen { address: serving.address, source })?;
        Ok(Self { listener, tls, builder })
    }

    /// The address taken, with its port.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`.
    pub async fn run(self, endpoints: Endpoints, stop: CancellationToken) {
        let router = router(endpoints);
        if let Ok(address) = self.local_addr() {
            tracing::info!(%address, "{}", if self.tls.is_some() { "Serving securely" } else { "Serving without TLS" });
        }
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = connection(stream, peer, self.tls.clone(), self.builder.clone(), router.clone());
                    connections.spawn(connection);
                }
                Err(error) => {
                    // Out of file descriptors, most likely: some time has to pass before the next try can do better.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

fn listen(serving: &Serving) -> std::io::Result<TcpListener> {
    let bind = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As Go does: a restart must not wait for connections of the old process to be forgotten.
        socket.set_reuseaddr(true)?;
        #[cfg(unix)]
        socket.set_reuseport(serving.share_port)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    let address = serving.address;
    if address.ip() == IpAddr::from([0, 0, 0, 0]) {
        // One socket for both families; where there is no IPv6, the address as given.
        match bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port())) {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    bind(address)
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    builder: auto::Builder<TokioExecutor>,
    router: Router,
) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let Some(tls) = tls else { return serve(stream, peer, builder, router).await };
    let mut stream = stream;
    let handshake = async {
        let mut first = [0];
        // A handshake begins with 22; anything else is a client that does not know this is HTTPS.
        if stream.peek(&mut first).await? == 1 && first[0] != 22 {
            let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
            stream.write_all(answer).await?;
            stream.shutdown().await?;
            return Err(std::io::Error::other("client sent an HTTP request to an HTTPS server"));
        }
        tls.accept(stream).await
    };
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => serve(stream, peer, builder, router).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    builder: auto::Builder<TokioExecutor>,
    router: Router,
) {
    let service = hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().call(request)
    });
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(%peer, error, "connection ended");
    }
}

fn router(endpoints: Endpoints) -> Router {
    Router::new()
        .route("/healthz", any(|state, request| probe(Probe::Healthz, state, request)))
        .route("/livez", any(|state, request| probe(Probe::Livez, state, request)))
        .route("/readyz", any(|state, request| probe(Probe::Readyz, state, request)))
        .route("/metrics", any(metrics))
        .route("/metrics/slis", any(slis))
        .route("/configz", any(configz))
        .route("/version", any(version))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(endpoints.clone(), guard))
        .with_state(endpoints)
}

/// Refuses strangers, and sees that every answer carries upstream's headers and that a panic is an answer too.
async fn guard(State(endpoints): State<Endpoints>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let open = endpoints.always_allow.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == allowed,
    });
    let local = request.extensions().get::<Peer>().is_some_and(|Peer(address)| address.ip().is_loopback());
    let mut response = if open || local {
        let path = path.to_owned();
        AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(path, "a request's handler panicked");
            text(StatusCode::INTERNAL_SERVER_ERROR, "This request caused apiserver to panic. Look in the logs for details.\n")
        })
    } else {
        forbidden(request.method(), path)
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Upstream's answer to an anonymous user.
fn forbidden(method: &Method, path: &str) -> Response {
    let path = path.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let verb = method.as_str().to_lowercase();
    let message = format!("forbidden: User \"system:anonymous\" cannot {verb} path \"{path}\"");
    let message = serde_json::Value::from(message);
    let body = format!(
        "{{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {{}},\n  \"status\": \"Failure\",\n  \
         \"message\": {message},\n  \"reason\": \"Forbidden\",\n  \"details\": {{}},\n  \"code\": 403\n}}"
    );
    (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "application/json"), NOSNIFF], body).into_response()
}

const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), NOSNIFF], body.into()).into_response()
}

async fn not_found(State(endpoints): State<Endpoints>, request: Request) -> Response {
    if let Some(path) = request.uri().path().strip_prefix("/debug/controllers/") {
        if let Some(page) = endpoints.debug.get(path) {
            let DebugAnswer { content_type, body } = page(request.uri().query().unwrap_or_default());
            return ([(header::CONTENT_TYPE, content_type), NOSNIFF], body).into_response();
        }
        if path.split('/').next().is_some_and(|name| endpoints.debug.has_any_of(name)) {
            return text(StatusCode::NOT_FOUND, "\n");
        }
    }
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

async fn probe(probe: Probe, State(endpoints): State<Endpoints>, request: Request) -> Response {
    let report = endpoints.health.report(probe, request.uri().query().unwrap_or_default());
    text(if report.healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, report.body)
}

async fn configz(State(endpoints): State<Endpoints>) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), NOSNIFF], endpoints.configz.to_string()).into_response()
}

async fn version() -> Response {
    ([(header::CONTENT_TYPE, "application/json"), NOSNIFF], version::document()).into_response()
}

async fn metrics(State(endpoints): State<Endpoints>) -> Response {
    let mut families = endpoints.metrics.gather();
    families.retain(|family| !endpoints.disabled_metrics.iter().any(|name| name == family.name()));
    exposition(&endpoints, &families)
}

async fn slis(State(endpoints): State<Endpoints>, request: Request) -> Response {
    if request.method() == Method::DELETE {
        endpoints.health.reset_metrics();
        return text(StatusCode::OK, "metrics reset\n");
    }
    exposition(&endpoints, &endpoints.slis.gather())
}

fn exposition(endpoints: &Endpoints, families: &[prometheus::proto::MetricFamily]) -> Response {
    let started = (HeaderName::from_static("process-start-time-unix"), endpoints.started.to_string());
    let kind = (header::CONTENT_TYPE, exposition::CONTENT_TYPE.to_owned());
    ([kind, started], exposition::encode(families)).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn endpoints() -> Endpoints {
        let slis = Registry::new();
        let metrics = Registry::new();
        crate::metrics::register(&metrics).unwrap();
        Endpoints {
            health: HealthChecks::new(&slis, &metrics, false).unwrap(),
            metrics,
            slis,
            disabled_metrics: Arc::new(["version_info".to_owned()]),
            configz: "{}".into(),
            always_allow: Arc::new(["/healthz".to_owned(), "/open/*".to_owned()]),
            debug: debug_pages(),
            started: 7,
        }
    }

    fn debug_pages() -> DebugPages {
        let pages = DebugPages::default();
        let page = |query: &str| DebugAnswer { content_type: "text/vnd.graphviz", body: format!("digraph {query}") };
        pages.add("garbage-collector-controller/graph".to_owned(), Arc::new(page));
        pages
    }

    async fn ask(peer: &str, method: &str, path: &str) -> (u16, http::HeaderMap, String) {
        let mut request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(Peer(peer.parse().unwrap()));
        let response = router(endpoints()).call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    const HERE: &str = "127.0.0.1:4000";
    const ELSEWHERE: &str = "192.0.2.1:4000";

    #[tokio::test]
    async fn paths_are_exact_and_methods_do_not_matter() {
        // (method, path, status, content type, body)
        let text = "text/plain; charset=utf-8";
        let cases = [
            ("GET", "/healthz", 200, text, Some("ok")),
            ("POST", "/healthz", 200, text, Some("ok")),
            ("GET", "/healthz?verbose", 200, text, Some("[+]ping ok\nhealthz check passed\n")),
            ("HEAD", "/healthz", 200, text, Some("")),
            ("GET", "/healthz/", 404, text, Some("404 page not found\n")),
            ("GET", "/healthz/ping", 404, text, Some("404 page not found\n")),
            ("GET", "/livez", 200, text, Some("ok")),
            ("GET", "/readyz?verbose", 200, text, Some("[+]ping ok\nreadyz check passed\n")),
            ("GET", "/readyz/", 404, text, Some("404 page not found\n")),
            ("GET", "/version", 200, "application/json", None),
            ("GET", "/version/", 404, text, Some("404 page not found\n")),
            ("GET", "/configz", 200, "application/json", Some("{}")),
            ("PUT", "/metrics", 200, exposition::CONTENT_TYPE, None),
            (
                "GET",
                "/debug/controllers/garbage-collector-controller/graph?uid=a",
                200,
                "text/vnd.graphviz",
                Some("digraph uid=a"),
            ),
            ("GET", "/debug/controllers/garbage-collector-controller", 404, text, Some("\n")),
            ("GET", "/debug/controllers/other/graph", 404, text, Some("404 page not found\n")),
            ("DELETE", "/metrics/slis", 200, text, Some("metrics reset\n")),
        ];
        for (method, path, status, kind, body) in cases {
            let answer = ask(HERE, method, path).await;
            assert_eq!((answer.0, answer.1[header::CONTENT_TYPE].to_str().unwrap()), (status, kind), "{method} {path}");
            assert_eq!(answer.1[header::CACHE_CONTROL], "no-cache, private", "{method} {path}");
            if let Some(body) = body {
                assert_eq!(answer.2, body, "{method} {path}");
            }
        }
    }

    #[tokio::test]
    async fn the_version_is_that_of_the_kubernetes_we_are_compatible_with() {
        let (_, _, body) = ask(HERE, "GET", "/version").await;
        let version: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&version["major"], &version["minor"], &version["gitVersion"]),
            (&"1".into(), &"36".into(), &"v1.36.2".into())
        );
        assert_eq!(ask(ELSEWHERE, "GET", "/version").await.0, 403);
    }

    #[tokio::test]
    async fn strangers_see_only_what_is_open_to_all() {
        let cases = [(ELSEWHERE, "/healthz", 200), (ELSEWHERE, "/open/door", 404), (ELSEWHERE, "/healthz/ping", 403)];
        for (peer, path, status) in cases {
            assert_eq!(ask(peer, "GET", path).await.0, status, "{peer} {path}");
        }
        let (status, headers, body) = ask(ELSEWHERE, "GET", "/metrics").await;
        assert_eq!((status, headers[header::CONTENT_TYPE].to_str().unwrap()), (403, "application/json"));
        assert_eq!(body.len(), 224);
        assert!(body.contains("forbidden: User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\""), "{body}");
        assert_eq!(ask("[::1]:1", "GET", "/metrics").await.0, 200);
    }

    #[tokio::test]
    async fn disabled_families_are_left_out() {
        let (_, headers, body) = ask(HERE, "GET", "/metrics").await;
        assert_eq!(headers["process-start-time-unix"], "7");
        assert!(body.contains("kubernetes_build_info{") && !body.contains("version_info{component"), "{body}");
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let serving = Serving { address, tls: None, share_port: false, always_allow: Vec::new() };
        let error = Server::bind(&serving, &Clock::system()).err().unwrap().to_string();
        let expected = format!(
            "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: address already in use"
        );
        assert_eq!(error, expected);
    }
}
