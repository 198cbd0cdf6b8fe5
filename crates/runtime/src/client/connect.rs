//! The process's one connection pool.
//!
//! credentials and base URL (kube) -> HTTP/2, or 1.1 where the server offers no better -> TLS with ring -> TCP

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{AuthError, Body, ConfigExt};
use rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceBuilder};

/// Time to open a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// An unanswered ping ends the connection after interval + timeout = 25 s at most, whatever the kernel thinks of it.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// One stream may have this much under way: enough for full speed at 10 ms of distance, and the most a slow reader can pile up.
const STREAM_WINDOW: u32 = 1 << 20;
/// Not a limit in practice, so that watches nobody reads cannot hold up the requests that share their connection.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Why no client can be made from a configuration. Never shows credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Proxies are not supported.
    #[error("the API server is configured behind the proxy {0}; proxies are not supported, unset proxy-url and HTTPS_PROXY")]
    Proxy(String),
    /// CA, client certificate or key.
    #[error("TLS settings of the API server connection: {0}")]
    Tls(#[source] Box<kube::Error>),
    /// `tls-server-name`.
    #[error("tls-server-name {0:?} is not a DNS name or IP address")]
    ServerName(String),
    /// Token, exec plugin, basic auth.
    #[error("credentials of the API server connection: {0}")]
    Credentials(String),
    /// Impersonation.
    #[error("impersonation settings of the API server connection cannot stand in a header")]
    Headers,
}

/// A client for everything this process asks of the API server of `config`. No request is made yet; must be called inside a
/// runtime. Requests and watches share one connection where the server speaks HTTP/2 (up to the server's own limit of streams).
pub fn connect(config: &kube::Config) -> Result<kube::Client, ConnectError> {
    // Fails only when one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();

    if let Some(proxy) = &config.proxy_url {
        return Err(ConnectError::Proxy(proxy.authority().map_or("?", |a| a.host()).to_owned()));
    }

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // For HTTP/1.1, which has no pings.
    tcp.set_keepalive(Some(PING_INTERVAL));

    let tls = config.rustls_client_config().map_err(|e| ConnectError::Tls(Box::new(e)))?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|_| ConnectError::ServerName(name.clone()))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_http1().enable_http2().wrap_connector(tcp);
    let limit = config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let connector = tower::service_fn(move |uri: http::Uri| {
        let mut https = https.clone();
        Box::pin(async move {
            let connection = tokio::time::timeout(limit, https.call(uri)).await;
            connection.map_err(|_| BoxError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))?
        })
    });

    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector);

    // Order as in kube's own stack, without its retries: ours know which requests may be repeated.
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|e| ConnectError::Credentials(without_secrets(&e)))?)
        .layer(config.extra_headers_layer().map_err(|_| ConnectError::Headers)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// `10.0.0.1:6443`: what metrics call the API server of `config`.
pub fn host(config: &kube::Config) -> String {
    config.cluster_url.authority().map(|a| a.as_str().to_owned()).unwrap_or_default()
}

/// A plugin's output holds tokens, and a parser quotes what it could not read.
fn without_secrets(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { cmd, out }) => {
            format!("auth exec command '{cmd}' failed with {}; run it by hand to see why", out.status)
        }
        kube::Error::Auth(AuthError::AuthExecParse(_)) => {
            "the output of the auth exec command is not an ExecCredential".to_owned()
        }
        kube::Error::Auth(AuthError::ParseTokenKey(_)) => "the output of the auth provider command has no such token".to_owned(),
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
    async fn settings_that_cannot_work_are_refused() {
        let mut behind_proxy = config("https://10.0.0.1:6443");
        behind_proxy.proxy_url = Some("http://user:hunter2@proxy:3128".parse().unwrap());
        let error = connect(&behind_proxy).err().unwrap().to_string();
        assert!(error.contains("proxy") && !error.contains("hunter2"), "{error}");

        let mut named = config("https://10.0.0.1:6443");
        named.root_cert = Some(Vec::new());
        named.tls_server_name = Some("not a name".to_owned());
        assert!(matches!(connect(&named), Err(ConnectError::ServerName(_))));
    }

    #[test]
    fn the_host_of_metrics_has_the_port_of_the_url() {
        assert_eq!(host(&config("https://10.0.0.1:6443/prefix")), "10.0.0.1:6443");
        assert_eq!(host(&config("http://localhost:8080")), "localhost:8080");
    }
}
