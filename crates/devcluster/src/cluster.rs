//! [`DevCluster`]: one server with its doors, and the shortcuts that tests take through the same
//! API.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use steersman_runtime::clock::Clock;
use tower::Service;

use crate::admission::Admission;
use crate::auth::{CertificateError, ClientCertificate, User, bearer_token};
use crate::builder::Builder;
use crate::faults::Faults;
use crate::https::HttpsDoor;
use crate::kinds::Registered;
use crate::requests::{RequestCounts, RequestRecord};
use crate::rest::{Body, Server};
use crate::running::Running;
use crate::snapshot::Snapshot;
use crate::status::Status;
use crate::store::{Change, Compacted, Event};

/// A Kubernetes API server in this process. Clones share the same state.
///
/// It has two doors to one store: [`DevCluster::client`] in the process, without a port, and
/// [`DevCluster::serve_https`]. Nothing runs in the background but what was asked for: a door,
/// nodes, controllers. All waiting uses Tokio's time, so that tests may pause it.
///
/// [`DevCluster::builder`] starts one with objects, simulated nodes and controllers in it:
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
/// cluster.wait_for("pods", a_minute, |pods| pods[0]["status"]["phase"] == "Running").await.expect("the pod starts");
/// let pods: Api<Pod> = Api::default_namespaced(cluster.client());
/// assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
/// ```
///
/// Under paused time (`#[tokio::test(start_paused = true)]`) whatever waits, be it a node, a
/// controller or a test, waits no longer than the machine needs, and nothing depends on how fast
/// that is. Without `start_paused` the same runs in real time.
#[derive(Debug, Clone)]
pub struct DevCluster {
    server: Arc<Server>,
    running: Option<Arc<Running>>,
}

impl DevCluster {
    /// Describes a cluster with objects, simulated nodes and controllers, to be started.
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

    pub(crate) fn over(server: Arc<Server>) -> Self {
        Self {
            server,
            running: None,
        }
    }

    /// `running` ends with the last clone of this.
    pub(crate) fn keep(&mut self, running: Running) {
        self.running = Some(Arc::new(running));
    }

