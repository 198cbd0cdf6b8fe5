//! One request, from the throttle to its last retry.
//!
//! throttle -> gate -> attempt (with time limit) -> answer, or a pause and the same again
//!
//! The gate is checked before each attempt, so a retry never sends a write after the end of a
//! term. Retries follow `client-go/rest/with_retry.go`: the server asks for them with
//! `Retry-After`, and a GET is repeated after a lost connection.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::IntCounter;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::Instrument;

use super::activity::UnderWay;
use super::errors::api::{self, TooLong};
use super::errors::connection::{is_lost_connection, is_timeout};
use super::hold::{self, HeldBack};
use super::lines::{LineError, Lines, MAX_LINE};
use super::pool::{Lane, Sent};
use super::service::{HttpService, ResponseBody};
use super::versions::{Versions, in_version};
use super::witness::Write;
use super::{
    ApiError, ApiPath, ClientMetrics, ClientSettings, JSON, PathError, Query, REQUESTS, SPANS,
    Target, WriteGate, header_value,
};
use crate::rate::TokenBucket;
use steersman_values::resource::ResourceType;

/// Upstream's `defaultMaxRetries`.
const MAX_RETRIES: u32 = 10;
/// Pause before a GET is repeated after a lost connection.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Shorter waits for the throttle are not logged.
const LONG_WAIT: Duration = Duration::from_millis(50);
/// Longer waits are logged at info level, at most once per [`WAIT_REPORT_INTERVAL`].
const VERY_LONG_WAIT: Duration = Duration::from_secs(1);
const WAIT_REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for the head of a watch's answer. Servers send it at once. A proxy may delay it until
/// the first line, and a bookmark comes about every minute.
const WATCH_OPENING: Duration = Duration::from_secs(75);

/// The longest answer with one object or a discovery document, in bytes. etcd stores objects of 1.5
/// MiB, and the discovery document of a thousand types has about as much.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// The longest page of a list. Pages have 500 objects.
const MAX_PAGE: usize = 256 * 1024 * 1024;
/// The longest list without pages.
const MAX_LIST: usize = 1024 * 1024 * 1024;
/// The longest part of an error's body that is read.
const MAX_ERROR: usize = 1024 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request before its headers are complete.
pub(super) struct Call<'a> {
    method: Method,
    target: Option<Target<'a>>,
    /// The type of the target, if the API server has it in another version than the named one.
    served: Option<ResourceType>,
    path: String,
    query: &'a str,
    body: Bytes,
    content_type: Option<&'static str>,
    accept: &'static str,
    /// Time limit of one attempt, instead of the client's.
    timeout: Option<Duration>,
}

impl<'a> Call<'a> {
    pub(super) fn on(
        method: Method,
        target: Target<'a>,
        versions: &Versions,
    ) -> Result<Self, PathError> {
        let served = versions.served(target.resource);
        let path = Target {
            resource: &served,
            ..target
        }
        .path()?;
        let served = match served {
            Cow::Borrowed(_) => None,
            Cow::Owned(served) => Some(served),
        };
        Ok(Self {
            path,
            target: Some(target),
            served,
            ..Self::new(method)
        })
    }

    /// GET `path`, which may contain a query.
    pub(super) fn at(path: &'a ApiPath) -> Self {
        let path = path.as_str();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self {
            path: path.to_owned(),
            query,
            ..Self::new(Method::GET)
        }
    }

    fn new(method: Method) -> Self {
        Self {
            method,
            target: None,
            served: None,
            path: String::new(),
            query: "",
            body: Bytes::new(),
            content_type: None,
            accept: JSON,
            timeout: None,
        }
    }

    /// Requests one of these media types.
    pub(super) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    pub(super) fn query(self, query: &'a Query) -> Self {
        Self {
            query: query.as_str(),
            ..self
        }
    }

