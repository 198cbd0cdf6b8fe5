//! Benchmarks of a controller manager, of failover, and of the embedded API server.
//!
//! By default it creates, rolls out, scales and deletes Deployments, and measures wall time, CPU
//! time, memory and requests. `--workload` measures other workloads, and `--against` compares with
//! another manager. `--failover` measures the time until a standby takes over.
//! `--apiserver` measures the embedded API server.
//!
//! The manager runs as a process of its own, so that its CPU time and memory are separate. The API
//! server and the nodes run in this process, or `--kubeconfig` names another cluster.
//! `docs/performance.md` has the results.

mod apiserver;
mod csrs;
mod failover;
mod namespaces;
mod process;
mod quotas;
mod report;
mod requests;
mod slices;
mod waiting;
mod workloads;
mod world;

use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use serde_json::json;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::nodes::{self, Latency, NodesConfig};
use steersman_devcluster::{Admission, DevCluster};
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, connect, load_config};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};

use process::{Program, Usage};
use report::{Phase, Table};
use requests::{Requests, since};
use slices::SliceCosts;
use workloads::{Sizes, Workload, Workloads};
use world::World;

/// Measures a controller manager against the embedded API server, or another one.
#[derive(Debug, Parser)]
#[command(name = "steersman-bench")]
struct Args {
    /// Number of Deployments.
    #[arg(long, default_value_t = 20)]
    deployments: usize,
    /// Pods of each Deployment.
    #[arg(long, default_value_t = 50)]
    replicas: usize,
    /// Pods of each Deployment after scaling up.
    #[arg(long, default_value_t = 100)]
    scaled: usize,
    /// Time to measure the idle manager, in seconds.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// The binary of the manager. For `--apiserver` it must have the subcommand `apiserver`.
    #[arg(long, default_value = "target/dist/steersman")]
    manager: PathBuf,
    /// Use this cluster, with nodes, in place of the embedded API server.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Measure only the failover from an ended leader to a standby, this many times for each
    /// signal.
    #[arg(long, value_name = "ROUNDS", conflicts_with = "kubeconfig")]
    failover: Option<usize>,
    /// Measure only the embedded API server.
    #[arg(long, value_name = "MEASUREMENT", value_delimiter = ',', conflicts_with_all = ["kubeconfig", "failover"])]
    apiserver: Vec<apiserver::Measurement>,
    /// Measure these workloads in place of Deployments. The nodes of `nodes` run in this process, on
    /// every API server, so they need no other process.
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',', conflicts_with_all = ["failover", "apiserver"])]
    workload: Vec<Workload>,
    #[command(flatten)]
    sizes: Sizes,
    /// Measure this manager too, after the first one under the same load, and print ratios.
    #[arg(long, value_name = "BINARY", conflicts_with_all = ["failover", "apiserver"])]
    against: Option<PathBuf>,
    /// Run the load with the first manager once before the measurement. Under the first load, the
    /// watches of a new kube-apiserver are seconds late.
    #[arg(long, conflicts_with_all = ["failover", "apiserver"])]
    warm_up: bool,

    /// Process of the API server of `--kubeconfig`, for its CPU time.
    #[arg(long, value_name = "PID", requires = "kubeconfig")]
    apiserver_pid: Option<u32>,
    /// Further arguments of the manager.
    #[arg(last = true)]
    manager_args: Vec<String>,
}

/// Flags that remove the client-side throttle. Its default of 20 requests per second would dominate
/// the measurement.
const THROTTLE: [&str; 2] = ["--kube-api-qps=100000", "--kube-api-burst=100000"];

/// Flags that give each node a range of pod addresses, for up to 65,536 nodes.
const NODE_RANGES: [&str; 2] = ["--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/8"];

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let scratch = std::env::temp_dir().join(format!("steersman-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let result = match args.failover {
        Some(rounds) => {
            failover::measure(&args.manager, &args.manager_args, rounds, &scratch).await
        }
        None if !args.apiserver.is_empty() => {
            apiserver::measure(&args.manager, &args.apiserver, &scratch).await
        }
        None => run(&args, &scratch).await,
    };
    std::fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    result
}

