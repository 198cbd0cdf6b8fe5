//! The proxy to programs behind APIServices. Upstream: `pkg/apiserver/handler_proxy.go` of
//! kube-aggregator, and `apimachinery/pkg/util/proxy`.

use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyDataStream, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::super::streams::{Begun, Changed, Upgradable};
use super::super::{Body, text};
use super::{Program, Remote};
use crate::auth::User;
use crate::calls::exchange::{self, Received};
use crate::requests::ClientAddress;

/// Marks the answer of another program, which keeps its layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unchanged {
    /// Whether only the client or the program ends it, as a watch. A client takes the part of another answer
    /// for the whole if it ends in order.
    pub(crate) is_endless: bool,
}

/// The longest wait for a connection, as upstream's for the handshake.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// The time for the list of resources of a version. Upstream: `aggregatedDiscoveryTimeout`.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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

/// Headers of answers that decide which pages may read them. That is for the server to say. Upstream:
/// `removeCORSHeaders` of `apimachinery/pkg/util/proxy`.
const OF_ORIGINS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
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

/// Characters that Go escapes in queries.
const OF_QUERIES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Characters that Go escapes in paths.
const OF_PATHS: &AsciiSet = &OF_QUERIES
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

impl Remote {
    /// The answer of the program, which has this time for all of it.
    pub(in super::super) async fn answer(
        &self,
        parts: &Parts,
        body: &Bytes,
        user: &User,
        audit_id: HeaderValue,
        limit: Option<Duration>,
    ) -> Response<Body> {
        let program = match &self.program {
            Some(program) if self.is_available => program,
            _ => return text(503, "service unavailable\n"),
        };
        if let Err(why) = &program.tls {
            return text(500, format!("{why}\n"));
        }
        let is_upgrade = asks_for_upgrade(parts);
        let mut headers = if is_upgrade {
            without_identity(&parts.headers)
        } else {
            forwarded(parts, program)
        };
        headers.insert("audit-id", audit_id);
        append_client(&mut headers, parts);
        set(&mut headers, "host", &program.authority());
        let unreached = |why: String| {
            // Upstream's dialer of upgrades has no words around its errors.
            let begin = if is_upgrade {
                ""
            } else {
                "error trying to reach service: "
            };
            text(503, format!("{begin}{why}\n"))
        };
        let answered = async {
            identify(&mut headers, user).map_err(unreached)?;
            let answer = send(program, parts, headers, body)
                .map_err(unreached)
                .await?;
            let answer = if is_upgrade {
                changed(answer).await
            } else {
                relayed(answer)
            };
            answer.map_err(|why| text(503, format!("{why}\n")))
        };
        let is_discovery = parts.uri.path().trim_matches('/').split('/').count() == 3;
        let is_short = is_discovery && limit.is_some_and(|limit| limit > DISCOVERY_LIMIT);
        let limit = if is_short {
            Some(DISCOVERY_LIMIT)
        } else {
            limit
        };
        let end = limit.map(|limit| Instant::now() + limit);
        let answered = answered.map(|answered| answered.unwrap_or_else(|refusal| refusal));
        let answered = match end {
            None => Some(answered.await),
            Some(end) => timeout_at(end, answered).await.ok(),
        };
        let mut answer = match answered {
            Some(answer) => answer,
            None if is_short => unreached("context deadline exceeded".to_owned()),
            None => late(),
        };
        let is_endless = end.is_none();
        answer.extensions_mut().insert(Unchanged { is_endless });
        match end {
            None => answer,
            Some(end) => answer.map(|body| body.broken_off(sleep_until(end))),
        }
    }
}

/// The answer after the time of a request. Upstream's timer knows no media types, so the status has no kind, and the type
/// of a text. Upstream: `baseTimeoutWriter` of `apiserver/pkg/server/filters`.
fn late() -> Response<Body> {
    let why = "Timeout: request did not complete within the allotted timeout";
    let status = json!({
        "metadata": {}, "status": "Failure", "message": why, "reason": "Timeout", "details": {}, "code": 504,
    });
    text(504, format!("{status}\n"))
}

/// Whether the client wants another protocol on its connection. Upstream: `IsUpgradeRequest` of
/// `apimachinery/pkg/util/httpstream`.
fn asks_for_upgrade(parts: &Parts) -> bool {
    let mut names = parts.headers.get_all(header::CONNECTION).iter();
    let mut is_named = || {
        names.any(|names| {
            let names = names.as_bytes().to_ascii_lowercase();
            names.windows(7).any(|part| part == b"upgrade")
        })
    };
    parts.extensions.get::<Upgradable>().is_some() && is_named()
}

