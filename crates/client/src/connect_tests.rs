//! Tests with TLS connections to servers on this machine. They run in real time, because sockets
//! ignore a paused clock.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response, Version};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use steersman_values::resource::PODS;

use super::connect::PINGS;
use super::pool::Pings;
use crate::{ApiClient, ApiError, ClientMetrics, ClientSettings, Target, Transports};

const LIMIT: Duration = Duration::from_secs(20);
const ALL_PODS: Target<'_> = Target {
    resource: &PODS,
    namespace: None,
    name: None,
    subresource: None,
};

struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    ca: Vec<u8>,
    acceptor: Option<TlsAcceptor>,
}

/// Answers each request with one line that contains the protocol's version. A watch then stays
/// open.
async fn answer(
    request: Request<Incoming>,
) -> Result<Response<StreamBody<stream::BoxStream<'static, Chunk>>>, Infallible> {
    let version = match request.version() {
        Version::HTTP_2 => "2",
        Version::HTTP_11 => "1.1",
        _ => "?",
    };
    let line = Bytes::from(format!("{{\"version\":\"{version}\"}}\n"));
    let first = stream::iter([Ok(Frame::data(line))]);
    let is_watch = request
        .uri()
        .query()
        .is_some_and(|q| q.contains("watch=true"));
    let body = if is_watch {
        first.chain(stream::pending()).boxed()
    } else {
        first.boxed()
    };
    Ok(Response::new(StreamBody::new(body)))
}

type Chunk = Result<Frame<Bytes>, Infallible>;

impl Server {
    async fn start(tls: bool) -> Self {
        let key =
            rcgen::generate_simple_self_signed(vec!["api.test".to_owned(), "127.0.0.1".to_owned()])
                .unwrap();
        let ca = key.cert.der().to_vec();
        let acceptor = tls.then(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let private =
                rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der())
                    .unwrap();
            let mut config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![key.cert.der().clone()], private)
                .unwrap();
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let accepting = acceptor.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                let acceptor = accepting.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // The tests check the end of connections on the client's side.
                    let _ = match acceptor {
                        Some(acceptor) => {
                            let Ok(tls) = acceptor.accept(tcp).await else {
                                return;
                            };
                            server
                                .serve_connection(TokioIo::new(tls), service_fn(answer))
                                .await
                        }
                        None => {
                            server
                                .serve_connection(TokioIo::new(tcp), service_fn(answer))
                                .await
                        }
                    };
                });
            }
        });
        Self {
            port,
            connections,
            ca,
            acceptor,
        }
    }

    fn config(&self, scheme: &str, port: u16) -> kube::Config {
        let mut config = kube::Config::new(format!("{scheme}://127.0.0.1:{port}").parse().unwrap());
        config.root_cert = Some(vec![self.ca.clone()]);
        config
    }
}

