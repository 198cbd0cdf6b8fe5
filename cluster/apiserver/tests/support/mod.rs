//! Helpers for tests of raw requests: clients for both interfaces, and raw answers.

pub(crate) mod hook;
pub(crate) mod recorded;

use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_values::clock::Clock;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

pub(crate) fn clock() -> Clock {
    Clock::runtime("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

/// The admin's clients in the process and through HTTPS, by name. Keep the returned port open while
/// using them.
pub(crate) async fn both_doors(
    cluster: &DevCluster,
) -> ([(&'static str, kube::Client); 2], HttpsDoor) {
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    (
        [
            ("in process", cluster.client()),
            ("HTTPS", kube::Client::try_from(config).unwrap()),
        ],
        door,
    )
}

/// A connection to the port, which names no user.
pub(crate) async fn connect(door: &HttpsDoor) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(door.authority_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(door.address()).await.unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::from(door.address().ip()), stream)
        .await
        .unwrap()
}

/// The answer to a raw request.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    /// The body; null if it is not JSON.
    pub(crate) body: Value,
}

/// Sends one request without any changes.
pub(crate) async fn ask(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> Answer {
    try_ask(client, method, path, content_type, body)
        .await
        .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The same; an error if the server does not answer.
pub(crate) async fn try_ask(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> kube::Result<Answer> {
    let mut request = Request::builder().method(method).uri(path);
    if !content_type.is_empty() {
        request = request.header("content-type", content_type);
    }
    let response = client
        .send(request.body(body.to_vec().into()).unwrap())
        .await?;
    let code = response.status().as_u16();
    let warning = |value: &http::HeaderValue| {
        let text = std::str::from_utf8(value.as_bytes())
            .unwrap()
            .strip_prefix("299 - \"")
            .unwrap()
            .strip_suffix('"')
            .unwrap();
        text.replace("\\\"", "\"")
    };
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(warning)
        .collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Ok(Answer {
        code,
        warnings,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    })
}

/// Sends JSON to a cluster.
pub(crate) async fn send(cluster: &DevCluster, method: &str, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    ask(
        &cluster.client(),
        method,
        path,
        "application/json",
        body.as_bytes(),
    )
    .await
}

/// The whole text of a GET.
pub(crate) async fn text(cluster: &DevCluster, path: &str) -> String {
    let request = Request::get(path).body(http_body_util::Full::<bytes::Bytes>::default());
    let response = cluster.service().call(request.unwrap()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A definition of Widgets with these versions.
pub(crate) fn widgets(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": versions,
        },
    })
}
