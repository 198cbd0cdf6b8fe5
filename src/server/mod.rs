//! The HTTPS server for health, metrics and configuration. It runs from before the election until
//! the process ends.
//!
//! accept -> TLS -> access control -> routes by exact path -> `Cache-Control`
//!
//! `/version`, `/livez` and `/readyz` are additions of Steersman: upstream's API server has them,
//! its controller manager does not. Upstream: `cmd/kube-controller-manager/app` and
//! `k8s.io/apiserver/pkg/server`.

mod connection;
mod connections;
mod path;
mod thread;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use prometheus::Registry;
use steersman_runtime::controller::{DebugAnswer, DebugPages};
use steersman_runtime::panics;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use connection::{ConnectionSettings, HEAD, listen};
use connections::Connections;
pub(crate) use thread::ServerThread;
use unread::Unread;

use crate::access::{Access, NOSNIFF, Peer, request_target, text};
use crate::config::{MetricsSettings, Releases, Serving};
use crate::exposition;
use crate::health::{HealthChecks, Probe};
use crate::logs::{REQUESTS, Verbosity};
use crate::metrics::with_metric_counts;
use crate::tls::TlsError;
use crate::ui::{Streamed, Ui};
use crate::version;
use crate::why::{self, Why};
use crate::zpages::{Page, Zpages};

/// Maximum size of a request body, in bytes.
const MAX_BODY: usize = 1024;
/// The server cannot start. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or is no address of this machine.
    #[error("failed to create listener: failed to listen on {address}: listen tcp {address}: bind: {}", reason(.error))]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The cause; the error text contains it.
        error: std::io::Error,
    },
    /// The serving certificate or the TLS settings cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The text of Go for this error. The text of `std` would add an error number.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    }
}

/// The data behind the endpoints.
#[derive(Clone)]
pub struct Endpoints {
    /// `/healthz`, `/livez`, `/readyz`.
    pub health: HealthChecks,
    /// `/metrics`.
    pub metrics: Registry,
    /// `/metrics/slis`.
    pub slis: Registry,
    /// The metrics that `/metrics` shows or omits.
    pub shown: Arc<MetricsSettings>,
    /// `/configz`.
    pub configz: Arc<str>,
    /// `/flagz` and `/statusz`.
    pub zpages: Zpages,
    /// The releases in `/version`.
    pub releases: Releases,
    /// Debug pages of controllers, `/debug/controllers/`.
    pub debug: DebugPages,
    /// `/debug/why`; `None` disables the path.
    pub(crate) why: Option<Why>,
    /// `/ui/` and `/debug/ui/`; `None` disables the paths.
    pub(crate) ui: Option<Ui>,
    /// The verbosity that `/debug/flags/v` sets; `None` disables the path.
    pub verbosity: Option<Verbosity>,
    /// Start of the process, in Unix seconds.
    pub started: i64,
}

/// A server that is bound to its port, before it accepts connections.
pub struct Server {
    listener: TcpListener,
    terms: ConnectionSettings,
    access: Arc<Access>,
}

impl Server {
    /// Binds the address of `serving` and loads its certificate.
    pub(crate) fn bind(
        serving: &Serving,
        access: Access,
        clock: &Clock,
        queues: &QueueMetrics,
    ) -> Result<Self, ServeError> {
        let terms = ConnectionSettings::new(serving, clock, access.wants_certificates(), queues)?;
        let listener = listen(serving).map_err(|error| ServeError::Listen {
            address: serving.address,
            error,
        })?;
        Ok(Self {
            listener,
            terms,
            access: Arc::new(access),
        })
    }

