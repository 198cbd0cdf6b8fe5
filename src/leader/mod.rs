//! The way from a command to the manager that leads.
//!
//! Lease -> holder -> on this machine: its port; elsewhere: `kubectl port-forward` to its pod ->
//! verified connection -> debug page
//!
//! The API server's pod proxy would be no way: it drops the caller's credentials, and the leader
//! answers by the caller's rights. A port-forward keeps them, and it also reaches a manager that
//! listens on 127.0.0.1 of its node alone.
//!
//! The first request carries no credentials: it shows whether the server is verified. See
//! [`verify`] for the credentials that follow.

mod forward;
#[cfg(test)]
mod tests;
mod verify;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::Uri;
use prometheus::Registry;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use serde_json::Value;
use steersman_client::{ApiClient, ApiPath, ClientMetrics, ClientSettings, Target, user_agent};
use steersman_runtime::leader::DEFAULT_LEASE;
use steersman_values::resource::{LEASES, PODS};

use forward::Forward;
use verify::{Proof, Verifier};

use crate::tls::Fingerprint;

/// The Lease of a manager. Its namespace is that of the managers' pods, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Default for LeaseName {
    fn default() -> Self {
        let (namespace, name) = DEFAULT_LEASE;
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for LeaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("write it as NAMESPACE/NAME".to_owned()),
        }
    }
}

/// Flags about the leader, for commands that ask it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManagerFlags {
    /// Address of the leader, such as https://10.0.0.1:10257; by default the holder of --manager-lease.
    #[arg(long, value_name = "URL")]
    pub(crate) manager: Option<String>,
    /// Lease of the managers. The chart's mode beside has a Lease with the name of its release.
    #[arg(long, default_value_t, value_name = "NAMESPACE/NAME")]
    pub(crate) manager_lease: LeaseName,
    /// Port of the leader.
    #[arg(long, default_value_t = 10257, value_name = "PORT")]
    pub(crate) manager_port: u16,
    /// Authority of the leader's serving certificate, in PEM; by default those of the cluster and of the system.
    #[arg(long, value_name = "FILE")]
    pub(crate) manager_ca: Option<PathBuf>,
    /// SHA-256 of the leader's serving certificate; the manager logs it.
    #[arg(long, value_name = "SHA256")]
    pub(crate) manager_fingerprint: Option<Fingerprint>,
}

/// The caller, as far as the way to the leader needs it.
pub(crate) struct Caller<'a> {
    /// Client of the API server.
    pub(crate) api: &'a ApiClient,
    /// Configuration of the API server with the caller's credentials.
    pub(crate) config: &'a kube::Config,
    /// Path of the kubeconfig, if one was named.
    pub(crate) kubeconfig: Option<&'a str>,
    /// Name of the command for `User-Agent`.
    pub(crate) command: &'static str,
    /// Time limit of a request.
    pub(crate) timeout: Duration,
    /// The program that opens a port to a pod; see [`kubectl`].
    pub(crate) kubectl: String,
}

