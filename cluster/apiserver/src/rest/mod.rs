//! The API: handles requests of users, whether they arrive in the process or through HTTPS.
//!
//! user -> route -> fault rules -> verb -> (decode -> admission -> defaults -> validation -> store)
//! -> view -> response
//!
//! Handlers are generic over resources, as upstream's are (`apiserver/pkg/endpoints/handlers`,
//! `apiserver/pkg/registry/generic/registry`). Files for one kind, such as `services`, hold the
//! behaviour that tables cannot express.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT, WARNING,
};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Server;
use crate::admission::Origin;
use crate::auth::{Attributes, ResourceRequest, Selected, User, Wanted, Warning};
use crate::containers::Page;
use crate::faults::{Fate, Seen, Verdict};
use crate::metrics::{Labels, Measured};
use crate::requests::{Content as RecordedContent, RequestRecord, Through};
use crate::route::{Route, Target, Verb};
use crate::status::Status;
use crate::store::Object;

mod accept;
mod accounts;
mod address;
mod api_services;
mod apply_request;
mod body;
mod certificates;
mod commit;
mod components;
mod connect;
mod conversion;
mod create;
mod decode;
mod definitions;
mod delete;
mod devices;
mod discovery;
mod documents;
mod duplicates;
mod eviction;
mod health;
mod indent;
mod load;
mod logs;
mod managers;
mod metadata;
mod metric_values;
mod owners;
mod patching;
mod query;
mod read;
mod resource_metrics;
mod reviews;
mod scale;
mod service_families;
mod services;
mod streams;
mod subresources;
mod system;
mod token_request;
mod token_tracking;
mod update;
mod usage;
mod view;
mod warnings;
mod watch;
mod yaml;

pub use body::Body;

pub use address::ServiceRangeError;
pub(crate) use address::{Addresses, Holdings};
pub(crate) use definitions::Definitions;
pub(crate) use streams::{Begun, Upgradable};

use streams::Session;

use accept::{Form, Views};
use query::Query;

/// The header that names a request in audit logs.
const AUDIT_ID: http::HeaderName = http::HeaderName::from_static("audit-id");

/// Limit of request bodies in bytes, as upstream's.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// The state of the API server. Requests in the process and through HTTPS share it.
struct Call<'a> {
    target: &'a Target,
    query: &'a Query,
    content_type: &'a str,
    user_agent: &'a str,
    path: &'a str,
    /// The change of protocol that the client offers.
    upgrade: Option<&'a streams::Offer>,
    user: &'a Arc<User>,
    body: Bytes,
    form: Form,
    /// The call as admission sees it.
    origin: Origin<'a>,
}

impl Call<'_> {
    /// The request as fault rules match it.
    fn seen(&self, verb: Verb) -> Seen<'_> {
        Seen::request(verb, self.target, self.user_agent)
    }
}

/// A fault reset the connection before the answer was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionReset;

impl From<ConnectionReset> for std::io::Error {
    fn from(_: ConnectionReset) -> Self {
        Self::new(std::io::ErrorKind::ConnectionReset, "reset by a fault")
    }
}

/// The answer of a verb.
struct Answer {
    code: u16,
    content: Content,
    warnings: Vec<String>,
}

enum Content {
    /// One object, in the form that the client accepts.
    Object(Arc<Object>),
    /// JSON that has one form only.
    Value(Value),
    /// A body that is complete already.
    Body(Body),
    /// Plain text.
    Text(String),
    /// The page of a pod.
    Page(Page),
    /// A session on the connection after its change of protocol, with the headers of the answer.
    Session(Box<Session>, HeaderMap),
}

impl Answer {
    fn object(code: u16, object: Arc<Object>) -> Self {
        Self {
            code,
            content: Content::Object(object),
            warnings: Vec::new(),
        }
    }

    fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    fn value(code: u16, value: Value) -> Self {
        Self {
            code,
            content: Content::Value(value),
            warnings: Vec::new(),
        }
    }

    fn body(body: Body) -> Self {
        Self {
            code: 200,
            content: Content::Body(body),
            warnings: Vec::new(),
        }
    }
}

