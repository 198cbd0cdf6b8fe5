//! Sends requests to the API server. The process has one connection pool; each controller has its
//! own throttle and user agent.
//!
//! ApiClient (throttle, write gate, timeout, retries, metrics) -> HttpService (base URL,
//! credentials) -> pool -> HTTP/2
//!
//! Throttle, retries, user agent and error messages are those of `client-go/rest`. Answers are
//! returned as bytes, because each caller decodes only the fields that it needs.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod activity;
mod address;
mod authority;
mod certificate;
mod connect;
#[cfg(test)]
mod connect_tests;
pub mod discovery;
mod errors;
mod exchange;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
mod hold;
mod invariants;
mod kubeconfig;
mod lines;
pub mod live;
mod load;
mod metrics;
mod path;
mod plugin;
mod plugin_metrics;
#[cfg(test)]
mod plugin_tests;
mod pool;
mod proxy;
pub mod rate;
mod read_ahead;
pub mod reload;
pub mod scale;
mod service;
#[cfg(test)]
mod tests;
mod throttled;
mod token;
mod transports;
mod versions;
mod witness;
pub mod writes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderValue, Method};
use serde::Serialize;
use tokio::time::Instant;

pub use activity::Activity;
pub use connect::{anonymous, connect, connect_verifying, host};
pub use errors::{
    Aggregate, ApiError, Category, ConfigError, ConnectError, Decision, Refusal, Violation,
};
pub use hold::HeldWrite;
pub use load::{inline_authority, load_config, load_config_as_kubectl};
pub use metrics::ClientMetrics;
pub use path::{ApiPath, PathError, Query, is_path_name};
pub use service::{HttpService, ResponseBody};
pub use transports::Transports;
pub use witness::{Witness, Write, within_sync};

use exchange::{Call, Exchange};
use versions::Versions;

/// The `tracing` target of the spans of writes, for span collectors. It is outside the crates of
/// this workspace, so that log filters for these crates do not show it.
pub const SPANS: &str = "kubernetes::writes";

/// The `tracing` target of one log line per answered request. It is separate, because these lines
/// are too many for the usual debug level.
pub const REQUESTS: &str = "steersman_client::requests";

use steersman_values::resource::ResourceType;
use steersman_values::version::GIT_VERSION;

/// The object, collection or subresource of a request.
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

/// The format of a patch.
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
    managed_fields: bool,
}

/// The settings of one client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The full `User-Agent` header.
    pub user_agent: String,
    /// Requests per second. Zero or less means no limit.
    pub qps: f32,
    /// Requests that may be sent at once before `qps` applies.
    pub burst: u32,
    /// Time limit of one attempt. It does not apply to watches.
    pub timeout: Duration,
}

