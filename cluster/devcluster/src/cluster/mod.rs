//! [`DevCluster`]: one server with an in-process and an HTTPS endpoint, and shortcuts for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use steersman_apiserver::auth::{CertificateError, ClientCertificate, KeyError, User};
use steersman_apiserver::faults::Faults;
use steersman_apiserver::https::{HttpsDoor, Serving};
use steersman_apiserver::registry::Registered;
use steersman_apiserver::requests::{RequestCounts, RequestRecord};
use steersman_apiserver::rest::{Component, ServiceRangeError};
use steersman_apiserver::status::Status;
use steersman_apiserver::store::{Compacted, Event};
use steersman_apiserver::{Admission, InProcess, Server};
use steersman_releases::Release;
use steersman_runtime::controller::ClusterCredentials;
use steersman_values::cidr::Cidr;
use steersman_values::clock::Clock;

mod builder;
mod error;
pub mod manifests;
mod rights;
mod running;
mod snapshot;
mod state;

pub use builder::Builder;
pub use error::StartError;
pub use snapshot::Snapshot;
pub use state::Skipped;

use running::Running;

/// A Kubernetes API server in this process. Clones share the same state.
///
/// One store has two endpoints: [`DevCluster::client`] works in process, without a port, and
/// [`DevCluster::serve_https`] opens a port. Only requested parts run in the background: HTTPS,
/// nodes, controllers. All waits use Tokio's time, so that tests can pause it.
///
/// [`DevCluster::builder`] starts a cluster with objects, simulated nodes and controllers:
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::api::{Api, ListParams};
/// use steersman_devcluster::DevCluster;
///
/// let cluster = DevCluster::builder()
///     .nodes(2)
///     .manifest("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: web}]}}")
///     .start()
///     .await?;
///
/// let a_minute = std::time::Duration::from_secs(60);
/// cluster.wait_for("pods", a_minute, |pods| pods[0]["status"]["phase"] == "Running").await.expect("the pod runs");
/// let pods: Api<Pod> = Api::default_namespaced(cluster.client());
/// assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
/// ```
///
/// With paused time (`#[tokio::test(start_paused = true)]`), nodes, controllers and tests only wait
/// as long as the machine needs. Results are then independent of the machine's speed. Without
/// `start_paused`, the same code runs in real time.
#[derive(Debug, Clone)]
pub struct DevCluster {
    server: Arc<Server>,
    running: Option<Arc<Running>>,
}

