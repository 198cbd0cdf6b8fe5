//! The errors of the configuration and creation of a client.
//!
//! Each text names a remedy and shows no secret: kubeconfigs and their files contain tokens and
//! keys.

use std::path::PathBuf;

/// The client's configuration is missing or invalid. The text never shows the content of a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Flags are missing, and this process is outside a pod. The text is upstream's.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    )]
    Missing,
    /// `--master` is not a URL.
    #[error("--master {url:?} is not a URL: {problem}; use https://<host>:<port>")]
    Master {
        /// The flag's value.
        url: String,
        /// The problem with the value.
        problem: String,
    },
    /// `--kubeconfig` cannot be read.
    #[error("kubeconfig {}: {source}; check --kubeconfig and the file's permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// `--kubeconfig` was read but is invalid.
    #[error("kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The file, or several files in the format of `KUBECONFIG`.
        path: PathBuf,
        /// The problem, and a remedy.
        problem: String,
    },
    /// This process is in a pod without a usable service account.
    #[error(
        "service account of this pod: {problem}; mount its token (automountServiceAccountToken) or set --kubeconfig"
    )]
    InCluster {
        /// The problem with it.
        problem: String,
    },
}

/// A client cannot be created from a configuration. The text never shows credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The scheme of the proxy is not supported.
    #[error(
        "the proxy {0} of the API server connection must be http, https, or socks5; change proxy-url or HTTPS_PROXY"
    )]
    Proxy(String),
    /// The CA, the client certificate or its key is invalid.
    #[error("TLS settings of the API server connection: {0}")]
    Tls(#[source] Box<kube::Error>),
    /// The files with the client certificate and its key are unreadable or invalid.
    #[error("client certificate of the API server connection: {0}")]
    Certificate(String),
    /// The file with the CA of the API server is unreadable or invalid.
    #[error("authority of the API server connection: {0}")]
    Authority(String),
    /// A metric is registered twice.
    #[error("metrics of connections: {0}")]
    Metrics(#[from] prometheus::Error),
    /// `tls-server-name` is invalid.
    #[error("tls-server-name {0:?} is not a DNS name or IP address")]
    ServerName(String),
    /// The token, basic auth or auth provider is invalid.
    #[error("credentials of the API server connection: {0}")]
    Credentials(String),
    /// The address lacks a scheme or a host.
    #[error("the address {0} of the API server is not a URL; use https://<host>:<port>")]
    Address(String),
    /// An impersonation setting contains characters that a header cannot contain.
    #[error("impersonation settings of the API server connection are not valid in a header")]
    Headers,
}
