//! A real control plane on this machine: etcd and kube-apiserver, from a folder of programs.
//!
//! folder of programs -> etcd -> kube-apiserver, with a key, users and an audit log -> kubeconfigs
//!
//! Two users have all rights: the administrator, and the controller manager. The audit log has the
//! requests of the latter only. All files are in one folder, which the caller deletes.

mod program;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steersman_client::{ApiClient, ClientMetrics, ClientSettings, connect, load_config};
use steersman_runtime::metrics::Registry;

pub use program::{Program, ProgramError};

/// Name and bearer token of the administrator.
const ADMINISTRATOR: &str = "admin";
/// Name and bearer token of the controller manager.
const MANAGER: &str = "manager";

/// Time limit of the start.
const LIMIT: Duration = Duration::from_secs(90);
/// Pause between two requests for the readiness.
const PAUSE: Duration = Duration::from_millis(100);

/// Logs each request of the manager once, and each of its watches at its start and end.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [manager]}
- {level: None}
";

/// The programs, files and admission plugins of a control plane.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Folder of `etcd` and `kube-apiserver`.
    pub assets: &'a Path,
    /// Existing folder for data, certificates and logs.
    pub home: &'a Path,
    /// Admission plugins that are off. With `ServiceAccount`, pods need the ServiceAccount that the
    /// manager makes.
    pub disabled_plugins: &'a [&'a str],
    /// Further flags of kube-apiserver.
    pub flags: &'a [String],
    /// Whether [`ControlPlane::audit_log`] is written.
    pub audited: bool,
}

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// A program is missing.
    #[error("{} has no {program}; it must have etcd and kube-apiserver, as the folder of setup-envtest", folder.display())]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The folder of programs.
        folder: PathBuf,
    },
    /// A file of the control plane could not be written, or no port is free.
    #[error("prepare a control plane: {0}")]
    Prepare(#[from] std::io::Error),
    /// No key for the tokens of ServiceAccounts.
    #[error("generate a key: {0}")]
    Key(#[from] rcgen::Error),
    /// etcd or kube-apiserver could not start, or has ended.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// kube-apiserver runs, and refuses requests.
    #[error("kube-apiserver does not become ready; the last request failed: {0}")]
    NotReady(String),
}

/// A running etcd and kube-apiserver. Both are killed on drop, the server first.
#[derive(Debug)]
pub struct ControlPlane {
    api_server: Program,
    etcd: Program,
    home: PathBuf,
}

impl ControlPlane {
    /// Starts both programs, and waits until kube-apiserver is ready.
    pub async fn start(settings: &Settings<'_>) -> Result<Self, ControlPlaneError> {
        let home = settings.home;
        let [etcd, api_server] =
            ["etcd", "kube-apiserver"].map(|program| find(settings.assets, program));
        let etcd = etcd?;
        let api_server = api_server?;
        let store = format!("http://127.0.0.1:{}", free_port()?);
        let etcd = Program::start(&etcd, &etcd_flags(home, &store), &home.join("etcd.log"))?;
        let port = free_port()?;
        let flags = api_server_flags(settings, &store, port)?;
        for user in [ADMINISTRATOR, MANAGER] {
            std::fs::write(kubeconfig_of(home, user), kubeconfig(home, user, port))?;
        }
        let log = home.join("kube-apiserver.log");
        let mut plane = Self {
            api_server: Program::start(&api_server, &flags, &log)?,
            etcd,
            home: home.to_owned(),
        };
        plane.wait_until_ready().await?;
        Ok(plane)
    }

    async fn wait_until_ready(&mut self) -> Result<(), ControlPlaneError> {
        let started = Instant::now();
        loop {
            self.etcd.check_running()?;
            self.api_server.check_running()?;
            match is_ready(&self.kubeconfig()).await {
                Ok(()) => return Ok(()),
                Err(why) if started.elapsed() > LIMIT => {
                    return Err(ControlPlaneError::NotReady(why.to_string()));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_of(&self.home, ADMINISTRATOR)
    }

    /// The controller manager's kubeconfig.
    pub fn manager_kubeconfig(&self) -> PathBuf {
        kubeconfig_of(&self.home, MANAGER)
    }

    /// Flags with which a controller manager signs tokens of ServiceAccounts, and publishes the
    /// server's certificate.
    pub fn manager_flags(&self) -> [String; 2] {
        let key = account_key(&self.home);
        let authority = authority(&self.home);
        [
            format!("--service-account-private-key-file={}", key.display()),
            format!("--root-ca-file={}", authority.display()),
        ]
    }

    /// The requests of [`ControlPlane::manager_kubeconfig`]: lines of JSON, each an `Event` of
    /// `audit.k8s.io/v1`.
    pub fn audit_log(&self) -> PathBuf {
        audit_log(&self.home)
    }

    /// The ID of the process of kube-apiserver.
    pub fn api_server_id(&self) -> u32 {
        self.api_server.id()
    }
}

/// A local port that no process uses at present.
pub fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

async fn is_ready(kubeconfig: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let base = connect(&load_config(Some(kubeconfig), None)?)?;
    let settings = ClientSettings {
        user_agent: "steersman-controlplane/0".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(10),
    };
    let client = ApiClient::new(base, settings, ClientMetrics::register(&Registry::new())?);
    client.get_path_as("/readyz", "text/plain").await?;
    Ok(())
}

fn find(folder: &Path, program: &'static str) -> Result<PathBuf, ControlPlaneError> {
    let path = folder.join(program);
    let missing = || ControlPlaneError::Missing {
        program,
        folder: folder.to_owned(),
    };
    path.is_file().then_some(path).ok_or_else(missing)
}

fn kubeconfig_of(home: &Path, user: &str) -> PathBuf {
    home.join(format!("{user}.kubeconfig"))
}

/// The private key that signs tokens of ServiceAccounts.
fn account_key(home: &Path) -> PathBuf {
    home.join("service-accounts.key")
}

fn audit_log(home: &Path) -> PathBuf {
    home.join("audit.log")
}

/// The folder of the API server's certificates.
fn certificates(home: &Path) -> PathBuf {
    home.join("certificates")
}

/// The certificate that the API server generates for its address. The file contains the signing
/// authority as well.
fn authority(home: &Path) -> PathBuf {
    certificates(home).join("apiserver.crt")
}

fn etcd_flags(home: &Path, url: &str) -> Vec<String> {
    let mut flags = vec![
        format!("--data-dir={}", home.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
    ];
    let fixed = [
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ];
    flags.extend(fixed.map(str::to_owned));
    flags
}

/// Writes the files of the API server. Returns its flags.
fn api_server_flags(
    settings: &Settings<'_>,
    store: &str,
    port: u16,
) -> Result<Vec<String>, ControlPlaneError> {
    let home = settings.home;
    let tokens = home.join("tokens.csv");
    let public = home.join("service-accounts.pub");
    let users = [ADMINISTRATOR, MANAGER].map(|user| format!("{user},{user},{user},system:masters"));
    std::fs::write(&tokens, users.join("\n"))?;
    // Tokens are verified with a separate public key, because kube-apiserver reads only the older
    // PEM form of private EC keys.
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(account_key(home), key.serialize_pem())?;
    std::fs::write(&public, key.public_key_pem())?;
    let mut flags = vec![
        format!("--etcd-servers={store}"),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", certificates(home).display()),
        format!("--token-auth-file={}", tokens.display()),
        format!("--service-account-key-file={}", public.display()),
        format!(
            "--service-account-signing-key-file={}",
            account_key(home).display()
        ),
        format!(
            "--disable-admission-plugins={}",
            settings.disabled_plugins.join(",")
        ),
    ];
    let fixed = [
        "--service-account-issuer=https://kubernetes.default.svc",
        "--bind-address=127.0.0.1",
        // The loopback address must not be an endpoint of the Service `kubernetes`, which nothing
        // uses here.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ];
    flags.extend(fixed.map(str::to_owned));
    flags.extend_from_slice(settings.flags);
    if settings.audited {
        let policy = home.join("audit-policy.yaml");
        std::fs::write(&policy, AUDIT_POLICY)?;
        // kube-apiserver makes the file at the first request of the manager; readers need it before.
        std::fs::write(audit_log(home), "")?;
        flags.extend([
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", audit_log(home).display()),
            // Without a size in megabytes, the log is renamed at 100.
            "--audit-log-maxsize=1000000".to_owned(),
        ]);
    }
    Ok(flags)
}

fn kubeconfig(home: &Path, user: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: local\nclusters:\n- name: local\n  cluster:\n    \
         server: https://127.0.0.1:{port}\n    certificate-authority: {}\ncontexts:\n- name: local\n  context:\n    \
         cluster: local\n    user: {user}\nusers:\n- name: {user}\n  user: {{token: {user}}}\n",
        authority(home).display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_without_the_programs_is_named() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            assets: home.path(),
            home: home.path(),
            disabled_plugins: &[],
            flags: &[],
            audited: false,
        };
        let error = ControlPlane::start(&settings).await;
        let text = error.expect_err("the folder is empty").to_string();
        assert!(text.contains("has no etcd; it must have"), "{text}");
    }

    #[test]
    fn an_audit_log_has_a_policy_and_its_flags() {
        for audited in [true, false] {
            let home = tempfile::tempdir().expect("a temporary directory");
            let settings = Settings {
                assets: Path::new("/programs"),
                home: home.path(),
                disabled_plugins: &["ServiceAccount", "Priority"],
                flags: &["--client-ca-file=a".to_owned()],
                audited,
            };
            let flags = api_server_flags(&settings, "http://127.0.0.1:1", 2);
            let flags = flags.expect("the files are written");
            let has = |flag: &str| flags.iter().any(|found| found.starts_with(flag));
            assert!(has("--disable-admission-plugins=ServiceAccount,Priority"));
            assert!(has("--client-ca-file=a"));
            assert_eq!(has("--audit-log-path="), audited);
            assert_eq!(audit_log(home.path()).exists(), audited);
        }
    }
}