    pub(super) fn body(
        self,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<Self, ApiError> {
        match serde_json::to_vec(body) {
            Ok(json) => Ok(Self {
                body: match &self.served {
                    None => Bytes::from(json),
                    Some(served) => in_version(Bytes::from(json), served),
                },
                content_type: Some(content_type),
                ..self
            }),
            Err(e) => Err(ApiError::Decode {
                request: self.name(),
                source: e.into(),
            }),
        }
    }

    /// Resource and subresource, or the path of a request without a resource.
    fn resource(&self) -> String {
        match &self.target {
            Some(Target {
                resource,
                subresource: Some(part),
                ..
            }) => format!("{}/{part}", resource.plural),
            Some(Target { resource, .. }) => resource.plural.to_string(),
            None => self.path.clone(),
        }
    }

    /// The longest answer, in bytes.
    fn max_answer(&self) -> usize {
        match self.kind() {
            "LIST" if self.query.contains("limit=") => MAX_PAGE,
            "LIST" | "DELETECOLLECTION" => MAX_LIST,
            _ => MAX_ANSWER,
        }
    }

    /// The name of the request in errors: verb and path.
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The kind of the request for [`super::Activity`], which checks each kind separately. A
    /// request without a resource is `DISCOVERY`.
    fn kind(&self) -> &'static str {
        if self.target.is_none() {
            return "DISCOVERY";
        }
        let is_collection = self
            .target
            .as_ref()
            .is_some_and(|target| target.name.is_none());
        match (&self.method, is_collection) {
            (&Method::GET, true) => "LIST",
            (&Method::GET, false) => "GET",
            (&Method::POST, _) => "POST",
            (&Method::PUT, _) => "PUT",
            (&Method::PATCH, _) => "PATCH",
            (&Method::DELETE, true) => "DELETECOLLECTION",
            _ => "DELETE",
        }
    }

    fn request(&self, user_agent: &HeaderValue) -> Result<Request<Body>, http::Error> {
        let builder = Request::builder().method(self.method.clone());
        let mut request = if self.query.is_empty() {
            builder.uri(&self.path)
        } else {
            builder.uri(format!("{}?{}", self.path, self.query))
        }
        .body(Body::from(self.body.clone()))?;

        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(self.accept));
        headers.insert(USER_AGENT, user_agent.clone());
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        Ok(request)
    }
}

/// A complete answer.
struct Answer {
    code: u16,
    retry_after: Option<u32>,
    body: Bytes,
}

/// The reason for a missing answer.
enum Failure {
    Transport(BoxError),
    Timeout,
    /// The gate closed before the answer came. `sent` is false if the write was never sent.
    Fenced {
        sent: bool,
    },
}

/// The state that clones of one [`super::ApiClient`] share.
pub(super) struct Exchange {
    base: HttpService,
    settings: ClientSettings,
    user_agent: HeaderValue,
    throttle: Option<Mutex<TokenBucket>>,
    /// When a very long wait was last reported.
    reported: Mutex<Option<Instant>>,
    metrics: ClientMetrics,
}

impl Exchange {
    /// Whether writes are held back.
    pub(super) fn holds_back(&self) -> bool {
        self.base.holds_back
    }

    pub(super) fn new(base: HttpService, settings: ClientSettings, metrics: ClientMetrics) -> Self {
        let throttle = (settings.qps > 0.0).then(|| {
            Mutex::new(TokenBucket::new(
                f64::from(settings.qps),
                settings.burst.max(1),
            ))
        });
        Self {
            base,
            user_agent: header_value(&settings.user_agent),
            settings,
            throttle,
            reported: Mutex::new(None),
            metrics,
        }
    }

    /// The versions that the API server has.
    pub(super) fn versions(&self) -> &Versions {
        self.metrics.versions()
    }

    /// The count of writes that `invariant` refused.
    pub(super) fn violations(&self, invariant: &str) -> IntCounter {
        self.metrics.violations(self.client(), invariant)
    }

