//! The HTTPS endpoint: TLS with the cluster's certificate authority, HTTP/1.1 and HTTP/2. Users
//! authenticate with a client certificate or a bearer token.
//!
//! Limits of streams, buffers and times follow kube-apiserver where clients can observe them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{UPGRADE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::BufWriter;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::unconstrained;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Server;
use crate::auth::{Authority, ClientCertificate, Peer, User};
use crate::requests::{ClientAddress, Through};
use crate::rest::{self, Begun, Body, Unchanged, Upgradable, refusal};
use crate::status::Status;

/// Concurrent streams per HTTP/2 connection, as kube-apiserver. Clients need further connections
/// for more watches.
const MAX_STREAMS: u32 = 100;
/// Flow control windows for request bodies, in bytes per stream and per connection, as
/// kube-apiserver. With smaller windows, a burst of requests arrives in tiny fragments. The HTTP/2
/// library then suspects an attack and closes the connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 100 * STREAM_WINDOW;
/// Output buffer in bytes, the size of one TLS record. A watch sends many small frames, and the
/// buffer encrypts and sends them together.
const WRITE_BUFFER: usize = 16 << 10;
/// Buffered bytes of an answer per stream. On a busy server, a watch task may run only once per
/// hundred changes and must then send all of them. Watches share their frames, so only lists use
/// this memory.
const SEND_BUFFER: usize = 1 << 20;
/// Bodies can be a little larger than the API accepts, so that the refusal can explain the limit.
const MAX_READ: usize = rest::MAX_BODY + (1 << 20);
/// Time for a client to finish its TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Upstream's timeout for requests other than watches.
const BODY_LIMIT: Duration = Duration::from_secs(60);
/// Wait after a failed accept, such as one that ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for requests to finish at stop. Watches end at once.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// How an HTTPS port presents itself, and which clients it knows.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The address to listen on; port 0 selects a free port.
    pub address: SocketAddr,
    /// Certificate chain and key, both as PEM. Without it, the cluster's authority signs a
    /// certificate.
    pub certificate: Option<(String, String)>,
    /// Further authorities of client certificates, as PEM blocks: `--client-ca-file` of
    /// kube-apiserver. Those of the cluster are always known.
    pub client_authorities: String,
    /// Text before the `User-Agent` of every request at this port. Faults and the log of requests tell the
    /// clients of several ports apart by it, such as two processes of one program. The Service
    /// `kubernetes` does not name a port with a mark.
    pub client_mark: String,
}

impl From<SocketAddr> for Serving {
    /// The cluster's own certificate and authorities, at an address.
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            certificate: None,
            client_authorities: String::new(),
            client_mark: String::new(),
        }
    }
}

/// An open HTTPS port. It closes when this is dropped; [`HttpsDoor::stop`] also waits for running
/// requests.
#[derive(Debug)]
pub struct HttpsDoor {
    address: SocketAddr,
    token: String,
    authority_pem: String,
    pin: String,
    admin: ClientCertificate,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl HttpsDoor {
    /// Opens the port. Fails if the address is not free, and for PEM blocks that are no certificate
    /// or key.
    pub async fn open(server: Arc<Server>, serving: Serving) -> io::Result<Self> {
        let authority = server.users.authority();
        let admin = authority
            .client_certificate(&User::admin())
            .map_err(io::Error::other)?;
        let tls = tls(authority, &serving).map_err(io::Error::other)?;
        let listener = TcpListener::bind(serving.address).await?;
        let door = Self {
            address: listener.local_addr()?,
            token: URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>()),
            authority_pem: authority.pem(),
            pin: authority.pin(),
            admin,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        if serving.client_mark.is_empty() {
            server.publish(door.address);
        }
        server.users.add_token(door.token.clone(), User::admin());
        let listening = Listening {
            server,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            address: door.address,
            mark: serving.client_mark.into(),
            stop: door.stop.clone(),
            tasks: door.tasks.clone(),
        };
        door.tasks.spawn(listening.run(listener));
        Ok(door)
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://<address>`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The bearer token of the user `admin`.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The certificate of the authority that signed the server's certificate, as PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// The pin of that authority for `kubeadm join --discovery-token-ca-cert-hash`, such as
    /// `sha256:0123...`.
    pub fn authority_pin(&self) -> String {
        format!("sha256:{}", self.pin)
    }

    /// A self-contained kubeconfig for the user `admin`.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of("admin", &self.admin)
    }

    /// A self-contained kubeconfig for the user of a certificate (see
    /// [`crate::DevCluster::client_certificate`]). `name` is the user's name in the file.
    pub fn kubeconfig_of(&self, name: &str, user: &ClientCertificate) -> String {
        let url = self.url();
        let authority = STANDARD.encode(&self.authority_pem);
        let certificate = STANDARD.encode(&user.certificate_pem);
        let key = STANDARD.encode(&user.key_pem);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: steersman
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: {name}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: steersman
  context:
    cluster: steersman
    user: {name}
    namespace: default
current-context: steersman
"
        )
    }

