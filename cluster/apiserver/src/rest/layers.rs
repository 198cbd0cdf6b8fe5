//! The chain of layers that every request passes.
//!
//! log -> identity -> authorization -> routing -> metrics -> fault rules -> dispatch
//!
//! Each layer is a function around the next one. The request goes in, with the user and target as
//! soon as they are known. A [`Reply`] comes out, with the facts that outer layers need.
//!
//! Upstream: `DefaultBuildHandlerChain` in `apiserver/pkg/server/config.go`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT, WARNING};
use http::request::Parts;
use http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::accept::{Form, Views};
use super::query::Query;
use super::{
    Body, Call, MAX_BODY, Server, apply_request, decode, header, indent, options, refusal, streams,
    text, time_limit, warnings,
};
use crate::admission::Origin;
use crate::auth::{Attributes, Selected, User, Wanted, Warning};
use crate::faults::{Fate, Seen, Verdict};
use crate::metrics::{Labels, Measured};
use crate::requests::{Content, RequestRecord, Through};
use crate::route::{Route, Target, Verb};
use crate::status::Status;

/// The header that names a request in audit logs.
const AUDIT_ID: http::HeaderName = http::HeaderName::from_static("audit-id");

/// A fault reset the connection before the answer was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionReset;

impl From<ConnectionReset> for std::io::Error {
    fn from(_: ConnectionReset) -> Self {
        Self::new(std::io::ErrorKind::ConnectionReset, "reset by a fault")
    }
}

/// A request as it arrives.
struct Arrived {
    parts: Parts,
    query: Query,
    body: Bytes,
}

impl Arrived {
    fn of(request: Request<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            query: Query::parse(parts.uri.query()),
            parts,
            body,
        }
    }

    fn path(&self) -> &str {
        self.parts.uri.path()
    }

    fn header(&self, name: &http::HeaderName) -> &str {
        header(&self.parts, name)
    }

    fn is_watch(&self) -> bool {
        self.query.flag("watch").unwrap_or(false)
    }

    /// The verb and resource, or the path.
    fn wanted(&self) -> Attributes {
        Attributes::of_request(
            &self.parts.method,
            self.path(),
            self.is_watch(),
            Selected {
                name: self.query.selected("metadata.name"),
                node: self.query.selected("spec.nodeName"),
            },
        )
    }

    /// The time for the answer, if it is bounded.
    fn limit(&self) -> Result<Option<Duration>, Status> {
        time_limit::of(&self.wanted(), self.query.text("timeout"))
    }
}

/// The outcome of a layer.
struct Reply {
    /// `None` if a fault rule drops the request.
    response: Option<Response<Body>>,
    /// The fate of the connection.
    fate: Fate,
    /// The user after impersonation.
    user: Option<Arc<User>>,
    /// The verb and resource, if the request is for objects.
    subject: Option<Subject>,
    /// Whether authorization refused the request.
    is_denied: bool,
}

/// The verb and resource of a request, as the log shows them.
struct Subject {
    verb: String,
    resource: String,
}

impl Reply {
    fn new(response: Option<Response<Body>>, fate: Fate) -> Self {
        Self {
            response,
            fate,
            user: None,
            subject: None,
            is_denied: false,
        }
    }

    /// An answer that reaches the client.
    fn answer(response: Response<Body>) -> Self {
        Self::new(Some(response), Fate::Answered)
    }

    fn refusal(status: &Status) -> Self {
        Self::answer(refusal(status))
    }

    fn map(self, change: impl FnOnce(Response<Body>) -> Response<Body>) -> Self {
        Self {
            response: self.response.map(change),
            ..self
        }
    }

    /// HTTP status of the answer; 0 without an answer.
    fn code(&self) -> u16 {
        let response = self.response.as_ref();
        response.map_or(0, |response| response.status().as_u16())
    }

    fn is_watch(&self) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| subject.verb == "watch")
    }

    /// The bytes of the answer; none for streams such as watches.
    fn bytes(&self) -> Bytes {
        match self.response.as_ref().map(Response::body) {
            Some(Body::Whole(Some(bytes))) => bytes.clone(),
            _ => Bytes::new(),
        }
    }

    /// Sends the answer, if no fault keeps it from the client.
    async fn sent(self, request: &Parts) -> Result<Response<Body>, ConnectionReset> {
        match (self.response, self.fate) {
            (Some(mut response), Fate::Answered) => {
                if let Some(Warning(text)) = request.extensions.get() {
                    for header in warnings::headers(vec![(*text).to_owned()]) {
                        response.headers_mut().append(WARNING, header);
                    }
                }
                response.headers_mut().insert(AUDIT_ID, audit_id(request));
                Ok(response)
            }
            (_, Fate::Silence) => std::future::pending().await,
            (None, _) | (_, Fate::Reset) => Err(ConnectionReset),
        }
    }
}

