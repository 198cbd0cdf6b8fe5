//! A real control plane: etcd and kube-apiserver, with Steersman as controller manager, and
//! simulated nodes. The manager runs all controllers that kubeadm names. `kube-scheduler` binds pods
//! if it is among the programs; otherwise the nodes bind them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::Registry;
use steersman::{Config, Connection, ControllerRegistry, Options};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_controlplane::Settings;
use steersman_devcluster::nodes::{self, Latency, NodesConfig, Pods};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use tokio::runtime::Runtime;

use super::{Clients, LIMIT, Program, free_port};

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
    _servers: steersman_controlplane::ControlPlane,
}

/// A control plane with a manager, shared by concurrent tests. Each test has its own namespace.
static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());

impl ControlPlane {
    /// The shared control plane; it is started unless another test still uses it.
    pub(crate) fn shared(assets: &Path) -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start(assets, true, &[]));
            *shared = Arc::downgrade(&started);
            started
        })
    }

    /// Starts the programs in the folder `assets`, with these further flags of the API server, then the
    /// manager if requested, and the nodes. Without a manager, pods need no ServiceAccount.
    pub(crate) fn start(assets: &Path, manager: bool, flags: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disabled: &[&str] = if manager {
            &["TaintNodesByCondition"]
        } else {
            &["ServiceAccount", "TaintNodesByCondition"]
        };
        let clients = Clients::new(directory.path());
        let bundle = clients.bundle.display();
        let fixed = [
            format!("--client-ca-file={bundle}"),
            "--enable-bootstrap-token-auth".to_owned(),
        ];
        let settings = Settings {
            assets,
            home: directory.path(),
            disabled_plugins: disabled,
            flags: &[&fixed, flags].concat(),
            audited: false,
        };
        let servers = steersman_controlplane::ControlPlane::start(&settings);
        let servers = Runtime::new().unwrap().block_on(servers).unwrap();
        let kubeconfig = servers.kubeconfig();
        let path = kubeconfig.to_str().unwrap();
        let manager = manager.then(|| {
            let fixed = [
                "--kubeconfig",
                path,
                "--secure-port=0",
                "--leader-elect=false",
                "--controllers=*,bootstrapsigner,tokencleaner",
                &format!("--cluster-signing-cert-file={bundle}"),
                &format!("--cluster-signing-key-file={}", clients.key.display()),
            ];
            let flags = servers.manager_flags();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let mut manager = Program::start(&[&fixed[..], &flags[..]].concat());
            manager.wait_for_line("Starting");
            manager
        });
        let scheduler = scheduler(assets, path);
        let nodes = Nodes::start(path, scheduler.is_none());
        let running = Running {
            _nodes: nodes,
            _manager: manager,
            _scheduler: scheduler,
            _servers: servers,
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
        let stop = CancellationToken::new();
        let tasks = Tasks::default();
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
