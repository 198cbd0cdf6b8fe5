//! `steersman-bench compare`: two managers under the same loads, in turn on the same API server.
//!
//! plane -> for each row and repetition: each manager, started anew -> samples -> report
//!
//! Managers take turns in each row, so that a change of the machine's speed hits both.

use std::iter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::manager::Manager;
use crate::plane::{Nodes, Plane, PlaneArgs};
use crate::proxy::Proxy;
use crate::report::{Report, write_after_mark};
use crate::row::{Row, Workload};
use crate::run::{Bench, Phase, idle};
use crate::session::Session;
use crate::workloads::{self, Chain, Workloads};

/// The load before the measurement. Under the first load, the watches of a new kube-apiserver are
/// seconds late.
const WARM_UP: &str = "deployments:10x20";

/// Lines before the tables of costs and of chains in a document.
const MARK: &str = "<!-- comparison: written by steersman-bench compare -->";
const CHAINS_MARK: &str = "<!-- latency: written by steersman-bench compare -->";

/// The simulated nodes.
const NODES: Nodes = Nodes {
    count: 100,
    zones: 0,
};

/// Compares two managers: time, CPU, memory and requests.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The second manager, such as kube-controller-manager. Without it, only the first one is
    /// measured.
    #[arg(long, value_name = "BINARY")]
    with: Option<PathBuf>,
    /// The first manager.
    #[arg(long, value_name = "BINARY", default_value = "target/dist/steersman")]
    manager: PathBuf,
    /// The loads: `default`, `all`, or names with optional sizes, such as
    /// `deployments:200x50,jobs,idle:60`.
    #[arg(
        long,
        value_name = "ROW",
        value_delimiter = ',',
        default_value = "default"
    )]
    rows: Vec<String>,
    /// Multiplies the number of objects of each row.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// Runs of each row with each manager.
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: usize,
    /// Measure resident memory at rest too: after this many seconds before each row, and as many after
    /// it.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    rest: usize,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Write all samples to this file, as JSON.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Write the plot of the ratios to this file, as SVG.
    #[arg(long, value_name = "PATH", requires = "with")]
    svg: Option<PathBuf>,
    /// Write the tables between the marks of this document, and the plot beside it. A table without rows
    /// in this run stays as it is.
    #[arg(long, value_name = "PATH", requires = "with")]
    write: Option<PathBuf>,
    /// Further flags of both managers.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Runs the comparison. Files are in `folder`, which the caller deletes.
pub(crate) async fn run(args: &CompareArgs, folder: &Path) -> Result<()> {
    let rows = Row::list(&args.rows, args.scale)?;
    ensure!(args.repeat > 0, "--repeat is 0, so nothing would run");
    let managers: Vec<&Path> = args.binaries().collect();
    let session = Session {
        managers: &managers,
        plane: &args.plane,
        nodes: NODES,
        folder,
    };
    let (report, cleaned) = session
        .run(async |plane| args.measure(&rows, plane, folder).await)
        .await?;
    args.publish(&report).and(cleaned)
}

impl CompareArgs {
    fn binaries(&self) -> impl Iterator<Item = &Path> {
        let binaries = iter::once(&self.manager).chain(&self.with);
        binaries.map(PathBuf::as_path)
    }

    async fn measure(&self, rows: &[Row], plane: &Plane, folder: &Path) -> Result<Report> {
        let managers = self.binaries().map(|path| path.display().to_string());
        let mut report = Report::new(plane.description(), managers.collect());
        let loads = Workloads::start(plane).await?;
        eprintln!("{}", plane.description());
        let run = Run {
            args: self,
            plane,
            loads: &loads,
            folder,
        };
        run.row(WARM_UP.parse()?, &self.manager)
            .await
            .context("warm up")?;
        for row in rows {
            if let Some(reason) = plane.lacks(row.workload) {
                eprintln!("{row} is skipped: {reason}");
                continue;
            }
            for repetition in 1..=self.repeat {
                for (index, binary) in self.binaries().enumerate() {
                    let name = binary.display();
                    eprintln!("{row}, {repetition} of {}: {name}", self.repeat);
                    let failed = || format!("measure {name} under {row}");
                    if row.workload == Workload::Latency {
                        let chains = run.chains(*row, binary).await.with_context(failed)?;
                        report.add_chains(*row, index, chains);
                    } else {
                        let phases = run.row(*row, binary).await.with_context(failed)?;
                        report.add(*row, index, phases);
                    }
                }
            }
        }
        Ok(report)
    }

    /// Prints the table, and writes the files.
    fn publish(&self, report: &Report) -> Result<()> {
        let costs = report.costs_markdown();
        let chains = report.chains_markdown();
        for table in costs.iter().chain(&chains) {
            println!("{table}");
        }
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(report)?;
            write(path, &json)?;
        }
        let svg = report.svg().unwrap_or_default();
        if let Some(path) = &self.svg {
            write(path, &svg)?;
        }
        let Some(path) = &self.write else {
            return Ok(());
        };
        let about = format!(
            "{} CPUs; {}. {} runs of each row.",
            report.cpus, report.api_server, self.repeat
        );
        if let Some(table) = &costs {
            let plot = path.with_extension("svg");
            write(&plot, &svg)?;
            let name = plot.file_name().unwrap_or(plot.as_os_str());
            let link = format!("![ratios of the table]({})", name.to_string_lossy());
            write_after_mark(path, MARK, &format!("{about}\n\n{table}\n{link}"))?;
        }
        if let Some(table) = &chains {
            write_after_mark(path, CHAINS_MARK, &format!("{about}\n\n{table}"))?;
        }
        Ok(())
    }
}

/// The parts of a run that are the same for all rows.
struct Run<'a> {
    args: &'a CompareArgs,
    plane: &'a Plane,
    loads: &'a Workloads,
    folder: &'a Path,
}

impl Run<'_> {
    /// Starts a manager, runs the load, and ends the manager.
    async fn row(&self, row: Row, binary: &Path) -> Result<Vec<Phase>> {
        let before = self.plane.api_server_cpu_seconds()?;
        let began = Instant::now();
        let manager = self.start(row, binary, &self.plane.kubeconfig).await?;
        let mut bench = Bench::new(manager, self.plane);
        bench.start(began, before).await?;
        let rest = self.args.rest;
        if rest > 0 {
            bench.phase("rest before", 0, idle(rest)).await?;
        }
        self.loads.run(row, &mut bench).await?;
        if rest > 0 {
            bench.phase("rest after", 0, idle(rest)).await?;
        }
        let mut phases = bench.end().await?;
        if row.workload != Workload::Idle {
            phases.remove(0);
        }
        Ok(phases)
    }

    /// Starts a manager behind a delaying proxy, measures the chains, and ends the manager.
    async fn chains(&self, row: Row, binary: &Path) -> Result<Vec<Chain>> {
        let delay = Duration::from_millis(row.count as u64);
        let proxy = Proxy::start(&self.plane.kubeconfig, delay, self.folder).await?;
        let mut manager = self.start(row, binary, proxy.kubeconfig()).await?;
        manager.until_quiet().await?;
        let chains = tokio::select! {
            chains = workloads::run_chains(&self.plane.client, &proxy) => chains?,
            ended = manager.ended() => return Err(ended),
        };
        manager.end().await?;
        Ok(chains)
    }

    async fn start(&self, row: Row, binary: &Path, kubeconfig: &Path) -> Result<Manager> {
        let mut flags = workloads::flags(row.workload, self.folder)?;
        flags.extend(self.args.flags.iter().cloned());
        Manager::start(binary, &flags, self.plane, kubeconfig, self.folder).await
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