fn client(config: &kube::Config, pings: Pings) -> ApiClient {
    let settings = ClientSettings {
        user_agent: "test".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    let metrics = ClientMetrics::register(&prometheus::Registry::new()).unwrap();
    ApiClient::new(
        Transports::new()
            .unwrap()
            .connect_with(config, pings)
            .unwrap(),
        settings,
        metrics,
    )
}

#[tokio::test]
async fn watches_share_one_http2_connection_and_requests_another() {
    let server = Server::start(true).await;
    let mut config = server.config("https", server.port);
    config.tls_server_name = Some("api.test".to_owned());
    let client = client(&config, PINGS);
    let requests_and_watches = async {
        let mut watches = Vec::new();
        for _ in 0..60 {
            let mut watch = client.watch(ALL_PODS, "").await.unwrap();
            assert_eq!(watch.next().await.unwrap().unwrap(), r#"{"version":"2"}"#);
            watches.push(watch);
        }
        let requests = (0..100).map(|_| client.list(ALL_PODS, ""));
        for answer in futures::future::join_all(requests).await {
            assert_eq!(answer.unwrap(), "{\"version\":\"2\"}\n");
        }
        drop(watches);
    };
    timeout(LIMIT, requests_and_watches).await.unwrap();
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_server_without_tls_is_used_with_http_1() {
    let server = Server::start(false).await;
    let client = client(&server.config("http", server.port), PINGS);
    let answer = timeout(LIMIT, client.list(ALL_PODS, ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer, "{\"version\":\"1.1\"}\n");
    // Each request needs a connection, and connections are used again after their answer.
    for _ in 0..2 {
        let requests = (0..5).map(|_| client.list(ALL_PODS, ""));
        for answer in timeout(LIMIT, futures::future::join_all(requests))
            .await
            .unwrap()
        {
            answer.unwrap();
        }
    }
    assert!(server.connections.load(Ordering::Relaxed) <= 6);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = Server::start(true).await;
    let mut config = server.config("https", server.port);
    config.tls_server_name = Some("other.test".to_owned());
    let outcome = timeout(LIMIT, client(&config, PINGS).list(ALL_PODS, ""))
        .await
        .unwrap();
    assert!(
        matches!(outcome, Err(ApiError::Transport { .. })),
        "{outcome:?}"
    );
}

/// Forwards TCP to `port`. While it is `frozen`, it drops all bytes, like a broken network.
async fn forward(port: u16, frozen: Arc<AtomicBool>) -> u16 {
    async fn pump(
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
        frozen: Arc<AtomicBool>,
    ) {
        let mut buffer = vec![0; 4096];
        while let Ok(n) = tokio::io::AsyncReadExt::read(&mut from, &mut buffer).await {
            if n == 0 {
                return;
            }
            if !frozen.load(Ordering::Relaxed) && to.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (inward, _) = listener.accept().await.unwrap();
            let outward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (in_read, in_write) = inward.into_split();
            let (out_read, out_write) = outward.into_split();
            tokio::spawn(pump(in_read, out_write, Arc::clone(&frozen)));
            tokio::spawn(pump(out_read, in_write, Arc::clone(&frozen)));
        }
    });
    own
}

#[tokio::test]
async fn a_silent_connection_is_closed_and_its_watches_end() {
    let server = Server::start(true).await;
    let frozen = Arc::new(AtomicBool::new(false));
    let port = forward(server.port, Arc::clone(&frozen)).await;
    let pings = Pings {
        interval: Duration::from_millis(200),
        timeout: Duration::from_millis(200),
    };
    let client = client(&server.config("https", port), pings);
    let mut watch = client.watch(ALL_PODS, "").await.unwrap();
    assert!(watch.next().await.unwrap().is_ok());

    frozen.store(true, Ordering::Relaxed);
    let end = timeout(LIMIT, watch.next()).await.unwrap();
    assert!(
        matches!(end, Some(Err(ApiError::Transport { .. }))),
        "{end:?}"
    );
    frozen.store(false, Ordering::Relaxed);
    timeout(LIMIT, client.list(ALL_PODS, ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

/// A server that reads a request, sends `answer`, and closes the connection.
async fn answering(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncReadExt::read(&mut tcp, &mut [0; 4096]).await;
            let _ = tcp.write_all(answer.as_bytes()).await;
        }
    });
    port
}

#[tokio::test]
async fn errors_of_unusable_servers_name_the_cause() {
    let server = Server::start(true).await;
    let other = Server::start(true).await;
    let plain = answering("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let https = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let through = async |answer| {
        let mut config = server.config("https", server.port);
        config.proxy_url = Some(
            format!("http://127.0.0.1:{}", answering(answer).await)
                .parse()
                .unwrap(),
        );
        config
    };
    let mut misnamed = server.config("https", server.port);
    misnamed.tls_server_name = Some("other.test".to_owned());
    let mut unreachable_proxy = server.config("https", server.port);
    unreachable_proxy.proxy_url = Some("http://127.0.0.1:1".parse().unwrap());
    let unknown_host = kube::Config::new("http://nowhere.invalid:6443".parse().unwrap());
    let cases = [
        (
            server.config("https", 1),
            "connection refused: nothing listens there",
        ),
        (unknown_host, "the name of the server cannot be looked up: "),
        (
            other.config("https", server.port),
            "the certificate of the server cannot be verified: its issuer is unknown; check ",
        ),
        (
            misnamed,
            "the certificate of the server cannot be verified: it is for another name; ",
        ),
        (
            server.config("https", plain),
            "the server does not speak TLS; ",
        ),
        (
            server.config("https", answering("").await),
            "the connection was closed during the TLS handshake: ",
        ),
        (
            server.config("http", answering(https).await),
            "the server expects TLS and got none; its address must begin with https://",
        ),
        (
            server.config(
                "http",
                answering("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n").await,
            ),
            "the server has asked for the client",
        ),
        (
            through("HTTP/1.1 403 Forbidden\r\n\r\n").await,
            "the proxy refuses to connect to the server",
        ),
        (
            through("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await,
            "the proxy wants credentials",
        ),
        (
            unreachable_proxy,
            "the proxy: connection refused: nothing listens there",
        ),
    ];
    for (config, expected) in cases {
        let began = std::time::Instant::now();
        let error = timeout(LIMIT, client(&config, PINGS).get_path("/healthz"))
            .await
            .unwrap()
            .unwrap_err();
        let cause = error.cause();
        assert!(cause.starts_with(expected), "{expected}: {cause}");
        // There is only one attempt, because no established connection was lost.
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{expected}: {:?}",
            began.elapsed()
        );
    }
}

/// A SOCKS proxy that connects each client to `port` and ignores the requested address.
async fn socks(port: u16) -> u16 {
    use tokio::io::AsyncReadExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut inward, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 512];
            let _ = inward.read(&mut buffer).await;
            let _ = inward.write_all(&[5, 0]).await;
            let _ = inward.read(&mut buffer).await;
            let _ = inward.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await;
            let mut outward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut inward, &mut outward).await },
            );
        }
    });
    own
}