/// The program that opens a port to a pod: the variable `KUBECTL`, else kubectl on the PATH.
pub(crate) fn kubectl() -> String {
    std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

/// The text of [`steersman_client`] for an answer 404 without a Status.
const UNSERVED: &str = "the server could not find the requested resource";

/// The leader, as far as the caller can reach it.
pub(crate) struct Leader {
    client: ApiClient,
    unverified: Option<Fingerprint>,
    /// The port-forward; it ends when this is dropped.
    _forward: Option<Forward>,
}

impl Leader {
    /// Finds and reaches the leader. The error tells why it cannot be asked.
    pub(crate) async fn reach(caller: &Caller<'_>, flags: &ManagerFlags) -> Result<Self, String> {
        if let Some(url) = &flags.manager {
            return Self::at(caller, flags, url, None, None).await;
        }
        let lease = &flags.manager_lease;
        let host = holder(caller.api, lease).await?;
        let port = flags.manager_port;
        let here = gethostname::gethostname();
        if here.to_str() == Some(&*host) {
            let url = format!("https://127.0.0.1:{port}");
            return Self::at(caller, flags, &url, Some(&host), None).await;
        }
        let pod = pod_of(caller.api, lease, &host).await?;
        let kubectl = &caller.kubectl;
        let kubeconfig = caller.kubeconfig;
        let forward = forward::forward(kubectl, &lease.namespace, &pod, port, kubeconfig).await?;
        let url = format!("https://127.0.0.1:{}", forward.local);
        Self::at(caller, flags, &url, Some(&host), Some(forward)).await
    }

    /// The leader at `url`, whose certificate may also be for `host`.
    async fn at(
        caller: &Caller<'_>,
        flags: &ManagerFlags,
        url: &str,
        host: Option<&str>,
        forward: Option<Forward>,
    ) -> Result<Self, String> {
        let mut config = caller.config.clone();
        config.cluster_url = address(url)?;
        let server = host_of(&config.cluster_url).to_owned();
        if is_loopback(&config.cluster_url) {
            config.proxy_url = None;
        }
        config.tls_server_name = None;
        let connect = |config: &kube::Config, verifier: &Arc<Verifier>| {
            let verifier = Arc::clone(verifier) as Arc<dyn ServerCertVerifier>;
            connect(caller, config, verifier)
        };
        let verifier = Verifier::new(proof(caller.config, flags, &[Some(&server), host])?);

        // Any answer proves the identity of the server.
        let stranger = connect(&steersman_client::anonymous(&config), &verifier)?;
        let answer = stranger.get_path("/healthz").await;
        let Some(refusal) = verifier.refusal() else {
            if let Err(error) = answer
                && error.code().is_none()
            {
                return Err(error.to_string());
            }
            // The manager of `steersman dev` has no certificate, and answers everybody on this machine.
            let is_plain = config.cluster_url.scheme_str() == Some("http");
            return Ok(Self {
                client: if is_plain {
                    stranger
                } else {
                    connect(&config, &verifier)?
                },
                unverified: None,
                _forward: forward,
            });
        };
        let seen = refusal.fingerprint;
        let problem = refusal.problem;
        let harmless = verify::without_secrets(&config.auth_info)
            .filter(|_| flags.manager_fingerprint.is_none() && flags.manager_ca.is_none());
        let Some(harmless) = harmless else {
            return Err(format!(
                "the serving certificate of {url} cannot be verified ({problem}), so it gets no credentials. Its SHA-256 is \
                 {seen}. If the leader is Steersman, compare it with the manager's log (\"Loaded serving cert\") and \
                 name it with --manager-fingerprint, or name its authority with --manager-ca; kube-controller-manager \
                 cannot answer"
            ));
        };
        config.auth_info = harmless;
        // The next connections reach the server that was seen, and no other.
        let verifier = Verifier::new(Proof::Certificate(seen));
        Ok(Self {
            client: connect(&config, &verifier)?,
            unverified: Some(seen),
            _forward: forward,
        })
    }

    /// The SHA-256 of the server's certificate if nothing verifies it. Such an answer may come from
    /// anybody, so say that where you show it.
    pub(crate) fn unverified(&self) -> Option<Fingerprint> {
        self.unverified
    }

    /// The answer to GET `path`, with the caller's credentials.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, String> {
        let path = ApiPath::served(path).map_err(|error| error.to_string())?;
        let answer = self.client.get_path(path).await;
        answer.map_err(|error| match error.to_string() {
            // A server's own answer about a missing object has other words.
            text if text.starts_with(UNSERVED) => {
                "it does not serve this path: the type is unknown, or this is kube-controller-manager or an older release, or the page needs --ui"
                    .to_owned()
            }
            text => text,
        })
    }
}

