//! Creates a client of the API server from a configuration.
//!
//! base URL and credentials (kube, or a plugin) -> connection pool -> HTTP/2, or HTTP/1.1 -> TLS
//! with ring -> TCP
//!
//! kube's client speaks HTTP/1.1 only, so the pool is our own
//! (`docs/decisions/0002-own-connection-pool.md`). The layers above it are kube's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use kube::client::{AuthError, Body, ConfigExt};
use kube::config::{AuthInfo, ExecConfig};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::ConnectError;
use super::authority::Authority;
use super::certificate::CertificateFiles;
use super::pool::{Dial, Dialed, Io, Pings, Pool};
use super::proxy;
use super::read_ahead::ReadAhead;
use super::service::HttpService;
use super::token::TokenFile;
use super::transports::Transports;

/// Time limit for a new connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// An unanswered ping closes the connection within interval + timeout = 25 s. The kernel would
/// notice a broken network path only after minutes.
pub(super) const PINGS: Pings = Pings {
    interval: Duration::from_secs(15),
    timeout: Duration::from_secs(10),
};

/// Like [`Transports::connect`], for a client without metrics of its connections.
pub fn connect(config: &kube::Config) -> Result<HttpService, ConnectError> {
    Transports::new()?.connect(config)
}

/// Like [`connect`], for a server that `verifier` accepts or refuses. The authorities of `config`
/// have no effect.
pub fn connect_verifying(
    config: &kube::Config,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<HttpService, ConnectError> {
    connect_with(config, PINGS, &Transports::new()?, Some(verifier))
}

impl Transports {
    /// Creates a client of the API server of `config`, with its own connections. It sends no
    /// request yet.
    ///
    /// With HTTP/2, requests share a connection up to the server's limit of streams, and then
    /// another is opened. Watches share connections in the same way, apart from other requests.
    ///
    /// Connections go through `config.proxy_url`, or else through the proxy of `HTTPS_PROXY`,
    /// `HTTP_PROXY` and `NO_PROXY`.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn connect(&self, config: &kube::Config) -> Result<HttpService, ConnectError> {
        connect_with(config, PINGS, self, None)
    }

    #[cfg(test)]
    pub(super) fn connect_with(
        &self,
        config: &kube::Config,
        pings: Pings,
    ) -> Result<HttpService, ConnectError> {
        connect_with(config, pings, self, None)
    }
}

fn connect_with(
    config: &kube::Config,
    pings: Pings,
    transports: &Transports,
    verifier: Option<Arc<dyn ServerCertVerifier>>,
) -> Result<HttpService, ConnectError> {
    if config.cluster_url.scheme().is_none() || config.cluster_url.authority().is_none() {
        return Err(ConnectError::Address(config.cluster_url.to_string()));
    }
    // An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // HTTP/1.1 has no pings, so TCP keep-alive detects broken connections.
    tcp.set_keepalive(Some(pings.interval));

    let Some(proxy) = proxy_of(config, |name| std::env::var(name).ok()) else {
        return client_over(tcp, config, pings, transports, verifier);
    };
    match proxy.uri().scheme_str() {
        Some("http") => client_over(
            proxy::tunnel(&proxy, tcp),
            config,
            pings,
            transports,
            verifier,
        ),
        Some("https") => client_over(
            proxy::tunnel(&proxy, proxy::over_tls(config, tcp)?),
            config,
            pings,
            transports,
            verifier,
        ),
        Some("socks5" | "socks5h") => client_over(
            proxy::socks(&proxy, tcp),
            config,
            pings,
            transports,
            verifier,
        ),
        _ => Err(ConnectError::Proxy(proxy.uri().to_string())),
    }
}

/// The proxy of `config`, or else of the environment, which `var` reads. As in Go, a proxy of the
/// environment is not used for this machine.
fn proxy_of(config: &kube::Config, var: impl Fn(&str) -> Option<String>) -> Option<Intercept> {
    if let Some(url) = &config.proxy_url {
        return Matcher::builder()
            .all(url.to_string())
            .build()
            .intercept(&config.cluster_url);
    }
    let host = config
        .cluster_url
        .host()
        .unwrap_or_default()
        .trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        return None;
    }
    let either = |upper: &str, lower: &str| {
        var(upper)
            .filter(|v| !v.is_empty())
            .or_else(|| var(lower))
            .unwrap_or_default()
    };
    Matcher::builder()
        .https(either("HTTPS_PROXY", "https_proxy"))
        .http(either("HTTP_PROXY", "http_proxy"))
        .no(either("NO_PROXY", "no_proxy"))
        .build()
        .intercept(&config.cluster_url)
}

