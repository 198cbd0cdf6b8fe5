//! The API server under load, with its nodes: a control plane of our own, a cluster of the user, or
//! the embedded API server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use steersman_client::{
    ApiClient, ClientMetrics, ClientSettings, HttpService, connect, load_config,
};
use steersman_controlplane::{ControlPlane, Settings};
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::nodes::{self, Latency, NodesConfig, Stages};
use steersman_devcluster::{Admission, DevCluster};
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;

use crate::cluster;
use crate::process::Usage;
use crate::row::Workload;

/// Plugins that are off in a control plane of our own: managers come and go, so nodes and pods must
/// not wait for them.
const DISABLED_PLUGINS: [&str; 2] = ["ServiceAccount", "TaintNodesByCondition"];

/// The steps of the simulated pods of the load `latency`. Those with the behaviour `prompt` take little of the
/// measured time; those with `told` become ready and end when the load says so.
const STAGES: &str = "stages:
- {name: start-promptly, state: pending, behaviour: prompt, after: 5ms, then: running}
- {name: be-ready-promptly, state: running, behaviour: prompt, after: 5ms, then: ready}
- {name: end-promptly, state: terminating, behaviour: prompt, after: 5ms, then: remove}
- {name: await-readiness, state: running, behaviour: told, then: nothing}
- {name: stay-ready, state: ready, behaviour: told, then: nothing}
";

/// The choice of an API server, and its nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaneArgs {
    /// Use this cluster, which has nodes and no controller manager. Its namespaces `bench` and
    /// `bench-...` must be free.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Process of the API server of `--kubeconfig`, for its CPU time.
    #[arg(long, value_name = "PID", requires = "kubeconfig")]
    apiserver_pid: Option<u32>,
    /// Start etcd and kube-apiserver of this folder; the default is `KUBEBUILDER_ASSETS`. Without a
    /// folder and without `--kubeconfig`, the embedded API server runs in this process.
    #[arg(long, value_name = "FOLDER", conflicts_with = "kubeconfig")]
    assets: Option<PathBuf>,
    /// Simulated nodes, unless the cluster is that of `--kubeconfig`. They also bind pods, as a
    /// scheduler does. The default is 100, and 5,000 for a large cluster.
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
}

/// The simulated nodes of a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes {
    /// Their number, if the user chooses none.
    pub(crate) count: usize,
    /// Their zones: `a`, `b`, ...; 0 for nodes without a zone.
    pub(crate) zones: u8,
}

/// A running API server. Its nodes and itself end on drop.
pub(crate) struct Plane {
    /// The administrator's client.
    pub(crate) client: ApiClient,
    /// The kubeconfig of the managers.
    pub(crate) kubeconfig: PathBuf,
    /// Tasks of the nodes and of the loads; they end with `stop`.
    pub(crate) tasks: Tasks,
    pub(crate) stop: CancellationToken,
    server: Server,
}

enum Server {
    Own(ControlPlane),
    /// With the process of the API server.
    Given(Option<u32>),
    /// The server ends with these.
    Embedded {
        running: Box<(DevCluster, HttpsDoor)>,
    },
}

impl PlaneArgs {
    /// Starts the API server and its nodes, or connects to the user's cluster and checks it. Files are
    /// in `folder`.
    pub(crate) async fn start(&self, default: Nodes, folder: &Path) -> Result<Plane> {
        if let Some(kubeconfig) = &self.kubeconfig {
            let config = load_config(Some(kubeconfig), None)?;
            let client = client(connect(&config)?)?;
            cluster::check(&client).await?;
            return Ok(Plane::new(
                client,
                kubeconfig.clone(),
                Server::Given(self.apiserver_pid),
            ));
        }
        let of_environment = || std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let assets = self.assets.clone().or_else(of_environment);
        let plane = match assets.filter(|assets| !assets.as_os_str().is_empty()) {
            Some(assets) => own(&assets, folder).await?,
            None => embedded(folder).await?,
        };
        let config = NodesConfig {
            count: self.nodes.unwrap_or(default.count),
            zones: default.zones,
            latency: Latency::total(Duration::from_millis(100)),
            stages: Stages::with(STAGES)?,
            // The managers under measurement bind claims and attach volumes.
            binds_claims: false,
            attaches_volumes: true,
            ..NodesConfig::default()
        };
        let Plane {
            client,
            tasks,
            stop,
            ..
        } = &plane;
        nodes::start(config, client.clone(), Clock::system(), tasks, stop)
            .await
            .context("start the simulated nodes")?;
        Ok(plane)
    }
}