    /// The bound address with its actual port.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The access control of requests.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access)
    }

    /// Serves `endpoints` until `stop`.
    pub async fn run(self, endpoints: Endpoints, stop: CancellationToken) {
        let router = router(endpoints, self.access());
        if let Ok(address) = self.local_addr() {
            tracing::info!(%address, "{}", if self.terms.has_tls() { "Serving securely" } else { "Serving without TLS" });
        }
        let mut connections = Connections::default();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                () = connections.ended() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(self.terms.clone().serve(stream, peer, router.clone()));
                }
                Err(error) => {
                    // Most likely the process is out of file descriptors. Accepting again at once
                    // would fail too, and would use a whole core.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// The routes. Every request passes [`guard`] first, also one without a route.
fn router(endpoints: Endpoints, access: Arc<Access>) -> Router {
    Router::new()
        .route(
            "/healthz",
            any(|state, request| probe(Probe::Healthz, state, request)),
        )
        .route(
            "/livez",
            any(|state, request| probe(Probe::Livez, state, request)),
        )
        .route(
            "/readyz",
            any(|state, request| probe(Probe::Readyz, state, request)),
        )
        .route("/metrics", any(metrics))
        .route("/metrics/slis", any(slis))
        .route("/configz", any(configz))
        .route(
            "/flagz",
            any(|state, request| zpage(Page::Flagz, state, request)),
        )
        .route(
            "/statusz",
            any(|state, request| zpage(Page::Statusz, state, request)),
        )
        .route("/version", any(version))
        .route("/debug/flags", any(flags))
        .route("/debug/flags/", any(flags))
        .route("/debug/flags/v", any(set_verbosity))
        .route("/debug/why", any(explain))
        .route("/debug/why/{*object}", any(explain))
        .route("/debug/ui", any(ui))
        .route("/debug/ui/{*view}", any(ui))
        .route("/ui", any(ui))
        .route("/ui/", any(ui))
        .route("/ui/{*file}", any(ui))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(
            (access, Unread::default()),
            guard,
        ))
        .with_state(endpoints)
}

/// Applies access control, adds upstream's headers to every response, and turns a panic into a
/// response.
async fn guard(
    State((access, unread)): State<(Arc<Access>, Unread)>,
    request: Request,
    next: Next,
) -> Response {
    let request_log = tracing::enabled!(target: REQUESTS, tracing::Level::DEBUG)
        .then(|| RequestLog::of(&request));
    let path = request.uri().path().to_owned();
    let answer = async {
        let (head, body) = request.into_parts();
        let peer = head
            .extensions
            .get::<Peer>()
            .cloned()
            .unwrap_or_else(|| unreachable!("every connection notes its peer"));
        match access.check(&head, &peer).await {
            Ok(caller) => {
                let version = head.version;
                let mut request = Request::from_parts(head, body);
                request.extensions_mut().insert(caller.clone());
                let mut answer = next.run(request).await;
                // Files of the page are public, and browsers load several of them through one connection.
                if !path.starts_with("/ui") {
                    caller.mark(version, &mut answer);
                }
                answer
            }
            Err(refusal) => refusal,
        }
    };
    let mut response = panics::catch(answer).await.unwrap_or_else(|panic| {
        tracing::error!(path, %panic, "a request's handler panicked");
        text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "This request caused apiserver to panic. Look in the logs for details.\n",
        )
    });
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if let Some(request_log) = request_log {
        request_log.answered(response.status());
    }
    // A stream has no end that could be held.
    if response.extensions().get::<Streamed>().is_some() {
        return response;
    }
    unread.hold(response).await
}

/// The log line of a request, written when it has been answered.
struct RequestLog {
    verb: Method,
    uri: String,
    agent: String,
    from: String,
    at: Instant,
}

