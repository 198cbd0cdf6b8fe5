//! Requests to the API server: one connection pool per process, one throttle and user agent per controller.
//!
//! ApiClient (throttle, write gate, timeout, retries, metrics) -> kube::Client (base URL, credentials) -> HTTP/2

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::Serialize;

use crate::resource::ResourceType;

/// One object or collection, and what of it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Resource type.
    pub resource: &'a ResourceType,
    /// Namespace; `None` for cluster-scoped types and for collections over all namespaces.
    pub namespace: Option<&'a str>,
    /// Name; `None` for the collection.
    pub name: Option<&'a str>,
    /// `status`, `scale`, ...
    pub subresource: Option<&'a str>,
}

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/json-patch+json`.
    Json,
}

/// A client with its own throttle and user agent. Cheap to clone; clones share the throttle.
#[derive(Clone)]
pub struct ApiClient {}

/// What sets one client apart from another.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Full `User-Agent`.
    pub user_agent: String,
    /// Requests per second; not above zero means no limit.
    pub qps: f32,
    /// Requests that may go at once.
    pub burst: u32,
    /// Time for one attempt of an ordinary request.
    pub timeout: Duration,
}

/// Decides whether a write may still be sent; leader election closes it.
pub trait WriteGate: Send + Sync + 'static {
    /// False from the moment another process may lead.
    fn is_open(&self) -> bool;
}

impl ApiClient {
    /// A client over `base`. The metrics are shared by all clients of the process.
    pub fn new(_base: kube::Client, _settings: ClientSettings, _metrics: ClientMetrics) -> Self {
        todo!("helper: client")
    }

    /// The same client, with writes (everything but GET) refused as [`ApiError::Fenced`] once `gate` is closed.
    #[must_use]
    pub fn fenced(&self, _gate: Arc<dyn WriteGate>) -> Self {
        todo!("helper: client")
    }

    /// GET one object, from the latest state.
    pub async fn get(&self, _target: Target<'_>) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// GET a collection; `query` without the question mark.
    pub async fn list(&self, _target: Target<'_>, _query: &str) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// POST `body`.
    pub async fn create(&self, _target: Target<'_>, _body: &impl Serialize) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// PUT `body`.
    pub async fn replace(&self, _target: Target<'_>, _body: &impl Serialize) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// PATCH.
    pub async fn patch(&self, _target: Target<'_>, _kind: PatchKind, _body: &impl Serialize) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// DELETE with `options` as body (`{}` for none).
    pub async fn delete(&self, _target: Target<'_>, _options: &impl Serialize) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }

    /// Opens a watch on a collection; `query` as the reflector wants it, without `watch=true`. Each item is one line (one frame).
    /// Not throttled, no timeout but the server's; an error ends the stream.
    pub async fn watch(
        &self,
        _target: Target<'_>,
        _query: &str,
    ) -> Result<futures::stream::BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
        todo!("helper: client")
    }

    /// GET an absolute path that belongs to no resource, such as `/healthz` or `/version`.
    pub async fn get_path(&self, _path: &str) -> Result<Bytes, ApiError> {
        todo!("helper: client")
    }
}

/// Metric handles of all clients (`rest_client_*`).
#[derive(Debug, Clone)]
pub struct ClientMetrics {}

impl ClientMetrics {
    /// Registers the families of metrics.md section 4 that apply.
    pub fn register(_registry: &prometheus::Registry) -> Result<Self, prometheus::Error> {
        todo!("helper: client")
    }
}

/// Why a request failed. `Display` is what upstream would print (an API error is its message alone); the request it was is in
/// [`ApiError::request`], for logs.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The API server said no.
    #[error("{}", status.message.as_deref().unwrap_or("unknown"))]
    Status {
        /// `PUT /apis/apps/v1/...`.
        request: String,
        /// HTTP status code.
        code: u16,
        /// The server's words, or a stand-in made from the code.
        status: Box<Status>,
    },
    /// No answer.
    #[error("{request}: {source}")]
    Transport {
        /// The request.
        request: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("{request}: no answer within {timeout:?}")]
    Timeout {
        /// The request.
        request: String,
        /// The limit.
        timeout: Duration,
    },
    /// Not sent: this process may no longer write.
    #[error("{request}: not sent, leadership has ended")]
    Fenced {
        /// The request.
        request: String,
    },
    /// An answer that is not what was asked for.
    #[error("{request}: {source}")]
    Decode {
        /// The request.
        request: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ApiError {
    /// Verb and path.
    pub fn request(&self) -> &str {
        match self {
            Self::Status { request, .. }
            | Self::Transport { request, .. }
            | Self::Timeout { request, .. }
            | Self::Fenced { request }
            | Self::Decode { request, .. } => request,
        }
    }

    /// The Status, when the server sent one.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Status { status, .. } = self { Some(status) } else { None }
    }

    fn has_reason(&self, reason: &str, code: u16) -> bool {
        match self {
            Self::Status { status, code: found, .. } => match status.reason.as_deref() {
                Some(text) if !text.is_empty() => text == reason,
                _ => *found == code,
            },
            _ => false,
        }
    }

    /// 404.
    pub fn is_not_found(&self) -> bool {
        self.has_reason("NotFound", 404)
    }

    /// 409 on a stale version.
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict", 409)
    }

    /// 409 on a taken name.
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists", u16::MAX)
    }

    /// 422.
    pub fn is_invalid(&self) -> bool {
        self.has_reason("Invalid", 422)
    }

    /// 403.
    pub fn is_forbidden(&self) -> bool {
        self.has_reason("Forbidden", 403)
    }

    /// Whether `details.causes` has this reason, such as `NamespaceTerminating`.
    pub fn has_cause(&self, reason: &str) -> bool {
        let causes = self.status().and_then(|s| s.details.as_ref()).and_then(|d| d.causes.as_ref());
        causes.is_some_and(|causes| causes.iter().any(|c| c.reason.as_deref() == Some(reason)))
    }
}
