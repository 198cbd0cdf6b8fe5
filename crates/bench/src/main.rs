//! Benchmarks of a controller manager, of failover, and of the embedded API server.
//!
//! By default it creates, rolls out, scales and deletes Deployments, and measures wall time, CPU
//! time, memory and requests. `--failover` measures the time until a standby takes over.
//! `--apiserver` measures the embedded API server.
//!
//! The manager runs as a process of its own, so that its CPU time and memory are separate. The API
//! server and the nodes run in this process, or `--kubeconfig` names another cluster.
//! `docs/performance.md` has the results.

mod apiserver;
mod failover;
mod process;
mod report;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::json;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::nodes::{self, Latency, NodesConfig};
use steersman_devcluster::requests::RequestCounts;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, connect, load_config};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};

use process::Program;
use report::{Phase, Table};
use world::{World, since};

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
    /// Further arguments of the manager.
    #[arg(last = true)]
    manager_args: Vec<String>,
}

/// Flags that remove the client-side throttle. Its default of 20 requests per second would dominate
/// the measurement.
const THROTTLE: [&str; 2] = ["--kube-api-qps=100000", "--kube-api-burst=100000"];

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
    cluster: Option<(DevCluster, HttpsDoor)>,
    client: ApiClient,
    kubeconfig: PathBuf,
    tasks: Tasks,
    stop: CancellationToken,
}

impl Server {
    async fn start(args: &Args, scratch: &std::path::Path) -> Result<Self> {
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
                cluster: None,
                client,
                kubeconfig: kubeconfig.clone(),
                tasks,
                stop,
            });
        }
        let cluster = DevCluster::new(Clock::system());
        let door = cluster
            .serve_https(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let kubeconfig = scratch.join("kubeconfig");
        std::fs::write(&kubeconfig, door.kubeconfig())?;
        let client = ApiClient::new(cluster.client(), settings, metrics);
        let config = NodesConfig {
            latency: Latency::total(Duration::from_millis(100)),
            ..NodesConfig::default()
        };
        nodes::start(config, client.clone(), Clock::system(), &tasks, &stop).await?;
        Ok(Self {
            cluster: Some((cluster, door)),
            client,
            kubeconfig,
            tasks,
            stop,
        })
    }

    /// Requests of the manager so far; empty for the server of `--kubeconfig`, which does not
    /// count.
    fn requests(&self) -> RequestCounts {
        self.cluster
            .as_ref()
            .map(|(cluster, _)| cluster.request_counts("kube-controller-manager"))
            .unwrap_or_default()
    }
}

async fn run(args: &Args, scratch: &std::path::Path) -> Result<()> {
    let server = Server::start(args, scratch).await?;
    let informers = InformerFactory::new(server.client.clone(), Duration::ZERO, &Registry::new())?;
    let world = World::new(server.client.clone(), &informers);
    informers.start(&server.tasks, &server.stop);
    informers.wait_synced(&server.stop).await;

    let mut manager_args = vec![
        format!("--kubeconfig={}", server.kubeconfig.display()),
        "--secure-port=0".to_owned(),
    ];
    manager_args.extend(THROTTLE.map(str::to_owned));
    manager_args.extend(args.manager_args.iter().cloned());
    let log = scratch.join("manager.log");
    let mut manager = Program::start(&args.manager, &manager_args, &log)?;
    let mut bench = Bench {
        server: &server,
        manager: &mut manager,
        table: Table::default(),
    };
    let result = bench.phases(args, &world).await;
    if result.is_err() {
        eprintln!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    bench.table.print();
    drop(manager);
    server.stop.cancel();
    server.tasks.join(Duration::from_secs(5)).await;
    result
}

async fn idle(pause: Duration) -> Result<()> {
    tokio::time::sleep(pause).await;
    Ok(())
}

struct Bench<'a> {
    server: &'a Server,
    manager: &'a mut Program,
    table: Table,
}

impl Bench<'_> {
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
    async fn phase(
        &mut self,
        name: &'static str,
        pods: usize,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let (usage, requests, started) = (
            self.manager.usage()?,
            self.server.requests(),
            Instant::now(),
        );
        work.await.with_context(|| format!("phase {name:?}"))?;
        let (wall, after) = (started.elapsed(), self.manager.usage()?);
        self.table.add(Phase {
            name,
            pods,
            wall,
            cpu_seconds: after.cpu_seconds - usage.cpu_seconds,
            resident: after.resident,
            peak: after.peak,
            requests: since(&requests, &self.server.requests()),
        });
        Ok(())
    }
}