    /// A copy with its own throttle.
    pub(super) fn rethrottled(&self, qps_factor: f32, burst_factor: u32) -> Self {
        let ClientSettings { qps, burst, .. } = self.settings;
        let settings = ClientSettings {
            qps: qps * qps_factor,
            burst: burst.saturating_mul(burst_factor),
            ..self.settings.clone()
        };
        Self::new(self.base.clone(), settings, self.metrics.clone())
    }

    /// Sends a request that is no watch, with retries.
    pub(super) async fn send(
        &self,
        call: Call<'_>,
        gate: Option<&dyn WriteGate>,
    ) -> Result<Bytes, ApiError> {
        match gate {
            Some(gate) if call.method == Method::GET => tokio::select! {
                biased;
                () = gate.closing() => Err(ApiError::Fenced { request: call.name() }),
                outcome = self.repeat(&call, None) => outcome,
            },
            gate if call.method == Method::GET => self.repeat(&call, gate).await,
            gate => {
                let method = call.method.as_str();
                let span = tracing::info_span!(
                    target: SPANS,
                    "write",
                    otel.name = format!("{method} {}", call.resource()),
                    otel.kind = "client",
                    http.request.method = method,
                    url.path = call.path,
                    http.response.status_code = tracing::field::Empty,
                );
                self.repeat(&call, gate).instrument(span).await
            }
        }
    }

    /// Sends a request until it has a final outcome. Metrics and the log get only that outcome.
    async fn repeat(
        &self,
        call: &Call<'_>,
        gate: Option<&dyn WriteGate>,
    ) -> Result<Bytes, ApiError> {
        let fenced = || ApiError::Fenced {
            request: call.name(),
        };
        let began = Instant::now();
        for attempt in 0.. {
            unless_closed(gate, self.throttle(call))
                .await
                .ok_or_else(fenced)?;
            if gate.is_some_and(|g| !g.is_open()) {
                return Err(fenced());
            }
            self.metrics.sent(call.method.as_str(), call.body.len());
            let outcome = self.attempt(call, gate).await;
            let pause = match &outcome {
                _ if attempt >= MAX_RETRIES => None,
                Ok(answer) => pause_asked_for(answer.code, answer.retry_after),
                Err(Failure::Transport(e))
                    if call.method == Method::GET && is_lost_connection(&**e) =>
                {
                    Some(RECONNECT_PAUSE)
                }
                Err(_) => None,
            };
            let code = outcome.as_ref().ok().map(|a| a.code);
            if let Some(pause) = pause {
                unless_closed(gate, self.wait_to_retry(call, attempt, pause, code))
                    .await
                    .ok_or_else(fenced)?;
                continue;
            }

            self.metrics.answered(call.method.as_str(), code);
            self.metrics.took(call.method.as_str(), began.elapsed());
            if tracing::enabled!(target: SPANS, tracing::Level::INFO) && call.method != Method::GET
            {
                tracing::Span::current().record("http.response.status_code", code);
            }
            self.show(call, &outcome);
            log(call, code, began);
            return self.judge(call, outcome);
        }
        unreachable!("the last attempt returns")
    }

    /// Shows the outcome of a write to the witness.
    fn show(&self, call: &Call<'_>, outcome: &Result<Answer, Failure>) {
        let Some(witness) = self
            .metrics
            .witness()
            .filter(|_| call.method != Method::GET)
        else {
            return;
        };
        let answer = outcome.as_ref().ok();
        witness.show(Write {
            client: &self.settings.user_agent,
            method: call.method.as_str(),
            path: &call.path,
            code: answer.map(|answer| answer.code),
            answer: answer.map(|answer| &*answer.body).unwrap_or_default(),
            sync: None,
        });
    }