impl RequestLog {
    fn of(request: &Request) -> Self {
        let agent = request
            .headers()
            .get(header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let from = request
            .extensions()
            .get::<Peer>()
            .map(|peer| peer.address.to_string())
            .unwrap_or_default();
        let verb = request.method().clone();
        let uri = request_target(request.uri()).to_owned();
        Self {
            verb,
            uri,
            agent: agent.to_owned(),
            from,
            at: Instant::now(),
        }
    }

    /// Logs the line with upstream's field names.
    fn answered(self, status: StatusCode) {
        let verb = self.verb.as_str();
        let latency = self.at.elapsed();
        tracing::debug!(
            target: REQUESTS,
            verb,
            URI = self.uri,
            ?latency,
            userAgent = self.agent,
            // Upstream's manager has no audit log, but logs this field nevertheless.
            "audit-ID" = "",
            srcIP = self.from,
            resp = status.as_u16(),
            "HTTP"
        );
    }
}

/// Debug pages of controllers, else 404. As upstream, the 404 of a controller with other debug
/// pages has a body without text.
async fn not_found(State(endpoints): State<Endpoints>, request: Request) -> Response {
    if let Some(path) = request.uri().path().strip_prefix("/debug/controllers/") {
        if let Some(page) = endpoints.debug.get(path) {
            let DebugAnswer { content_type, body } =
                page(request.uri().query().unwrap_or_default());
            return ([(header::CONTENT_TYPE, content_type), NOSNIFF], body).into_response();
        }
        if path
            .split('/')
            .next()
            .is_some_and(|name| endpoints.debug.has_any_of(name))
        {
            return text(StatusCode::NOT_FOUND, "\n");
        }
    }
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// `/debug/why`: why an object does not move.
async fn explain(State(endpoints): State<Endpoints>, request: Request) -> Response {
    why::answer(endpoints.why.as_ref(), &request.into_parts().0).await
}

/// `/ui/` and `/debug/ui/`: the page about the manager at work.
async fn ui(state: State<Endpoints>, request: Request) -> Response {
    match state.ui.clone() {
        Some(ui) => ui.answer(request).await,
        None => not_found(state, request).await,
    }
}

async fn probe(probe: Probe, State(endpoints): State<Endpoints>, request: Request) -> Response {
    let report = endpoints
        .health
        .report(probe, request.uri().query().unwrap_or_default());
    text(
        if report.healthy {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        },
        report.body,
    )
}

async fn configz(State(endpoints): State<Endpoints>) -> Response {
    (
        [(header::CONTENT_TYPE, "application/json"), NOSNIFF],
        endpoints.configz.to_string(),
    )
        .into_response()
}

/// `/flagz` or `/statusz`; 404 if its feature gate is off.
async fn zpage(page: Page, state: State<Endpoints>, request: Request) -> Response {
    let State(endpoints) = &state;
    if !endpoints.zpages.has(page) {
        return not_found(state, request).await;
    }
    endpoints.zpages.answer(page, &request.into_parts().0)
}

/// `/debug/flags`: the list of flags that can be changed.
async fn flags(state: State<Endpoints>, request: Request) -> Response {
    if state.verbosity.is_none() {
        return not_found(state, request).await;
    }
    let page = "<html><head><title>/debug/flags/</title></head><body>flags:<br><a href=\"/debug/flags/v\">v</a></body></html>\n";
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), NOSNIFF],
        page,
    )
        .into_response()
}

/// `/debug/flags/v`: a PUT of a number changes the verbosity.
async fn set_verbosity(state: State<Endpoints>, request: Request) -> Response {
    let Some(verbosity) = state.verbosity.clone() else {
        return not_found(state, request).await;
    };
    if request.method() != Method::PUT {
        return text(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let body = match tokio::time::timeout(HEAD, axum::body::to_bytes(request.into_body(), MAX_BODY))
        .await
    {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a number of at most {MAX_BODY} bytes is expected"),
            );
        }
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "the number did not come in time",
            );
        }
    };
    let typed = String::from_utf8_lossy(&body);
    match typed.parse::<i32>() {
        Ok(level) => {
            verbosity.set(level.into());
            tracing::info!(level, "log verbosity changed");
            text(
                StatusCode::OK,
                format!("successfully set klog.logging.verbosity to {typed}"),
            )
        }
        Err(reason) => text(
            StatusCode::BAD_REQUEST,
            format!("failed set klog.logging.verbosity {typed}: {reason}"),
        ),
    }
}

