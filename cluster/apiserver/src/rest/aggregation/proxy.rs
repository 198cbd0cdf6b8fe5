//! The proxy to programs behind APIServices. Upstream: `pkg/apiserver/handler_proxy.go` of
//! kube-aggregator, and `apimachinery/pkg/util/proxy`.

use std::pin::pin;
use std::task::{Poll, ready};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::super::{Body, text};
use super::{Program, Remote};
use crate::auth::User;

/// Marks the answer of another program, which keeps its layout.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Unchanged;

/// Headers of one connection.
const OF_CONNECTIONS: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Characters that keys of extra fields have escaped in names of headers.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'/').add(b':').add(b'"');

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
        identify(&mut headers, user);
        let answer = send(program, parts, headers, body).await;
        let mut answer = answer
            .unwrap_or_else(|why| text(503, format!("error trying to reach service: {why}\n")));
        answer.extensions_mut().insert(Unchanged);
        answer
    }
}

/// The headers of the client, with those of a proxy.
fn forwarded(parts: &Parts, program: &Program) -> HeaderMap {
    let is_own = |name: &HeaderName| {
        OF_CONNECTIONS.contains(name)
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

/// Tells the program the user. Upstream: `SetAuthProxyHeaders` of `client-go/transport`.
fn identify(headers: &mut HeaderMap, user: &User) {
    let mut add = |name: &str, text: &str| {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes())
            && let Ok(value) = HeaderValue::from_str(text)
        {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    for group in &user.groups {
        add("x-remote-group", group);
    }
    for (key, values) in &user.extra {
        let key = utf8_percent_encode(key, ESCAPED);
        for value in values {
            add(&format!("x-remote-extra-{key}"), value);
        }
    }
}

async fn send(
    program: &Program,
    parts: &Parts,
    headers: HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>, String> {
    let (mut sender, connection) = program.open().await?;
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
        tokio::select! {
            biased;
            answer = &mut answering => answer,
            _ = &mut connection => answering.await,
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

/// The pieces of a body, as the connection brings them. A broken connection ends them.
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