    /// Ends the controllers, programs and nodes that the builder started, in this order, and waits
    /// until they have ended. The server goes on. Dropping the last clone ends them, too, without
    /// waiting.
    pub async fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop().await;
        }
    }

    /// All objects as they are now, to look at later or to begin other clusters with: to try
    /// several things from one starting point, or to set up once what many tests need. Takes no
    /// longer for many objects than for few.
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

    /// A cluster of its own that begins with the objects of this one; nothing runs in it.
    pub fn fork(&self) -> Self {
        self.snapshot().fork()
    }

    /// A cluster with the built-in kinds and the namespaces `default`, `kube-system`, `kube-public`
    /// and `kube-node-lease`.
    pub fn new(clock: Clock) -> Self {
        Self::over(Arc::new(Server::new(clock, false)))
    }

    /// The same, but who manages which field is recorded from creation on, as upstream does. Writes
    /// take about twice as long with that, so it is a choice; without it recording begins with the
    /// first server-side apply.
    pub fn with_managed_fields(clock: Clock) -> Self {
        Self::over(Arc::new(Server::new(clock, true)))
    }

    /// The same with all of [`Admission`], as in a cluster of kubeadm's: what `steersman dev` and
    /// `steersman apiserver` serve.
    pub fn full(clock: Clock) -> Self {
        let mut server = Server::new(clock, true);
        server.set_admission(Admission::FULL);
        Self::over(Arc::new(server))
    }

    /// A client that talks to the server without a network. Must be called inside a Tokio runtime.
    ///
    /// It is the client of the user `admin`, who may do everything.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    /// The same, of a user who may do what roles and bindings allow.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// The server as a service, for clients with layers of their own; the user is `admin`.
    pub fn service(&self) -> InProcess {
        self.service_as(User::admin())
    }

    /// The same, for a user. A request that shows a bearer token is of that token's user instead.
    pub fn service_as(&self, user: User) -> InProcess {
        InProcess {
            server: self.server.clone(),
            user: Arc::new(user),
        }
    }

    /// Lets whoever shows a bearer token in as `user`, through either door.
    pub fn add_token(&self, token: impl Into<String>, user: User) {
        self.server.users.add_token(token.into(), user);
    }

    /// A certificate that every HTTPS door of this cluster takes for `user`, who may be in one
    /// group besides `system:authenticated`.
    pub fn client_certificate(&self, user: &User) -> Result<ClientCertificate, CertificateError> {
        self.server.users.authority().client_certificate(user)
    }

    /// The certificate of a proxy that may tell, in `X-Remote-User`, `X-Remote-Group` and so on,
    /// who its clients are: kube-aggregator's. Who else is to believe it finds the authority in the
    /// ConfigMap `kube-system/extension-apiserver-authentication`.
    pub fn front_proxy_certificate(&self) -> Result<ClientCertificate, CertificateError> {
        self.server.users.authority().front_proxy_certificate()
    }

    /// Serves HTTPS (HTTP/1.1 and HTTP/2) on `address`; port 0 picks one.
    pub async fn serve_https(&self, address: SocketAddr) -> std::io::Result<HttpsDoor> {
        HttpsDoor::open(self.server.clone(), address).await
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// The clock that stored times come from.
    pub fn clock(&self) -> &Clock {
        &self.server.clock
    }

    /// The latest requests through either door, oldest first; the newest 10,000 are kept unless
    /// [`Builder::kept_requests`] says otherwise.
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

    /// How many requests there were so far of clients of this product, the first part of their user
    /// agent, by verb and resource.
    pub fn request_counts(&self, product: &str) -> RequestCounts {
        self.server.log.counts(product)
    }

    /// From now on [`DevCluster::requests`] also tells what requests and answers said; see
    /// [`Transcript`](crate::transcript::Transcript).
    pub fn keep_contents(&self) {
        self.server.log.keep_contents();
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.server.log.clear();
    }

    /// The revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.server.revisions.current()
    }

    /// All objects of a plural resource (`pods`), in the order of their keys; nothing for an
    /// unknown one.
    pub fn objects(&self, plural: &str) -> Vec<Value> {
        self.server.objects(plural)
    }

    /// How many objects of a plural resource there are.
    pub fn count(&self, plural: &str) -> usize {
        self.server
            .registry
            .find_plural(plural)
            .map_or(0, |entry| entry.store.len())
    }

    /// Every change after a revision, to objects of all types and in the order they happened, while
    /// the histories reach back that far; each with the plural name of its resource.
    pub fn changes(&self, after: u64) -> Result<Vec<(String, Arc<Event>)>, Compacted> {
        let mut changes = Vec::new();
        for entry in self.server.registry.stored() {
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

    /// Forgets the history of a plural resource, as compaction does: watches from before now are
    /// answered with 410.
    pub fn compact(&self, plural: &str) {
        if let Some(entry) = self.server.registry.find_plural(plural) {
            entry.store.compact(&self.server.revisions);
        }
    }

    /// Waits until the objects of a plural resource are as `condition` wants them, and returns
    /// them; after `limit`, the objects that are not.
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

    /// Stores an object just as it is, with its UID, status, times and owners, as another API
    /// server left it; only `metadata.resourceVersion` is given anew. Nothing is defaulted, checked
    /// or logged as a request. An object of that name is replaced. Fails for an unknown kind, and
    /// for an object without a name or, where the kind has any, namespace.
    pub fn load(&self, object: Value) -> Result<(), Status> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let entry = self.registered(api_version, kind)?;
        let key = match (
            entry.resource.namespaced,
            text("/metadata/namespace"),
            text("/metadata/name"),
        ) {
            (_, _, "") | (true, "", _) => {
                return Err(Status::bad_request(format!(
                    "a {kind} to load has no name or namespace"
                )));
            }
            (true, namespace, name) => format!("{namespace}/{name}"),
            (false, _, name) => name.to_owned(),
        };
        loop {
            let current = entry.store.get(&key);
            let change = Change::Put(object.clone());
            if let Ok(loaded) = entry.store.commit(
                &entry.resource,
                &self.server.revisions,
                &key,
                current.as_ref(),
                change,
            ) {
                self.server
                    .hand_over(&entry.resource, current.as_deref(), Some(&loaded));
                if entry.resource.is("CustomResourceDefinition") {
                    self.server.settle_definitions();
                }
                return Ok(());
            }
        }
    }

    /// Replaces an object by its manifest, in its namespace or in `default`.
    pub async fn replace(&self, object: Value) -> Result<Value, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/{name}", self.collection_of(&object)?);
        self.call(Method::PUT, &path, "application/json", object.to_string())
            .await
    }

    /// Reads what a path names, such as `/api/v1/namespaces/default/pods/a`; lists, too.
    pub async fn get(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::GET, path, "", String::new()).await
    }

    /// Deletes what a path names, with default options.
    pub async fn delete(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::DELETE, path, "", String::new()).await
    }

    /// Deletes what a path names, with these fields of DeleteOptions.
    pub async fn delete_with(&self, path: &str, options: Value) -> Result<Value, Status> {
        self.call(
            Method::DELETE,
            path,
            "application/json",
            options.to_string(),
        )
        .await
    }

    /// Applies a JSON merge patch to what a path names; a path may end in `/status`.
    pub async fn patch(&self, path: &str, patch: Value) -> Result<Value, Status> {
        self.call(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            patch.to_string(),
        )
        .await
    }

    /// Path of an object of a plural resource: `path("pods", "default", "a")`. `namespace` is
    /// ignored for cluster resources.
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

    /// Path of the collection of a kind in `namespace`, which is ignored for cluster resources.
    pub(crate) fn collection(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Option<String> {
        self.server
            .registry
            .find_kind(api_version, kind)
            .map(|entry| collection_path(&entry, namespace))
    }

    fn collection_of(&self, object: &Value) -> Result<String, Status> {
        let (api_version, kind) = (
            object["apiVersion"].as_str().unwrap_or_default(),
            object["kind"].as_str().unwrap_or_default(),
        );
        let entry = self.registered(api_version, kind)?;
        Ok(collection_path(
            &entry,
            object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default"),
        ))
    }

    fn registered(&self, api_version: &str, kind: &str) -> Result<Arc<Registered>, Status> {
        let found = self.server.registry.find_kind(api_version, kind);
        found.ok_or_else(|| {
            Status::bad_request(format!(
                "no resource serves kind {kind:?} of {api_version:?}"
            ))
        })
    }

    /// One request through the API. An answer of 400 or more is an error.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<Value, Status> {
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
        let bytes = match response.into_body().collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(never) => match never {},
        };
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        if code < 400 {
            Ok(value)
        } else {
            Err(status_of(code, &value))
        }
    }
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

/// The in-process door.
#[derive(Debug, Clone)]
pub struct InProcess {
    server: Arc<Server>,
    user: Arc<User>,
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let user = match bearer_token(&parts.headers) {
                Some(_) => server.authenticate(&parts.headers, None),
                None => Ok(user),
            };
            let user = match user {
                Ok(user) => user,
                Err(status) => return Ok(crate::rest::refusal(&status)),
            };
            let collected = body.collect().await.map_err(|error| {
                Status::bad_request(format!("the request body ended early: {}", error.into()))
            });
            match collected {
                Ok(body) => Ok(server
                    .handle(Request::from_parts(parts, body.to_bytes()), &user)
                    .await?),
                Err(status) => Ok(crate::rest::refusal(&status)),
            }
        })
    }
}
