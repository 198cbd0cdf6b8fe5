//! The API: handles requests of users, whether they arrive in the process or through HTTPS.
//!
//! [`layers`] -> verb -> (decode -> admission -> defaults -> validation -> store) -> view -> response
//!
//! Handlers are generic over resources, as upstream's are (`apiserver/pkg/endpoints/handlers`,
//! `apiserver/pkg/registry/generic/registry`). Files for one kind, such as `services`, hold the
//! behaviour that tables cannot express.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use crate::Server;
use crate::admission::Origin;
use crate::apimachinery::formats;
use crate::auth::{Attributes, ResourceRequest, User};
use crate::containers::Page;
use crate::faults::Seen;
use crate::route::{Target, Verb};
use crate::status::Status;
use crate::store::Object;

mod accept;
mod accounts;
mod address;
mod aggregation;
mod api_services;
mod apply_request;
mod body;
mod body_value;
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
mod json_words;
mod layers;
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
mod time_limit;
mod token_request;
mod token_tracking;
mod update;
mod usage;
mod view;
mod warnings;
mod watch;

pub use body::Body;
pub use layers::ConnectionReset;

pub use address::ServiceRangeError;
pub(crate) use address::{Addresses, Holdings};
pub use aggregation::aggregate;
pub(crate) use aggregation::{Aggregated, Unchanged};
pub use components::Component;
pub(crate) use components::Components;
pub(crate) use definitions::Definitions;
pub(crate) use streams::{Begun, Upgradable};

use streams::Session;

use accept::Form;
use query::Query;

/// Limit of request bodies in bytes, as upstream's.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// A request for objects, as handlers read it.
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
    /// Plain text, such as a log.
    Text(Body),
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
    /// Answers a request for objects. An error is an answer without warnings.
    async fn answer(
        self: &Arc<Self>,
        verb: Verb,
        call: &Call<'_>,
    ) -> Result<Response<Body>, Status> {
        let target = call.target;
        // A change of pod security labels warns about existing pods, by old and new labels.
        let is_change =
            matches!(verb, Verb::Update | Verb::Patch) && target.resource().is("Namespace");
        let before = is_change
            .then(|| target.entry.store.get(&target.key()))
            .flatten();
        if verb == Verb::Create {
            self.await_account(target).await;
        }
        let answer = self.dispatch(verb, call).await;
        // A failed request may have changed objects, too, such as a deletion of a collection.
        self.settle_after(verb, target);
        if !matches!(verb, Verb::Get | Verb::List | Verb::Watch) {
            self.settle_api_service_writes(target);
        }
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(status) => return Ok(refusal_of(call, &status)),
        };
        answer.warnings.extend(call.origin.take_warnings());
        if let Content::Object(object) = answer.content {
            let object = self.in_version(target.resource(), object).await?;
            answer.content = Content::Object(object);
        }
        if let Content::Object(written) = &answer.content {
            let about_object = self.pod_security_warnings(verb, target, written);
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
        Ok(self.respond(call, answer))
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
            return Box::pin(self.subresource(verb, part, call)).await;
        }
        let resource = call.target.resource();
        if resource.is("ComponentStatus") {
            return self.components(verb, call);
        }
        if resource.is("PodMetrics") || resource.is("NodeMetrics") {
            return self.resource_metrics(verb, call);
        }
        // Upstream splits the decoded path.
        if call.target.name.contains('/') || call.target.namespace.contains('/') {
            return Err(Status::no_such_resource());
        }
        if !matches!(verb, Verb::Update) {
            usable(&call.target.name)?;
        }
        if !matches!(verb, Verb::Create | Verb::Update) {
            storable(call.target, call.query.selected("metadata.name"))?;
        }
        // Writes have boxes of their own, because reads and watches need less room.
        match verb {
            Verb::Get => self.get(call).await,
            Verb::List => self.list(call).await,
            Verb::Watch => self.watch(call).await,
            Verb::Create => Box::pin(self.create(call)).await,
            Verb::Update => Box::pin(self.update(call)).await,
            Verb::Patch => Box::pin(self.patch_or_apply(call)).await,
            Verb::Delete => Box::pin(self.delete(call)).await,
            Verb::DeleteCollection => Box::pin(self.delete_collection(call)).await,
        }
    }

    /// `PATCH` of an object or a part of it: the media type tells an apply from a patch.
    async fn patch_or_apply(&self, call: &Call<'_>) -> Result<Answer, Status> {
        if decode::media_type(call.content_type) == apply_request::MEDIA_TYPE {
            self.apply(call).await
        } else {
            self.patch(call).await
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
                text
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
                let begun = Begun::new(streams::Changed::Session(session));
                response.extensions_mut().insert(begun);
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

/// 400 for a name that no key of the storage can have. Upstream: `NamespaceKeyFunc` and
/// `NoNamespaceKeyFunc` of `apiserver/pkg/registry/generic/registry`.
fn usable(name: &str) -> Result<(), Status> {
    match &formats::path_segment(name)[..] {
        [] => Ok(()),
        why => Err(Status::bad_request(format!(
            "Name parameter invalid: {name:?}: {}",
            why.join(";")
        ))),
    }
}

/// 500 for a namespace that no key of the storage can have. The error has the key of the object that a
/// path names or a field selector wants. Upstream: `PrepareKey` of `apiserver/pkg/storage`.
fn storable(target: &Target, selected: Option<&str>) -> Result<(), Status> {
    let namespace = &*target.namespace;
    if !matches!(namespace, "." | "..") {
        return Ok(());
    }
    let resource = target.resource();
    let plural = &*resource.plural;
    // Upstream: `SpecialDefaultResourcePrefixes` of `pkg/kubeapiserver`.
    let folder = match &*resource.kind {
        _ if resource.custom.is_some() => format!("{}/{plural}", resource.group),
        "ReplicationController" => "controllers".to_owned(),
        "Endpoints" => "services/endpoints".to_owned(),
        "Service" => "services/specs".to_owned(),
        "Ingress" => "ingress".to_owned(),
        _ => plural.to_owned(),
    };
    let name = match &*target.name {
        "" => selected.unwrap_or_default(),
        name => name,
    };
    let slash = if name.is_empty() { "" } else { "/" };
    let key = format!("/{folder}/{namespace}{slash}{name}");
    Err(Status::unclassified(format!("invalid key: {key:?}")))
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

/// The refusal of a request for objects, with its warnings.
fn refusal_of(call: &Call<'_>, status: &Status) -> Response<Body> {
    let mut given = warnings::deprecations(call.target.resource());
    given.extend(call.origin.take_warnings());
    let mut response = refusal(status);
    for warning in warnings::headers(given) {
        response.headers_mut().append(WARNING, warning);
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
