//! A real control plane: etcd and kube-apiserver, with Steersman as controller manager, and
//! simulated nodes. The manager runs all controllers that kubeadm names. `kube-scheduler` binds pods
//! if it is among the programs; otherwise the nodes bind them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus::Registry;
use steersman::{Config, Connection, ControllerRegistry, Options};
use steersman_devcluster::nodes::{self, Latency, NodesConfig, Pods};
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_runtime::clock::Clock;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::runtime::Runtime;

use super::{Clients, LIMIT, Program, free_port};

/// Bearer token of the administrator.
const TOKEN: &str = "steersman-story";

/// The private key that signs tokens of ServiceAccounts, in the folder of the control plane.
const ACCOUNT_KEY: &str = "service-accounts.key";
/// The folder of the API server's certificates.
const CERTIFICATES: &str = "certificates";

/// A running control plane.
pub(crate) struct ControlPlane {
    _running: Mutex<Running>,
    kubeconfig: PathBuf,
    _home: tempfile::TempDir,
}

/// The processes. They end in the order of the fields when this is dropped: clients first, then
/// their servers.
struct Running {
    _nodes: Nodes,
    _manager: Option<Program>,
    _scheduler: Option<Program>,
    _api_server: Program,
    _etcd: Program,
}

/// A control plane with a manager, shared by concurrent tests. Each test has its own namespace.
static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());