/// The API server under load: the embedded one with simulated nodes, or that of `--kubeconfig`.
struct Server {
    /// The embedded server ends with these.
    _embedded: Option<(DevCluster, HttpsDoor)>,
    client: ApiClient,
    kubeconfig: PathBuf,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Server {
    async fn start(args: &Args, scratch: &Path) -> Result<Self> {
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let settings = ClientSettings {
            user_agent: "steersman-bench/0".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(60),
        };
        let metrics = ClientMetrics::register(&Registry::new())?;
        if let Some(kubeconfig) = &args.kubeconfig {
            let base = connect(&load_config(Some(kubeconfig), None)?)?;
            let client = ApiClient::new(base, settings, metrics);
            return Ok(Self {
                _embedded: None,
                client,
                kubeconfig: kubeconfig.clone(),
                tasks,
                stop,
            });
        }
        let cluster = DevCluster::builder()
            .clock(Clock::system())
            .managed_fields(false)
            .admission(Admission {
                quota_controller: args.workload.contains(&Workload::Quotas),
                ..Admission::default()
            })
            .start()
            .await?;
        let door = cluster
            .serve_https(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let kubeconfig = scratch.join("kubeconfig");
        std::fs::write(&kubeconfig, door.kubeconfig())?;
        let client = ApiClient::new(cluster.client(), settings, metrics);
        let mut config = NodesConfig {
            latency: Latency::total(Duration::from_millis(100)),
            binds_claims: !args.workload.contains(&Workload::Claims),
            attaches_volumes: args.workload.contains(&Workload::Volumes),
            ..NodesConfig::default()
        };
        if args.workload.contains(&Workload::Services) {
            config.count = args.sizes.nodes_for_pods();
        }
        nodes::start(config, client.clone(), Clock::system(), &tasks, &stop).await?;
        Ok(Self {
            _embedded: Some((cluster, door)),
            client,
            kubeconfig,
            tasks,
            stop,
        })
    }
}

async fn run(args: &Args, scratch: &Path) -> Result<()> {
    let server = Server::start(args, scratch).await?;
    let informers = InformerFactory::new(server.client.clone(), Duration::ZERO, &Registry::new())?;
    let load = if args.workload.is_empty() {
        Load::Deployments(World::new(server.client.clone(), &informers))
    } else {
        let workloads = Workloads::new(server.client.clone(), &informers, args.sizes);
        Load::Workloads(Box::new(workloads), args.workload.clone())
    };
    informers.start(&server.tasks, &server.stop);
    informers.wait_synced(&server.stop).await;

    if args.warm_up {
        let unused = &mut Table::default();
        let warmed = measure(args, &args.manager, &server, &load, scratch, unused).await;
        warmed.context("warm up the API server")?;
    }
    let mut tables = Vec::new();
    for binary in iter::once(&args.manager).chain(&args.against) {
        let mut table = Table::default();
        let measured = measure(args, binary, &server, &load, scratch, &mut table).await;
        println!("\n{}\n", binary.display());
        table.print();
        measured.with_context(|| format!("measure {}", binary.display()))?;
        tables.push(table);
    }
    if let [ours, theirs] = &tables[..] {
        println!("\nFirst manager / second manager\n");
        ours.print_ratios(theirs);
    }
    server.stop.cancel();
    server.tasks.join(Duration::from_secs(5)).await;
    Ok(())
}

/// The load on the managers.
enum Load {
    Deployments(World),
    Workloads(Box<Workloads>, Vec<Workload>),
}

/// Starts a manager, and adds one row to `table` for each phase of the load.
async fn measure(
    args: &Args,
    binary: &Path,
    server: &Server,
    load: &Load,
    scratch: &Path,
    table: &mut Table,
) -> Result<()> {
    let port = requests::free_port()?;
    let mut manager_args = vec![
        format!("--kubeconfig={}", server.kubeconfig.display()),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", scratch.display()),
        "--bind-address=127.0.0.1".to_owned(),
        "--authorization-always-allow-paths=/metrics,/healthz".to_owned(),
        // A second manager would wait for the Lease of the first one.
        "--leader-elect=false".to_owned(),
    ];
    manager_args.extend(THROTTLE.map(str::to_owned));
    if args.workload.contains(&Workload::Nodes) {
        manager_args.extend(NODE_RANGES.map(str::to_owned));
    }
    if args.workload.contains(&Workload::Csrs) {
        manager_args.extend(csrs::authority(scratch)?);
    }
    manager_args.extend(args.manager_args.iter().cloned());
    let log = scratch.join("manager.log");
    let manager = Program::start(binary, &manager_args, &log)?;
    let mut bench = Bench {
        manager,
        requests: Requests::of_manager(port)?,
        apiserver: args.apiserver_pid,
        table,
    };
    let result = match load {
        Load::Deployments(world) => bench.phases(args, world).await,
        Load::Workloads(workloads, list) => bench.workloads(args, workloads, list).await,
    };
    if result.is_err() {
        eprintln!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    result
}

async fn idle(pause: Duration) -> Result<()> {
    tokio::time::sleep(pause).await;
    Ok(())
}

/// A manager under load.
pub(crate) struct Bench<'a> {
    manager: Program,
    requests: Requests,
    apiserver: Option<u32>,
    table: &'a mut Table,
}

impl Bench<'_> {
    async fn workloads(&mut self, args: &Args, load: &Workloads, list: &[Workload]) -> Result<()> {
        load.prepare().await?;
        self.phase("start, idle", 0, idle(Duration::from_secs(args.idle)))
            .await?;
        for workload in list {
            let value = workload.to_possible_value();
            self.table
                .begin(value.as_ref().map_or("", |v| v.get_name()));
            load.run(*workload, self).await?;
        }
        Ok(())
    }

    async fn phases(&mut self, args: &Args, world: &World) -> Result<()> {
        let Args {
            deployments,
            replicas,
            scaled,
            ..
        } = *args;
        let pause = Duration::from_secs(args.idle);
        self.phase("start, idle", 0, idle(pause)).await?;

        self.phase("create", deployments * replicas, async {
            world.create(deployments, replicas).await?;
            world.settled(deployments, replicas).await
        })
        .await?;

        let image = json!({ "spec": { "template": { "metadata": { "annotations": { "revision": "2" } } } } });
        self.phase("roll out", deployments * replicas, async {
            world.patch_all(deployments, &image).await?;
            world.settled(deployments, replicas).await
        })
        .await?;

        for (name, from, to) in [
            ("scale up", replicas, scaled),
            ("scale down", scaled, replicas),
        ] {
            let patch = json!({ "spec": { "replicas": to } });
            self.phase(name, deployments * from.abs_diff(to), async {
                world.patch_all(deployments, &patch).await?;
                world.settled(deployments, to).await
            })
            .await?;
        }

        self.phase("idle with pods", 0, idle(pause)).await?;

        self.phase("delete", deployments * replicas, async {
            world.delete_deployments().await?;
            world.empty().await
        })
        .await
    }

    /// Runs `work`, which changes `pods` pods, and adds a row with its costs.
    pub(crate) async fn phase(
        &mut self,
        name: &'static str,
        pods: usize,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let (usage, requests) = (self.manager.usage()?, self.requests.count().await);
        let (apiserver, started) = (self.apiserver_seconds()?, Instant::now());
        work.await.with_context(|| format!("phase {name:?}"))?;
        let (wall, after) = (started.elapsed(), self.manager.usage()?);
        let apiserver = self.apiserver_seconds()? - apiserver;
        self.table.add(Phase {
            name,
            pods,
            wall,
            cpu_seconds: after.cpu_seconds - usage.cpu_seconds,
            apiserver_seconds: apiserver,
            resident: after.resident,
            peak: after.peak,
            requests: since(&requests, &self.requests.count().await),
            slices: None,
        });
        Ok(())
    }

    /// Adds the costs of slices to the row of the last phase.
    pub(crate) fn add_slices(&mut self, costs: SliceCosts) {
        self.table.add_slices(costs);
    }

    /// CPU time of the API server so far; 0 if its process is unknown.
    fn apiserver_seconds(&self) -> Result<f64> {
        let usage = self.apiserver.map(|pid| Usage::of(&pid.to_string()));
        Ok(usage.transpose()?.map_or(0.0, |usage| usage.cpu_seconds))
    }
}
