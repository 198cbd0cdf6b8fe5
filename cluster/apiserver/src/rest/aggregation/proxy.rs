//! The proxy to programs behind APIServices. Upstream: `pkg/apiserver/handler_proxy.go` of
//! kube-aggregator, and `apimachinery/pkg/util/proxy`.

use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::timeout;

use super::super::{Body, text};
use super::{Program, Remote};
use crate::auth::User;

/// Marks the answer of another program, which keeps its layout.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Unchanged;

/// The longest wait for a connection, as upstream's for the handshake.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// The longest wait for the head of an answer, as upstream's for requests that do not run long. The head of a watch
/// comes at once.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

/// Headers of one connection.
const OF_CONNECTIONS: [HeaderName; 9] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Characters that names of headers cannot have, and `%`. Upstream: `headerKeyEscape` of client-go.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

impl Remote {
    /// The answer of the program.
    pub(in super::super) async fn answer(
        &self,
        parts: &Parts,
        body: &Bytes,
        user: &User,
        audit_id: HeaderValue,
    ) -> Response<Body> {
        let program = match &self.program {
            Some(program) if self.is_available => program,
            _ => return text(503, "service unavailable\n"),
        };
        if let Err(why) = &program.tls {
            return text(500, format!("{why}\n"));
        }
        let mut headers = forwarded(parts, program);
        headers.insert("audit-id", audit_id);
        if let Err(why) = identify(&mut headers, user) {
            return text(503, format!("error trying to reach service: {why}\n"));
        }
        let answer = send(program, parts, headers, body).await;
        let mut answer = answer
            .unwrap_or_else(|why| text(503, format!("error trying to reach service: {why}\n")));
        answer.extensions_mut().insert(Unchanged);
        answer
    }
}

/// The headers of the client, with those of a proxy.
fn forwarded(parts: &Parts, program: &Program) -> HeaderMap {
    let named = parts.headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|names| names.to_str().ok());
    let named: Vec<&str> = named
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .collect();
    let is_own = |name: &HeaderName| {
        OF_CONNECTIONS.contains(name)
            || named
                .iter()
                .any(|one| one.eq_ignore_ascii_case(name.as_str()))
            || *name == header::AUTHORIZATION
            || name.as_str().starts_with("impersonate-")
            || name.as_str().starts_with("x-remote-")
    };
    let given = parts.headers.iter().filter(|(name, _)| !is_own(name));
    let mut headers: HeaderMap = given
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let authority = program.authority();
    let path = parts.uri.path();
    for (name, value) in [
        ("host", &*authority),
        ("x-forwarded-host", &*authority),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-uri", path),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Tells the program the user. A text that no header can have is an error: the program must not decide about a part
/// of the identity. Upstream: `SetAuthProxyHeaders` of `client-go/transport`.
fn identify(headers: &mut HeaderMap, user: &User) -> Result<(), String> {
    let mut add = |name: &str, text: &str| -> Result<(), String> {
        let wrong = || format!("invalid header field value for {name:?}");
        let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| wrong())?;
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?,
            value,
        );
        Ok(())
    };
    add("x-remote-user", &user.name)?;
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid)?;
    }
    for group in &user.groups {
        add("x-remote-group", group)?;
    }
    for (key, values) in &user.extra {
        let key = utf8_percent_encode(key, ESCAPED);
        for value in values {
            add(&format!("x-remote-extra-{key}"), value)?;
        }
    }
    Ok(())
}

async fn send(
    program: &Program,
    parts: &Parts,
    headers: HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>, String> {
    let opened = timeout(OPEN_LIMIT, program.open()).await;
    let (mut sender, connection) =
        opened.map_err(|_| "net/http: TLS handshake timeout".to_owned())??;
    let target = parts.uri.path_and_query();
    let request = Request::builder()
        .method(parts.method.clone())
        .uri(target.map_or("/", |target| target.as_str()))
        .body(Full::new(body.clone()));
    let mut request = request.map_err(|why| why.to_string())?;
    *request.headers_mut() = headers;
    let mut connection = Box::pin(connection);
    let answer = {
        // The connection makes progress only while it is polled.
        let mut answering = pin!(sender.send_request(request));
        let exchange = async {
            tokio::select! {
                biased;
                answer = &mut answering => answer,
                _ = &mut connection => answering.await,
            }
        };
        match timeout(HEAD_LIMIT, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                return Ok(text(
                    504,
                    "Timeout: request did not complete within the allotted timeout",
                ));
            }
        }
    };
    let (answered, body) = answer.map_err(|why| why.to_string())?.into_parts();
    let is_redirect = answered.status.is_redirection();
    if is_redirect && answered.headers.contains_key(header::LOCATION) {
        let why = "the backend attempted to redirect this request, which is not permitted";
        return Ok(text(502, why));
    }
    let pieces = pieces(connection, body);
    let mut response = Response::new(Body::stream(pieces));
    *response.status_mut() = answered.status;
    let kept = answered.headers.iter();
    for (name, value) in kept.filter(|(name, _)| !OF_CONNECTIONS.contains(name)) {
        response.headers_mut().append(name.clone(), value.clone());
    }
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// The pieces of a body, as the connection brings them. A broken connection ends them, and without a length the
/// client takes them for the whole.
fn pieces<C>(connection: std::pin::Pin<Box<C>>, body: Incoming) -> impl Stream<Item = Bytes> + Send
where
    C: Future + Send,
{
    let mut connection = Some(connection);
    let mut body = Box::pin(body);
    let frames = futures::stream::poll_fn(move |cx| {
        if let Some(open) = &mut connection
            && open.as_mut().poll(cx).is_ready()
        {
            connection = None;
        }
        match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => Poll::Ready(Some(frame)),
            Some(Err(_)) | None => Poll::Ready(None),
        }
    });
    frames.filter_map(|frame| std::future::ready(frame.into_data().ok()))
}
