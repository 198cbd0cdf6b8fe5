//! The debug page `/debug/why`: answers in the leader, for callers that may get the objects.
//!
//! The guard of the server has authenticated the caller and authorized the path. Each read of the
//! page then needs the right `get` of the caller for that object, by a SubjectAccessReview.

use parking_lot::Mutex;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use http::StatusCode;
use http::header;
use http::request::Parts;
use serde_json::json;
use steersman_client::{ApiClient, Target};
use steersman_controllers::why::ask;
use steersman_values::clock::Clock;
use steersman_values::resource::{LEASES, ResourceType};
use steersman_why::{ClientReader, Guard, Inside, Question};

use crate::access::{Caller, NOSNIFF, text};

/// The page before, during and after the leadership. Clones share the state.
#[derive(Clone)]
pub(crate) struct Why {
    client: ApiClient,
    clock: Clock,
    /// Namespace and name of the Lease; `None` without leader election.
    lease: Option<(String, String)>,
    leading: Arc<Mutex<Option<Arc<dyn Inside>>>>,
}

impl Why {
    /// A page that reads through `client`.
    pub(crate) fn new(client: ApiClient, clock: Clock, lease: Option<(String, String)>) -> Self {
        Self {
            client,
            clock,
            lease,
            leading: Arc::default(),
        }
    }

    /// Answers as the leader from now on, or no longer.
    pub(crate) fn lead(&self, inside: Option<Arc<dyn Inside>>) {
        *self.leading.lock() = inside;
    }

    /// The manager while it leads.
    pub(crate) fn inside(&self) -> Option<Arc<dyn Inside>> {
        self.leading.lock().clone()
    }

    /// Reads objects that `caller` may get.
    pub(crate) fn reader(&self, caller: Caller) -> ClientReader {
        ClientReader::new(self.client.clone()).guarded(Arc::new(OfCaller(caller)))
    }

    /// The time.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Namespace and name of the Lease; `None` without leader election.
    pub(crate) fn lease(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.lease.as_ref()?;
        Some((namespace, name))
    }

    /// The holder of the Lease, for callers that ask a standby.
    async fn holder(&self) -> String {
        let Some((namespace, name)) = &self.lease else {
            return String::new();
        };
        let target = Target {
            resource: &LEASES,
            namespace: Some(namespace),
            name: Some(name),
            subresource: None,
        };
        let lease = self.client.get(target).await.ok();
        let lease: Option<serde_json::Value> =
            lease.and_then(|body| serde_json::from_slice(&body).ok());
        let holder = lease
            .as_ref()
            .and_then(|lease| lease.pointer("/spec/holderIdentity")?.as_str());
        holder.unwrap_or_default().to_owned()
    }
}

/// The right of the caller to each object.
struct OfCaller(Caller);

impl Guard for OfCaller {
    fn may_get<'a>(
        &'a self,
        of: &'a ResourceType,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, bool> {
        Box::pin(self.0.may_get(of, namespace, name))
    }
}

/// The answer to a request for `/debug/why` or a path below it.
pub(crate) async fn answer(why: Option<&Why>, request: &Parts) -> Response {
    let path = request.uri.path();
    let query = request.uri.query().unwrap_or_default();
    let rest = path.strip_prefix("/debug/why").unwrap_or_default();
    let (Some(why), Some(question)) = (why, Question::of_page(rest, query)) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let Some(caller) = request.extensions.get::<Caller>().cloned() else {
        return text(StatusCode::FORBIDDEN, "the caller is unknown\n");
    };
    let Some(inside) = why.inside() else {
        let leader = why.holder().await;
        let body = json!({"error": "this controller manager does not lead", "leader": leader});
        return json_of(StatusCode::SERVICE_UNAVAILABLE, &body);
    };
    match ask(&why.reader(caller), why.now(), Some(inside), &question).await {
        Ok(report) if query.split('&').any(|pair| pair == "output=text") => {
            text(StatusCode::OK, report.text())
        }
        Ok(report) => json_of(StatusCode::OK, &report),
        Err(error) => json_of(StatusCode::NOT_FOUND, &json!({"error": error.to_string()})),
    }
}

fn json_of(status: StatusCode, body: &impl serde::Serialize) -> Response {
    match serde_json::to_string_pretty(body) {
        Ok(body) => (
            status,
            [(header::CONTENT_TYPE, "application/json"), NOSNIFF],
            body + "\n",
        )
            .into_response(),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
