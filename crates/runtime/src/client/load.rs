//! Where the API server is and who we are: `--master` over `--kubeconfig`, else the service account of a pod.

use std::path::{Path, PathBuf};

use kube::config::{InClusterError, Kubeconfig, KubeconfigError, LoadDataError};

/// Why there is no configuration. Never shows what is inside a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither flags nor a pod's environment; upstream's text.
    #[error("invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable")]
    Missing,
    /// `--master`.
    #[error("--master {url:?} is not a URL: {source}; use https://<host>:<port>")]
    Master {
        /// The flag's value.
        url: String,
        /// What is wrong with it.
        #[source]
        source: http::uri::InvalidUri,
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
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// In a pod, but without a usable service account.
    #[error("service account of this pod: {0}; mount its token (automountServiceAccountToken) or set --kubeconfig")]
    InCluster(#[source] InClusterError),
}

/// Loads the configuration as upstream does. The result has kube's own retries and compression switched off.
pub fn load_config(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<kube::Config, ConfigError> {
    let kubeconfig = kubeconfig.filter(|p| !p.as_os_str().is_empty());
    let master = match master.filter(|m| !m.is_empty()) {
        Some(url) => Some(parse_master(url)?),
        None => None,
    };

    let mut config = match (kubeconfig, master) {
        (Some(path), master) => from_file(path, master)?,
        (None, Some(url)) => kube::Config::new(url),
        (None, None) => in_cluster()?,
    };
    config.default_retry = false;
    config.disable_compression = true;
    Ok(config)
}

/// A host without a scheme is plain HTTP, as upstream's `DefaultServerURL` has it.
fn parse_master(url: &str) -> Result<http::Uri, ConfigError> {
    let full = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    full.parse().map_err(|source| ConfigError::Master { url: url.to_owned(), source })
}

fn from_file(path: &Path, master: Option<http::Uri>) -> Result<kube::Config, ConfigError> {
    let mut file = Kubeconfig::read_from(path).map_err(|e| explain(path, e))?;
    if let Some(url) = &master {
        // Set in the file's clusters, so that one without a server (or with a wrong one) is no error.
        for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(url.to_string());
        }
    }
    kube::Config::try_from(file).map_err(|e| explain(path, e))
}

fn in_cluster() -> Result<kube::Config, ConfigError> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    if !is_set("KUBERNETES_SERVICE_HOST") || !is_set("KUBERNETES_SERVICE_PORT") {
        return Err(ConfigError::Missing);
    }
    kube::Config::incluster_env().map_err(ConfigError::InCluster)
}

/// `error` in words that name the file at fault and hold nothing of its content (a YAML error quotes the lines around it).
fn explain(path: &Path, error: KubeconfigError) -> ConfigError {
    let part = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(source, file) => format!("cannot read the {what} {}: {source}", file.display()),
        LoadDataError::DecodeBase64(_) => format!("the {what} data is not base64"),
        other => format!("{what}: {other}"),
    };
    let problem = match error {
        KubeconfigError::ReadConfig(source, path) => return ConfigError::Read { path, source },
        KubeconfigError::Parse(_) => "not a kubeconfig in YAML; check it with kubectl --kubeconfig <file> config view".to_owned(),
        KubeconfigError::CurrentContextNotSet => "no current-context; choose one with kubectl config use-context".to_owned(),
        KubeconfigError::LoadContext(name) => format!("current-context {name:?} is not among its contexts"),
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("cluster {name:?} of the current context is not among its clusters")
        }
        KubeconfigError::MissingClusterUrl => {
            "the cluster of the current context has no server; add it or set --master".to_owned()
        }
        KubeconfigError::LoadCertificateAuthority(e) => part("certificate authority", &e),
        KubeconfigError::LoadClientCertificate(e) => part("client certificate", &e),
        KubeconfigError::LoadClientKey(e) => part("client key", &e),
        other => other.to_string(),
    };
    ConfigError::Kubeconfig { path: path.to_owned(), problem }
}
