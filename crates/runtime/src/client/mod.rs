//! Requests to the API server: one connection pool per process, one throttle and user agent per
//! controller.
//!
//! ApiClient (throttle, write gate, timeout, retries, metrics) -> HttpService (base URL,
//! credentials) -> pool -> HTTP/2

mod activity;
mod address;
mod authority;
mod broken;
mod category;
mod cause;
mod certificate;
mod connect;
#[cfg(test)]
mod connect_tests;
mod error;
mod exchange;
mod failure;
mod kubeconfig;
pub(crate) mod lines;
mod load;
mod metrics;
mod plugin;
mod plugin_metrics;
#[cfg(test)]
mod plugin_tests;
mod pool;
mod proxy;
mod service;
#[cfg(test)]
mod tests;
mod token;
mod transports;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Serialize;
use tokio::time::Instant;

pub use activity::Activity;
pub use category::Category;
pub use connect::{anonymous, connect, host};
pub use error::ApiError;
pub use failure::{ConfigError, ConnectError};
pub use load::{load_config, load_config_as_kubectl};
pub use metrics::ClientMetrics;
pub use service::{HttpService, ResponseBody};
pub use transports::Transports;

use exchange::{Call, Exchange};

/// The target of the spans of writes, for who collects them; no log is to show them, so it is none
/// of ours by name.
pub const SPANS: &str = "kubernetes::writes";

/// The target of the lines about requests that have been answered, one each: more than a log is to
/// show among other details.
pub const REQUESTS: &str = "steersman_runtime::requests";

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

impl Target<'_> {
    fn path(&self) -> String {
        let mut path = self.resource.path(self.namespace);
        for segment in [self.name, self.subresource].into_iter().flatten() {
            path.push('/');
            path.extend(escape(segment));
        }
        path
    }
}

/// The characters a path segment cannot hold as they are.
const OUTSIDE_SEGMENTS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// `segment` as it may stand in a path. Names of most types need nothing; those of RBAC objects may
/// hold anything but `/` and `%`.
fn escape(segment: &str) -> PercentEncode<'_> {
    utf8_percent_encode(segment, OUTSIDE_SEGMENTS)
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

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// A client with its own throttle and user agent. Cheap to clone; clones share the throttle.
#[derive(Clone)]
pub struct ApiClient {
    exchange: Arc<Exchange>,
    gate: Option<Arc<dyn WriteGate>>,
    metadata_only: bool,
}

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