/// The proof that the server has to give: the named certificate, else one of an authority.
fn proof(
    config: &kube::Config,
    flags: &ManagerFlags,
    names: &[Option<&str>],
) -> Result<Proof, String> {
    if let Some(fingerprint) = flags.manager_fingerprint {
        return Ok(Proof::Certificate(fingerprint));
    }
    let names = names.iter().flatten();
    // A host name that no certificate can have proves nothing.
    let names = names.filter_map(|name| ServerName::try_from((*name).to_owned()).ok());
    Proof::by_authorities(config, flags.manager_ca.as_deref(), names.collect())
}

fn connect(
    caller: &Caller<'_>,
    config: &kube::Config,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<ApiClient, String> {
    let service = steersman_client::connect_verifying(config, verifier);
    let settings = ClientSettings {
        user_agent: user_agent(caller.command),
        qps: 0.0,
        burst: 0,
        timeout: caller.timeout,
    };
    let metrics = ClientMetrics::register(&Registry::new()).map_err(|error| error.to_string())?;
    Ok(ApiClient::new(
        service.map_err(|error| error.to_string())?,
        settings,
        metrics,
    ))
}

fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

fn is_loopback(uri: &Uri) -> bool {
    host_of(uri)
        .parse::<IpAddr>()
        .is_ok_and(|ip| ip.is_loopback())
}

/// The address in `--manager`. Without TLS, nothing protects credentials and answers on their way to
/// another machine.
fn address(url: &str) -> Result<Uri, String> {
    let wrong = "--manager wants https://HOST:PORT, or http://127.0.0.1:PORT of `steersman dev`, without a user and a password";
    let uri: Uri = url.parse().map_err(|_| wrong.to_owned())?;
    let has_user = uri.authority().is_some_and(|at| at.as_str().contains('@'));
    let is_safe = match uri.scheme_str() {
        Some("https") => uri.host().is_some(),
        Some("http") => is_loopback(&uri),
        _ => false,
    };
    if !is_safe || has_user {
        return Err(wrong.to_owned());
    }
    Ok(uri)
}

/// The host of the holder of the Lease.
async fn holder(api: &ApiClient, lease: &LeaseName) -> Result<String, String> {
    let target = Target {
        resource: &LEASES,
        namespace: Some(&lease.namespace),
        name: Some(&lease.name),
        subresource: None,
    };
    let found = api
        .get(target)
        .await
        .map_err(|error| format!("the Lease {lease} cannot be read: {error}"))?;
    let found: Value = serde_json::from_slice(&found).map_err(|error| error.to_string())?;
    let holder = found
        .pointer("/spec/holderIdentity")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let host = holder.rsplit_once('_').map(|(host, _)| host.to_owned());
    host.ok_or_else(|| format!("no controller manager holds the Lease {lease}"))
}

/// The pod of a manager on `host`: a pod of that name, or one on the node of that name. There, a pod named
/// after the Lease comes before others of managers: the chart's mode beside has both.
async fn pod_of(api: &ApiClient, lease: &LeaseName, host: &str) -> Result<String, String> {
    let pods = Target {
        resource: &PODS,
        namespace: Some(&lease.namespace),
        name: None,
        subresource: None,
    };
    let pods = api
        .list(pods, "resourceVersion=0")
        .await
        .map_err(|error| error.to_string())?;
    let pods: Value = serde_json::from_slice(&pods).map_err(|error| error.to_string())?;
    let rank = |pod: &Value| {
        let name = pod.pointer("/metadata/name")?.as_str()?;
        let is_on_host = pod.pointer("/spec/nodeName").and_then(Value::as_str) == Some(host);
        let is_manager = || name.contains("controller-manager") || name.contains("steersman");
        let rank = if name == host {
            0
        } else if is_on_host && name.starts_with(&lease.name) {
            1
        } else if is_on_host && is_manager() {
            2
        } else {
            return None;
        };
        Some((rank, name.to_owned()))
    };
    let items = pods["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = items.iter().filter_map(rank).min();
    found.map(|(_, name)| name).ok_or_else(|| {
        format!(
            "the leader runs on {host}, outside the pods of {}; name its address with --manager",
            lease.namespace
        )
    })
}