    /// Opens a watch.
    pub(super) async fn watch(
        &self,
        call: Call<'_>,
    ) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
        let began = Instant::now();
        for attempt in 0.. {
            let last = attempt >= MAX_RETRIES;
            self.metrics.sent(call.method.as_str(), 0);
            let under_way = self.metrics.begin("WATCH", Duration::ZERO);
            let opened = match timeout(
                WATCH_OPENING,
                self.open(&call, Lane::Watches, &Sent::default()),
            )
            .await
            {
                Ok(opened) => opened,
                Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
            };
            finish(under_way, opened.is_ok());
            let (pause, outcome) = match opened {
                Ok(response) if response.status().is_success() => {
                    let code = response.status().as_u16();
                    self.metrics.answered(call.method.as_str(), Some(code));
                    log(&call, Some(code), began);
                    let request = call.name();
                    let too_long = self.too_long(MAX_LINE);
                    let lines = Lines::new(response.into_body().into_data_stream());
                    let lines = lines.map_err(move |error| ApiError::Transport {
                        request: request.clone(),
                        source: match error {
                            LineError::TooLong => too_long.clone().into(),
                            LineError::Chunks(error) => error,
                        },
                    });
                    return Ok(lines.boxed());
                }
                Ok(response) => {
                    let outcome = self
                        .within_limit(&call, self.collect(&call, response, None))
                        .await;
                    (
                        outcome
                            .as_ref()
                            .ok()
                            .and_then(|a| pause_asked_for(a.code, a.retry_after)),
                        outcome,
                    )
                }
                Err(e) if is_lost_connection(&*e) || is_timeout(&*e) => {
                    if last {
                        // As upstream, an empty watch. The caller's back-off handles it.
                        self.metrics.answered(call.method.as_str(), None);
                        return Ok(stream::empty().boxed());
                    }
                    (Some(RECONNECT_PAUSE), Err(Failure::Transport(e)))
                }
                Err(e) => (None, Err(Failure::Transport(e))),
            };
            let code = outcome.as_ref().ok().map(|a| a.code);
            if let Some(pause) = pause.filter(|_| !last) {
                self.wait_to_retry(&call, attempt, pause, code).await;
                continue;
            }

            self.metrics.answered(call.method.as_str(), code);
            log(&call, code, began);
            return Err(match outcome {
                Ok(answer) => failure(&call, &answer),
                Err(failure) => self.unanswered(&call, failure),
            });
        }
        unreachable!("the last attempt returns")
    }

    /// Sends a request once. The time limit and the gate may end the attempt.
    async fn attempt(
        &self,
        call: &Call<'_>,
        gate: Option<&dyn WriteGate>,
    ) -> Result<Answer, Failure> {
        let sent = Sent::default();
        let extra_time = self.limit(call).saturating_sub(self.settings.timeout);
        let under_way = self.metrics.begin(call.kind(), extra_time);
        let exchange = async {
            let response = self.open(call, Lane::Requests, &sent).await?;
            self.collect(call, response, under_way.as_ref()).await
        };
        let outcome = tokio::select! {
            biased;
            () = closed(gate, &sent) => return Err(Failure::Fenced { sent: sent.get() }),
            outcome = self.within_limit(call, exchange) => outcome,
        };
        finish(under_way, outcome.is_ok());
        outcome
    }

    fn limit(&self, call: &Call<'_>) -> Duration {
        call.timeout.unwrap_or(self.settings.timeout)
    }

    async fn within_limit(
        &self,
        call: &Call<'_>,
        exchange: impl Future<Output = Result<Answer, BoxError>>,
    ) -> Result<Answer, Failure> {
        match timeout(self.limit(call), exchange).await {
            Ok(outcome) => outcome.map_err(Failure::Transport),
            Err(_) => Err(Failure::Timeout),
        }
    }

    /// Sends the request, and returns the head of its answer.
    async fn open(
        &self,
        call: &Call<'_>,
        lane: Lane,
        sent: &Sent,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let mut request = call.request(&self.user_agent)?;
        request.extensions_mut().insert(lane);
        request.extensions_mut().insert(sent.clone());
        self.base.send(request).await
    }

    /// Reads an answer to its end. Each piece counts as progress of `under_way`. An answer that is too
    /// long is an error; of a long error, the beginning is enough.
    async fn collect(
        &self,
        call: &Call<'_>,
        response: Response<ResponseBody>,
        under_way: Option<&UnderWay>,
    ) -> Result<Answer, BoxError> {
        let code = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let is_success = response.status().is_success();
        let limit = if is_success {
            call.max_answer()
        } else {
            MAX_ERROR
        };
        let progress = || {
            if let Some(under_way) = under_way {
                under_way.answered();
            }
        };
        progress();
        let mut chunks = response.into_body().into_data_stream();
        let mut pieces = Vec::new();
        let mut length = 0;
        while let Some(piece) = chunks.next().await {
            progress();
            let piece = piece?;
            length += piece.len();
            pieces.push(piece);
            if length > limit {
                if is_success {
                    return Err(self.too_long(limit).into());
                }
                break;
            }
        }
        let body = match &mut pieces[..] {
            // The usual answer is not copied.
            [only] => std::mem::take(only),
            several => several.concat().into(),
        };
        Ok(Answer {
            code,
            retry_after,
            body,
        })
    }

    fn too_long(&self, limit: usize) -> TooLong {
        let server = self.metrics.host().to_owned();
        TooLong { server, limit }
    }

    /// The body of a successful answer, or the error. As in client-go, an answer with 2xx is an
    /// error if its body is a Status with `status: Failure`.
    fn judge(&self, call: &Call<'_>, outcome: Result<Answer, Failure>) -> Result<Bytes, ApiError> {
        let answer = outcome.map_err(|f| self.unanswered(call, f))?;
        self.metrics
            .received(call.method.as_str(), answer.body.len());
        let is_success = (200..300).contains(&answer.code);
        if is_success && api::failure_in(&answer.body).is_none() {
            Ok(answer.body)
        } else {
            Err(failure(call, &answer))
        }
    }

    /// The error for a missing answer. A write that was sent before the gate closed is a transport
    /// error, not [`ApiError::Fenced`], because the server may have handled it.
    fn unanswered(&self, call: &Call<'_>, failure: Failure) -> ApiError {
        let request = call.name();
        match failure {
            Failure::Transport(source) if source.is::<HeldBack>() => ApiError::Fenced { request },
            Failure::Transport(source) => ApiError::Transport { request, source },
            Failure::Timeout => ApiError::Timeout {
                request,
                timeout: self.limit(call),
            },
            Failure::Fenced { sent: false } => ApiError::Fenced { request },
            Failure::Fenced { sent: true } => ApiError::Transport {
                request,
                source: "leadership ended before the answer came".into(),
            },
        }
    }

    /// Waits for a token of the client's throttle. A write that is held back costs the server nothing.
    async fn throttle(&self, call: &Call<'_>) {
        let Some(bucket) = &self.throttle else { return };
        if self.holds_back() && !hold::is_harmless(&call.method, &call.path) {
            return;
        }
        let wait = bucket.lock().reserve();
        // A timer costs a system call even if it has expired already.
        if !wait.is_zero() {
            // If the caller drops this wait, `unused` returns the token. Otherwise later requests,
            // such as Events at shutdown, would wait longer.
            let unused = Unused(bucket);
            let waiting = (wait > LONG_WAIT).then(|| self.metrics.waits_now(self.client(), wait));
            sleep(wait).await;
            drop(waiting);
            std::mem::forget(unused);
        }
        self.metrics.throttled(call.method.as_str(), wait);
        if !wait.is_zero() {
            self.metrics.waited(self.client(), wait);
        }
        if wait <= LONG_WAIT {
            return;
        }
        let reason = "client-side throttling, not priority and fairness";
        if wait > VERY_LONG_WAIT && self.may_report_wait() {
            tracing::info!(delay = ?wait, reason, verb = %call.method, URL = call.path, "Waited before sending request");
        } else {
            tracing::debug!(delay = ?wait, reason, verb = %call.method, URL = call.path, "Waited before sending request");
        }
    }

    /// The name of the client: the last part of the user agent.
    fn client(&self) -> &str {
        let agent = &*self.settings.user_agent;
        agent.rsplit_once('/').map_or(agent, |(_, client)| client)
    }

    fn may_report_wait(&self) -> bool {
        let mut reported = self.reported.lock();
        let due = reported.is_none_or(|last| last.elapsed() >= WAIT_REPORT_INTERVAL);
        if due {
            *reported = Some(Instant::now());
        }
        due
    }

    async fn wait_to_retry(
        &self,
        call: &Call<'_>,
        attempt: u32,
        pause: Duration,
        code: Option<u16>,
    ) {
        self.metrics.retried(call.method.as_str(), code);
        tracing::debug!(verb = %call.method, URL = call.path, status = code, attempt, ?pause, "Retrying request");
        sleep(pause).await;
    }
}

