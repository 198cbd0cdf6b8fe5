//! Connections through a proxy: a tunnel of an HTTP proxy, with or without TLS, or SOCKS.
//!
//! These are the schemes that Go's `http.Transport` supports: `http`, `https` and `socks5`.

use http::Uri;
use http::uri::Authority;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Intercept;
use kube::client::ConfigExt;

use super::ConnectError;

/// Default port of a SOCKS proxy.
const SOCKS_PORT: u16 = 1080;

/// A tunnel through `proxy`. `connector` opens the connection to the proxy.
pub(super) fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

/// Connects to a proxy over TLS. As in Go, the CA of the API server verifies the proxy's
/// certificate.
pub(super) fn over_tls(
    config: &kube::Config,
    tcp: HttpConnector,
) -> Result<HttpsConnector<HttpConnector>, ConnectError> {
    let mut config = config.clone();
    // The credentials are only for the API server.
    config.auth_info = kube::config::AuthInfo::default();
    let tls = config
        .rustls_client_config()
        .map_err(|error| ConnectError::Tls(Box::new(error)))?;
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .wrap_connector(tcp))
}

/// Connects through a SOCKS proxy. The proxy resolves the name of the API server.
pub(super) fn socks(proxy: &Intercept, tcp: HttpConnector) -> SocksV5<HttpConnector> {
    let socks = SocksV5::new(with_port(proxy.uri()), tcp);
    match proxy.raw_auth() {
        Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
        None => socks,
    }
}

fn with_port(proxy: &Uri) -> Uri {
    let mut parts = proxy.clone().into_parts();
    if proxy.port().is_none()
        && let Some(host) = proxy.host()
        && let Ok(authority) = format!("{host}:{SOCKS_PORT}").parse::<Authority>()
    {
        parts.authority = Some(authority);
    }
    Uri::from_parts(parts).unwrap_or_else(|_| proxy.clone())
}