async fn version(State(endpoints): State<Endpoints>) -> Response {
    let Releases {
        emulated,
        oldest_compatible,
        ..
    } = endpoints.releases;
    let document = version::document(emulated.parts(), oldest_compatible.parts());
    (
        [(header::CONTENT_TYPE, "application/json"), NOSNIFF],
        document,
    )
        .into_response()
}

/// Scrapes take their turns. Otherwise those of one client would all be next for the thread, and a
/// probe would wait for all of them.
static SCRAPES: Semaphore = Semaphore::const_new(1);

async fn metrics(State(endpoints): State<Endpoints>, request: Request) -> Response {
    let _turn = SCRAPES.acquire().await;
    let release = endpoints.releases.emulated;
    match with_metric_counts(endpoints.metrics.gather(), &endpoints.shown, release) {
        Ok(families) => exposed(&endpoints, &families, &request),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("An error has occurred while gathering metrics: {error}\n"),
        ),
    }
}

/// `/metrics/slis`: as upstream, DELETE resets the metrics.
async fn slis(State(endpoints): State<Endpoints>, request: Request) -> Response {
    if request.method() == Method::DELETE {
        endpoints.health.reset_metrics();
        return text(StatusCode::OK, "metrics reset\n");
    }
    exposed(&endpoints, &endpoints.slis.gather(), &request)
}

