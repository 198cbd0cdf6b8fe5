//! Time, CPU and memory of the embedded API server.
//!
//! The server is a process of its own, `steersman apiserver` without controllers, and the load
//! comes from this process over HTTPS. Rows with "in one process" have both in this process.

mod load;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use steersman_client::{ApiClient, connect, load_config};
use steersman_controlplane::Program;
use steersman_devcluster::DevCluster;
use steersman_devcluster::nodes::{self, Latency, NodesConfig};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use tokio::time::{MissedTickBehavior, interval};

use crate::plane::client;
use crate::process::{Usage, reset_peak};
use load::{Pods, Watches, pods};

const MIB: f64 = 1024.0 * 1024.0;

/// A measurement of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Measurement {
    /// All measurements except churn.
    All,
    /// Time to readiness, and memory without objects.
    Start,
    /// Creations, in this process and over HTTPS with 10 watchers.
    Creates,
    /// Memory of 100,000 pods of 3 KB.
    Pods,
    /// A list of 10,000 pods.
    List,
    /// 1,000 idle watches.
    Watches,
    /// Pod transitions of simulated nodes.
    Nodes,
    /// Memory over ten minutes of churn.
    Churn,
}

/// Prints a table of measurements, in Markdown.
pub(crate) async fn measure(
    binary: &Path,
    measurements: &[Measurement],
    scratch: &Path,
) -> Result<()> {
    println!("| measurement | result |\n|---|---|");
    let bench = Bench { binary, scratch };
    for measurement in measurements {
        match measurement {
            Measurement::All => {
                bench.start()?;
                bench.creates().await?;
                bench.pods().await?;
                bench.list().await?;
                bench.watches().await?;
                bench.nodes().await?;
            }
            Measurement::Start => bench.start()?,
            Measurement::Creates => bench.creates().await?,
            Measurement::Pods => bench.pods().await?,
            Measurement::List => bench.list().await?,
            Measurement::Watches => bench.watches().await?,
            Measurement::Nodes => bench.nodes().await?,
            Measurement::Churn => bench.churn().await?,
        }
    }
    Ok(())
}

struct Bench<'a> {
    binary: &'a Path,
    scratch: &'a Path,
}

/// A server process and its client.
struct Server {
    program: Program,
    kubeconfig: PathBuf,
}

impl Server {
    /// A new client with its own connection.
    fn client(&self) -> Result<ApiClient> {
        client(connect(&load_config(Some(&self.kubeconfig), None)?)?)
    }
}

/// Wall and CPU time since its start.
struct Stopwatch {
    began: Instant,
    cpu_seconds: f64,
}

impl Stopwatch {
    fn start(usage: Usage) -> Self {
        Self {
            began: Instant::now(),
            cpu_seconds: usage.cpu_seconds,
        }
    }

    /// Operations per second, and CPU time per operation, of this many operations.
    fn rate(&self, operations: usize, usage: Usage) -> String {
        let wall = self.began.elapsed().as_secs_f64();
        let cpu = usage.cpu_seconds - self.cpu_seconds;
        let operations = operations as f64;
        format!(
            "{:.0} per second, {:.0} µs of CPU each",
            operations / wall,
            cpu / operations * 1e6
        )
    }
}