#[tokio::test]
async fn a_socks_proxy_resolves_the_name_and_forwards_the_connection() {
    let server = Server::start(true).await;
    let mut config = kube::Config::new("https://api.test:6443".parse().unwrap());
    config.root_cert = Some(vec![server.ca.clone()]);
    config.proxy_url = Some(
        format!("socks5://127.0.0.1:{}", socks(server.port).await)
            .parse()
            .unwrap(),
    );
    let answer = timeout(LIMIT, client(&config, PINGS).list(ALL_PODS, ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer, "{\"version\":\"2\"}\n");
}

/// An HTTP proxy over TLS with the certificate of `server`. It connects to `server`.
async fn proxy_over_tls(server: &Server, acceptor: TlsAcceptor) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let port = server.port;
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut inward) = acceptor.accept(tcp).await else {
                continue;
            };
            let mut buffer = [0; 512];
            let read = tokio::io::AsyncReadExt::read(&mut inward, &mut buffer)
                .await
                .unwrap();
            assert!(buffer[..read].starts_with(b"CONNECT api.test:6443 "));
            inward.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut outward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut inward, &mut outward).await },
            );
        }
    });
    own
}

#[tokio::test]
async fn a_proxy_over_tls_is_supported() {
    let server = Server::start(true).await;
    let mut config = kube::Config::new("https://api.test:6443".parse().unwrap());
    config.root_cert = Some(vec![server.ca.clone()]);
    let port = proxy_over_tls(&server, server.acceptor.clone().unwrap()).await;
    config.proxy_url = Some(format!("https://127.0.0.1:{port}").parse().unwrap());
    let answer = timeout(LIMIT, client(&config, PINGS).list(ALL_PODS, ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer, "{\"version\":\"2\"}\n");
}
