//! Ten thousand connections to the embedded API server do not exclude further clients.

use std::process::Command;
use std::sync::Arc;

use futures::StreamExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use steersman_client::{connect, load_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{LIMIT, Program};

const CONNECTIONS: usize = 10_000;
/// Number of concurrent connection attempts; the listener's backlog holds them.
const AT_ONCE: usize = 100;
/// Number of file descriptors that a process needs for other purposes.
const OTHER_FILES: u64 = 500;
/// The usual soft limit of open files.
const USUAL: &str = "1024";

/// Raises the soft limit of open files to the hard limit, for this process and its children.
/// Returns whether the limit is sufficient.
fn may_open(files: u64) -> bool {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    raised.is_ok() && maximum.is_none_or(|maximum| maximum >= files)
}

/// A client that keeps its connection open. Most clients send nothing, one of eight completes only
/// the handshake, and one of eight gets a response.
enum Client {
    Silent(TcpStream),
    Handshaken(Box<TlsStream<TcpStream>>),
}

impl Client {
    async fn connect(index: usize, address: (&str, u16), tls: &TlsConnector) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        if index % 4 != 1 {
            return Self::Silent(stream);
        }
        let name = ServerName::try_from(address.0.to_owned()).unwrap();
        let mut stream = tls.connect(name, stream).await.unwrap();
        if index % 8 == 1 {
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                .await
                .unwrap();
            stream.flush().await.unwrap();
            let mut start = [0; 15];
            stream.read_exact(&mut start).await.unwrap();
            assert_eq!(&start, b"HTTP/1.1 200 OK");
        }
        Self::Handshaken(Box::new(stream))
    }

    /// Waits until the server closes the connection, in any way.
    async fn end(self) {
        let mut rest = Vec::new();
        let _ = match self {
            Self::Silent(mut stream) => stream.read_to_end(&mut rest).await,
            Self::Handshaken(mut stream) => stream.read_to_end(&mut rest).await,
        };
    }
}

#[test]
fn ten_thousand_open_connections_do_not_block_a_new_client() {
    if !may_open(CONNECTIONS as u64 + OTHER_FILES) {
        eprintln!(
            "skipped: this process may not open {CONNECTIONS} files; `ulimit -Hn` tells how many it may"
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let mut server = Command::new("sh");
    server.args([
        "-c",
        &format!("ulimit -Sn {USUAL} && exec \"$0\" \"$@\""),
        env!("CARGO_BIN_EXE_steersman"),
        "apiserver",
    ]);
    server
        .args(["--nodes=0", "--controllers=", "--write-kubeconfig"])
        .arg(&path);
    let mut server = Program::spawn(&mut server);
    server.wait_until("ready", || path.exists());
    let config = load_config(Some(&path), None).unwrap();
    let host = config.cluster_url.host().unwrap().to_owned();
    let port = config.cluster_url.port_u16().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(config.root_cert.iter().flatten().cloned().map(Into::into));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let tls = TlsConnector::from(Arc::new(
        tls.with_root_certificates(roots).with_no_client_auth(),
    ));

    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let connecting = futures::stream::iter(0..CONNECTIONS)
            .map(|index| Client::connect(index, (&host, port), &tls));
        let open: Vec<Client> = connecting.buffer_unordered(AT_ONCE).collect().await;
        let client = kube::Client::from(connect(&config).unwrap());
        let made =
            http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
        let made = client.request::<serde_json::Value>(
            made.body(br#"{"metadata":{"name":"a"}}"#.to_vec()).unwrap(),
        );
        let made = tokio::time::timeout(LIMIT, made)
            .await
            .expect("the server answers in time")
            .unwrap();
        assert_eq!(made["status"]["phase"], "Active");
        server.signal("TERM");
        let ends = futures::future::join_all(open.into_iter().map(Client::end));
        tokio::time::timeout(LIMIT, ends)
            .await
            .expect("the server closes all connections");
    });
    let (status, said) = server.end_with_log();
    assert_eq!((status, said.as_str()), (Some(0), ""));
}
