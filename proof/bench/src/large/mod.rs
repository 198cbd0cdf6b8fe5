//! `steersman-bench large`: one manager in a large cluster. The default is the size that upstream promises,
//! 150,000 pods on 5,000 nodes.
//!
//! plane -> for each number of pods: creation or copies, changes of pods, rest -> roll-outs at a steady pace ->
//! failure of a zone -> lists after a gap of the watches -> cold start -> report

mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::manager::Manager;
use crate::metrics;
use crate::plane::{Nodes, Plane, PlaneArgs};
use crate::report::write_after_mark;
use crate::row::Workload;
use crate::run::{Bench, idle};
use crate::session::Session;
use crate::slices::percentile;
use crate::workloads::large::PODS_OF_EACH;
use crate::workloads::{self, Workloads};
use report::{Line, Report};

/// The nodes, if the user chooses no number: upstream's limit.
const NODES: usize = 5_000;
/// The zone that fails; simulated nodes call their first zone so.
const FAILING: &str = "a";
/// Pods that change at once, for the cost of one watch event.
const CHANGED: usize = 5_000;
/// Seconds with nothing but heartbeats of nodes.
const REST: usize = 20;
/// Seconds in which Deployments begin to roll out.
const ROLL_SECONDS: usize = 60;
/// Changes of pods while the manager is stopped: more than the watch history of the embedded API
/// server holds.
const MISSED: usize = 40_000;
/// Time limit for the lists after the gap.
const LIST_LIMIT: Duration = Duration::from_secs(120);
/// Pause between two looks at the metrics.
const PAUSE: Duration = Duration::from_millis(500);

/// Line before the table in a document.
const MARK: &str = "<!-- large: written by steersman-bench large -->";
/// Name of the plot beside a document.
const PLOT: &str = "large.svg";

/// Measures a manager in a large cluster.
#[derive(Debug, Args)]
pub(crate) struct LargeArgs {
    /// The manager: one with the metrics of Steersman's informers.
    #[arg(long, value_name = "BINARY", default_value = "target/dist/steersman")]
    manager: PathBuf,
    /// The numbers of pods at which costs are measured, in ascending order.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [10_000, 50_000, 100_000, 150_000]
    )]
    pods: Vec<usize>,
    /// The number of zones, over which the nodes are spread evenly. The first one fails.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=26))]
    zones: u8,
    /// The pods that are rolled out each second, a multiple of 50.
    #[arg(long, value_name = "N", default_value_t = 100)]
    rolled: usize,
    /// The most pods that the manager creates. Further ones are copies, which the embedded API server stores while no
    /// manager runs; then it starts again.
    #[arg(long, value_name = "N")]
    created: Option<usize>,
    /// End when the pods exist.
    #[arg(long)]
    only_create: bool,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Write all samples to this file, as JSON.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Write the table after the mark of this document, and the plot beside it.
    #[arg(long, value_name = "PATH")]
    write: Option<PathBuf>,
    /// Further flags of the manager.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Runs the measurement. Files are in `folder`, which the caller deletes.
pub(crate) async fn run(args: &LargeArgs, folder: &Path) -> Result<()> {
    let ascend = args.pods.is_sorted_by(|a, b| a < b) && args.pods.first() > Some(&0);
    ensure!(ascend, "--pods is {:?}; it must ascend from 1", args.pods);
    let is_created = args.created.is_none_or(|created| created >= args.pods[0]);
    ensure!(
        is_created,
        "--created is less than the first of --pods, whose Deployments are copied"
    );
    let in_wholes = args.rolled > 0 && args.rolled.is_multiple_of(PODS_OF_EACH);
    ensure!(
        in_wholes,
        "--rolled is {}; it must be a multiple of {PODS_OF_EACH}",
        args.rolled
    );
    let nodes = Nodes {
        count: NODES,
        zones: args.zones,
    };
    let session = Session {
        managers: &[&args.manager],
        plane: &args.plane,
        nodes,
        folder,
    };
    let (report, cleaned) = session
        .run(async |plane| {
            let mut run = Run {
                args,
                plane,
                load: Workloads::start(plane).await?,
                folder,
                pods: 0,
                report: Report::new(plane.description()),
            };
            run.all().await?;
            Ok(run.report)
        })
        .await?;
    args.publish(&report).and(cleaned)
}

impl LargeArgs {
    /// Prints the table, and writes the files.
    fn publish(&self, report: &Report) -> Result<()> {
        let table = report.markdown();
        println!("{table}");
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
        };
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string_pretty(report)?)?;
        }
        if let Some(path) = &self.write {
            write(&path.with_file_name(PLOT), &report.svg())?;
            let plot = format!("![memory, and CPU time of a watch event]({PLOT})");
            write_after_mark(path, MARK, &format!("{table}\n{plot}"))?;
        }
        Ok(())
    }
}

/// A measurement under way.
struct Run<'a> {
    args: &'a LargeArgs,
    plane: &'a Plane,
    load: Workloads,
    folder: &'a Path,
    /// Number of pods now.
    pods: usize,
    report: Report,
}