/// The response with these families, and with upstream's header for the start of the process.
fn exposed(
    endpoints: &Endpoints,
    families: &[prometheus::proto::MetricFamily],
    request: &Request,
) -> Response {
    let mut response = exposition::answer(families, request.headers());
    let started = HeaderName::from_static("process-start-time-unix");
    response
        .headers_mut()
        .insert(started, endpoints.started.into());
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tower::Service;

    use super::*;
    use crate::command_line::Options;
    use crate::config::{Features, Release};

    fn endpoints() -> Endpoints {
        let slis = Registry::new();
        let metrics = Registry::new();
        let options = Options::default();
        let features = Features::new(&options, Release::DEFAULT).unwrap();
        crate::metrics::register(&metrics, &features).unwrap();
        Endpoints {
            health: HealthChecks::new(&slis, &metrics, 7, false).unwrap(),
            metrics,
            slis,
            shown: Arc::new(MetricsSettings {
                disabled: ["version_info".to_owned()].into(),
                ..MetricsSettings::default()
            }),
            configz: "{}".into(),
            zpages: Zpages::new(&options, &features, Clock::system()),
            releases: features.releases,
            debug: debug_pages(),
            why: None,
            ui: None,
            verbosity: None,
            started: 7,
        }
    }

    fn debug_pages() -> DebugPages {
        let pages = DebugPages::default();
        let page = |query: &str| DebugAnswer {
            content_type: "text/vnd.graphviz",
            body: format!("digraph {query}"),
        };
        pages.add(
            "garbage-collector-controller/graph".to_owned(),
            Arc::new(page),
        );
        pages
    }

    async fn ask(method: &str, path: &str) -> (u16, http::HeaderMap, String) {
        send(
            endpoints(),
            http::Request::builder()
                .method(method)
                .uri(path)
                .body(axum::body::Body::empty())
                .unwrap(),
        )
        .await
    }

    async fn send(endpoints: Endpoints, request: Request) -> (u16, http::HeaderMap, String) {
        let (head, body) = answer(endpoints, request).await;
        (
            head.status.as_u16(),
            head.headers,
            String::from_utf8(body.to_vec()).unwrap(),
        )
    }

    async fn answer(
        endpoints: Endpoints,
        mut request: Request,
    ) -> (http::response::Parts, axum::body::Bytes) {
        request.extensions_mut().insert(Peer {
            address: SocketAddr::from(([192, 0, 2, 1], 4000)),
            certificates: None,
        });
        let response = router(endpoints, Arc::new(Access::Open))
            .call(request)
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn paths_match_exactly_and_methods_are_ignored() {
        // (method, path, status, content type, body)
        let text = "text/plain; charset=utf-8";
        let cases = [
            ("GET", "/healthz", 200, text, Some("ok")),
            ("POST", "/healthz", 200, text, Some("ok")),
            (
                "GET",
                "/healthz?verbose",
                200,
                text,
                Some("[+]ping ok\nhealthz check passed\n"),
            ),
            ("HEAD", "/healthz", 200, text, Some("")),
            ("GET", "/healthz/", 404, text, Some("404 page not found\n")),
            (
                "GET",
                "/healthz/ping",
                404,
                text,
                Some("404 page not found\n"),
            ),
            ("GET", "/livez", 200, text, Some("ok")),
            (
                "GET",
                "/readyz?verbose",
                200,
                text,
                Some("[+]ping ok\nreadyz check passed\n"),
            ),
            ("GET", "/readyz/", 404, text, Some("404 page not found\n")),
            ("GET", "/version", 200, "application/json", None),
            ("GET", "/flagz", 200, text, None),
            ("POST", "/statusz", 200, text, None),
            ("GET", "/flagz/", 404, text, Some("404 page not found\n")),
            (
                "PUT",
                "/debug/flags/v",
                404,
                text,
                Some("404 page not found\n"),
            ),
            (
                "GET",
                "/debug/flags",
                404,
                text,
                Some("404 page not found\n"),
            ),
            ("GET", "/version/", 404, text, Some("404 page not found\n")),
            ("GET", "/configz", 200, "application/json", Some("{}")),
            (
                "PUT",
                "/metrics",
                200,
                "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
                None,
            ),
            (
                "GET",
                "/debug/controllers/garbage-collector-controller/graph?uid=a",
                200,
                "text/vnd.graphviz",
                Some("digraph uid=a"),
            ),
            (
                "GET",
                "/debug/controllers/garbage-collector-controller",
                404,
                text,
                Some("\n"),
            ),
            (
                "GET",
                "/debug/controllers/other/graph",
                404,
                text,
                Some("404 page not found\n"),
            ),
            (
                "GET",
                "/debug/why/deployments/default/web",
                404,
                text,
                Some("404 page not found\n"),
            ),
            (
                "DELETE",
                "/metrics/slis",
                200,
                text,
                Some("metrics reset\n"),
            ),
        ];
        for (method, path, status, kind, body) in cases {
            let answer = ask(method, path).await;
            assert_eq!(
                (answer.0, answer.1[header::CONTENT_TYPE].to_str().unwrap()),
                (status, kind),
                "{method} {path}"
            );
            assert_eq!(
                answer.1[header::CACHE_CONTROL],
                "no-cache, private",
                "{method} {path}"
            );
            if let Some(body) = body {
                assert_eq!(answer.2, body, "{method} {path}");
            }
        }
    }

    #[tokio::test]
    async fn a_put_of_a_number_sets_the_verbosity() {
        let verbosity = Verbosity::new(0, |_| {});
        let endpoints = Endpoints {
            verbosity: Some(verbosity.clone()),
            ..endpoints()
        };
        let long = "1".repeat(MAX_BODY + 1);
        let too_long = format!("a number of at most {MAX_BODY} bytes is expected");
        // (method, body, status, response, verbosity afterwards)
        let cases = [
            (
                "PUT",
                "4",
                200,
                "successfully set klog.logging.verbosity to 4",
                4,
            ),
            (
                "PUT",
                "-1",
                200,
                "successfully set klog.logging.verbosity to -1",
                -1,
            ),
            (
                "PUT",
                "much",
                400,
                "failed set klog.logging.verbosity much: invalid digit found in string",
                -1,
            ),
            ("PUT", long.as_str(), 413, too_long.as_str(), -1),
            ("GET", "", 406, "unsupported http method", -1),
            ("POST", "2", 406, "unsupported http method", -1),
        ];
        for (method, body, status, answer, level) in cases {
            let request = http::Request::builder()
                .method(method)
                .uri("/debug/flags/v")
                .body(body.to_owned().into())
                .unwrap();
            let (found, _, said) = send(endpoints.clone(), request).await;
            assert_eq!(
                (found, said.as_str(), verbosity.get()),
                (status, answer, level),
                "{method} {body:.10}"
            );
        }
        let request = http::Request::builder()
            .uri("/debug/flags")
            .body(axum::body::Body::empty())
            .unwrap();
        let (status, headers, body) = send(endpoints, request).await;
        assert_eq!(
            (status, &headers[header::CONTENT_TYPE]),
            (200, &HeaderValue::from_static("text/html; charset=utf-8"))
        );
        assert!(body.contains("/debug/flags/v"), "{body}");
    }

    #[tokio::test]
    async fn the_version_is_that_of_the_compatible_kubernetes_release() {
        let (_, _, body) = ask("GET", "/version").await;
        let version: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&version["major"], &version["minor"], &version["gitVersion"]),
            (
                &"1".into(),
                &version::minor().into(),
                &version::GIT_VERSION.into()
            )
        );
        assert_eq!(
            (
                &version["emulationMinor"],
                &version["minCompatibilityMinor"]
            ),
            (&"36".into(), &"35".into())
        );
    }

    #[tokio::test]
    async fn disabled_families_are_omitted() {
        let (_, headers, body) = ask("GET", "/metrics").await;
        assert_eq!(headers["process-start-time-unix"], "7");
        assert!(
            body.contains("kubernetes_build_info{") && !body.contains("version_info{component"),
            "{body}"
        );
    }

    #[tokio::test]
    async fn metrics_have_the_format_that_the_client_accepts() {
        let text = ask("GET", "/metrics").await.2;
        let body = async |path: &str, accept: &str, encoding: &str| {
            let request = http::Request::builder()
                .uri(path)
                .header("accept", accept)
                .header("accept-encoding", encoding);
            answer(
                endpoints(),
                request.body(axum::body::Body::empty()).unwrap(),
            )
            .await
        };
        let unzipped = |bytes: &[u8]| {
            let mut out = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut out).unwrap();
            out
        };
        let delimited = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

        let (head, zipped) = body("/metrics", "*/*", "gzip").await;
        assert_eq!(head.headers[header::CONTENT_ENCODING], "gzip");
        assert_eq!(head.headers["process-start-time-unix"], "7");
        assert!(
            zipped.len() * 4 < text.len(),
            "{} of {} bytes",
            zipped.len(),
            text.len()
        );
        let names = |text: &str| {
            text.lines()
                .filter(|line| line.starts_with('#'))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&String::from_utf8(unzipped(&zipped)).unwrap()),
            names(&text)
        );

        let (head, messages) = body("/metrics", delimited, "identity").await;
        assert_eq!(
            head.headers[header::CONTENT_TYPE],
            format!("{delimited}; escaping=underscores")
        );
        assert!(!head.headers.contains_key(header::CONTENT_ENCODING));
        // The length of the message, then field 1 with the name of the first family.
        let name = text.split_whitespace().nth(2).unwrap();
        let at = messages.iter().position(|byte| *byte == 0x0a).unwrap();
        assert_eq!(
            (
                usize::from(messages[at + 1]),
                &messages[at + 2..][..name.len()]
            ),
            (name.len(), name.as_bytes())
        );

        let (head, zipped) = body("/metrics/slis", delimited, "deflate, gzip").await;
        assert_eq!(head.headers[header::CONTENT_ENCODING], "gzip");
        let start = b"\x0a\x1aprocess_start_time_seconds";
        assert!(
            unzipped(&zipped)
                .windows(start.len())
                .any(|part| part == start)
        );
    }

    #[tokio::test]
    async fn the_error_for_a_port_in_use_names_the_address() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let serving = Serving {
            address,
            tls: None,
            share_port: false,
            access: crate::config::Access::Open,
        };
        let queues = QueueMetrics::register(&Registry::new()).unwrap();
        let error = Server::bind(&serving, Access::Open, &Clock::system(), &queues)
            .err()
            .unwrap()
            .to_string();
        let expected = format!(
            "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: address already in use"
        );
        assert_eq!(error, expected);
    }
}
