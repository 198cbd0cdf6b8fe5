//! Connections to programs over HTTPS, with the errors of Go's HTTP client.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::trust;

/// The future that moves the bytes of a connection, until its end or its change of protocol.
pub(crate) type Connection = BoxFuture<'static, Result<(), hyper::Error>>;

/// An open connection, and the sender of its requests.
pub(crate) type Open = (SendRequest<Full<Bytes>>, Connection);

/// The servers that a client trusts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trust<'a> {
    /// Those of a `caBundle`: the base64 of certificates in PEM.
    Bundle(&'a str),
    /// All: `insecureSkipTLSVerify`.
    All,
}

/// The certificate and the key of a client, as PEM.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) certificate: &'a str,
    pub(crate) key: &'a str,
}

/// A TLS client, with its own certificate if it has one.
pub(crate) fn connector(
    trust: Trust<'_>,
    own: Option<Identity<'_>>,
) -> Result<TlsConnector, String> {
    let unusable =
        || "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = match trust {
        Trust::All => trust::Verifier::of_all(&provider),
        Trust::Bundle(bundle) => {
            let pem = STANDARD.decode(bundle).map_err(|_| unusable())?;
            let trusted = certificates(&pem).map_err(|_| unusable())?;
            if trusted.is_empty() && !bundle.is_empty() {
                return Err(unusable());
            }
            trust::Verifier::new(trusted, &provider).map_err(|_| unusable())?
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = certificates(own.certificate.as_bytes()).map_err(|why| why.to_string())?;
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes());
            let key = key.map_err(|why| why.to_string())?;
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|why| why.to_string())?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

/// Opens a connection to `host`, whose certificate is for `name`.
pub(crate) async fn open(
    host: &str,
    port: u16,
    name: &str,
    tls: &TlsConnector,
) -> Result<Open, String> {
    let stream = dial(host, port).await?;
    let name = ServerName::try_from(name.to_owned()).map_err(|why| why.to_string())?;
    let stream = tls.connect(name, stream).await.map_err(untrusted)?;
    let opened = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = opened.map_err(|why| why.to_string())?;
    Ok((sender, Box::pin(connection.with_upgrades())))
}

/// Connects to the first address that answers. The error is that of the first one, as in Go.
async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|why| format!("dial tcp: lookup {host}: {why}"))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(why) => first = first.or(Some((address, why))),
        }
    }
    Err(match first {
        None => format!("dial tcp: lookup {host}: no such host"),
        Some((address, why)) if why.kind() == std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {address}: connect: connection refused")
        }
        Some((address, why)) => format!("dial tcp {address}: {why}"),
    })
}

/// The words for a failed handshake. Those of the verifier are Go's.
fn untrusted(error: std::io::Error) -> String {
    let cause = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!(
                "tls: failed to verify certificate: x509: {}",
                trust::shown(why)
            )
        }
        _ => error.to_string(),
    }
}