/// The headers of the client without its identity, which the server tells itself. Other headers with such names
/// pass, as upstream: programs read these four of the server alone.
fn without_identity(given: &HeaderMap) -> HeaderMap {
    let is_own = |name: &HeaderName| {
        let name = name.as_str();
        let told = ["x-remote-", "impersonate-"]
            .iter()
            .find_map(|begin| name.strip_prefix(begin));
        name == header::AUTHORIZATION
            || told.is_some_and(|told| {
                matches!(told, "user" | "group" | "uid") || told.starts_with("extra-")
            })
    };
    let kept = given.iter().filter(|(name, _)| !is_own(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn set(headers: &mut HeaderMap, name: &'static str, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Appends the address of the client to those that earlier proxies saw. Requests in the process have none.
/// Upstream: `AppendForwardedForHeader` of `apimachinery/pkg/util/net`.
fn append_client(headers: &mut HeaderMap, parts: &Parts) {
    let Some(ClientAddress(address)) = parts.extensions.get() else {
        return;
    };
    let earlier = headers.get_all(FORWARDED_FOR).iter();
    let mut all: Vec<&[u8]> = earlier.map(HeaderValue::as_bytes).collect();
    let address = address.to_string();
    all.push(address.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// The headers of the client, with those of a proxy.
fn forwarded(parts: &Parts, program: &Program) -> HeaderMap {
    let named = parts.headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|names| names.to_str().ok());
    let named = named.flat_map(|names| names.split(',')).map(str::trim);
    let mut headers = without_identity(&parts.headers);
    for name in named {
        headers.remove(name);
    }
    for name in OF_CONNECTIONS {
        headers.remove(name);
    }
    set(&mut headers, "x-forwarded-host", &program.authority());
    set(&mut headers, "x-forwarded-proto", "https");
    set(&mut headers, "x-forwarded-uri", &path(parts));
    headers
}

/// The path, with escapes where Go needs them.
fn path(parts: &Parts) -> String {
    let path: Vec<u8> = percent_decode_str(parts.uri.path()).collect();
    percent_encode(&path, OF_PATHS).to_string()
}

/// The query with its question mark, in the order of its keys as Go writes it.
fn query(parts: &Parts) -> String {
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let escaped = |text: &str| {
        percent_encode(text.as_bytes(), OF_QUERIES)
            .to_string()
            .replace("%20", "+")
    };
    let pairs = pairs
        .iter()
        .map(|(key, value)| format!("{}={}", escaped(key), escaped(value)));
    match &*pairs.collect::<Vec<_>>().join("&") {
        "" => String::new(),
        pairs => format!("?{pairs}"),
    }
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
        let key = percent_encode(key.as_bytes(), ESCAPED);
        for value in values {
            add(&format!("x-remote-extra-{key}"), value)?;
        }
    }
    Ok(())
}

/// Sends the request to the program.
async fn send(
    program: &Program,
    parts: &Parts,
    headers: HeaderMap,
    body: &Bytes,
) -> Result<Response<Received>, String> {
    let opened = timeout(OPEN_LIMIT, program.open()).await;
    let opened = opened.map_err(|_| "net/http: TLS handshake timeout".to_owned())??;
    let request = Request::builder()
        .method(parts.method.clone())
        .uri(path(parts) + &query(parts))
        .body(Full::new(body.clone()));
    let mut request = request.map_err(|why| why.to_string())?;
    *request.headers_mut() = headers;
    exchange::send(opened, request).await
}

/// The answer for the client.
fn relayed(answer: Response<Received>) -> Result<Response<Body>, String> {
    let (answered, body) = answer.into_parts();
    if answered.status == StatusCode::SWITCHING_PROTOCOLS {
        let protocol = answered.headers.get(header::UPGRADE);
        let protocol = protocol.and_then(|name| name.to_str().ok());
        let protocol = protocol.unwrap_or_default();
        return Err(format!(
            "backend tried to switch protocol {protocol:?} when \"\" was requested"
        ));
    }
    let is_redirect = answered.status.is_redirection();
    if is_redirect && answered.headers.contains_key(header::LOCATION) {
        let why = "the backend attempted to redirect this request, which is not permitted";
        return Ok(text(502, why));
    }
    let pieces = BodyDataStream::new(body).map_err(std::io::Error::other);
    let mut response = Response::new(Body::fallible(pieces));
    *response.status_mut() = answered.status;
    *response.headers_mut() = answered.headers;
    let headers = response.headers_mut();
    for name in OF_CONNECTIONS.into_iter().chain(OF_ORIGINS) {
        headers.remove(name);
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// The answer to a client that wants another protocol. From then on, bytes pass in both directions.
/// Upstream: `UpgradeAwareHandler.tryUpgrade`.
async fn changed(answer: Response<Received>) -> Result<Response<Body>, String> {
    let status = answer.status();
    if status.is_client_error() || status.is_server_error() {
        return relayed(answer);
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let code = status.as_u16();
        return Err(format!("invalid upgrade response: status code {code}"));
    }
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = status;
    *response.headers_mut() = answer.headers().clone();
    let connection = exchange::upgraded(answer).await;
    let connection = connection.map_err(|why| why.to_string())?;
    let begun = Begun::new(Changed::Piped(connection));
    response.extensions_mut().insert(begun);
    Ok(response)
}