/// Builds the client on top of `transport`, which opens TCP connections, possibly through a proxy.
fn client_over<T>(
    transport: T,
    config: &kube::Config,
    pings: Pings,
    transports: &Transports,
    verifier: Option<Arc<dyn ServerCertVerifier>>,
) -> Result<HttpService, ConnectError>
where
    T: Service<http::Uri> + Clone + Send + Sync + 'static,
    T::Response: Connection + Read + Write + Send + Unpin + 'static,
    T::Future: Send + 'static,
    T::Error: Into<BoxError>,
{
    // Plugins and files that may change are handled here. kube gets the other credentials.
    let plugin = runs_plugin(&config.auth_info).map(|exec| transports.plugin(exec));
    let certificate = CertificateFiles::of(&config.auth_info)
        .map_err(ConnectError::Certificate)?
        .map(Arc::new);
    let mut config = config.clone();
    config.auth_info.exec = None;
    if certificate.is_some() {
        config.auth_info.client_certificate = None;
        config.auth_info.client_key = None;
    }
    let authority_file = config
        .root_cert_file
        .take()
        .filter(|_| !config.accept_invalid_certs && verifier.is_none());
    // Without an authority, kube reads those of the system, and fails where there are none, as in the
    // image. A connection that checks no certificate, or by other means, needs none.
    let is_verified = !config.accept_invalid_certs
        && verifier.is_none()
        && config.cluster_url.scheme() != Some(&http::uri::Scheme::HTTP);
    if !is_verified && config.root_cert.is_none() {
        config.root_cert = Some(Vec::new());
    }
    let mut tls = config
        .rustls_client_config()
        .map_err(|e| ConnectError::Tls(Box::new(e)))?;
    if let Some(path) = authority_file {
        let authority = Authority::new(path, transports.authority_reloads())
            .map_err(ConnectError::Authority)?;
        tls.dangerous()
            .set_certificate_verifier(Arc::new(authority));
    }
    if let Some(verifier) = verifier {
        tls.dangerous().set_certificate_verifier(verifier);
    }
    if let Some(plugin) = &plugin {
        tls.client_auth_cert_resolver = Arc::clone(plugin) as Arc<_>;
    }
    if let Some(certificate) = &certificate {
        tls.client_auth_cert_resolver = Arc::clone(certificate) as Arc<_>;
    }
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|_| ConnectError::ServerName(name.clone()))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https
        .enable_http1()
        .enable_http2()
        .wrap_connector(transport.map_response(ReadAhead::new));
    let limit = config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let url = config.cluster_url.clone();
    let dial: Dial = Arc::new(move || {
        let mut https = https.clone();
        let url = url.clone();
        Box::pin(async move {
            let connection = timeout(limit, async {
                https.ready().await?;
                https.call(url).await
            });
            let connection = connection
                .await
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
            let is_http2 = connection.connected().is_negotiated_h2();
            Ok(Dialed {
                io: Box::new(TokioIo::new(connection)) as Box<dyn Io>,
                is_http2,
            })
        })
    });
    let server = host(&config);
    let metrics = transports.pool_metrics();
    let make = move || Pool::new(&server, Arc::clone(&dial), pings, &metrics);
    match (plugin, certificate) {
        (Some(plugin), _) => client_for(&config, plugin.over(make)),
        (None, Some(certificate)) => client_for(&config, certificate.over(make)),
        (None, None) => client_for(&config, make()),
    }
}

/// Adds the layers in the order of kube's own stack, without its retries. `Exchange` retries,
/// because it knows which requests can be repeated.
fn client_for<S, B>(config: &kube::Config, http: S) -> Result<HttpService, ConnectError>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let mut config = config.clone();
    // kube treats the newline of a token file as part of the token.
    let file = config
        .auth_info
        .token_file
        .take()
        .filter(|_| config.auth_info.token.is_none());
    match file {
        Some(path) => layered(
            &config,
            TokenFile::new(&path)
                .map_err(ConnectError::Credentials)?
                .over(http),
        ),
        None => layered(&config, http),
    }
}

/// Adds kube's layers: base URL, credentials and impersonation headers.
fn layered<S, B>(config: &kube::Config, http: S) -> Result<HttpService, ConnectError>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(
            config
                .auth_layer()
                .map_err(|e| ConnectError::Credentials(without_secrets(&e)))?,
        )
        .layer(
            config
                .extra_headers_layer()
                .map_err(|_| ConnectError::Headers)?,
        )
        .service(http);
    Ok(HttpService::layered(service))
}

