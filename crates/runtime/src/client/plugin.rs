//! Credentials from a program, as kubeconfigs name one under `exec`: a token, a client certificate, or both.
//!
//! request -> credentials (the program runs when there are none, or they have expired) -> header, TLS -> 401 -> the program again

use std::fmt;
use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use serde_json::json;
use tower::{BoxError, Service};

use super::transports::PluginMetrics;
use crate::x509;

/// Why there are no credentials. Never shows what the program said, which may be a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("exec plugin: no command")]
    NoCommand,
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    NoTerminal,
    #[error("exec: executable {command} cannot be run: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("exec: executable {command} failed with {status}; run it by hand to see why")]
    Failed { command: String, status: std::process::ExitStatus },
    #[error("exec: what executable {0} printed is not an ExecCredential")]
    Unreadable(String),
    #[error("exec plugin is configured to use API version {wanted}, plugin returned version {found}")]
    ApiVersion { wanted: String, found: String },
    #[error("exec plugin didn't return a token or cert/key pair")]
    Nothing,
    #[error("exec plugin returned only certificate or key, not both")]
    HalfAPair,
    #[error("exec plugin returned a token that cannot stand in a header")]
    Token,
    #[error("failed parsing client key/certificate: {0}")]
    Pair(String),
}

#[derive(Deserialize)]
struct ExecCredential {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    #[serde(default)]
    token: String,
    #[serde(default)]
    client_certificate_data: String,
    #[serde(default)]
    client_key_data: String,
}

/// What one run of the program gave.
struct Credentials {
    token: Option<HeaderValue>,
    certificate: Option<Certificate>,
    expires: Option<Timestamp>,
}

struct Certificate {
    key: Arc<CertifiedKey>,
    /// Validity, Unix seconds.
    not_before: i64,
    not_after: i64,
}

impl Credentials {
    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| Timestamp::now() > expires)
    }

    /// The leaf that clients of them show.
    fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()?.key.cert.first()
    }
}

/// One program, run when its credentials are needed and never twice at once.
pub(super) struct Plugin {
    exec: ExecConfig,
    metrics: PluginMetrics,
    running: tokio::sync::Mutex<()>,
    latest: RwLock<Option<Arc<Credentials>>>,
}

impl Plugin {
    pub(super) fn new(exec: ExecConfig, metrics: PluginMetrics) -> Self {
        Self { exec, metrics, running: tokio::sync::Mutex::default(), latest: RwLock::default() }
    }

    /// Whether this is the plugin of `exec`.
    pub(super) fn is_of(&self, exec: &ExecConfig) -> bool {
        let text = |exec: &ExecConfig| (serde_json::to_string(exec).ok(), serde_json::to_string(&exec.cluster).ok());
        text(&self.exec) == text(exec)
    }

    /// When the certificate in use ends, if there is one, in Unix seconds.
    pub(super) fn certificate_ends(&self) -> Option<i64> {
        self.latest()?.certificate.as_ref().map(|certificate| certificate.not_after)
    }

    fn latest(&self) -> Option<Arc<Credentials>> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn credentials(&self) -> Result<Arc<Credentials>, PluginError> {
        let good = || self.latest().filter(|credentials| !credentials.has_expired());
        if let Some(credentials) = good() {
            return Ok(credentials);
        }
        let _running = self.running.lock().await;
        match good() {
            Some(credentials) => Ok(credentials),
            None => self.renew().await,
        }
    }

    /// Replaces credentials that were refused, unless somebody did so already.
    async fn replace(&self, refused: &Arc<Credentials>) -> Result<(), PluginError> {
        let _running = self.running.lock().await;
        if self.latest().is_some_and(|latest| Arc::ptr_eq(&latest, refused)) {
            self.renew().await?;
        }
        Ok(())
    }