impl Server {
    /// A server with the built-in kinds, namespaces and roles. With `tracks_creations`, managed
    /// fields are recorded from an object's creation, otherwise from its first server-side apply.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Bytes>,
        user: &Arc<User>,
    ) -> Result<Response<Body>, ConnectionReset> {
        let (parts, body) = request.into_parts();
        let mut record = RequestRecord {
            verb: parts.method.as_str().to_lowercase(),
            resource: String::new(),
            path: parts
                .uri
                .path_and_query()
                .map_or_else(String::new, ToString::to_string),
            user_agent: header(&parts, &USER_AGENT).to_owned(),
            user: user.name.clone(),
            status: 0,
            denied: false,
            door: parts.extensions.get().map(|Through(address)| *address),
            content: None,
            revision: 0,
            answered: Instant::now(),
        };
        let bodies = self
            .log
            .keeps_contents()
            .then(|| (body.clone(), self.stored_at(parts.uri.path())));
        let mut fate = Fate::Answered;
        let mut measured = None;
        let response = self
            .answer(&parts, body, user, &mut record, &mut fate, &mut measured)
            .await
            .unwrap_or_else(|status| Some(refusal(&status)))
            .map(|response| indent::laid_out(response, &parts, record.verb == "watch"));
        record.status = response
            .as_ref()
            .map_or(0, |response| response.status().as_u16());
        let response = match (response, measured) {
            (Some(response), Some(mut measured)) => {
                measured.code = record.status;
                Some(response.map(|body| body.measured(measured)))
            }
            (response, _) => response,
        };
        record.content = bodies.map(|(body, before)| {
            let content_type = header(&parts, &CONTENT_TYPE).to_owned();
            let answer = match response.as_ref().map(Response::body) {
                Some(Body::Whole(Some(bytes))) => bytes.clone(),
                _ => Bytes::new(),
            };
            Arc::new(RecordedContent {
                content_type,
                body,
                before,
                answer,
            })
        });
        record.revision = self.revisions.current();
        record.answered = Instant::now();
        self.log.add(record);
        // The log has the answer, even if a fault keeps it from the client.
        match (response, fate) {
            (Some(mut response), Fate::Answered) => {
                if let Some(Warning(text)) = parts.extensions.get() {
                    for header in warnings::headers(vec![(*text).to_owned()]) {
                        response.headers_mut().append(WARNING, header);
                    }
                }
                response.headers_mut().insert(AUDIT_ID, audit_id(&parts));
                Ok(response)
            }
            (_, Fate::Silence) => std::future::pending().await,
            (None, _) | (_, Fate::Reset) => Err(ConnectionReset),
        }
    }

    /// The stored object at a path.
    fn stored_at(&self, path: &str) -> Option<Value> {
        let Route::Objects(target) = Route::parse(&self.registry, path) else {
            return None;
        };
        target
            .entry
            .store
            .get(&target.key())
            .map(|object| object.to_value())
    }

    /// The answer, or `None` if a fault rule drops the request. `fate` is the fate of the
    /// connection, and `measured` the request from the time when its target is known.
    async fn answer(
        self: &Arc<Self>,
        parts: &Parts,
        body: Bytes,
        user: &Arc<User>,
        record: &mut RequestRecord,
        fate: &mut Fate,
        measured: &mut Option<Measured>,
    ) -> Result<Option<Response<Body>>, Status> {
        let query = Query::parse(parts.uri.query());
        let user = &self.impersonated(user, &parts.headers)?;
        user.name.clone_into(&mut record.user);
        // Authorization precedes routing, so an unknown path is 403 for users without rights.
        self.authorize(parts, &query, user, record)?;
        let target = match Route::parse(&self.registry, parts.uri.path()) {
            Route::Objects(target) => target,
            Route::Nothing => return Ok(Some(text(404, "404 page not found\n"))),
            Route::NoSuchPart(target) => {
                return Err(Status::not_found(target.resource().named(), &target.name));
            }
            Route::NoSuchResource => return Err(Status::no_such_resource()),
            _ if !matches!(parts.method.as_str(), "GET" | "HEAD") => {
                return Err(Status::method_not_allowed());
            }
            other => {
                *measured = Labels::of_document(&other, &parts.method, header(parts, &USER_AGENT))
                    .map(|labels| Measured::start(&self.metrics, labels));
                if other.is_discovery()
                    || matches!(other, Route::MetricValues(_) | Route::OpenApi(_))
                {
                    let seen = Seen::discovery(parts.uri.path(), header(parts, &USER_AGENT));
                    if !self.passes_faults(&seen, fate).await? {
                        return Ok(None);
                    }
                }
                return self.server_document(&other, parts, &query).map(Some);
            }
        };
        let verb = target.verb(&parts.method, query.flag("watch").unwrap_or(false))?;
        verb.as_str().clone_into(&mut record.verb);
        record.resource = target.resource_name();
        let content_type = header(parts, &CONTENT_TYPE);
        let user_agent = header(parts, &USER_AGENT);
        let labels = Labels::of_objects(
            &target,
            verb,
            decode::media_type(content_type) == apply_request::MEDIA_TYPE,
            query.text("dryRun") == "All",
            user_agent,
        );
        *measured = Some(Measured::start(&self.metrics, labels));
        let mut form = Form::negotiate(header(parts, &ACCEPT), Views::of(&target))?;
        form.drops_managed_fields &= self.managed_fields_opt_out;
        if body.len() > MAX_BODY {
            return Err(Status::body_too_large(MAX_BODY));
        }
        if !self
            .passes_faults(&Seen::request(verb, &target, user_agent), fate)
            .await?
        {
            return Ok(None);
        }
        let offer = streams::Offer::of(parts);
        let call = Call {
            target: &target,
            query: &query,
            content_type,
            user_agent,
            path: parts.uri.path(),
            upgrade: offer.as_ref(),
            user,
            origin: Origin::new(user, options(verb, &query, &body)),
            body,
            form,
        };
        // A change of pod security labels warns about existing pods, by old and new labels.
        let is_change =
            matches!(verb, Verb::Update | Verb::Patch) && target.resource().is("Namespace");
        let before = is_change
            .then(|| target.entry.store.get(&target.key()))
            .flatten();
        if verb == Verb::Create {
            self.await_account(&target).await;
        }
        let answer = loop {
            let answer = self.dispatch(verb, &call).await;
            match call.origin.calls.pending() {
                Some(pending) => self.make_call(&call.origin.calls, pending).await,
                None => break answer,
            }
        };
        // A failed request may have changed objects, too, such as a deletion of a collection.
        self.settle_after(verb, &target);
        if !matches!(verb, Verb::Get | Verb::List | Verb::Watch) {
            self.settle_api_service_writes(&target);
        }
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(status) => {
                let mut given = warnings::deprecations(target.resource());
                given.extend(call.origin.take_warnings());
                let mut response = refusal(&status);
                for warning in warnings::headers(given) {
                    response.headers_mut().append(WARNING, warning);
                }
                return Ok(Some(response));
            }
        };
        answer.warnings.extend(call.origin.take_warnings());
        if let Content::Object(object) = answer.content {
            let object = self.in_version(target.resource(), object).await?;
            answer.content = Content::Object(object);
        }
        if let Content::Object(written) = &answer.content {
            let about_object = self.pod_security_warnings(verb, &target, written);
            let about_pods = before.map(|before| self.tightening_warnings(&before, written));
            answer.warnings.extend(
                about_object
                    .into_iter()
                    .chain(about_pods.into_iter().flatten()),
            );
        }
        answer
            .warnings
            .extend(warnings::deprecations(target.resource()));
        Ok(Some(self.respond(&call, answer)))
    }

    /// Whether fault rules let the server handle the request. An error is the answer of a fault
    /// rule.
    async fn passes_faults(&self, seen: &Seen<'_>, fate: &mut Fate) -> Result<bool, Status> {
        let (handled, then) = match self.faults.check(seen).await {
            Verdict::Handle(then) => (true, then),
            Verdict::Ignore(then) => (false, then),
            Verdict::Refuse(status) => return Err(status),
        };
        *fate = then;
        Ok(handled)
    }

    /// 403 if the user lacks the right for the request.
    fn authorize(
        &self,
        parts: &Parts,
        query: &Query,
        user: &User,
        record: &mut RequestRecord,
    ) -> Result<(), Status> {
        if user.is_master() {
            return Ok(());
        }
        let is_watch = query.flag("watch").unwrap_or(false);
        let wanted = Attributes::of_request(
            &parts.method,
            parts.uri.path(),
            is_watch,
            Selected {
                name: query.selected("metadata.name"),
                node: query.selected("spec.nodeName"),
            },
        );
        let decision = self.decide(user, &wanted);
        if decision.allowed {
            return Ok(());
        }
        record.denied = true;
        if let Wanted::Resource(object) = &wanted.object {
            wanted.verb.clone_into(&mut record.verb);
            record.resource = object.full_name();
        }
        Err(wanted.forbidden(user, &decision.reason))
    }

    /// 403 if the user may not create the object. PUT and apply need this right when they create.
    fn authorize_creation(&self, call: &Call<'_>) -> Result<(), Status> {
        let target = call.target;
        let wanted = Attributes::resource(
            "create",
            ResourceRequest {
                group: target.resource().group.to_string(),
                resource: target.resource().plural.to_string(),
                namespace: target.namespace.clone(),
                name: target.name.clone(),
                ..ResourceRequest::default()
            },
        );
        let decision = self.decide(call.user, &wanted);
        if decision.allowed {
            Ok(())
        } else {
            Err(wanted.forbidden(call.user, &decision.reason))
        }
    }

    /// Calls the handler of a verb, subresource or computed kind.
    async fn dispatch(self: &Arc<Self>, verb: Verb, call: &Call<'_>) -> Result<Answer, Status> {
        if let Some(part) = call.target.subresource {
            return self.subresource(verb, part, call).await;
        }
        let resource = call.target.resource();
        if resource.is("ComponentStatus") {
            return self.components(verb, call);
        }
        if resource.is("PodMetrics") || resource.is("NodeMetrics") {
            return self.resource_metrics(verb, call);
        }
        match verb {
            Verb::Get => self.get(call).await,
            Verb::List => self.list(call).await,
            Verb::Watch => self.watch(call).await,
            Verb::Create => self.create(call),
            Verb::Update => self.update(call),
            Verb::Patch => self.patch_or_apply(call),
            Verb::Delete => self.delete(call),
            Verb::DeleteCollection => self.delete_collection(call).await,
        }
    }

    /// `PATCH` of an object or a part of it: the media type tells an apply from a patch.
    fn patch_or_apply(&self, call: &Call<'_>) -> Result<Answer, Status> {
        if decode::media_type(call.content_type) == apply_request::MEDIA_TYPE {
            self.apply(call)
        } else {
            self.patch(call)
        }
    }

    fn respond(&self, call: &Call<'_>, answer: Answer) -> Response<Body> {
        let mut kind = "application/json";
        let body = match answer.content {
            Content::Object(object) => {
                let json = self.show(call, &object);
                match call.form.yaml.then(|| to_yaml(&json)).flatten() {
                    Some(yaml) => {
                        kind = "application/yaml";
                        Body::whole(yaml)
                    }
                    None => Body::whole(json),
                }
            }
            Content::Value(value) => Body::whole(value.to_string()),
            Content::Body(body) => body,
            Content::Text(text) => {
                kind = "text/plain";
                Body::whole(text)
            }
            Content::Page(page) => {
                let mut response = respond(answer.code, kind, Body::whole(page.body));
                if let Ok(kind) = page.content_type.parse() {
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                }
                return response;
            }
            Content::Session(session, headers) => {
                let mut response = Response::new(Body::Whole(None));
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                *response.headers_mut() = headers;
                response.extensions_mut().insert(Begun::new(*session));
                return response;
            }
        };
        let mut response = respond(answer.code, kind, body);
        if answer.code == 204 {
            response.headers_mut().remove(CONTENT_TYPE);
        }
        for warning in warnings::headers(answer.warnings) {
            response.headers_mut().append(WARNING, warning);
        }
        response
    }
}

fn to_yaml(json: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    serde_saphyr::to_string(&value).ok()
}

fn header<'a>(parts: &'a Parts, name: &http::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
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

fn respond(code: u16, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).expect("handlers use HTTP status codes");
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", Body::whole(text.into()))
}

/// The response with `status` as its body.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    let mut response = respond(
        status.code,
        "application/json",
        Body::whole(status.to_value().to_string()),
    );
    if let Some(seconds) = status.retry_after() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The options of a write, as admission shows them.
fn options(verb: Verb, query: &Query, body: &Bytes) -> Value {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get | Verb::List | Verb::Watch => return Value::Null,
    };
    let given = match kind {
        "DeleteOptions" => serde_json::from_slice(body).ok(),
        _ => None,
    };
    let mut options = given.filter(Value::is_object).unwrap_or_else(|| json!({}));
    options["kind"] = Value::from(kind);
    options["apiVersion"] = Value::from("meta.k8s.io/v1");
    for field in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        let value = query.text(field);
        if !value.is_empty() {
            options[field] = Value::from(value);
        }
    }
    if query.text("dryRun") == "All" {
        options["dryRun"] = json!(["All"]);
    }
    if let Some(force) = query.flag("force") {
        options["force"] = Value::from(force);
    }
    options
}