/// Decides whether a write may still be sent; leader election closes it, and so does the end of the
/// process.
pub trait WriteGate: Send + Sync + 'static {
    /// False from the moment another process may lead, or no new write may begin for another
    /// reason.
    fn is_open(&self) -> bool;

    /// When writes under way are abandoned unless that is put off by then, so that one which waits
    /// for a connection does not arrive late; `None` if they are not.
    fn open_until(&self) -> Option<Instant> {
        None
    }

    /// Comes when no new request may begin any more. A write that was sent is still waited for;
    /// what waits for the throttle, for a connection or for another attempt is given up, and so is
    /// every read.
    fn closing(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Comes when writes that were sent are given up, too.
    fn abandoning(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

const JSON: &str = "application/json";
/// Falls back to whole objects, whose metadata reads the same.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

impl ApiClient {
    /// A client over `base`. The metrics are shared by all clients of the process.
    pub fn new(
        base: impl Into<HttpService>,
        settings: ClientSettings,
        metrics: ClientMetrics,
    ) -> Self {
        Self {
            exchange: Arc::new(Exchange::new(base.into(), settings, metrics)),
            gate: None,
            metadata_only: false,
        }
    }

    /// The same client, with writes (everything but GET) refused as [`ApiError::Fenced`] once
    /// `gate` is closed.
    #[must_use]
    pub fn fenced(&self, gate: Arc<dyn WriteGate>) -> Self {
        Self {
            gate: Some(gate),
            ..self.clone()
        }
    }

    /// The same client (and the same throttle), asking for the metadata of objects instead of whole
    /// objects.
    #[must_use]
    pub fn metadata_only(&self) -> Self {
        Self {
            metadata_only: true,
            ..self.clone()
        }
    }

    /// The same client with a throttle of its own: this client's rate and burst, multiplied.
    #[must_use]
    pub fn rethrottled(&self, qps_factor: f32, burst_factor: u32) -> Self {
        Self {
            exchange: Arc::new(self.exchange.rethrottled(qps_factor, burst_factor)),
            ..self.clone()
        }
    }

    /// GET one object, from the latest state.
    pub async fn get(&self, target: Target<'_>) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::GET, target)).await
    }

    /// GET a collection; `query` without the question mark.
    pub async fn list(&self, target: Target<'_>, query: &str) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::GET, target).query(query)).await
    }

    /// POST `body`.
    pub async fn create(
        &self,
        target: Target<'_>,
        body: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::POST, target).body(JSON, body)?)
            .await
    }

    /// PUT `body`.
    pub async fn replace(
        &self,
        target: Target<'_>,
        body: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::PUT, target).body(JSON, body)?)
            .await
    }

    /// PATCH.
    pub async fn patch(
        &self,
        target: Target<'_>,
        kind: PatchKind,
        body: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(
            self.on(Method::PATCH, target)
                .body(kind.content_type(), body)?,
        )
        .await
    }

    /// DELETE with `options` as body (`{}` for none).
    pub async fn delete(
        &self,
        target: Target<'_>,
        options: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::DELETE, target).body(JSON, options)?)
            .await
    }

    /// DELETE a collection with `options` as body. A server works on that longer than on other
    /// requests, so that it has `timeout`.
    pub async fn delete_collection(
        &self,
        target: Target<'_>,
        options: &impl Serialize,
        timeout: Duration,
    ) -> Result<Bytes, ApiError> {
        self.send(
            self.on(Method::DELETE, target)
                .body(JSON, options)?
                .timeout(timeout),
        )
        .await
    }

    /// Opens a watch on a collection; `query` as the reflector wants it, without `watch=true`. Each
    /// item is one line (one frame). Not throttled, no timeout but the server's; an error ends the
    /// stream.
    ///
    /// A line may share its memory with its neighbours on the wire (some 16 KiB): decode it and let
    /// it go.
    pub async fn watch(
        &self,
        target: Target<'_>,
        query: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
        let query = if query.is_empty() {
            "watch=true".to_owned()
        } else {
            format!("watch=true&{query}")
        };
        let form = if self.metadata_only { METADATA } else { JSON };
        self.exchange
            .watch(Call::on(Method::GET, target).query(&query).accept(form))
            .await
    }

    /// GET an absolute path that belongs to no resource, such as `/healthz` or `/version`.
    pub async fn get_path(&self, path: &str) -> Result<Bytes, ApiError> {
        self.send(Call::at(path)).await
    }

    /// As [`ApiClient::get_path`], with the media types that are wanted, best first.
    pub async fn get_path_as(&self, path: &str, accept: &'static str) -> Result<Bytes, ApiError> {
        self.send(Call::at(path).accept(accept)).await
    }

    fn on<'a>(&self, method: Method, target: Target<'a>) -> Call<'a> {
        // Servers refuse to show a list as one object, also the list that the deletion of a
        // collection answers with.
        let is_list = target.name.is_none() && matches!(method, Method::GET | Method::DELETE);
        let form = match (self.metadata_only, is_list) {
            (false, _) => JSON,
            (true, false) => METADATA,
            (true, true) => METADATA_LIST,
        };
        Call::on(method, target).accept(form)
    }

    async fn send(&self, call: Call<'_>) -> Result<Bytes, ApiError> {
        self.exchange.send(call, self.gate.as_deref()).await
    }
}

/// The `User-Agent` of the client called `identity` (`deployment-controller`): upstream's text for
/// the release we are compatible with, so that audit logs and flow schemas that look at it keep
/// working.
pub fn user_agent(identity: &str) -> String {
    let platform = platform();
    let commit = option_env!("STEERSMAN_COMMIT").unwrap_or_default();
    let commit = commit.get(..7).unwrap_or("0000000");
    format!(
        "kube-controller-manager/{COMPATIBLE_VERSION} ({platform}) kubernetes/{commit}/{identity}"
    )
}

/// `linux/amd64`, as Go names platforms.
pub fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    };
    format!("{os}/{arch}")
}

/// The Kubernetes release whose behaviour this is.
pub const COMPATIBLE_VERSION: &str = "v1.36.2";

/// `text` as a header value, without the characters that cannot stand in one.
fn header_value(text: &str) -> HeaderValue {
    let visible: String = text.chars().filter(|c| matches!(c, ' '..='~')).collect();
    HeaderValue::from_str(&visible).expect("visible ASCII is a header value")
}