/// Starts a control plane from the programs in `assets`.
async fn own(assets: &Path, folder: &Path) -> Result<Plane> {
    let home = folder.join("control-plane");
    std::fs::create_dir(&home).with_context(|| format!("create {}", home.display()))?;
    let settings = Settings {
        assets,
        home: &home,
        disabled_plugins: &DISABLED_PLUGINS,
        flags: &[],
        audited: true,
    };
    let control_plane = ControlPlane::start(&settings).await?;
    let config = load_config(Some(&control_plane.kubeconfig()), None)?;
    Ok(Plane::new(
        client(connect(&config)?)?,
        control_plane.manager_kubeconfig(),
        Server::Own(control_plane),
    ))
}

async fn embedded(folder: &Path) -> Result<Plane> {
    let cluster = DevCluster::builder()
        .clock(Clock::system())
        .managed_fields(false)
        .admission(Admission {
            quota_controller: true,
            ..Admission::default()
        })
        .start()
        .await?;
    let door = cluster
        .serve_https(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig())?;
    let client = client(cluster.client())?;
    let server = Server::Embedded {
        running: Box::new((cluster, door)),
    };
    Ok(Plane::new(client, kubeconfig, server))
}

impl Plane {
    fn new(client: ApiClient, kubeconfig: PathBuf, server: Server) -> Self {
        Self {
            client,
            kubeconfig,
            tasks: Tasks::default(),
            stop: CancellationToken::new(),
            server,
        }
    }

    /// A short description for the report.
    pub(crate) fn description(&self) -> &'static str {
        match self.server {
            Server::Own(_) => "kube-apiserver and etcd on this machine, with simulated nodes",
            Server::Given(_) => "a given cluster",
            Server::Embedded { .. } => "the embedded API server, in the process of the load",
        }
    }

    /// The embedded API server, if that is the one.
    pub(crate) fn embedded(&self) -> Option<&DevCluster> {
        match &self.server {
            Server::Embedded { running } => Some(&running.0),
            Server::Own(_) | Server::Given(_) => None,
        }
    }

    /// Flags that let a manager run all its controllers.
    pub(crate) fn manager_flags(&self) -> Vec<String> {
        match &self.server {
            Server::Own(control_plane) => control_plane.manager_flags().into(),
            Server::Given(_) | Server::Embedded { .. } => Vec::new(),
        }
    }

    /// The audit log, which has the requests of managers only.
    pub(crate) fn audit_log(&self) -> Option<PathBuf> {
        match &self.server {
            Server::Own(control_plane) => Some(control_plane.audit_log()),
            Server::Given(_) | Server::Embedded { .. } => None,
        }
    }

    /// CPU time of the API server so far; `None` if it has no process that is known.
    pub(crate) fn api_server_cpu_seconds(&self) -> Result<Option<f64>> {
        let process = match &self.server {
            Server::Own(control_plane) => Some(control_plane.api_server_id()),
            Server::Given(process) => *process,
            Server::Embedded { .. } => None,
        };
        let usage = process.map(|process| Usage::of(&process.to_string()));
        let usage = usage.transpose().context("CPU time of the API server")?;
        Ok(usage.map(|usage| usage.cpu_seconds))
    }

    /// The reason why this API server cannot have a load.
    pub(crate) fn lacks(&self, workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::Autoscalers if self.outlives_us() => {
                Some("a given cluster has no metrics of simulated pods")
            }
            Workload::Latency if self.outlives_us() => {
                Some("the pods of a given cluster do not become ready on command")
            }
            _ => None,
        }
    }

    /// True for the user's cluster, where objects of the loads would stay.
    pub(crate) fn outlives_us(&self) -> bool {
        matches!(self.server, Server::Given(_))
    }

    /// Ends the nodes and the watches of the loads.
    pub(crate) async fn end_tasks(&self) {
        self.stop.cancel();
        self.tasks.join(Duration::from_secs(5)).await;
    }
}

/// A client without a throttle.
pub(crate) fn client(base: impl Into<HttpService>) -> Result<ApiClient> {
    let settings = ClientSettings {
        user_agent: "steersman-bench/0".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(600),
    };
    Ok(ApiClient::new(
        base,
        settings,
        ClientMetrics::register(&Registry::new())?,
    ))
}
