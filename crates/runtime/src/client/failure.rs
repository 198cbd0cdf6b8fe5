//! Why there is no client of an API server.

use std::path::PathBuf;

/// Why there is no configuration. Never shows what is inside a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither flags nor a pod's environment; upstream's text.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    )]
    Missing,
    /// `--master`.
    #[error("--master {url:?} is not a URL: {problem}; use https://<host>:<port>")]
    Master {
        /// The flag's value.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `--kubeconfig` cannot be read.
    #[error("kubeconfig {}: {source}; check --kubeconfig and the file's permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// `--kubeconfig` was read but is of no use.
    #[error("kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The file, or several as `KUBECONFIG` lists them.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// In a pod, but without a usable service account.
    #[error(
        "service account of this pod: {problem}; mount its token (automountServiceAccountToken) or set --kubeconfig"
    )]
    InCluster {
        /// What is wrong with it.
        problem: String,
    },
}

/// Why no client can be made from a configuration. Never shows credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kind of proxy that is not supported.
    #[error(
        "the proxy {0} of the API server connection must be http, https, or socks5; change proxy-url or HTTPS_PROXY"
    )]
    Proxy(String),
    /// CA, client certificate or key.
    #[error("TLS settings of the API server connection: {0}")]
    Tls(#[source] Box<kube::Error>),
    /// The files with the client certificate and its key.
    #[error("client certificate of the API server connection: {0}")]
    Certificate(String),
    /// The file with the authority of the API server.
    #[error("authority of the API server connection: {0}")]
    Authority(String),
    /// Two parts count under one name.
    #[error("metrics of connections: {0}")]
    Metrics(#[from] prometheus::Error),
    /// `tls-server-name`.
    #[error("tls-server-name {0:?} is not a DNS name or IP address")]
    ServerName(String),
    /// Token, basic auth, auth provider.
    #[error("credentials of the API server connection: {0}")]
    Credentials(String),
    /// An address without scheme or host.
    #[error("the address {0} of the API server is not a URL; use https://<host>:<port>")]
    Address(String),
    /// Impersonation.
    #[error("impersonation settings of the API server connection cannot stand in a header")]
    Headers,
}
