//! Where the API server is and who we are: `--master` over `--kubeconfig`, else the service account of a pod.

use std::path::{Path, PathBuf};

use kube::config::{Cluster, InClusterError, Kubeconfig, KubeconfigError, LoadDataError};

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
        (None, None) => in_cluster(|name| std::env::var(name).is_ok_and(|v| !v.is_empty()))?,
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
    let proxy = proxy_url(&file);
    let authority = authority_file(&file);
    let mut config = kube::Config::try_from(file).map_err(|e| explain(path, e))?;
    // Read again when it changes, as upstream's.
    config.root_cert_file = authority;
    // kube mixes in HTTPS_PROXY without a look at what NO_PROXY says of the API server; `connect` reads them itself.
    config.proxy_url = match proxy {
        Some(url) => Some(url.parse().map_err(|e| explain(path, KubeconfigError::ParseProxyUrl(e)))?),
        None => None,
    };
    Ok(config)
}

/// The `proxy-url` of the current context's cluster.
fn proxy_url(file: &Kubeconfig) -> Option<String> {
    cluster(file)?.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The file with its authority, where that is not in the kubeconfig itself.
fn authority_file(file: &Kubeconfig) -> Option<PathBuf> {
    let cluster = cluster(file)?;
    let path = cluster.certificate_authority.as_ref().filter(|path| !path.is_empty())?;
    cluster.certificate_authority_data.as_ref().is_none_or(|data| data.is_empty()).then(|| PathBuf::from(path))
}

/// The cluster of the current context.
fn cluster(file: &Kubeconfig) -> Option<&Cluster> {
    let current = file.current_context.as_ref()?;
    let context = file.contexts.iter().find(|c| c.name == *current)?.context.as_ref()?;
    file.clusters.iter().find(|c| c.name == context.cluster)?.cluster.as_ref()
}

fn in_cluster(is_set: impl Fn(&str) -> bool) -> Result<kube::Config, ConfigError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "c2VjcmV0LXRva2Vu";

    /// A kubeconfig with `cluster` (indented lines) and a token.
    fn kubeconfig(cluster: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             users:\n- name: u\n  user:\n    token: {SECRET}\nclusters:\n- name: k\n  cluster:\n{cluster}"
        )
    }

    fn load(content: &str, master: Option<&str>) -> Result<kube::Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manager.conf");
        std::fs::write(&path, content).unwrap();
        load_config(Some(&path), master)
    }

    #[test]
    fn master_goes_before_the_kubeconfigs_server() {
        let file = kubeconfig("    server: https://10.0.0.1:6443\n");
        // (kubeconfig, --master, expected)
        let cases = [
            (Some(&file), None, "https://10.0.0.1:6443/"),
            (Some(&file), Some(""), "https://10.0.0.1:6443/"),
            (Some(&file), Some("https://10.0.0.2"), "https://10.0.0.2/"),
            (None, Some("http://localhost:8080"), "http://localhost:8080/"),
            (None, Some("localhost:8080"), "http://localhost:8080/"),
        ];
        for (content, master, expected) in cases {
            let config = match content {
                Some(content) => load(content, master),
                None => load_config(None, master),
            };
            let config = config.unwrap();
            assert_eq!(config.cluster_url.to_string(), expected, "{master:?}");
            assert!(!config.default_retry && config.disable_compression);
        }
    }

    #[test]
    fn a_kubeconfig_without_a_server_will_do_with_master() {
        let file = kubeconfig("    insecure-skip-tls-verify: true\n");
        assert!(load(&file, None).unwrap_err().to_string().ends_with("has no server; add it or set --master"));
        let config = load(&file, Some("https://10.0.0.2:6443")).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.2:6443/");
        assert!(config.accept_invalid_certs);
    }

    #[test]
    fn a_configured_proxy_is_kept() {
        let file = kubeconfig("    server: https://10.0.0.1:6443\n    proxy-url: http://proxy:3128\n");
        assert_eq!(load(&file, None).unwrap().proxy_url.unwrap().to_string(), "http://proxy:3128/");
    }

    #[test]
    fn errors_name_the_file_and_show_nothing_of_it() {
        // (why, content, part of the error)
        let cases = [
            ("not YAML", kubeconfig("   {{{ oops\n"), "not a kubeconfig in YAML"),
            ("not a kubeconfig", format!("users: {{token: {SECRET}}}\n"), "not a kubeconfig in YAML"),
            ("no context", kubeconfig("    server: https://x\n").replace("current-context: c\n", ""), "no current-context"),
            (
                "unknown context",
                kubeconfig("    server: https://x\n").replace("current-context: c", "current-context: d"),
                "\"d\"",
            ),
            ("no CA file", kubeconfig("    server: https://x\n    certificate-authority: /no/such/ca.crt\n"), "/no/such/ca.crt"),
            (
                "CA data",
                kubeconfig("    server: https://x\n    certificate-authority-data: '%%%'\n"),
                "certificate authority data is not base64",
            ),
        ];
        for (why, content, part) in cases {
            let error = load(&content, None).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("manager.conf") && text.contains(part), "{why}: {text}");
            assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{why}: {text}");
        }
        let missing = load_config(Some(Path::new("/no/such/manager.conf")), None).unwrap_err().to_string();
        assert!(missing.contains("/no/such/manager.conf") && missing.contains("--kubeconfig"), "{missing}");
    }

    #[test]
    fn outside_a_pod_and_without_flags_the_error_is_upstreams() {
        let error = in_cluster(|_| false).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        );
    }

    #[test]
    fn a_master_that_is_no_url_is_refused() {
        let error = load_config(None, Some("https://not a host")).unwrap_err().to_string();
        assert!(error.contains("--master") && error.contains("not a host"), "{error}");
    }
}