impl<'a> Run<'a> {
    async fn all(&mut self) -> Result<()> {
        eprintln!("{}", self.plane.description());
        let copied_to = match self.args.created {
            Some(created) => {
                let cluster = self.plane.embedded();
                Some((
                    created,
                    cluster.context("--created is for the embedded API server")?,
                ))
            }
            None => None,
        };
        let mut bench = self.start("start", async |_| Ok(())).await?;
        self.report.nodes = self.load.number_of_nodes();
        for pods in &self.args.pods {
            self.pods = *pods;
            if let Some((created, cluster)) = copied_to
                && *pods > created
            {
                bench.end().await?;
                self.load.copy(cluster, *pods).await?;
                bench = self.start_again().await?;
                // One Deployment has rolled out.
                self.load.grow(*pods).await?;
            } else {
                self.phase(&mut bench, "create", async |load| load.grow(*pods).await)
                    .await?;
            }
            let value = format!("at {pods}");
            self.phase(&mut bench, "change 5,000 pods", async |load| {
                load.annotate_pods(CHANGED, &value).await
            })
            .await?;
            self.phase(&mut bench, "rest", async |_| idle(REST).await)
                .await?;
        }
        if self.args.only_create {
            bench.end().await?;
            return Ok(());
        }
        self.roll_out(&mut bench).await?;
        self.phase(&mut bench, "a zone fails", async |load| {
            load.fail_zone(FAILING).await
        })
        .await?;
        self.phase(&mut bench, "the zone is back", async |load| {
            load.heal_zone(FAILING).await
        })
        .await?;
        self.gap(&mut bench).await?;
        bench.end().await?;
        self.start_again().await?.end().await?;
        Ok(())
    }

    /// Starts the manager. The phase ends when it has acted upon a change from before the start.
    async fn start_again(&mut self) -> Result<Bench<'a>> {
        let number = self.report.lines.len();
        let value = format!("before the start, after {number} phases");
        self.load.roll_one(&value).await?;
        self.start("start again", async |load| load.observed().await)
            .await
    }

    /// Starts the manager. The phase ends after `until`.
    async fn start(
        &mut self,
        name: &'static str,
        until: impl AsyncFnOnce(&Workloads) -> Result<()>,
    ) -> Result<Bench<'a>> {
        let mut flags = workloads::flags(Workload::Deployments, self.folder)?;
        flags.extend(self.args.flags.iter().cloned());
        let before = self.plane.api_server_cpu_seconds()?;
        let began = Instant::now();
        let manager = Manager::start(
            &self.args.manager,
            &flags,
            self.plane,
            &self.plane.kubeconfig,
            self.folder,
        )
        .await?;
        until(&self.load).await?;
        let mut bench = Bench::new(manager, self.plane);
        bench.start(began, before).await?;
        self.record(&bench, name, 0).await?;
        Ok(bench)
    }

    async fn phase<T>(
        &mut self,
        bench: &mut Bench<'_>,
        name: &'static str,
        work: impl AsyncFnOnce(&Workloads) -> Result<T>,
    ) -> Result<T> {
        let before = watch_events(bench).await?;
        let load = &self.load;
        let mut result = None;
        bench
            .phase(name, 0, async {
                result = Some(work(load).await?);
                Ok(())
            })
            .await?;
        self.record(bench, name, before).await?;
        result.context("the phase has ended")
    }

    /// Adds the latest phase, before which the manager had received `before` watch events.
    async fn record(&mut self, bench: &Bench<'_>, name: &'static str, before: u64) -> Result<()> {
        let phase = bench.last().context("a phase has ended")?;
        let watch_events = watch_events(bench).await? - before;
        self.report.lines.push(Line {
            pods: self.pods,
            phase: name,
            watch_events,
            sample: phase.sample.clone(),
        });
        Ok(())
    }

    async fn roll_out(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let rolled = self.args.rolled;
        let times = self
            .phase(bench, "roll out at a steady pace", async |load| {
                load.roll_steadily(rolled / PODS_OF_EACH, ROLL_SECONDS, "rolled")
                    .await
            })
            .await?;
        let [median, worst] = [50, 99].map(|percent| percentile(&times, percent));
        self.report.facts.push(format!(
            "During the roll-out of {rolled} pods a second, the status of a Deployment showed a change {median:.0} ms \
             after it (median; 99th percentile {worst:.0} ms, {} changes).",
            times.len()
        ));
        Ok(())
    }

    /// Stops the manager until its watches have missed too much, so that it lists anew.
    async fn gap(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let before = relists(bench).await?;
        let events = watch_events(bench).await?;
        let costs = bench.begin().await?;
        let began = Instant::now();
        bench.manager().signal("STOP")?;
        for pass in 0..MISSED.div_ceil(self.pods) {
            let value = format!("missed {pass}");
            self.load.annotate_pods(MISSED, &value).await?;
        }
        self.load.roll_one("missed").await?;
        bench.manager().signal("CONT")?;
        let back = Instant::now();
        self.load.observed().await?;
        let acted = back.elapsed();
        let mut lists = relists(bench).await? - before;
        while lists == 0 {
            ensure!(
                back.elapsed() < LIST_LIMIT,
                "the manager missed {MISSED} changes of pods and listed nothing anew"
            );
            tokio::time::sleep(PAUSE).await;
            lists = relists(bench).await? - before;
        }
        let name = "list after a gap";
        bench.finish(name, 0, began.elapsed(), &costs).await?;
        self.record(bench, name, events).await?;
        self.report.facts.push(format!(
            "The manager was stopped for {MISSED} changes of pods. After its return it read {lists} \
             complete list(s) anew, and acted within {:.1} s.",
            acted.as_secs_f64()
        ));
        Ok(())
    }
}

/// Watch events that the manager has received. Bookmarks count too.
async fn watch_events(bench: &Bench<'_>) -> Result<u64> {
    let page = bench.manager().metrics().await?;
    Ok(metrics::sum(&page, "steersman_informer_watch_events_total"))
}

/// Lists that the manager has read.
async fn relists(bench: &Bench<'_>) -> Result<u64> {
    let page = bench.manager().metrics().await?;
    Ok(metrics::sum(&page, "steersman_informer_relists_total"))
}
