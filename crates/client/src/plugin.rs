//! Credentials from a program, which a kubeconfig names under `exec`: a token, a client
//! certificate, or both.
//!
//! request -> credentials (the program runs if there are none, or they have expired) -> header,
//! TLS -> after 401, the program runs again
//!
//! Upstream: `client-go/plugin/pkg/client/auth/exec/exec.go`.

use std::fmt;
use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::{ExecConfig, ExecInteractiveMode};
use parking_lot::{Mutex, RwLock};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tower::{BoxError, Service};

use steersman_pki::x509;

use super::certificate::{self, PerCertificate};
use super::plugin_metrics::PluginMetrics;

/// The longest output of a program, in bytes; [`PluginError::TooLong`] names it. A token and a
/// certificate chain have a few thousand.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// The program gave no valid credentials. The text never shows the program's output, which may
/// contain secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("exec plugin: no command")]
    NoCommand,
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    NoTerminal,
    #[error("exec: executable {command} cannot be run: {source}")]
    Start {
        command: String,
        source: std::io::Error,
    },
    #[error("exec: executable {command} failed with {status}; run it by hand to see why")]
    Failed {
        command: String,
        status: std::process::ExitStatus,
    },
    #[error("exec: the output of executable {0} is longer than 1 MiB, so it is no ExecCredential")]
    TooLong(String),
    #[error("exec: the output of executable {0} is not an ExecCredential")]
    Unreadable(String),
    #[error(
        "exec plugin is configured to use API version {wanted}, plugin returned version {found}"
    )]
    ApiVersion { wanted: String, found: String },
    #[error("exec plugin didn't return a token or cert/key pair")]
    Nothing,
    #[error("exec plugin returned only certificate or key, not both")]
    HalfAPair,
    #[error("exec plugin returned a token with characters that a header cannot contain")]
    Token,
    #[error("failed parsing client key/certificate: {0}")]
    Pair(String),
    #[error("the run of the exec plugin was aborted")]
    Aborted,
}

/// The result of a run. It is shared, because several requests may wait for one run.
type Outcome = Result<Arc<Credentials>, Arc<PluginError>>;

/// The output of a program, an `ExecCredential` of client.authentication.k8s.io.
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

/// The credentials from one run of the program.
struct Credentials {
    token: Option<HeaderValue>,
    certificate: Option<Certificate>,
    expires: Option<Timestamp>,
}

struct Certificate {
    key: Arc<CertifiedKey>,
    /// Validity period, Unix seconds.
    not_before: i64,
    not_after: i64,
}

impl Credentials {
    fn has_expired(&self) -> bool {
        self.expires
            .is_some_and(|expires| Timestamp::now() > expires)
    }

    /// The client certificate.
    fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()?.key.cert.first()
    }
}

/// Clears [`Plugin::running`] at the end of a run, also after a panic.
struct ClearRunning<'a>(&'a Plugin);

impl Drop for ClearRunning<'_> {
    fn drop(&mut self) {
        self.0.running.lock().take();
    }
}

/// One program. It runs when a request needs credentials, and never twice at once.
pub(super) struct Plugin {
    exec: ExecConfig,
    metrics: PluginMetrics,
    /// The current run. All requests that need credentials wait for it.
    running: Mutex<Option<Shared<BoxFuture<'static, Outcome>>>>,
    latest: RwLock<Option<Arc<Credentials>>>,
}

impl Plugin {
    pub(super) fn new(exec: ExecConfig, metrics: PluginMetrics) -> Self {
        Self {
            exec,
            metrics,
            running: Mutex::default(),
            latest: RwLock::default(),
        }
    }

    /// True if this plugin has the settings `exec`.
    pub(super) fn is_of(&self, exec: &ExecConfig) -> bool {
        let text = |exec: &ExecConfig| {
            (
                serde_json::to_string(exec).ok(),
                serde_json::to_string(&exec.cluster).ok(),
            )
        };
        text(&self.exec) == text(exec)
    }

    /// End of the current certificate's validity, in Unix seconds. `None` without a certificate.
    pub(super) fn certificate_ends(&self) -> Option<i64> {
        self.latest()?
            .certificate
            .as_ref()
            .map(|certificate| certificate.not_after)
    }

    fn latest(&self) -> Option<Arc<Credentials>> {
        self.latest.read().clone()
    }

    /// The latest credentials, if they have not expired, or else those of a run.
    async fn credentials(self: &Arc<Self>) -> Outcome {
        self.latest_if(|credentials| !credentials.has_expired())
            .await
    }

    /// Runs the program again if `refused` are still the latest credentials.
    async fn replace(self: &Arc<Self>, refused: &Arc<Credentials>) -> Outcome {
        self.latest_if(|credentials| !Arc::ptr_eq(credentials, refused))
            .await
    }

    /// The latest credentials if `is_usable`, or else the outcome of a run.
    async fn latest_if(self: &Arc<Self>, is_usable: impl Fn(&Arc<Credentials>) -> bool) -> Outcome {
        let run = {
            // A run stores its credentials before it clears `running`. So under this lock, either
            // the run or its credentials are visible.
            let mut running = self.running.lock();
            if let Some(latest) = self.latest().filter(is_usable) {
                return Ok(latest);
            }
            running.get_or_insert_with(|| self.start()).clone()
        };
        run.await
    }