/// The credential plugin of `auth`. `None` if there are other credentials, which have precedence.
fn runs_plugin(auth: &AuthInfo) -> Option<&ExecConfig> {
    let AuthInfo {
        exec,
        token,
        token_file,
        username,
        client_certificate,
        client_certificate_data,
        ..
    } = auth;
    let has_others = token.is_some()
        || token_file.is_some()
        || username.is_some()
        || client_certificate.is_some()
        || client_certificate_data.is_some();
    exec.as_ref().filter(|_| !has_others)
}

/// The label `host` of the API server in metrics, such as `10.0.0.1:6443`.
pub fn host(config: &kube::Config) -> String {
    config
        .cluster_url
        .authority()
        .map(|a| a.as_str().to_owned())
        .unwrap_or_default()
}

/// The same API server without credentials, for a client with its own credentials.
pub fn anonymous(config: &kube::Config) -> kube::Config {
    let mut anonymous = config.clone();
    anonymous.auth_info = kube::config::AuthInfo::default();
    anonymous
}

/// The text of `error` without output of a plugin. Such output may contain tokens, and errors of
/// parsers quote it.
fn without_secrets(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { cmd, out }) => {
            format!(
                "auth provider command '{cmd}' failed with {}; run it by hand to see why",
                out.status
            )
        }
        kube::Error::Auth(AuthError::ParseTokenKey(_)) => {
            "the output of the auth provider command has no such token".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> kube::Config {
        kube::Config::new(url.parse().unwrap())
    }

    #[tokio::test]
    async fn invalid_settings_are_refused() {
        let mut behind_proxy = config("https://10.0.0.1:6443");
        behind_proxy.proxy_url = Some("socks4://user:hunter2@proxy:3128".parse().unwrap());
        let error = connect(&behind_proxy).err().unwrap().to_string();
        assert!(
            error.contains("proxy:3128") && !error.contains("hunter2"),
            "{error}"
        );

        let mut named = config("https://127.0.0.1:6443");
        named.root_cert = Some(Vec::new());
        named.tls_server_name = Some("not a name".to_owned());
        assert!(matches!(connect(&named), Err(ConnectError::ServerName(_))));
    }

    #[test]
    fn the_configured_proxy_has_precedence_over_the_environment() {
        // (why, API server, proxy-url, variables, expected)
        type Text = Option<&'static str>;
        type Case = (
            &'static str,
            &'static str,
            Text,
            &'static [(&'static str, &'static str)],
            Text,
        );
        let cases: [Case; 7] = [
            ("none", "https://10.0.0.1:6443", None, &[], None),
            (
                "configured",
                "https://10.0.0.1",
                Some("http://p:1"),
                &[("HTTPS_PROXY", "http://q:2")],
                Some("http://p:1/"),
            ),
            (
                "from the environment",
                "https://10.0.0.1",
                None,
                &[("HTTPS_PROXY", "http://q:2")],
                Some("http://q:2/"),
            ),
            (
                "in lower case",
                "https://api",
                None,
                &[("https_proxy", "http://q:2")],
                Some("http://q:2/"),
            ),
            (
                "for the other scheme",
                "https://api",
                None,
                &[("HTTP_PROXY", "http://q:2")],
                None,
            ),
            (
                "excluded by NO_PROXY",
                "https://10.0.0.1:6443",
                None,
                &[
                    ("HTTPS_PROXY", "http://q:2"),
                    ("NO_PROXY", "example.com,10.0.0.0/8"),
                ],
                None,
            ),
            (
                "this machine",
                "https://127.0.0.1:6443",
                None,
                &[("HTTPS_PROXY", "http://q:2")],
                None,
            ),
        ];
        for (why, url, configured, vars, expected) in cases {
            let mut config = config(url);
            config.proxy_url = configured.map(|p| p.parse().unwrap());
            let var = |name: &str| {
                vars.iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            };
            let found = proxy_of(&config, var).map(|p| p.uri().to_string());
            assert_eq!(found.as_deref(), expected, "{why}");
        }
    }

    #[test]
    fn the_host_label_of_metrics_contains_the_port() {
        assert_eq!(
            host(&config("https://10.0.0.1:6443/prefix")),
            "10.0.0.1:6443"
        );
        assert_eq!(host(&config("http://localhost:8080")), "localhost:8080");
    }
}