impl DevCluster {
    /// Describes a cluster with objects, simulated nodes and controllers. [`Builder::start`] starts
    /// it.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use steersman_devcluster::DevCluster;
    /// # const CONTROLLERS: &[steersman_runtime::controller::Descriptor] = &[];
    /// # async fn my_operator(client: kube::Client) { std::future::pending().await }
    ///
    /// let cluster = DevCluster::builder()
    ///     .nodes(3)
    ///     .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"size": "3"}}))
    ///     .controllers(CONTROLLERS) // such as steersman_controllers::ALL
    ///     .run("my-operator", my_operator)
    ///     .start()
    ///     .await?;
    /// assert_eq!(cluster.count("nodes"), 3);
    /// cluster.stop().await;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn over(server: Arc<Server>) -> Self {
        Self {
            server,
            running: None,
        }
    }

    /// `running` stops when the last clone of this is dropped.
    fn keep(&mut self, running: Running) {
        self.running = Some(Arc::new(running));
    }

    /// Stops the controllers, programs and nodes of the builder, in this order, and waits until
    /// they end. The server keeps running. Dropping the last clone stops them without waiting.
    pub async fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop().await;
        }
    }

    /// A snapshot of all objects, to inspect or to start other clusters from. Use it to try several
    /// things from one state, or to prepare a state once for many tests. Its cost is independent of
    /// the number of objects.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman_devcluster::DevCluster;
    ///
    /// let cluster = DevCluster::builder().nodes(3).start().await?;
    /// let prepared = cluster.snapshot();
    /// let (one, other) = (prepared.fork(), DevCluster::builder().snapshot(&prepared).nodes(3).start().await?);
    /// one.delete("/api/v1/nodes/node-0").await?;
    /// assert_eq!((one.count("nodes"), other.count("nodes"), cluster.count("nodes")), (2, 3, 3));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.server)
    }

    /// An independent cluster that starts with the objects of this one. No nodes or controllers run
    /// in it.
    pub fn fork(&self) -> Self {
        self.snapshot().fork()
    }

    /// A cluster with the built-in kinds and the namespaces `default`, `kube-system`, `kube-public`
    /// and `kube-node-lease`.
    pub fn new(clock: Clock) -> Self {
        Self::over(Arc::new(Server::new(clock, false)))
    }

    /// A cluster like [`DevCluster::new`] that records all field managers from creation on, as
    /// upstream does. This doubles the time of writes, so it is optional. Otherwise, recording
    /// starts at the first server-side apply.
    pub fn with_managed_fields(clock: Clock) -> Self {
        Self::over(Arc::new(Server::new(clock, true)))
    }

    /// A cluster with managed fields and all [`Admission`] plugins, as made by kubeadm. `steersman
    /// dev` and `steersman apiserver` serve such a cluster.
    pub fn full(clock: Clock) -> Self {
        let mut server = Server::new(clock, true);
        server.set_admission(Admission::FULL);
        Self::over(Arc::new(server))
    }

    /// The release of Kubernetes that the server serves.
    pub fn release(&self) -> Release {
        self.server.release()
    }

    /// Serves the metrics APIs too, from annotations of pods and from ConfigMaps. Clusters of
    /// [`DevCluster::builder`] do so from their start.
    pub fn serve_metrics(&self) {
        self.server.serve_metrics();
    }

    /// An in-process client, without a network. Must be called inside a Tokio runtime.
    ///
    /// Its user is `admin`, with all permissions.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    /// An in-process client of a user with the permissions of its roles and bindings.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// The server as a service, for clients with additional layers. The user is `admin`.
    pub fn service(&self) -> InProcess {
        self.service_as(User::admin())
    }

    /// The server as a service for a user. A request with a bearer token has the user of the token
    /// instead.
    pub fn service_as(&self, user: User) -> InProcess {
        InProcess::new(self.server.clone(), user)
    }

    /// Reports a component as healthy in `componentstatuses`. Without it, the server finds components by
    /// their Leases.
    pub fn report_healthy(&self, component: Component) {
        self.server.report_healthy(component);
    }

    /// Registers a bearer token of `user`, for both endpoints.
    pub fn add_token(&self, token: impl Into<String>, user: User) {
        self.server.add_token(token.into(), user);
    }

    /// Accepts ServiceAccount tokens of other keys: PEM blocks `PUBLIC KEY` with RSA, P-256, P-384
    /// or P-521 keys.
    pub fn add_service_account_keys(&self, pem: &str) -> Result<(), KeyError> {
        self.server.add_service_account_keys(pem)
    }

    /// Names the issuer of ServiceAccount tokens, which is the audience of the API server, too. A
    /// second call has no effect.
    pub fn set_token_issuer(&self, issuer: impl Into<String>) {
        self.server.set_token_issuer(issuer.into());
    }

    /// Allows all requests of all users, as the mode AlwaysAllow of kube-apiserver. Requests without
    /// credentials are refused.
    pub fn set_always_allow(&self) {
        self.server.set_always_allow();
    }

    /// Replaces the service CIDR, which is 10.96.0.0/16. Call it before the first port opens, which
    /// makes the Service `kubernetes`.
    pub fn set_service_range(&self, cidr: Cidr) -> Result<(), ServiceRangeError> {
        self.server.set_service_range(cidr)
    }

    /// The private key that signs ServiceAccount tokens, as PEM. It is the key for a manager's
    /// `--service-account-private-key-file`.
    pub fn service_account_key_pem(&self) -> &str {
        self.server.service_account_key_pem()
    }

    /// The certificate of the authority for users and servers, as PEM.
    pub fn authority_pem(&self) -> String {
        self.server.authority_pem()
    }

    /// The private key of that authority, as PEM. It is the key for a manager's
    /// `--cluster-signing-key-file`.
    pub fn authority_key_pem(&self) -> String {
        self.server.authority_key_pem()
    }

    /// A certificate of the cluster's authority for an HTTPS port at `host`, with the authority's
    /// behind it, and its key, as PEM.
    pub fn serving_certificate(&self, host: &str) -> Result<(String, String), CertificateError> {
        self.server.serving_certificate(host)
    }

    /// A client certificate of `user` for every HTTPS port of this cluster. The user can have one
    /// group besides `system:authenticated`.
    pub fn client_certificate(&self, user: &User) -> Result<ClientCertificate, CertificateError> {
        self.server.client_certificate(user)
    }

    /// The certificates of this cluster's authority, and the key that signs tokens. A manager needs
    /// them for `kube-root-ca.crt` and for the Secrets of ServiceAccounts.
    pub fn credentials(&self) -> ClusterCredentials {
        ClusterCredentials {
            root_ca: self.server.authority_pem().into_bytes().into(),
            account_key: Some(self.server.service_account_key_pem().into()),
        }
    }

    /// The certificate of a front proxy, as kube-aggregator has one. The proxy names its users in
    /// `X-Remote-User`, `X-Remote-Group` and so on. Other servers find the authority in the
    /// ConfigMap `kube-system/extension-apiserver-authentication`.
    pub fn front_proxy_certificate(&self) -> Result<ClientCertificate, CertificateError> {
        self.server.front_proxy_certificate()
    }

    /// Serves HTTPS (HTTP/1.1 and HTTP/2) on `address`; port 0 selects a free port.
    pub async fn serve_https(&self, address: SocketAddr) -> std::io::Result<HttpsDoor> {
        self.serve_https_as(address.into()).await
    }

    /// The same with certificates of the caller.
    pub async fn serve_https_as(&self, serving: Serving) -> std::io::Result<HttpsDoor> {
        HttpsDoor::open(self.server.clone(), serving).await
    }

    /// The injected failures of this cluster.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// The clock of stored times.
    pub fn clock(&self) -> &Clock {
        &self.server.clock
    }

    /// The latest requests at both endpoints, oldest first. The default limit is 10,000; see
    /// [`Builder::kept_requests`].
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube::api::Api;
    /// # use steersman_devcluster::DevCluster;
    /// let cluster = DevCluster::builder().start().await?;
    /// let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    /// assert!(pods.get_opt("web").await?.is_none());
    ///
    /// let asked = cluster.requests().pop().expect("there was a request");
    /// assert_eq!((&*asked.verb, &*asked.resource, asked.status), ("get", "pods", 404));
    /// assert_eq!(asked.path, "/api/v1/namespaces/default/pods/web");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.server.log.all()
    }

    /// Number of all requests by verb and resource, of clients with this product name. The product
    /// is the first part of the user agent.
    pub fn request_counts(&self, product: &str) -> RequestCounts {
        self.server.log.counts(product)
    }

    /// Keeps the bodies of requests and answers from now on, for [`DevCluster::requests`]; see
    /// [`Transcript`](crate::transcript::Transcript).
    pub fn keep_contents(&self) {
        self.server.log.keep_contents(true);
    }

    /// Ends [`DevCluster::keep_contents`]. Records of earlier requests have their bodies still.
    pub fn drop_contents(&self) {
        self.server.log.keep_contents(false);
    }

    /// Clears the request log.
    pub fn clear_requests(&self) {
        self.server.log.clear();
    }

    /// The revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.server.revisions.current()
    }

    /// All objects of a plural resource (`pods`), sorted by key. Empty for an unknown resource.
    pub fn objects(&self, plural: &str) -> Vec<Value> {
        self.server.objects(plural)
    }

    /// Number of objects of a plural resource.
    pub fn count(&self, plural: &str) -> usize {
        self.server
            .registry
            .find_plural(plural)
            .map_or(0, |entry| entry.store.len())
    }

    /// All changes after a revision in order, across all resources, each with the plural name of
    /// its resource. An error if the histories no longer reach back to the revision.
    pub fn changes(&self, after: u64) -> Result<Vec<(String, Arc<Event>)>, Compacted> {
        let mut changes = Vec::new();
        for entry in self.server.registry.stored() {
            let after = after.max(entry.store.begun());
            let (events, _) =
                entry
                    .store
                    .events_after(&self.server.revisions, after, usize::MAX)?;
            changes.extend(
                events
                    .into_iter()
                    .map(|event| (entry.resource.plural.to_string(), event)),
            );
        }
        changes.sort_by_key(|(_, event)| event.revision);
        Ok(changes)
    }

    /// Removes the history of a plural resource, as compaction does. Watches from earlier revisions
    /// get 410.
    pub fn compact(&self, plural: &str) {
        if let Some(entry) = self.server.registry.find_plural(plural) {
            entry.store.compact(&self.server.revisions);
        }
    }

    /// Waits until `condition` is true for the objects of a plural resource, and returns them.
    /// After `limit`, the error has the current objects.
    pub async fn wait_for(
        &self,
        plural: &str,
        limit: Duration,
        condition: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>, Vec<Value>> {
        let Some(entry) = self.server.registry.find_plural(plural) else {
            return Err(Vec::new());
        };
        let mut committed = entry.store.committed();
        let satisfied = async {
            loop {
                committed.borrow_and_update();
                let objects = self.objects(plural);
                if condition(&objects) || committed.changed().await.is_err() {
                    return objects;
                }
            }
        };
        tokio::time::timeout(limit, satisfied)
            .await
            .map_err(|_| self.objects(plural))
    }

    /// Creates an object from its manifest, in its namespace or in `default`.
    pub async fn create(&self, object: Value) -> Result<Value, Status> {
        let path = self.collection_of(&object)?;
        self.call(Method::POST, &path, "application/json", object.to_string())
            .await
    }

    /// Creates many objects, in order, up to the first error.
    pub async fn create_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), Status> {
        for object in objects {
            self.create(object).await?;
        }
        Ok(())
    }

    /// Stores an object unchanged, with its UID, status, times and owners, as another API server
    /// left it. Only `metadata.resourceVersion` is new.
    ///
    /// The object gets no defaults, validation or entry in the request log. It replaces an object
    /// of the same name. Fails for an unknown kind, and for an object without a required name or
    /// namespace.
    pub fn load(&self, object: Value) -> Result<(), Status> {
        self.server.load(object)
    }

    /// Replaces an object by its manifest, in its namespace or in `default`.
    pub async fn replace(&self, object: Value) -> Result<Value, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/{name}", self.collection_of(&object)?);
        self.call(Method::PUT, &path, "application/json", object.to_string())
            .await
    }

    /// Reads the object or list at a path, such as `/api/v1/namespaces/default/pods/a`.
    pub async fn get(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::GET, path, "", String::new()).await
    }

    /// Deletes the object at a path, with default options.
    pub async fn delete(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::DELETE, path, "", String::new()).await
    }

    /// Deletes the object at a path, with these fields of DeleteOptions.
    pub async fn delete_with(&self, path: &str, options: Value) -> Result<Value, Status> {
        self.call(
            Method::DELETE,
            path,
            "application/json",
            options.to_string(),
        )
        .await
    }

    /// Applies a JSON merge patch to the object at a path, which can end in `/status`.
    pub async fn patch(&self, path: &str, patch: Value) -> Result<Value, Status> {
        self.call(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            patch.to_string(),
        )
        .await
    }

    /// Path of an object of a plural resource: `path("pods", "default", "a")`. Cluster-scoped
    /// resources ignore `namespace`.
    pub fn path(&self, plural: &str, namespace: &str, name: &str) -> String {
        let entry = self.server.registry.find_plural(plural);
        let collection = entry.map_or_else(
            || format!("/unknown/{plural}"),
            |entry| collection_path(&entry, namespace),
        );
        if name.is_empty() {
            collection
        } else {
            format!("{collection}/{name}")
        }
    }

    /// Path of the collection of a kind in `namespace`, which cluster-scoped resources ignore.
    fn collection(&self, api_version: &str, kind: &str, namespace: &str) -> Option<String> {
        self.server
            .registry
            .find_kind(api_version, kind)
            .map(|entry| collection_path(&entry, namespace))
    }

    fn collection_of(&self, object: &Value) -> Result<String, Status> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let entry = self.server.registered(api_version, kind)?;
        Ok(collection_path(
            &entry,
            object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default"),
        ))
    }

    /// One request through the API. An answer of 400 or more is an error.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<Value, Status> {
        let (value, _) = self.call_warned(method, path, content_type, body).await?;
        Ok(value)
    }

    /// As [`DevCluster::call`], with the warnings of the server, as `kubectl` shows them.
    pub async fn call_warned(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<(Value, Vec<String>), Status> {
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let request = request
            .header(http::header::USER_AGENT, "devcluster")
            .body(body.into())
            .map_err(|error| {
                Status::bad_request(format!("no request can be made for {path:?}: {error}"))
            })?;
        let reset = |_| Status::internal("the connection was reset before an answer came");
        let response = self
            .server
            .handle(request, &Arc::new(User::admin()))
            .await
            .map_err(reset)?;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(http::header::WARNING);
        let warnings = warnings.iter().filter_map(warning_of).collect();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| Status::internal(error.to_string()))?;
        let bytes = body.to_bytes();
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        if code < 400 {
            Ok((value, warnings))
        } else {
            Err(status_of(code, &value))
        }
    }
}