/// A token of the throttle, which is returned on drop.
struct Unused<'a>(&'a Mutex<TokenBucket>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        self.0.lock().give_back();
    }
}

/// Resolves when a pending write must be abandoned. Waits forever without a `gate`.
///
/// A write that is not `sent` yet is abandoned as soon as the gate closes. A sent write may wait
/// for its answer until the end of the term.
async fn closed(gate: Option<&dyn WriteGate>, sent: &Sent) {
    let Some(gate) = gate else {
        return std::future::pending().await;
    };
    let expired = async {
        loop {
            match gate.open_until() {
                Some(end) if Instant::now() < end => sleep_until(end).await,
                Some(_) => return,
                None => return std::future::pending().await,
            }
        }
    };
    let closing = async {
        gate.closing().await;
        sent.is_unsent().await;
    };
    tokio::select! {
        () = expired => {}
        () = closing => {}
        () = gate.abandoning() => {}
    }
}

/// Records the end of a pending request.
fn finish(under_way: Option<UnderWay>, answered: bool) {
    match under_way {
        Some(under_way) if answered => under_way.answered(),
        Some(under_way) => under_way.unanswered(),
        None => {}
    }
}

/// Waits for `pause`. `None` as soon as `gate` refuses new writes.
async fn unless_closed<T>(
    gate: Option<&dyn WriteGate>,
    pause: impl Future<Output = T>,
) -> Option<T> {
    if gate.is_none() {
        return Some(pause.await);
    }
    let sent = Sent::default();
    tokio::select! {
        biased;
        () = closed(gate, &sent) => None,
        done = pause => Some(done),
    }
}