impl From<Result<Response<Body>, Status>> for Reply {
    fn from(answer: Result<Response<Body>, Status>) -> Self {
        Self::answer(answer.unwrap_or_else(|status| refusal(&status)))
    }
}

impl Server {
    /// Answers a request of an authenticated user. A fault rule can reset the connection, or leave
    /// it without an answer.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Bytes>,
        user: &Arc<User>,
    ) -> Result<Response<Body>, ConnectionReset> {
        let request = Arrived::of(request);
        let reply = self.logged(&request, user).await;
        reply.sent(&request.parts).await
    }

    /// The layer that adds the request to the log, with the answer in its final layout. The log has
    /// the answer, even if a fault keeps it from the client.
    async fn logged(self: &Arc<Self>, request: &Arrived, user: &Arc<User>) -> Reply {
        let keeps_contents = self.log.keeps_contents();
        let before = keeps_contents.then(|| self.stored_at(request.path()));
        let reply = self.identified(request, user).await;
        let is_watch = reply.is_watch();
        let mut reply = reply.map(|response| indent::laid_out(response, &request.parts, is_watch));
        let content = before.map(|before| {
            Arc::new(Content {
                content_type: request.header(&CONTENT_TYPE).to_owned(),
                body: request.body.clone(),
                before,
                answer: reply.bytes(),
            })
        });
        let subject = reply.subject.take().unwrap_or_else(|| Subject {
            verb: request.parts.method.as_str().to_lowercase(),
            resource: String::new(),
        });
        let target = request.parts.uri.path_and_query();
        self.log.add(RequestRecord {
            verb: subject.verb,
            resource: subject.resource,
            path: target.map_or_else(String::new, ToString::to_string),
            user_agent: request.header(&USER_AGENT).to_owned(),
            user: reply.user.as_ref().unwrap_or(user).name.clone(),
            status: reply.code(),
            denied: reply.is_denied,
            door: request
                .parts
                .extensions
                .get()
                .map(|Through(address)| *address),
            content,
            revision: self.revisions.current(),
            answered: Instant::now(),
        });
        reply
    }

    /// The stored object at a path.
    fn stored_at(&self, path: &str) -> Option<Value> {
        let Route::Objects(target) = Route::parse(&self.registry, path) else {
            return None;
        };
        let found = target.entry.store.get(&target.key());
        found.map(|object| object.to_value())
    }

    /// The layer that finds the user in whose name the request acts.
    async fn identified(self: &Arc<Self>, request: &Arrived, user: &Arc<User>) -> Reply {
        // Few requests have the parameter, so the verb of the others is no work.
        if !request.query.text("timeout").is_empty()
            && let Err(status) = request.limit()
        {
            return Reply::refusal(&status);
        }
        let user = match self.impersonated(user, &request.parts.headers) {
            Ok(user) => user,
            Err(status) => return Reply::refusal(&status),
        };
        let reply = self.authorized(request, &user).await;
        Reply {
            user: Some(user),
            ..reply
        }
    }

    /// The layer that refuses requests without the necessary right. It precedes routing, so an
    /// unknown path is 403 for users without rights.
    async fn authorized(self: &Arc<Self>, request: &Arrived, user: &Arc<User>) -> Reply {
        match self.denial(request, user) {
            Some(denial) => denial,
            None => self.routed(request, user).await,
        }
    }

    /// 403 if the user lacks the right for the request.
    fn denial(&self, request: &Arrived, user: &User) -> Option<Reply> {
        if user.is_master() {
            return None;
        }
        let wanted = request.wanted();
        let decision = self.decide(user, &wanted);
        if decision.allowed {
            return None;
        }
        let subject = match &wanted.object {
            Wanted::Resource(object) => Some(Subject {
                verb: wanted.verb.clone(),
                resource: object.full_name(),
            }),
            Wanted::Path(_) => None,
        };
        Some(Reply {
            subject,
            is_denied: true,
            ..Reply::refusal(&wanted.forbidden(user, &decision.reason))
        })
    }

    /// The layer that finds the target of the path.
    async fn routed(self: &Arc<Self>, request: &Arrived, user: &Arc<User>) -> Reply {
        if let Some(remote) = self.remote_of(request.path()) {
            let limit = request.limit().unwrap_or_default();
            let audit_id = audit_id(&request.parts);
            let answer = remote.answer(&request.parts, &request.body, user, audit_id, limit);
            // In a box of its own, because few requests need the room for a connection.
            return Reply::answer(Box::pin(answer).await);
        }
        let method = request.parts.method.as_str();
        let route = match self.remote_group(request.path()) {
            Some(group) => Route::Group(group),
            None => Route::parse(&self.registry, request.path()),
        };
        match route {
            Route::Objects(target) => self.for_objects(request, user, &target).await,
            Route::Nothing => Reply::answer(text(404, "404 page not found\n")),
            Route::NoSuchPart(target) => {
                let status = Status::not_found(target.resource().named(), &target.name);
                Reply::refusal(&status)
            }
            Route::NoSuchResource => Reply::refusal(&Status::no_such_resource()),
            _ if !matches!(method, "GET" | "HEAD") => Reply::refusal(&Status::method_not_allowed()),
            document => self.for_document(request, &document).await,
        }
    }

    /// Answers a request for a document of the server. Fault rules meet discovery only.
    async fn for_document(&self, request: &Arrived, route: &Route) -> Reply {
        let user_agent = request.header(&USER_AGENT);
        let labels = Labels::of_document(route, &request.parts.method, user_agent);
        let answer = async { self.server_document(route, &request.parts, &request.query) };
        let is_discovery =
            route.is_discovery() || matches!(route, Route::MetricValues(_) | Route::OpenApi(_));
        let answer = async {
            if is_discovery {
                let seen = Seen::discovery(request.path(), user_agent);
                self.with_faults(&seen, answer).await
            } else {
                answer.await.into()
            }
        };
        self.measured(labels, answer).await
    }

    /// Answers a request for objects.
    async fn for_objects(
        self: &Arc<Self>,
        request: &Arrived,
        user: &Arc<User>,
        target: &Target,
    ) -> Reply {
        let verb = match target.verb(&request.parts.method, request.is_watch()) {
            Ok(verb) => verb,
            Err(status) => return Reply::refusal(&status),
        };
        let user_agent = request.header(&USER_AGENT);
        let media_type = decode::media_type(request.header(&CONTENT_TYPE));
        let labels = Labels::of_objects(
            target,
            verb,
            media_type == apply_request::MEDIA_TYPE,
            request.query.text("dryRun") == "All",
            user_agent,
        );
        let answer = async {
            let form = match self.form(request, target) {
                Ok(form) => form,
                Err(status) => return Reply::refusal(&status),
            };
            let seen = Seen::request(verb, target, user_agent);
            let answer = self.answered(request, user, target, verb, form);
            self.with_faults(&seen, answer).await
        };
        let reply = self.measured(Some(labels), answer).await;
        let subject = Subject {
            verb: verb.as_str().to_owned(),
            resource: target.resource_name(),
        };
        Reply {
            subject: Some(subject),
            ..reply
        }
    }

    /// The form of the answer. 406 if the client accepts none, and 413 for a body that is too large.
    fn form(&self, request: &Arrived, target: &Target) -> Result<Form, Status> {
        let mut form = Form::negotiate(request.header(&ACCEPT), Views::of(target))?;
        form.drops_managed_fields &= self.managed_fields_opt_out;
        if request.body.len() > MAX_BODY {
            return Err(Status::body_too_large(MAX_BODY));
        }
        Ok(form)
    }

    /// The layer that counts a request, and measures the time until its answer is sent. Requests
    /// without labels are not counted, as upstream.
    async fn measured(&self, labels: Option<Labels>, inner: impl Future<Output = Reply>) -> Reply {
        let Some(labels) = labels else {
            return inner.await;
        };
        let mut measured = Measured::start(&self.metrics, labels);
        let reply = inner.await;
        measured.code = reply.code();
        reply.map(|response| response.map(|body| body.measured(measured)))
    }

    /// The layer that applies fault rules: they delay a request, answer it, or drop it.
    async fn with_faults(
        &self,
        seen: &Seen<'_>,
        inner: impl Future<Output = Result<Response<Body>, Status>>,
    ) -> Reply {
        match self.faults.check(seen).await {
            Verdict::Handle(fate) => Reply {
                fate,
                ..Reply::from(inner.await)
            },
            Verdict::Ignore(fate) => Reply::new(None, fate),
            Verdict::Refuse(status) => Reply::refusal(&status),
        }
    }

    /// The innermost layer: calls the handler of a request for objects.
    async fn answered(
        self: &Arc<Self>,
        request: &Arrived,
        user: &Arc<User>,
        target: &Target,
        verb: Verb,
        form: Form,
    ) -> Result<Response<Body>, Status> {
        let offer = streams::Offer::of(&request.parts);
        let call = Call {
            target,
            query: &request.query,
            content_type: request.header(&CONTENT_TYPE),
            user_agent: request.header(&USER_AGENT),
            path: request.path(),
            upgrade: offer.as_ref(),
            user,
            origin: Origin::new(user, options(verb, &request.query, &request.body)),
            body: request.body.clone(),
            form,
        };
        self.answer(verb, &call).await
    }
}

/// The audit ID of the client, or a new one.
fn audit_id(parts: &Parts) -> HeaderValue {
    let given = parts
        .headers
        .get(&AUDIT_ID)
        .filter(|given| !given.is_empty());
    let new = || {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        HeaderValue::try_from(id.to_string()).expect("a UUID is a header value")
    };
    given.cloned().unwrap_or_else(new)
}