/// The text of a header such as `299 - "v1 Endpoints is deprecated"`.
fn warning_of(header: &http::HeaderValue) -> Option<String> {
    let quoted = header.to_str().ok()?.strip_prefix("299 - \"")?;
    let text = quoted.strip_suffix('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

fn collection_path(entry: &Registered, namespace: &str) -> String {
    let resource = &entry.resource;
    let root = if resource.group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", resource.group)
    };
    let scope = if resource.namespaced && !namespace.is_empty() {
        format!("/namespaces/{namespace}")
    } else {
        String::new()
    };
    format!("{root}/{}{scope}/{}", resource.version, resource.plural)
}

/// The [`Status`] of an error answer. Reasons that this crate does not know become empty.
fn status_of(code: u16, body: &Value) -> Status {
    const REASONS: &[&str] = &[
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Invalid",
        "Forbidden",
        "Unauthorized",
        "BadRequest",
        "MethodNotAllowed",
        "UnsupportedMediaType",
        "NotAcceptable",
        "Expired",
        "Timeout",
        "TooManyRequests",
        "InternalError",
        "RequestEntityTooLarge",
    ];
    let reason = REASONS
        .iter()
        .find(|reason| body["reason"] == **reason)
        .copied()
        .unwrap_or_default();
    let message = body["message"]
        .as_str()
        .map_or_else(|| body.to_string(), str::to_owned);
    Status {
        code,
        reason,
        message,
        details: body.get("details").cloned().map(Box::new),
        continue_token: None,
    }
}