/// The header `Retry-After` in seconds. As in client-go, an HTTP date is ignored.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

/// The pause that the server requests before a retry. `None` if it requests no retry.
fn pause_asked_for(code: u16, retry_after: Option<u32>) -> Option<Duration> {
    let seconds = retry_after.filter(|_| code == 429 || code >= 500)?;
    Some(Duration::from_secs(u64::from(seconds)))
}

/// The error for an answer that is no success.
fn failure(call: &Call<'_>, answer: &Answer) -> ApiError {
    let status = api::failure_in(&answer.body).unwrap_or_else(|| {
        api::stand_in(
            answer.code,
            &call.method,
            call.target.as_ref(),
            answer.retry_after,
            &answer.body,
        )
    });
    // For a Failure in an answer with 2xx, the code in its body counts.
    let code = match status.code.and_then(|c| u16::try_from(c).ok()) {
        Some(named) if (200..300).contains(&answer.code) => named,
        _ => answer.code,
    };
    ApiError::Status {
        request: call.name(),
        code,
        status: Box::new(status),
    }
}

fn log(call: &Call<'_>, status: Option<u16>, began: Instant) {
    let milliseconds = began.elapsed().as_millis();
    tracing::debug!(target: REQUESTS, verb = %call.method, URL = call.path, status, milliseconds, "Response");
}