impl ControlPlane {
    /// The shared control plane; it is started unless another test still uses it.
    pub(crate) fn shared(assets: &Path, kubectl: &Path) -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start(assets, kubectl, true));
            *shared = Arc::downgrade(&started);
            started
        })
    }

    /// Starts the programs in the folder `assets`, then the manager if requested, and the nodes.
    pub(crate) fn start(assets: &Path, kubectl: &Path, manager: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let (etcd, store) = etcd(assets, home);
        let kubeconfig = home.join("kubeconfig");
        let clients = Clients::new(home);
        let mut api_server = api_server(assets, home, &store, &kubeconfig, &clients, manager);
        api_server.wait_until("ready", || {
            let asked = Command::new(kubectl)
                .args(["get", "--raw", "/readyz"])
                .env("KUBECONFIG", &kubeconfig)
                .env("HOME", home)
                .stdin(Stdio::null())
                .output();
            asked.unwrap().status.success()
        });
        let path = kubeconfig.to_str().unwrap();
        let manager = manager.then(|| {
            let key = home.join(ACCOUNT_KEY);
            let mut manager = Program::start(&[
                "--kubeconfig",
                path,
                "--secure-port=0",
                "--leader-elect=false",
                "--controllers=*,bootstrapsigner,tokencleaner",
                &format!("--cluster-signing-cert-file={}", clients.bundle.display()),
                &format!("--cluster-signing-key-file={}", clients.key.display()),
                &format!("--service-account-private-key-file={}", key.display()),
                &format!("--root-ca-file={}", authority(home).display()),
            ]);
            manager.wait_for_line("Starting");
            manager
        });
        let scheduler = scheduler(assets, path);
        let nodes = Nodes::start(path, scheduler.is_none());
        let running = Running {
            _nodes: nodes,
            _manager: manager,
            _scheduler: scheduler,
            _api_server: api_server,
            _etcd: etcd,
        };
        Self {
            _running: Mutex::new(running),
            kubeconfig,
            _home: directory,
        }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// The certificate that the API server generates for its address. The file contains the signing
/// authority as well.
fn authority(home: &Path) -> PathBuf {
    home.join(CERTIFICATES).join("apiserver.crt")
}

/// Starts etcd; returns its client URL as well.
fn etcd(assets: &Path, home: &Path) -> (Program, String) {
    let url = format!("http://127.0.0.1:{}", free_port());
    let program = Program::spawn(
        Command::new(assets.join("etcd"))
            .arg(format!("--data-dir={}", home.join("etcd").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .args([
                "--listen-peer-urls=http://127.0.0.1:0",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ]),
    );
    (program, url)
}

/// Starts kube-scheduler, if the program exists.
fn scheduler(assets: &Path, kubeconfig: &str) -> Option<Program> {
    let program = assets.join("kube-scheduler");
    program.exists().then(|| {
        Program::spawn(
            Command::new(program)
                .arg(format!("--kubeconfig={kubeconfig}"))
                .arg(format!("--authentication-kubeconfig={kubeconfig}"))
                .arg(format!("--authorization-kubeconfig={kubeconfig}"))
                .arg(format!("--secure-port={}", free_port()))
                .args([
                    "--bind-address=127.0.0.1",
                    "--authentication-skip-lookup",
                    "--leader-elect=false",
                ]),
        )
    })
}

/// Starts kube-apiserver, and writes the administrator's kubeconfig. Without a manager, pods need no
/// ServiceAccount.
fn api_server(
    assets: &Path,
    home: &Path,
    store: &str,
    kubeconfig: &Path,
    clients: &Clients,
    manager: bool,
) -> Program {
    let port = free_port();
    let tokens = home.join("tokens.csv");
    let (private, public) = (home.join(ACCOUNT_KEY), home.join("service-accounts.pub"));
    std::fs::write(&tokens, format!("{TOKEN},admin,admin,\"system:masters\"\n")).unwrap();
    // Tokens are verified with a separate public key, because kube-apiserver reads only the older
    // PEM form of private EC keys.
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    std::fs::write(&public, key.public_key_pem()).unwrap();
    let authority = authority(home);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: story\nclusters:\n- name: story\n  cluster:\n    \
         server: https://127.0.0.1:{port}\n    certificate-authority: {}\ncontexts:\n- name: story\n  context:\n    \
         cluster: story\n    user: admin\nusers:\n- name: admin\n  user: {{token: {TOKEN}}}\n",
        authority.display()
    );
    std::fs::write(kubeconfig, text).unwrap();
    Program::spawn(
        Command::new(assets.join("kube-apiserver"))
            .arg(format!("--etcd-servers={store}"))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", home.join(CERTIFICATES).display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .arg(format!("--client-ca-file={}", clients.bundle.display()))
            .arg(format!("--service-account-key-file={}", public.display()))
            .arg(format!(
                "--service-account-signing-key-file={}",
                private.display()
            ))
            .args([
                "--service-account-issuer=https://kubernetes.default.svc",
                "--bind-address=127.0.0.1",
                // The loopback address must not be an endpoint of the Service `kubernetes`. Tests
                // do not use this Service.
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC",
                "--enable-bootstrap-token-auth",
                "--allow-privileged=true",
            ])
            .arg(if manager {
                "--disable-admission-plugins=TaintNodesByCondition"
            } else {
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
            }),
    )
}

/// Simulated nodes in this process.
struct Nodes {
    runtime: Option<Runtime>,
    /// The tasks of the nodes; they end when this is dropped.
    _tasks: Tasks,
    stop: CancellationToken,
}

impl Nodes {
    fn start(kubeconfig: &str, schedule: bool) -> Self {
        let mut options = Options::default();
        options.set("kubeconfig", kubeconfig).unwrap();
        let config = Config::new(options, &ControllerRegistry::builtin()).unwrap();
        let runtime = Runtime::new().unwrap();
        let (stop, tasks) = (CancellationToken::new(), Tasks::default());
        runtime.block_on(async {
            let base = Connection::from_config(&config).unwrap().client;
            let settings = ClientSettings {
                user_agent: user_agent("nodes"),
                qps: 0.0,
                burst: 0,
                timeout: Duration::from_secs(30),
            };
            let client = ApiClient::new(
                base,
                settings,
                ClientMetrics::register(&Registry::new()).unwrap(),
            );
            let pods = if schedule {
                Pods::All
            } else {
                Pods::OfOwnNodes
            };
            let config = NodesConfig {
                latency: Latency::total(Duration::from_millis(100)),
                pods,
                ..NodesConfig::default()
            };
            let started = tokio::time::timeout(
                LIMIT,
                nodes::start(config, client, Clock::system(), &tasks, &stop),
            )
            .await;
            started
                .expect("the API server answers simulated nodes")
                .unwrap();
        });
        Self {
            runtime: Some(runtime),
            _tasks: tasks,
            stop,
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            // A thread of its own, because asynchronous tests must not wait for another runtime.
            let end = std::thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(5)));
            // Nothing is left to do after a panic of that thread.
            let _ = end.join();
        }
    }
}