    /// Stops accepting, closes open connections, and waits until their tasks end.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for HttpsDoor {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Clone)]
struct Listening {
    server: Arc<Server>,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    mark: Arc<str>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Listening {
    async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, client)) => {
                    // Sockets for both families map addresses of IPv4.
                    let client = client.ip().to_canonical();
                    self.tasks.spawn(self.clone().serve(stream, client));
                }
                // A client may have left already, or file descriptors ran out. An immediate retry
                // would keep the connections from closing.
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, client: IpAddr) {
        // Watch frames are small, and must be sent without delay.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let handshake = tokio::time::timeout(HANDSHAKE_LIMIT, self.acceptor.accept(stream));
        let Some(handshake) = self.stop.run_until_cancelled(handshake).await else {
            return;
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => return tracing::debug!("TLS handshake took too long"),
        };
        // The TLS verifier accepts only certificates of the cluster's authorities.
        let certificate = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first);
        let peer = certificate.and_then(Peer::of);
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(ClientAddress(client));
            let listening = self.clone();
            let peer = peer.clone();
            // The box is freed with the answer. The task of the stream lives as long as its body,
            // and would keep the room for the request while a watch is open.
            Box::pin(async move { listening.answer(request, peer.as_ref()).await })
        });
        let mut builder = auto::Builder::new(OwnedTasks(self.tasks.clone()));
        builder.http1().timer(TokioTimer::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS);
        builder
            .http2()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        builder.http2().max_send_buf_size(SEND_BUFFER);
        let stream = BufWriter::with_capacity(WRITE_BUFFER, stream);
        let mut connection =
            std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            // Tokio's budget allows 128 socket writes per turn of a task. With ten watches, that is
            // only a dozen changes of each. The stream buffers limit the unsent data instead.
            ended = unconstrained(connection.as_mut()) => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(STOP_LIMIT, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return tracing::debug!("a connection was closed with running requests"),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "connection failed");
        }
    }

    /// Handles a request. Answers of HEAD have no body, because HTTP/2 clients treat one as an
    /// error.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Option<&Peer>,
    ) -> io::Result<Response<Body>> {
        let head_only = request.method() == Method::HEAD;
        let response = self.whole_answer(request, peer).await?;
        Ok(if head_only {
            response.map(|_| Body::Whole(None))
        } else {
            response
        })
    }

    /// Authenticates and handles a request. An error closes the connection (HTTP/1.1) or resets the
    /// stream (HTTP/2).
    async fn whole_answer(
        &self,
        mut request: Request<Incoming>,
        peer: Option<&Peer>,
    ) -> io::Result<Response<Body>> {
        let offers = request.headers().contains_key(UPGRADE);
        let upgrade = offers.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Through(self.address));
        if upgrade.is_some() {
            parts.extensions.insert(Upgradable);
        }
        mark(&mut parts.headers, &self.mark);
        let user = match self.server.authenticate(&mut parts, peer) {
            Ok(user) => user,
            Err(status) => return Ok(refusal(&status)),
        };
        let body = match read(body).await {
            Ok(body) => body,
            Err(status) => return Ok(refusal(&status)),
        };
        let response = self
            .server
            .handle(Request::from_parts(parts, body), &user)
            .await?;
        let begun = response.extensions().get::<Begun>().and_then(Begun::take);
        if let Some(changed) = begun
            && let Some(upgrade) = upgrade
        {
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                match stop.run_until_cancelled(upgrade).await {
                    Some(Ok(connection)) => changed.run(TokioIo::new(connection), &stop).await,
                    Some(Err(error)) => tracing::debug!(%error, "a connection kept its protocol"),
                    None => {}
                }
            });
        }
        let unchanged = response.extensions().get::<Unchanged>();
        if unchanged.is_some_and(|answer| !answer.is_endless) {
            return Ok(response);
        }
        Ok(response.map(|body| body.until(self.stop.clone().cancelled_owned())))
    }
}

/// Puts the mark of the port before the `User-Agent`.
fn mark(headers: &mut HeaderMap, mark: &str) {
    if mark.is_empty() {
        return;
    }
    let agent = headers
        .get(USER_AGENT)
        .map_or(&[][..], HeaderValue::as_bytes);
    let marked = [mark.as_bytes(), b" ", agent].concat();
    if let Ok(marked) = HeaderValue::from_bytes(&marked) {
        headers.insert(USER_AGENT, marked);
    }
}

/// Reads a whole body. A body with a too large content length is refused before it is read.
async fn read(body: Incoming) -> Result<Bytes, Status> {
    let too_large = || Status::body_too_large(rest::MAX_BODY);
    if body.size_hint().lower() > MAX_READ as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_LIMIT, Limited::new(body, MAX_READ).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Status::bad_request(format!(
            "the request body cannot be read: {error}"
        ))),
        Err(_) => Err(Status::new(
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        )),
    }
}

/// Spawns the tasks of HTTP/2 connections on the tracker, so that [`HttpsDoor::stop`] waits for
/// them.
#[derive(Clone)]
struct OwnedTasks(TaskTracker);

impl<F> hyper::rt::Executor<F> for OwnedTasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// The TLS configuration: the certificate of the server, and the trusted authorities of clients.
fn tls(
    authority: &Authority,
    serving: &Serving,
) -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for root in authority.client_roots() {
        roots.add(root)?;
    }
    for root in CertificateDer::pem_slice_iter(serving.client_authorities.as_bytes()) {
        roots.add(root?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let (chain, key) = match &serving.certificate {
        Some(given) => given.clone(),
        None => authority.server_certificate(&serving.address.ip().to_string())?,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain?, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}
