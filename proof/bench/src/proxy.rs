//! A proxy between a manager and its API server that makes each answer late.
//!
//! manager -> TLS, HTTP/2 -> delay -> connection pool -> API server
//!
//! A request waits before it goes on, as on a server with a slow disk or with slow webhooks: its watch
//! event then comes with its answer. Watches are not delayed. Requests do not wait for each other.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::{Mutex, MutexGuard};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use steersman_client::{HttpService, ResponseBody, connect, load_config};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Concurrent streams of a connection, and flow control windows for bodies, as kube-apiserver.
const MAX_STREAMS: u32 = 100;
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 100 * STREAM_WINDOW;
/// Headers that belong to one connection.
const OF_CONNECTION: [HeaderName; 4] = [
    header::HOST,
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
];
/// Pause between two looks at the requests in flight.
const PAUSE: Duration = Duration::from_millis(10);
/// A manager without requests for this time, in addition to the delay, is quiet.
const QUIET: Duration = Duration::from_millis(100);
/// Time limit of the wait for it.
const QUIET_LIMIT: Duration = Duration::from_secs(10);

/// A listening proxy. It stops accepting connections on drop.
pub(crate) struct Proxy {
    kubeconfig: PathBuf,
    relay: Relay,
    stop: CancellationToken,
    _tasks: Tasks,
}

/// Passes requests on. Clones share one state.
#[derive(Clone)]
struct Relay {
    server: HttpService,
    delay: Duration,
    traffic: Arc<Mutex<Traffic>>,
}

/// The requests other than watches.
struct Traffic {
    begun: u64,
    in_flight: usize,
    /// The end of the latest one.
    ended: Instant,
}

/// A request in flight. It ends on drop, so also when its caller goes away.
struct InFlight(Arc<Mutex<Traffic>>);

impl Proxy {
    /// Listens on a local port. `server` is the kubeconfig of the API server, whose credentials all
    /// requests get. The kubeconfig of the proxy is in `folder`.
    pub(crate) async fn start(server: &Path, delay: Duration, folder: &Path) -> Result<Self> {
        let relay = Relay {
            server: connect(&load_config(Some(server), None)?)?,
            delay,
            traffic: Arc::new(Mutex::new(Traffic {
                begun: 0,
                in_flight: 0,
                ended: Instant::now(),
            })),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let made = rcgen::generate_simple_self_signed([address.ip().to_string()])
            .context("make the certificate of the proxy")?;
        let cluster = json!({
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(made.cert.pem()),
        });
        // A kubeconfig in JSON is YAML, too.
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "users": [{"name": "proxy", "user": {}}],
        });
        let kubeconfig = folder.join("proxy.kubeconfig");
        std::fs::write(&kubeconfig, content.to_string())
            .with_context(|| format!("write {}", kubeconfig.display()))?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        let accepting = accept(listener, acceptor, relay.clone());
        let stopped = stop.clone();
        tasks.spawn("delaying proxy", async move {
            stopped.run_until_cancelled(accepting).await;
        });
        Ok(Self {
            kubeconfig,
            relay,
            stop,
            _tasks: tasks,
        })
    }

    /// The kubeconfig of the manager.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The number of requests so far, without watches.
    pub(crate) fn requests(&self) -> u64 {
        self.relay.traffic().begun
    }

    /// Waits until no request was in flight for a while: the manager is done with all that happened.
    pub(crate) async fn until_quiet(&self) {
        let started = Instant::now();
        while !self.is_quiet() && started.elapsed() < QUIET_LIMIT {
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn is_quiet(&self) -> bool {
        let traffic = self.relay.traffic();
        traffic.in_flight == 0 && traffic.ended.elapsed() > QUIET + self.relay.delay
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, relay: Relay) {
    loop {
        match listener.accept().await {
            // A connection ends with the manager at the latest.
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, acceptor.clone(), relay.clone()));
            }
            Err(error) => {
                eprintln!("    the proxy cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection until its end. The manager reports failures of connections.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, relay: Relay) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| {
        let relay = relay.clone();
        async move { relay.answer(request).await }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Relay {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock()
    }

    fn begin(&self) -> InFlight {
        let mut traffic = self.traffic();
        traffic.begun += 1;
        traffic.in_flight += 1;
        InFlight(Arc::clone(&self.traffic))
    }

    /// An error resets the stream.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<ResponseBody>> {
        let (mut parts, body) = request.into_parts();
        let _in_flight = if is_watch(parts.uri.query()) {
            None
        } else {
            let in_flight = self.begin();
            tokio::time::sleep(self.delay).await;
            Some(in_flight)
        };
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        for name in OF_CONNECTION {
            parts.headers.remove(name);
        }
        let mut onward = Request::new(body.into());
        *onward.method_mut() = parts.method;
        *onward.uri_mut() = parts.uri;
        *onward.headers_mut() = parts.headers;
        self.server.send(onward).await.map_err(io::Error::other)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut traffic = self.0.lock();
        traffic.in_flight -= 1;
        traffic.ended = Instant::now();
    }
}

fn is_watch(query: Option<&str>) -> bool {
    let mut parts = query.unwrap_or_default().split('&');
    parts.any(|part| matches!(part, "watch" | "watch=1" | "watch=true"))
}

#[cfg(test)]
mod tests {
    use steersman_client::Target;
    use steersman_devcluster::DevCluster;
    use steersman_objects::Namespace;
    use steersman_values::clock::Clock;

    use super::*;
    use crate::plane;

    #[tokio::test]
    async fn requests_wait_beside_each_other() {
        const REQUESTS: u32 = 50;
        let delay = Duration::from_millis(200);
        let cluster = DevCluster::new(Clock::system());
        let door = cluster.serve_https((Ipv4Addr::LOCALHOST, 0).into());
        let door = door.await.expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let server = folder.path().join("server.kubeconfig");
        std::fs::write(&server, door.kubeconfig()).expect("it is written");
        let proxy = Proxy::start(&server, delay, folder.path());
        let proxy = proxy.await.expect("the proxy starts");
        let config = load_config(Some(proxy.kubeconfig()), None).expect("a kubeconfig");
        let client = plane::client(connect(&config).expect("an address")).expect("a client");

        let began = Instant::now();
        let namespaces = || client.get(Target::named::<Namespace>("", "default"));
        let answers = (0..REQUESTS).map(|_| namespaces());
        let answers = futures::future::try_join_all(answers).await;
        let took = began.elapsed();
        assert_eq!(answers.expect("the namespace exists").len(), 50);
        assert!(took >= delay, "{took:?}");
        assert!(took < delay * REQUESTS, "one after the other: {took:?}");
        assert_eq!(proxy.requests(), u64::from(REQUESTS));
        proxy.until_quiet().await;
        assert!(began.elapsed() > 2 * delay, "quiet right after an answer");
    }

    #[test]
    fn only_watches_pass_without_delay() {
        for (query, expected) in [
            (None, false),
            (Some("limit=500&resourceVersion=0"), false),
            (Some("allowWatchBookmarks=true&watch=true"), true),
            (Some("watch=1"), true),
            (Some("watch=false"), false),
        ] {
            assert_eq!(is_watch(query), expected, "{query:?}");
        }
    }
}
