use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;

use steersman_values::resource::{DEPLOYMENTS, NAMESPACES, PODS, RESOURCE_CLAIMS};

use super::*;

/// The scripted server's reaction to the next request.
enum Step {
    /// Status code and body.
    Answer(u16, &'static str),
    /// Status code and the header `Retry-After`.
    RetryAfter(u16, &'static str),
    Broken(std::io::ErrorKind),
    Silence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    line: String,
    user_agent: String,
    content_type: Option<String>,
    body: String,
    at: Duration,
}

/// A server that plays a script and records its requests.
#[derive(Clone)]
struct Server {
    script: Arc<Mutex<VecDeque<Step>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    registry: Registry,
    start: Instant,
}

impl Server {
    fn playing(script: impl IntoIterator<Item = Step>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            seen: Arc::default(),
            registry: Registry::new(),
            start: Instant::now(),
        }
    }

    fn client(&self, qps: f32) -> ApiClient {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        let settings = ClientSettings {
            user_agent: "test/agent".to_owned(),
            qps,
            burst: 1,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(&self.registry)
            .unwrap()
            .for_host("api:6443");
        ApiClient::new(kube::Client::new(service, "default"), settings, metrics)
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<kube::client::Body>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let header = |name| {
            parts
                .headers
                .get(name)
                .map(|v: &HeaderValue| v.to_str().unwrap().to_owned())
        };
        assert_eq!(
            header(http::header::ACCEPT).as_deref(),
            Some("application/json")
        );
        assert_eq!(header(http::header::ACCEPT_ENCODING), None);
        let mut seen = Seen {
            line: format!("{} {}", parts.method, parts.uri),
            user_agent: header(http::header::USER_AGENT).unwrap_or_default(),
            content_type: header(http::header::CONTENT_TYPE),
            body: String::new(),
            at: self.start.elapsed(),
        };
        seen.body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        self.seen.lock().push(seen);

        let step = self
            .script
            .lock()
            .pop_front()
            .expect("the script has a step for each request");
        let response = Response::builder();
        match step {
            Step::Answer(code, body) => Ok(response
                .status(code)
                .body(Body::from(body.as_bytes().to_vec()))
                .unwrap()),
            Step::RetryAfter(code, after) => Ok(response
                .status(code)
                .header("Retry-After", after)
                .body(Body::empty())
                .unwrap()),
            Step::Broken(kind) => Err(kind.into()),
            Step::Silence => std::future::pending().await,
        }
    }

    fn lines(&self) -> Vec<String> {
        self.seen.lock().iter().map(|s| s.line.clone()).collect()
    }

    fn times(&self) -> Vec<u64> {
        self.seen.lock().iter().map(|s| s.at.as_secs()).collect()
    }

    fn exposition(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap()
    }
}

fn unthrottled() -> ClientSettings {
    ClientSettings {
        user_agent: String::new(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    }
}

/// A client that gets these chunks as the body of each answer. A `broken` connection fails after
/// them.
fn streaming_client(chunks: Vec<&'static str>, broken: bool) -> ApiClient {
    let service = tower::service_fn(move |_: Request<Body>| {
        let chunks = chunks.clone();
        async move {
            let frames = chunks
                .into_iter()
                .map(|c| Ok(http_body::Frame::data(Bytes::from_static(c.as_bytes()))));
            let end =
                broken.then(|| Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
            Ok::<_, std::io::Error>(Response::new(StreamBody::new(stream::iter(
                frames.chain(end),
            ))))
        }
    });
    ApiClient::new(
        kube::Client::new(service, "default"),
        unthrottled(),
        ClientMetrics::register(&Registry::new()).unwrap(),
    )
}

const WEB: Target<'_> = Target {
    resource: &DEPLOYMENTS,
    namespace: Some("shop"),
    name: Some("web"),
    subresource: None,
};
const PODS_OF_SHOP: Target<'_> = Target {
    resource: &PODS,
    namespace: Some("shop"),
    name: None,
    subresource: None,
};

#[tokio::test]
async fn each_verb_has_the_expected_path_headers_and_body() {
    let server = Server::playing((0..7).map(|_| Step::Answer(200, "{}")));
    let client = server.client(0.0);
    client.get(WEB).await.unwrap();
    client.list(PODS_OF_SHOP, "limit=500").await.unwrap();
    client.create(PODS_OF_SHOP, &json!({"a": 1})).await.unwrap();
    client
        .replace(
            Target {
                subresource: Some("status"),
                ..WEB
            },
            &json!({"a": 2}),
        )
        .await
        .unwrap();
    client
        .patch(WEB, PatchKind::Strategic, &json!({"a": 3}))
        .await
        .unwrap();
    client.delete(WEB, &json!({})).await.unwrap();
    client.get_path("/healthz?verbose=1").await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "GET /apis/apps/v1/namespaces/shop/deployments/web",
            "GET /api/v1/namespaces/shop/pods?limit=500",
            "POST /api/v1/namespaces/shop/pods",
            "PUT /apis/apps/v1/namespaces/shop/deployments/web/status",
            "PATCH /apis/apps/v1/namespaces/shop/deployments/web",
            "DELETE /apis/apps/v1/namespaces/shop/deployments/web",
            "GET /healthz?verbose=1",
        ]
    );
    let seen = server.seen.lock();
    let types: Vec<_> = seen.iter().map(|s| s.content_type.as_deref()).collect();
    let json = Some("application/json");
    let strategic = Some("application/strategic-merge-patch+json");
    assert_eq!(types, [None, None, json, json, strategic, json, None]);
    assert_eq!(seen[2].body, r#"{"a":1}"#);
    assert!(seen.iter().all(|s| s.user_agent == "test/agent"));
}

#[test]
fn the_user_agent_is_upstreams() {
    let agent = user_agent("deployment-controller");
    let (product, rest) = agent.split_once(' ').unwrap();
    assert_eq!(product, format!("kube-controller-manager/{GIT_VERSION}"));
    assert!(rest.starts_with('('), "{rest}");
    assert!(rest.ends_with("/deployment-controller"), "{rest}");
    let commit = rest
        .split("kubernetes/")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    assert_eq!(commit.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn only_retry_after_and_lost_connections_of_gets_cause_retries() {
    use Step::{Answer, Broken, RetryAfter};
    use std::io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
    // (why, verb, script, times of requests in seconds)
    let cases: Vec<(&str, Method, Vec<Step>, Vec<u64>)> = vec![
        (
            "429 with Retry-After",
            Method::PUT,
            vec![RetryAfter(429, "3"), Answer(200, "{}")],
            vec![0, 3],
        ),
        (
            "500 and 503 with Retry-After",
            Method::GET,
            vec![
                RetryAfter(500, "1"),
                RetryAfter(503, "2"),
                Answer(200, "{}"),
            ],
            vec![0, 1, 3],
        ),
        ("no header", Method::GET, vec![Answer(503, "")], vec![0]),
        (
            "429 without the header",
            Method::GET,
            vec![Answer(429, "")],
            vec![0],
        ),
        (
            "header on a conflict",
            Method::PUT,
            vec![RetryAfter(409, "1")],
            vec![0],
        ),
        (
            "HTTP date",
            Method::GET,
            vec![RetryAfter(503, "Wed, 21 Oct 2015 07:28:00 GMT")],
            vec![0],
        ),
        (
            "retryAfterSeconds alone",
            Method::GET,
            vec![Answer(429, r#"{"details":{"retryAfterSeconds":1}}"#)],
            vec![0],
        ),
        (
            "GET on a reset connection",
            Method::GET,
            vec![Broken(ConnectionReset), Answer(200, "{}")],
            vec![0, 1],
        ),
        (
            "GET on a broken pipe",
            Method::GET,
            vec![Broken(BrokenPipe), Answer(200, "{}")],
            vec![0, 1],
        ),
        (
            "GET with a refused connection",
            Method::GET,
            vec![Broken(ConnectionRefused)],
            vec![0],
        ),
        (
            "PUT on a reset connection",
            Method::PUT,
            vec![Broken(ConnectionReset)],
            vec![0],
        ),
    ];
    for (why, verb, script, expected) in cases {
        let server = Server::playing(script);
        let client = server.client(0.0);
        let _ = match verb {
            Method::GET => client.get(WEB).await,
            _ => client.replace(WEB, &json!({"kept": true})).await,
        };
        assert_eq!(server.times(), expected, "{why}");
        let bodies: Vec<_> = server.seen.lock().iter().map(|s| s.body.clone()).collect();
        let body = if verb == Method::GET {
            ""
        } else {
            r#"{"kept":true}"#
        };
        assert!(bodies.iter().all(|b| b == body), "{why}: {bodies:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_ten_retries_the_error_is_returned() {
    let server = Server::playing((0..11).map(|_| Step::RetryAfter(429, "1")));
    let error = server.client(0.0).get(WEB).await.unwrap_err();
    assert!(
        matches!(error, ApiError::Status { code: 429, .. }),
        "{error:?}"
    );
    assert_eq!(server.lines().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_times_out() {
    let server = Server::playing([Step::Silence]);
    let began = Instant::now();
    let error = server.client(0.0).get(WEB).await.unwrap_err();
    assert!(matches!(error, ApiError::Timeout { .. }), "{error:?}");
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(
        error.request(),
        "GET /apis/apps/v1/namespaces/shop/deployments/web"
    );
}

#[tokio::test]
async fn error_texts_are_the_servers_or_else_upstreams() {
    const CONFLICT: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the object has been modified","reason":"Conflict","code":409}"#;
    const SUCCESS: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    // (why, verb, code, body, expected message; empty for success)
    let cases = [
        (
            "a Status",
            Method::PUT,
            409,
            CONFLICT,
            "the object has been modified",
        ),
        (
            "a Status in a success",
            Method::GET,
            200,
            CONFLICT,
            "the object has been modified",
        ),
        ("a success", Method::DELETE, 200, SUCCESS, ""),
        (
            "an object that mentions Status",
            Method::GET,
            200,
            r#"{"kind":"Pod","metadata":{"annotations":{"kind":"Status","status":"Failure"}}}"#,
            "",
        ),
        (
            "bare 404",
            Method::GET,
            404,
            "404 page not found",
            "the server could not find the requested resource (get deployments.apps web)",
        ),
        (
            "bare 409",
            Method::PUT,
            409,
            "",
            "the server reported a conflict (put deployments.apps web)",
        ),
        (
            "bare 422",
            Method::PUT,
            422,
            "",
            "the server rejected our request due to an error in our request (put deployments.apps web)",
        ),
        (
            "bare 503",
            Method::GET,
            503,
            "",
            "the server is currently unable to handle the request (get deployments.apps web)",
        ),
        (
            "bare 504",
            Method::GET,
            504,
            "",
            "the server was unable to return a response in the time allotted, but may still be processing the request \
             (get deployments.apps web)",
        ),
        (
            "bare 500",
            Method::GET,
            500,
            "oops \"quoted\"\n",
            r#"an error on the server ("oops \"quoted\"") has prevented the request from succeeding (get deployments.apps web)"#,
        ),
        (
            "bare 403",
            Method::GET,
            403,
            "forbidden for all",
            "forbidden for all (get deployments.apps web)",
        ),
    ];
    for (why, verb, code, body, expected) in cases {
        let client = Server::playing([Step::Answer(code, body)]).client(0.0);
        let outcome = match verb {
            Method::GET => client.get(WEB).await,
            Method::DELETE => client.delete(WEB, &json!({})).await,
            _ => client.replace(WEB, &json!({})).await,
        };
        match outcome {
            Ok(_) => assert_eq!(expected, "", "{why}"),
            Err(error) => assert_eq!(error.to_string(), expected, "{why}"),
        }
    }
}

#[tokio::test]
async fn errors_without_a_status_have_a_reason() {
    // (code, is POST, check)
    type Check = fn(&ApiError) -> bool;
    let cases: [(u16, bool, Check); 5] = [
        (404, false, ApiError::is_not_found),
        (409, false, ApiError::is_conflict),
        (409, true, ApiError::is_already_exists),
        (422, true, ApiError::is_invalid),
        (403, true, ApiError::is_forbidden),
    ];
    for (code, is_post, check) in cases {
        let client = Server::playing([Step::Answer(code, "")]).client(0.0);
        let collection = Target { name: None, ..WEB };
        let outcome = if is_post {
            client.create(collection, &json!({})).await
        } else {
            client.replace(WEB, &json!({})).await
        };
        let error = outcome.unwrap_err();
        assert!(check(&error), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn a_watch_yields_one_line_per_item() {
    let client = streaming_client(
        vec!["{\"type\":\"ADD", "ED\"}\n{\"type\":\"DELETED\"}\n"],
        false,
    );
    let watch = client
        .watch(PODS_OF_SHOP, "resourceVersion=5")
        .await
        .unwrap();
    let lines: Vec<_> = watch.map(Result::unwrap).collect().await;
    assert_eq!(lines, [r#"{"type":"ADDED"}"#, r#"{"type":"DELETED"}"#]);
}

#[tokio::test]
async fn a_broken_watch_ends_with_an_error() {
    let client = streaming_client(vec!["{}\n{"], true);
    let mut watch = client.watch(PODS_OF_SHOP, "").await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap(), "{}");
    assert!(matches!(
        watch.next().await,
        Some(Err(ApiError::Transport { .. }))
    ));
    assert!(watch.next().await.is_none());
}

/// A server whose answers with this status never end.
fn endless_client(status: u16, sent: &Arc<AtomicUsize>) -> ApiClient {
    let sent = Arc::clone(sent);
    let service = tower::service_fn(move |_: Request<Body>| {
        let sent = Arc::clone(&sent);
        let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
        let chunks = stream::repeat_with(move || {
            sent.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(http_body::Frame::data(piece.clone()))
        });
        let answer = Response::builder().status(status);
        let answer = answer.body(StreamBody::new(chunks)).unwrap();
        async move { Ok::<_, std::io::Error>(answer) }
    });
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    let metrics = metrics.for_host("10.0.0.1:6443");
    ApiClient::new(HttpService::new(service), unthrottled(), metrics)
}

#[tokio::test]
async fn answers_without_end_are_errors_that_name_server_and_resource() {
    let one = Target {
        name: Some("web"),
        ..PODS_OF_SHOP
    };
    let sent = Arc::new(AtomicUsize::new(0));
    let client = endless_client(200, &sent);
    let text = |request: &str, limit: u32| {
        format!("GET {request}: the API server 10.0.0.1:6443 sent more than {limit} MiB at once")
    };

    let mut lines = client.watch(PODS_OF_SHOP, "").await.unwrap();
    let watch = lines.next().await.unwrap().unwrap_err();
    assert!(watch.is_too_long() && lines.next().await.is_none());
    let errors = [
        (watch, text("/api/v1/namespaces/shop/pods", 16), 17),
        (
            client.get(one).await.unwrap_err(),
            text("/api/v1/namespaces/shop/pods/web", 16),
            17,
        ),
        (
            client.get_path("/apis").await.unwrap_err(),
            text("/apis", 16),
            17,
        ),
        (
            client.list(PODS_OF_SHOP, "limit=500").await.unwrap_err(),
            text("/api/v1/namespaces/shop/pods", 256),
            257,
        ),
    ];
    let mut read = 0;
    for (error, expected, megabytes) in errors {
        assert_eq!(error.to_string(), expected);
        read += megabytes;
    }
    assert_eq!(sent.swap(0, Ordering::Relaxed), read);

    let refused = endless_client(500, &sent).get(one).await.unwrap_err();
    assert_eq!(
        (refused.code(), sent.load(Ordering::Relaxed)),
        (Some(500), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_opened_is_empty() {
    let server = Server::playing((0..11).map(|_| Step::Broken(std::io::ErrorKind::UnexpectedEof)));
    let mut watch = server.client(0.0).watch(PODS_OF_SHOP, "").await.unwrap();
    assert!(watch.next().await.is_none());
    assert_eq!(server.times(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[tokio::test]
async fn a_refused_watch_is_an_error() {
    let server = Server::playing([Step::Answer(
        410,
        r#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old resource version","code":410}"#,
    )]);
    let error = server
        .client(0.0)
        .watch(PODS_OF_SHOP, "resourceVersion=1")
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&error, ApiError::Status { code: 410, .. }),
        "{error:?}"
    );
    assert_eq!(
        server.lines(),
        ["GET /api/v1/namespaces/shop/pods?watch=true&resourceVersion=1"]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_throttled_and_watches_are_not() {
    let server = Server::playing([
        Step::Answer(200, "{}"),
        Step::Answer(200, "{}"),
        Step::Answer(200, ""),
    ]);
    let client = server.client(0.5);
    client.get(WEB).await.unwrap();
    client.get(WEB).await.unwrap();
    let _watch = client.watch(PODS_OF_SHOP, "").await.unwrap();
    assert_eq!(server.times(), [0, 2, 2]);
    let text = server.exposition();
    assert!(
        text.contains(
            r#"rest_client_rate_limiter_duration_seconds_sum{host="api:6443",verb="GET"} 2"#
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_retry_waits_for_the_throttle() {
    let server = Server::playing([Step::RetryAfter(503, "1"), Step::Answer(200, "{}")]);
    server.client(0.25).get(WEB).await.unwrap();
    assert_eq!(server.times(), [0, 4]);
}

#[derive(Default)]
struct Switch {
    closed: AtomicBool,
    until: Mutex<Option<Instant>>,
}

impl WriteGate for Switch {
    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
            && self.until.lock().is_none_or(|end| Instant::now() < end)
    }

    fn open_until(&self) -> Option<Instant> {
        *self.until.lock()
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_stops_writes_but_not_reads() {
    let server = Server::playing([
        Step::Answer(200, "{}"),
        Step::Answer(200, "{}"),
        Step::RetryAfter(503, "5"),
    ]);
    let gate = Arc::new(Switch::default());
    let plain = server.client(0.0);
    let client = plain.fenced(Arc::clone(&gate) as Arc<dyn WriteGate>);
    gate.closed.store(true, Ordering::Relaxed);
    assert!(matches!(
        client.replace(WEB, &json!({})).await,
        Err(ApiError::Fenced { .. })
    ));
    assert!(matches!(
        client.delete(WEB, &json!({})).await,
        Err(ApiError::Fenced { .. })
    ));
    client.get(WEB).await.unwrap();
    plain.replace(WEB, &json!({})).await.unwrap();

    // The gate closes while a write waits for its second attempt.
    gate.closed.store(false, Ordering::Relaxed);
    let close = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        gate.closed.store(true, Ordering::Relaxed);
    };
    let body = json!({});
    let (outcome, ()) = tokio::join!(client.replace(WEB, &body), close);
    assert!(
        matches!(outcome, Err(ApiError::Fenced { .. })),
        "{outcome:?}"
    );
    assert_eq!(server.lines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pending_write_is_abandoned_at_the_end_of_an_extended_term() {
    let server = Server::playing([Step::Silence]);
    let gate = Arc::new(Switch::default());
    let client = server
        .client(0.0)
        .fenced(Arc::clone(&gate) as Arc<dyn WriteGate>);
    let began = Instant::now();
    *gate.until.lock() = Some(began + Duration::from_secs(2));
    let extend = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        *gate.until.lock() = Some(began + Duration::from_secs(3));
    };
    let body = json!({});
    let (outcome, ()) = tokio::join!(client.replace(WEB, &body), extend);
    assert!(
        matches!(outcome, Err(ApiError::Transport { .. })),
        "{outcome:?}"
    );
    assert_eq!(began.elapsed().as_secs(), 3);
}

/// A gate that a token closes, as at shutdown.
struct Ending(tokio_util::sync::CancellationToken);

impl WriteGate for Ending {
    fn is_open(&self) -> bool {
        !self.0.is_cancelled()
    }

    fn closing(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_unsent_requests_end_at_once_and_sent_writes_continue() {
    let server = Server::playing([
        Step::Silence,
        Step::Silence,
        Step::RetryAfter(503, "9"),
        Step::Answer(200, "{}"),
    ]);
    let stop = tokio_util::sync::CancellationToken::new();
    // The throttle allows one request per second: the second is sent after 1 s, the third after
    // 2 s.
    let plain = server.client(1.0);
    let client = plain.fenced(Arc::new(Ending(stop.clone())));
    let began = Instant::now();
    let at = |outcome: Result<Bytes, ApiError>| (began.elapsed().as_millis(), outcome.unwrap_err());
    let end = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        stop.cancel();
    };
    let body = json!({});
    let write = |n: u64| {
        let client = client.clone();
        async move {
            tokio::time::sleep_until(began + Duration::from_millis(n)).await;
            client.replace(WEB, &json!({})).await
        }
    };
    let outcomes = tokio::join!(
        async { at(write(0).await) },
        async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            at(client.get(WEB).await)
        },
        async { at(write(2).await) },
        async { at(write(3).await) },
        end
    );
    assert!(
        matches!(outcomes.0, (5000, ApiError::Timeout { .. })),
        "sent: {:?}",
        outcomes.0
    );
    assert!(
        matches!(outcomes.1, (2500, ApiError::Fenced { .. })),
        "a pending read: {:?}",
        outcomes.1
    );
    assert!(
        matches!(outcomes.2, (2500, ApiError::Fenced { .. })),
        "in the pause before a retry: {:?}",
        outcomes.2
    );
    assert!(
        matches!(outcomes.3, (2500, ApiError::Fenced { .. })),
        "in the throttle: {:?}",
        outcomes.3
    );
    assert_eq!(server.lines().len(), 3);
    // The unused token was returned, so the next request does not wait longer.
    let resumed = Instant::now();
    plain.replace(WEB, &body).await.unwrap();
    assert!(
        resumed.elapsed() < Duration::from_secs(1),
        "{:?}",
        resumed.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_count_final_answers_and_retries_separately() {
    let server = Server::playing([
        Step::RetryAfter(429, "1"),
        Step::Answer(200, "{}"),
        Step::Answer(404, ""),
        Step::Broken(std::io::ErrorKind::ConnectionRefused),
        Step::Answer(200, ""),
    ]);
    let client = server.client(0.0);
    client.replace(WEB, &json!({})).await.unwrap();
    client
        .get(Target {
            resource: &NAMESPACES,
            namespace: None,
            name: Some("shop"),
            subresource: None,
        })
        .await
        .unwrap_err();
    client.get(WEB).await.unwrap_err();
    let _watch = client.watch(PODS_OF_SHOP, "").await.unwrap();
    let text = server.exposition();
    let expected = [
        r#"rest_client_requests_total{code="200",host="api:6443",method="PUT"} 1"#,
        r#"rest_client_requests_total{code="404",host="api:6443",method="GET"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1"#,
        r#"rest_client_requests_total{code="200",host="api:6443",method="GET"} 1"#,
        r#"rest_client_request_retries_total{code="429",host="api:6443",verb="PUT"} 1"#,
        // The duration of the watch is not observed.
        r#"rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 2"#,
        r#"rest_client_request_size_bytes_sum{host="api:6443",verb="PUT"} 4"#,
        r#"rest_client_response_size_bytes_count{host="api:6443",verb="PUT"} 1"#,
    ];
    for line in expected {
        assert!(
            text.lines().any(|l| l == line),
            "{line} is missing in\n{text}"
        );
    }
    assert!(
        !text.contains(r#"code="429",host="api:6443",method"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_metadata_only_client_requests_partial_objects() {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&accepted);
    let service = tower::service_fn(move |request: Request<Body>| {
        seen.lock().push(
            request.headers()[http::header::ACCEPT]
                .to_str()
                .unwrap()
                .to_owned(),
        );
        async { Ok::<_, std::io::Error>(Response::new(Body::from(b"{}".to_vec()))) }
    });
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    let client = ApiClient::new(
        kube::Client::new(service, "default"),
        unthrottled(),
        metrics,
    );
    let metadata = client.metadata_only();
    metadata.get(WEB).await.unwrap();
    drop(metadata.watch(PODS_OF_SHOP, "").await.unwrap());
    metadata.list(PODS_OF_SHOP, "").await.unwrap();
    metadata.delete(PODS_OF_SHOP, &json!({})).await.unwrap();
    client.get(WEB).await.unwrap();
    client.get_path_as("/api", "application/x").await.unwrap();
    let form =
        |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
    let one = form("PartialObjectMetadata");
    let list = form("PartialObjectMetadataList");
    assert_eq!(
        *accepted.lock(),
        [
            one.clone(),
            one,
            list.clone(),
            list,
            JSON.to_owned(),
            "application/x".to_owned()
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rethrottled_client_has_its_own_larger_bucket() {
    let server = Server::playing((0..7).map(|_| Step::Answer(200, "{}")));
    let slow = server.client(1.0);
    let fast = slow.rethrottled(2.0, 3);
    slow.get(WEB).await.unwrap();
    for _ in 0..5 {
        fast.get(WEB).await.unwrap();
    }
    slow.get(WEB).await.unwrap();
    let millis: Vec<u128> = server
        .seen
        .lock()
        .iter()
        .map(|s| s.at.as_millis())
        .collect();
    assert_eq!(millis, [0, 0, 0, 0, 500, 1000, 1000]);
}

const CLAIM: Target<'_> = Target {
    resource: &RESOURCE_CLAIMS,
    namespace: Some("shop"),
    name: Some("gpu"),
    subresource: None,
};

/// The answer to discovery of a group version with one resource.
const HAS_CLAIMS: Step = Step::Answer(200, r#"{"resources": [{"name": "resourceclaims"}]}"#);
const HAS_OTHERS: Step = Step::Answer(200, r#"{"resources": [{"name": "deviceclasses"}]}"#);

#[tokio::test(start_paused = true)]
async fn a_list_without_a_type_finds_its_other_version() {
    let ok = || Step::Answer(200, "{}");
    let missing = || Step::Answer(404, "");
    let server = Server::playing([
        // The list, discovery of both versions, the list again, and requests of another client.
        missing(),
        HAS_OTHERS,
        HAS_CLAIMS,
        ok(),
        ok(),
        ok(),
        ok(),
        // An upgrade of the API server brings the named version, and takes the other one away.
        missing(),
        HAS_CLAIMS,
        ok(),
        ok(),
    ]);
    let client = server.client(0.0);
    let all = Target {
        namespace: None,
        name: None,
        ..CLAIM
    };
    let body =
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"a": 1.50}});
    client.list(all, "").await.unwrap();
    let other = client.rethrottled(1.0, 1);
    drop(other.watch(all, "").await.unwrap());
    other.replace(CLAIM, &body).await.unwrap();
    assert_eq!(other.served(&RESOURCE_CLAIMS).version, "v1beta2");
    let patch = json!({"metadata": {}});
    other.patch(CLAIM, PatchKind::Merge, &patch).await.unwrap();
    client.list(all, "").await.unwrap();
    other.replace(CLAIM, &body).await.unwrap();
    assert_eq!(other.served(&RESOURCE_CLAIMS).version, "v1");

    let old = "/apis/resource.k8s.io/v1beta2";
    let new = "/apis/resource.k8s.io/v1";
    let one = "namespaces/shop/resourceclaims/gpu";
    assert_eq!(
        server.lines(),
        [
            format!("GET {new}/resourceclaims"),
            format!("GET {new}"),
            format!("GET {old}"),
            format!("GET {old}/resourceclaims"),
            format!("GET {old}/resourceclaims?watch=true"),
            format!("PUT {old}/{one}"),
            format!("PATCH {old}/{one}"),
            format!("GET {old}/resourceclaims"),
            format!("GET {new}"),
            format!("GET {new}/resourceclaims"),
            format!("PUT {new}/{one}"),
        ]
    );
    let bodies: Vec<String> = server.seen.lock().iter().map(|s| s.body.clone()).collect();
    assert_eq!(
        bodies[5],
        r#"{"apiVersion":"resource.k8s.io/v1beta2","kind":"ResourceClaim","spec":{"a":1.5}}"#
    );
    assert_eq!(bodies[6], r#"{"metadata":{}}"#);
    assert!(
        bodies[10].contains(r#""resource.k8s.io/v1""#),
        "{}",
        bodies[10]
    );
}

#[tokio::test]
async fn a_type_that_no_version_has_stays_missing() {
    let missing = || Step::Answer(404, "");
    let server = Server::playing([missing(), missing(), missing(), missing()]);
    let client = server.client(0.0);
    let claims = Target {
        name: None,
        ..CLAIM
    };
    let pods = client.list(PODS_OF_SHOP, "").await.unwrap_err();
    let error = client.list(claims, "").await.unwrap_err();
    assert!(error.is_not_found() && pods.is_not_found());
    assert_eq!(
        error.request(),
        "GET /apis/resource.k8s.io/v1/namespaces/shop/resourceclaims"
    );
    assert_eq!(server.lines().len(), 4);
}