    async fn renew(&self) -> Result<Arc<Credentials>, PluginError> {
        let new = Arc::new(self.run().await?);
        let old = self.latest.write().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(&new));
        if let Some(old) = old.filter(|old| old.leaf() != new.leaf())
            && let Some(certificate) = &old.certificate
        {
            let age = Timestamp::now().as_second() - certificate.not_before;
            self.metrics.rotated(age as f64);
        }
        Ok(new)
    }

    async fn run(&self) -> Result<Credentials, PluginError> {
        let exec = &self.exec;
        let command = exec.command.clone().ok_or(PluginError::NoCommand)?;
        let terminal = std::io::stdin().is_terminal();
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) && !terminal {
            return Err(PluginError::NoTerminal);
        }
        let interactive = terminal && exec.interactive_mode != Some(ExecInteractiveMode::Never);
        let mut spec = json!({"interactive": interactive});
        if exec.provide_cluster_info {
            spec["cluster"] = json!(exec.cluster);
        }
        let info = json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
        let variables = exec.env.iter().flatten().filter_map(|pair| Some((pair.get("name")?, pair.get("value")?)));
        let run = tokio::process::Command::new(&command)
            .args(exec.args.iter().flatten())
            .envs(variables)
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output();
        let output = run.await.inspect_err(|error| self.metrics.not_started(error));
        let output = output.map_err(|source| PluginError::Start { command: command.clone(), source })?;
        self.metrics.ended(output.status);
        if !output.status.success() {
            return Err(PluginError::Failed { command, status: output.status });
        }
        let answer = serde_saphyr::from_slice(&output.stdout).map_err(|_| PluginError::Unreadable(command))?;
        read(answer, exec.api_version.as_deref().unwrap_or_default())
    }

    /// A service that sends requests with our credentials over what `make` makes, anew for each certificate: a connection keeps
    /// the one it was opened with.
    pub(super) fn over<S, B>(
        self: Arc<Self>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Clone
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
        B: Send,
    {
        let http = Arc::new(Mutex::new((None, make())));
        let make = Arc::new(make);
        tower::service_fn(move |mut request: Request<Body>| {
            let (plugin, http, make) = (Arc::clone(&self), Arc::clone(&http), Arc::clone(&make));
            async move {
                let credentials = plugin.credentials().await.map_err(|error| format!("getting credentials: {error}"))?;
                if let Some(token) = &credentials.token {
                    request.headers_mut().insert(AUTHORIZATION, token.clone());
                }
                let mut client = {
                    let mut http = http.lock().unwrap_or_else(PoisonError::into_inner);
                    let leaf = credentials.leaf().cloned();
                    if http.0.as_ref() != leaf.as_ref() {
                        *http = (leaf, make());
                    }
                    http.1.clone()
                };
                let response = client.call(request).await.map_err(Into::into)?;
                if response.status() == StatusCode::UNAUTHORIZED
                    && let Err(error) = plugin.replace(&credentials).await
                {
                    tracing::warn!(%error, "refreshing credentials");
                }
                Ok(response)
            }
        })
    }
}

/// Shows the certificate of the latest credentials, which every request gets before it opens a connection.
impl ResolvesClientCert for Plugin {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.latest()?.certificate.as_ref().map(|certificate| Arc::clone(&certificate.key))
    }

    fn has_certs(&self) -> bool {
        self.latest().is_some_and(|latest| latest.certificate.is_some())
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("command", &self.exec.command).finish_non_exhaustive()
    }
}

/// Checks what a program printed, by upstream's rules.
fn read(answer: ExecCredential, wanted: &str) -> Result<Credentials, PluginError> {
    if answer.api_version != wanted {
        return Err(PluginError::ApiVersion { wanted: wanted.to_owned(), found: answer.api_version });
    }
    let status = answer.status.ok_or(PluginError::Nothing)?;
    let token = match status.token.as_str() {
        "" => None,
        token => {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| PluginError::Token)?;
            value.set_sensitive(true);
            Some(value)
        }
    };
    let certificate = match (status.client_certificate_data.as_str(), status.client_key_data.as_str()) {
        ("", "") if token.is_none() => return Err(PluginError::Nothing),
        ("", "") => None,
        ("", _) | (_, "") => return Err(PluginError::HalfAPair),
        (certificate, key) => Some(pair(certificate, key).map_err(PluginError::Pair)?),
    };
    Ok(Credentials { token, certificate, expires: status.expiration_timestamp })
}

/// A chain and its key, both PEM.
fn pair(certificate: &str, key: &str) -> Result<Certificate, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("certificate: {error}"))?;
    let x509::Certificate { not_before, not_after, .. } = x509::Certificate::read(chain.first().ok_or("no certificate")?)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| format!("key: {error}"))?;
    let key = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).map_err(|error| error.to_string())?;
    Ok(Certificate { key: Arc::new(key), not_before, not_after })
}