    /// Runs the program in its own task. If the run ended with a cancelled request, a program that
    /// is slower than the time limit of requests would never finish.
    fn start(self: &Arc<Self>) -> Shared<BoxFuture<'static, Outcome>> {
        let plugin = Arc::clone(self);
        let task = tokio::spawn(async move {
            let _clear = ClearRunning(&plugin);
            plugin.renew().await.map_err(Arc::new)
        });
        task.map(|ended| ended.unwrap_or_else(|_| Err(Arc::new(PluginError::Aborted))))
            .boxed()
            .shared()
    }

    /// Runs the program and stores its credentials.
    async fn renew(&self) -> Result<Arc<Credentials>, PluginError> {
        let new = Arc::new(self.run().await?);
        let old = self.latest.write().replace(Arc::clone(&new));
        if let Some(old) = old.filter(|old| old.leaf() != new.leaf())
            && let Some(certificate) = &old.certificate
        {
            let age = Timestamp::now().as_second() - certificate.not_before;
            self.metrics.rotated(age as f64);
        }
        Ok(new)
    }

    /// Runs the program with the environment and the checks of client-go.
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
        let variables = exec
            .env
            .iter()
            .flatten()
            .filter_map(|pair| Some((pair.get("name")?, pair.get("value")?)));
        let run = tokio::process::Command::new(&command)
            .args(exec.args.iter().flatten())
            .envs(variables)
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(if interactive {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn();
        let failed = |source| PluginError::Start {
            command: command.clone(),
            source,
        };
        let mut child = run
            .inspect_err(|error| self.metrics.not_started(error))
            .map_err(failed)?;
        let mut output = Vec::new();
        let mut stdout = child.stdout.take();
        if let Some(stdout) = &mut stdout {
            let limited = &mut stdout.take(MAX_OUTPUT + 1);
            limited.read_to_end(&mut output).await.map_err(failed)?;
        }
        let is_too_long = output.len() as u64 > MAX_OUTPUT;
        if is_too_long {
            child.start_kill().map_err(failed)?;
        }
        // A closed output ends the program, so it closes after the signal. The metric counts that end.
        drop(stdout);
        let status = child.wait().await.map_err(failed)?;
        self.metrics.ended(status);
        if is_too_long {
            return Err(PluginError::TooLong(command));
        }
        if !status.success() {
            return Err(PluginError::Failed { command, status });
        }
        let answer =
            serde_saphyr::from_slice(&output).map_err(|_| PluginError::Unreadable(command))?;
        read(answer, exec.api_version.as_deref().unwrap_or_default())
    }

    /// A service that sends each request with the current credentials. `make` creates the service
    /// for a new certificate.
    pub(super) fn over<S, B>(
        self: Arc<Self>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Clone
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Send,
    {
        let services = Arc::new(PerCertificate::new(make));
        tower::service_fn(move |mut request: Request<Body>| {
            let plugin = Arc::clone(&self);
            let services = Arc::clone(&services);
            async move {
                let credentials = plugin
                    .credentials()
                    .await
                    .map_err(|error| format!("getting credentials: {error}"))?;
                if let Some(token) = &credentials.token {
                    request.headers_mut().insert(AUTHORIZATION, token.clone());
                }
                let mut service = services.showing(credentials.leaf());
                let response = service.call(request).await.map_err(Into::into)?;
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

/// Uses the certificate of the latest credentials. Each request gets credentials before it opens a
/// connection.
impl ResolvesClientCert for Plugin {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.latest()?
            .certificate
            .as_ref()
            .map(|certificate| Arc::clone(&certificate.key))
    }

    fn has_certs(&self) -> bool {
        self.latest()
            .is_some_and(|latest| latest.certificate.is_some())
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("command", &self.exec.command)
            .finish_non_exhaustive()
    }
}

/// Checks the output of a program by upstream's rules.
fn read(answer: ExecCredential, wanted: &str) -> Result<Credentials, PluginError> {
    if answer.api_version != wanted {
        return Err(PluginError::ApiVersion {
            wanted: wanted.to_owned(),
            found: answer.api_version,
        });
    }
    let status = answer.status.ok_or(PluginError::Nothing)?;
    let token = match status.token.as_str() {
        "" => None,
        token => {
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| PluginError::Token)?;
            value.set_sensitive(true);
            Some(value)
        }
    };
    let certificate = match (
        status.client_certificate_data.as_str(),
        status.client_key_data.as_str(),
    ) {
        ("", "") if token.is_none() => return Err(PluginError::Nothing),
        ("", "") => None,
        ("", _) | (_, "") => return Err(PluginError::HalfAPair),
        (certificate, key) => Some(pair(certificate, key).map_err(PluginError::Pair)?),
    };
    Ok(Credentials {
        token,
        certificate,
        expires: status.expiration_timestamp,
    })
}

/// Parses a certificate chain and its key, both in PEM.
fn pair(certificate: &str, key: &str) -> Result<Certificate, String> {
    let key = certificate::pair(certificate.as_bytes(), key.as_bytes())?;
    let leaf = key.end_entity_cert().map_err(|error| error.to_string())?;
    let x509::Certificate {
        not_before,
        not_after,
        ..
    } = x509::Certificate::read(leaf)?;
    Ok(Certificate {
        key: Arc::new(key),
        not_before,
        not_after,
    })
}