/// Decides whether a write may still be sent. The loss of the Lease and a shutdown close the gate.
pub trait WriteGate: Send + Sync + 'static {
    /// False as soon as another process may lead, or if no new write may start for another reason.
    fn is_open(&self) -> bool;

    /// The current end of the leader's term; a renewal moves it. Pending writes are abandoned at
    /// the end, so that no write arrives late. `None` if the gate has no end.
    fn open_until(&self) -> Option<Instant> {
        None
    }

    /// Resolves when no new request may start. Sent writes may still get their answers. Reads are
    /// cancelled, and so are writes that wait for the throttle, a connection or a retry.
    fn closing(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Resolves when sent writes are cancelled too.
    fn abandoning(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

const JSON: &str = "application/json";
/// Server-side apply. JSON is YAML, too.
const APPLY: &str = "application/apply-patch+yaml";
/// The second media type lets a server without metadata support send whole objects. Their metadata
/// is decoded in the same way.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The same forms without managed fields: the parameter `drop` of 1.38 (KEP-5958). Older servers ignore
/// it. The last media type is for servers that know no parameters.
const LIGHT: &str = "application/json;drop=metadata.managedFields,application/json;q=0.9";
const LIGHT_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json;q=0.9";
const LIGHT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json;q=0.9";

impl ApiClient {
    /// A client that sends requests through `base`. All clients of a process share `metrics`.
    pub fn new(
        base: impl Into<HttpService>,
        settings: ClientSettings,
        metrics: ClientMetrics,
    ) -> Self {
        Self {
            exchange: Arc::new(Exchange::new(base.into(), settings, metrics)),
            gate: None,
            metadata_only: false,
            managed_fields: true,
        }
    }

    /// Whether a write may be sent now: the write gate is open, and no shadow holds writes back. This is for acts
    /// outside the API that nothing can take back, such as the deletion of a folder.
    pub fn may_write(&self) -> bool {
        let gate = self.gate.as_deref();
        !self.exchange.holds_back() && gate.is_none_or(WriteGate::is_open)
    }

    /// A copy of this client that refuses writes as [`ApiError::Fenced`] while `gate` is closed.
    /// All requests except GET are writes.
    #[must_use]
    pub fn fenced(&self, gate: Arc<dyn WriteGate>) -> Self {
        Self {
            gate: Some(gate),
            ..self.clone()
        }
    }

    /// A copy of this client, with the same throttle, that requests only the metadata of objects.
    #[must_use]
    pub fn metadata_only(&self) -> Self {
        Self {
            metadata_only: true,
            ..self.clone()
        }
    }

    /// A copy of this client, with the same throttle, that asks for objects without
    /// `metadata.managedFields`. API servers send the fields unless the gate `ManagedFieldsOptOut` of 1.38 is on.
    #[must_use]
    pub fn without_managed_fields(&self) -> Self {
        Self {
            managed_fields: false,
            ..self.clone()
        }
    }

    /// A copy of this client with its own throttle: this client's rate and burst times the factors.
    #[must_use]
    pub fn rethrottled(&self, qps_factor: f32, burst_factor: u32) -> Self {
        Self {
            exchange: Arc::new(self.exchange.rethrottled(qps_factor, burst_factor)),
            ..self.clone()
        }
    }

    /// GET one object, at its latest version.
    pub async fn get(&self, target: Target<'_>) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::GET, target)?).await
    }

    /// GET one object as the watch cache of the API server has it (`resourceVersion=0`). This is
    /// cheaper than [`ApiClient::get`], and the object may be older.
    pub async fn get_cached(&self, target: Target<'_>) -> Result<Bytes, ApiError> {
        let query = Query::from("resourceVersion=0");
        self.send(self.on(Method::GET, target)?.query(&query)).await
    }

    /// GET a collection.
    pub async fn list(
        &self,
        target: Target<'_>,
        query: impl Into<Query>,
    ) -> Result<Bytes, ApiError> {
        let query = query.into();
        let listed = self.send(self.on(Method::GET, target)?.query(&query)).await;
        if listed.as_ref().is_err_and(ApiError::is_not_found)
            && self.finds_other_version(target.resource).await?
        {
            return self.send(self.on(Method::GET, target)?.query(&query)).await;
        }
        listed
    }

    /// POST `body`.
    pub async fn create(
        &self,
        target: Target<'_>,
        body: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::POST, target)?.body(JSON, body)?)
            .await
    }

    /// PUT `body`.
    pub async fn replace(
        &self,
        target: Target<'_>,
        body: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::PUT, target)?.body(JSON, body)?)
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
            self.on(Method::PATCH, target)?
                .body(kind.content_type(), body)?,
        )
        .await
    }

    /// PATCH by server-side apply: `configuration` has the fields that `manager` owns. Fields of other
    /// managers are taken over, as with upstream's `Force`.
    pub async fn apply(
        &self,
        target: Target<'_>,
        manager: &str,
        configuration: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        let query = Query::default()
            .with("fieldManager", manager)
            .with("force", true);
        self.send(
            self.on(Method::PATCH, target)?
                .query(&query)
                .body(APPLY, configuration)?,
        )
        .await
    }

    /// DELETE with `options` as body (`{}` for none).
    pub async fn delete(
        &self,
        target: Target<'_>,
        options: &impl Serialize,
    ) -> Result<Bytes, ApiError> {
        self.send(self.on(Method::DELETE, target)?.body(JSON, options)?)
            .await
    }

    /// DELETE a collection with `options` as body. The server needs longer for this than for other
    /// requests, so the request has its own `timeout`.
    pub async fn delete_collection(
        &self,
        target: Target<'_>,
        options: &impl Serialize,
        timeout: Duration,
    ) -> Result<Bytes, ApiError> {
        self.send(
            self.on(Method::DELETE, target)?
                .body(JSON, options)?
                .timeout(timeout),
        )
        .await
    }

    /// Opens a watch on a collection. `query` lacks `watch=true`. Each item is one line, which
    /// is one frame.
    ///
    /// A watch is not throttled, and only the server limits its time. An error ends the stream.
    ///
    /// A line may share one buffer (about 16 KiB) with other lines. Decode it and drop it soon, or
    /// it keeps the whole buffer in memory.
    pub async fn watch(
        &self,
        target: Target<'_>,
        query: impl Into<Query>,
    ) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
        let query = Query::from("watch=true").and(&query.into());
        let call = Call::on(Method::GET, target, self.versions())?;
        let call = call.query(&query).accept(self.accepted(false));
        self.exchange.watch(call).await
    }

    /// GET an absolute path without a resource, such as `/healthz` or `/version`.
    pub async fn get_path(&self, path: impl Into<ApiPath>) -> Result<Bytes, ApiError> {
        self.send(Call::at(&path.into())).await
    }

    /// Like [`ApiClient::get_path`], with the accepted media types, best first.
    pub async fn get_path_as(
        &self,
        path: impl Into<ApiPath>,
        accept: &'static str,
    ) -> Result<Bytes, ApiError> {
        self.send(Call::at(&path.into()).accept(accept)).await
    }

    fn on<'a>(&self, method: Method, target: Target<'a>) -> Result<Call<'a>, ApiError> {
        // A list needs the media type of a list, or the server refuses the request. The deletion of
        // a collection answers with a list too.
        let is_list = target.name.is_none() && matches!(method, Method::GET | Method::DELETE);
        let form = self.accepted(is_list);
        Ok(Call::on(method, target, self.versions())?.accept(form))
    }

    /// The media types that answers may have.
    fn accepted(&self, is_list: bool) -> &'static str {
        match (self.metadata_only, is_list, self.managed_fields) {
            (false, _, true) => JSON,
            (false, _, false) => LIGHT,
            (true, false, true) => METADATA,
            (true, false, false) => LIGHT_METADATA,
            (true, true, true) => METADATA_LIST,
            (true, true, false) => LIGHT_METADATA_LIST,
        }
    }

    fn versions(&self) -> &Versions {
        self.exchange.versions()
    }

    async fn send(&self, call: Call<'_>) -> Result<Bytes, ApiError> {
        self.exchange.send(call, self.gate.as_deref()).await
    }
}

/// The `User-Agent` of the client called `identity`, such as `deployment-controller`.
///
/// It is upstream's text for the compatible release. So audit policies and flow schemas that match
/// it still work.
pub fn user_agent(identity: &str) -> String {
    let platform = platform();
    let commit = option_env!("STEERSMAN_COMMIT").unwrap_or_default();
    let commit = commit.get(..7).unwrap_or("0000000");
    format!("kube-controller-manager/{GIT_VERSION} ({platform}) kubernetes/{commit}/{identity}")
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

/// `text` as a header value. All characters except visible ASCII and spaces are removed.
fn header_value(text: &str) -> HeaderValue {
    let visible: String = text.chars().filter(|c| matches!(c, ' '..='~')).collect();
    HeaderValue::from_str(&visible).expect("visible ASCII is a header value")
}