fn row(measurement: &str, result: &str) {
    println!("| {measurement} | {result} |");
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

impl Bench<'_> {
    fn server(&self) -> Result<Server> {
        let kubeconfig = self.scratch.join("apiserver.kubeconfig");
        let arguments = [
            "apiserver",
            "--nodes=0",
            "--controllers=",
            "--write-kubeconfig",
        ]
        .map(str::to_owned);
        let arguments = [arguments.as_slice(), &[kubeconfig.display().to_string()]].concat();
        let (program, _) =
            Program::start_and_read(self.binary, &arguments, &self.scratch.join("apiserver.log"))?;
        Ok(Server {
            program,
            kubeconfig,
        })
    }

    fn start(&self) -> Result<()> {
        const ROUNDS: usize = 21;
        let mut ready = Vec::new();
        let mut resident = 0;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let mut server = self.server()?;
            ready.push(began.elapsed());
            resident = Usage::of_program(&mut server.program)?.resident;
        }
        ready.sort();
        row(
            "ready",
            &format!(
                "{:.0?} (best {:.0?}, worst {:.0?} of {ROUNDS})",
                ready[ROUNDS / 2],
                ready[0],
                ready[ROUNDS - 1]
            ),
        );
        row("resident, empty", &format!("{:.1} MiB", mib(resident)));
        Ok(())
    }

    async fn creates(&self) -> Result<()> {
        const PODS: usize = 20_000;
        for managed_fields in [false, true] {
            let cluster = DevCluster::builder()
                .clock(Clock::system())
                .managed_fields(managed_fields)
                .start()
                .await?;
            let load = Pods::on(client(cluster.client())?).await?;
            let watch = Stopwatch::start(Usage::own()?);
            load.create_all(0..PODS).await?;
            let fields = if managed_fields {
                ""
            } else {
                ", without managed fields"
            };
            row(
                &format!("creates in one process{fields}"),
                &watch.rate(PODS, Usage::own()?),
            );
        }
        for watchers in [0, 10] {
            let mut server = self.server()?;
            let load = Pods::on(server.client()?).await?;
            let mut watches = Watches::open(&server.client()?, watchers, "").await?;
            let watch = Stopwatch::start(Usage::of_program(&mut server.program)?);
            load.create_all(0..PODS).await?;
            watches.received(watchers * PODS).await?;
            row(
                &format!("creates over HTTPS, with {watchers} watchers"),
                &watch.rate(PODS, Usage::of_program(&mut server.program)?),
            );
        }
        Ok(())
    }

    async fn pods(&self) -> Result<()> {
        const PODS: usize = 100_000;
        let mut server = self.server()?;
        let load = Pods::on(server.client()?).await?;
        load.create_all(0..PODS).await?;
        row(
            "resident with 100,000 pods of 3 KB",
            &format!(
                "{:.0} MiB",
                mib(Usage::of_program(&mut server.program)?.resident)
            ),
        );
        Ok(())
    }

    async fn list(&self) -> Result<()> {
        const PODS: usize = 10_000;
        let mut server = self.server()?;
        let client = server.client()?;
        Pods::on(client.clone()).await?.create_all(0..PODS).await?;
        reset_peak(&server.program)?;
        let before = Usage::of_program(&mut server.program)?;
        let watch = Stopwatch::start(Usage::of_program(&mut server.program)?);
        let size = client.list(pods(None), "").await?.len();
        let after = Usage::of_program(&mut server.program)?;
        let grown = mib(after.peak.saturating_sub(before.resident));
        let wall = watch.began.elapsed();
        let cpu = after.cpu_seconds - watch.cpu_seconds;
        let text = format!(
            "{:.1} MiB in {wall:.0?} ({cpu:.2} s of CPU), and at most {grown:.1} MiB more memory",
            mib(size as u64)
        );
        row("list of 10,000 pods", &text);
        Ok(())
    }

    async fn watches(&self) -> Result<()> {
        const WATCHES: usize = 1_000;
        let mut server = self.server()?;
        let client = server.client()?;
        Pods::on(client.clone()).await?.create_all(0..1_000).await?;
        let before = Usage::of_program(&mut server.program)?;
        let _open = Watches::open(&client, WATCHES, "allowWatchBookmarks=true").await?;
        let after = Usage::of_program(&mut server.program)?;
        let text = format!(
            "{:.1} MiB more resident",
            mib(after.resident.saturating_sub(before.resident))
        );
        row("1,000 idle watches", &text);
        Ok(())
    }

    /// Each pod has three transitions: bound, running, ready.
    async fn nodes(&self) -> Result<()> {
        const PODS: usize = 10_000;
        let cluster = DevCluster::builder().clock(Clock::system()).start().await?;
        let client = client(cluster.client())?;
        Pods::on(client.clone()).await?.create_all(0..PODS).await?;
        let mut watches = Watches::open(&client, 1, "").await?;
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        let watch = Stopwatch::start(Usage::own()?);
        let config = NodesConfig {
            // Fewer nodes have too little CPU for all pods.
            count: 100,
            latency: Latency::total(Duration::ZERO),
            ..NodesConfig::default()
        };
        nodes::start(config, client, Clock::system(), &tasks, &stop).await?;
        watches.received(3 * PODS).await?;
        row(
            "pod transitions by simulated nodes in one process",
            &watch.rate(3 * PODS, Usage::own()?),
        );
        stop.cancel();
        tasks.join(Duration::from_secs(5)).await;

        let mut server = self.server()?;
        let client = server.client()?;
        Pods::on(client.clone()).await?.create_all(0..PODS).await?;
        let mut watches = Watches::open(&client, 1, "").await?;
        let arguments = [
            "nodes",
            "--latency=0s",
            "--schedule",
            "--count=100",
            "--kubeconfig",
        ]
        .map(str::to_owned);
        let arguments = [
            arguments.as_slice(),
            &[server.kubeconfig.display().to_string()],
        ]
        .concat();
        let watch = Stopwatch::start(Usage::of_program(&mut server.program)?);
        let mut nodes = Program::start(self.binary, &arguments, &self.scratch.join("nodes.log"))?;
        watches.received(3 * PODS).await?;
        let text = watch.rate(3 * PODS, Usage::of_program(&mut server.program)?);
        let per_pod = Usage::of_program(&mut nodes)?.cpu_seconds / (3 * PODS) as f64 * 1e6;
        row(
            "pod transitions by `steersman nodes`",
            &format!("{text} in the server, {per_pod:.0} µs in the nodes"),
        );
        Ok(())
    }

    async fn churn(&self) -> Result<()> {
        const PODS: usize = 5_000;
        /// Life cycles of pods that begin per second, each with three writes.
        const RATE: u32 = 300;
        /// Most life cycles at a time; on a busy machine, fewer begin per second.
        const AT_ONCE: usize = 64;
        const MINUTES: u64 = 10;
        let mut server = self.server()?;
        let load = Pods::on(server.client()?).await?;
        load.create_all(0..PODS).await?;
        let mut watches = Watches::open(&server.client()?, 10, "").await?;
        let began = Instant::now();
        let mut resident = Vec::new();
        let mut ticks = interval(Duration::from_secs(1) / RATE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut cycles = tokio::task::JoinSet::new();
        let mut started = 0;
        for index in PODS.. {
            tokio::select! {
                _ = ticks.tick() => {}
                ended = watches.ended() => return Err(ended),
            }
            let load = load.clone();
            cycles.spawn(async move { load.life_cycle(index).await });
            while cycles.len() >= AT_ONCE
                && let Some(ended) = cycles.join_next().await
            {
                ended??;
            }
            let minutes = began.elapsed().as_secs() / 60;
            if minutes as usize > resident.len() {
                resident.push(Usage::of_program(&mut server.program)?.resident);
            }
            if minutes == MINUTES {
                started = index - PODS;
                break;
            }
        }
        let minutes: Vec<String> = resident
            .iter()
            .map(|bytes| format!("{:.1}", mib(*bytes)))
            .collect();
        let cpu = Usage::of_program(&mut server.program)?.cpu_seconds;
        let text = format!(
            "{} MiB; {started} pods created, patched and deleted, {cpu:.0} s of CPU",
            minutes.join(", ")
        );
        row("resident after each minute of churn", &text);
        Ok(())
    }
}
