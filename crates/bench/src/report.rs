//! The table of results, in Markdown, with the requests of each phase below.

use std::time::Duration;

use crate::requests::RequestCounts;
use crate::slices::SliceCosts;

const MIB: f64 = 1024.0 * 1024.0;

/// One row of the table.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// Number of pods that were created, replaced or deleted.
    pub(crate) pods: usize,
    pub(crate) wall: Duration,
    /// CPU time of the manager in this phase, in seconds.
    pub(crate) cpu_seconds: f64,
    /// CPU time of the API server in this phase, in seconds; 0 if its process is unknown.
    pub(crate) apiserver_seconds: f64,
    /// Resident memory of the manager at the end of the phase, in bytes.
    pub(crate) resident: u64,
    /// Highest resident memory of the manager so far, in bytes.
    pub(crate) peak: u64,
    /// Requests of the manager in this phase.
    pub(crate) requests: RequestCounts,
    /// Writes and delays of EndpointSlices; unset for loads without Services.
    pub(crate) slices: Option<SliceCosts>,
}

impl Phase {
    fn requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// All rows of one manager, each with the name of its load.
#[derive(Default)]
pub(crate) struct Table {
    load: String,
    phases: Vec<(String, Phase)>,
}

impl Table {
    /// Names the load of the following rows.
    pub(crate) fn begin(&mut self, load: &str) {
        self.load = format!("{load}: ");
    }

    pub(crate) fn add(&mut self, phase: Phase) {
        let name = format!("{}{}", self.load, phase.name);
        self.phases.push((name, phase));
    }

    /// Adds the costs of slices to the last row.
    pub(crate) fn add_slices(&mut self, costs: SliceCosts) {
        if let Some((_, phase)) = self.phases.last_mut() {
            phase.slices = Some(costs);
        }
    }

    /// Prints the table in Markdown, then the requests of each phase, then the costs of slices.
    pub(crate) fn print(&self) {
        println!(
            "| phase | pods | wall s | CPU s | CPU s per 1,000 pods | API server CPU s | resident MiB | peak MiB | requests |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for (name, phase) in &self.phases {
            let per_thousand = match phase.pods {
                0 => "-".to_owned(),
                pods => format!("{:.2}", phase.cpu_seconds * 1000.0 / pods as f64),
            };
            println!(
                "| {name} | {} | {:.1} | {:.2} | {per_thousand} | {:.1} | {:.1} | {:.1} | {} |",
                phase.pods,
                phase.wall.as_secs_f64(),
                phase.cpu_seconds,
                phase.apiserver_seconds,
                phase.resident as f64 / MIB,
                phase.peak as f64 / MIB,
                phase.requests(),
            );
        }
        for (name, phase) in &self.phases {
            let list = phase
                .requests
                .iter()
                .map(|((method, code), count)| format!("{count} {method} {code}"));
            println!("\n{name}: {}", list.collect::<Vec<_>>().join(", "));
        }
        print_slices(self.with_slices().map(|(name, costs)| (name, vec![costs])));
    }

    fn with_slices(&self) -> impl Iterator<Item = (&str, &SliceCosts)> {
        let phases = self.phases.iter();
        phases.filter_map(|(name, phase)| Some((name.as_str(), phase.slices.as_ref()?)))
    }

    /// Prints both values and their ratio for each phase. Both tables have the same phases.
    pub(crate) fn print_ratios(&self, other: &Self) {
        println!("| phase | CPU s | ratio | resident MiB | ratio | requests | API server CPU s |");
        println!("|---|---|---|---|---|---|---|");
        for ((name, ours), (_, theirs)) in self.phases.iter().zip(&other.phases) {
            let (memory, their_memory) = (ours.resident as f64 / MIB, theirs.resident as f64 / MIB);
            println!(
                "| {name} | {:.2} / {:.2} | {:.2} | {memory:.0} / {their_memory:.0} | {:.2} | {} / {} | {:.1} / {:.1} |",
                ours.cpu_seconds,
                theirs.cpu_seconds,
                ours.cpu_seconds / theirs.cpu_seconds,
                memory / their_memory,
                ours.requests(),
                theirs.requests(),
                ours.apiserver_seconds,
                theirs.apiserver_seconds,
            );
        }
        let pairs = self.with_slices().zip(other.with_slices());
        print_slices(pairs.map(|((name, ours), (_, theirs))| (name, vec![ours, theirs])));
    }
}

/// Prints a table of the writes of slices and of the times until a slice shows a ready pod. Each row
/// has the costs of one manager or of two.
fn print_slices<'a>(rows: impl Iterator<Item = (&'a str, Vec<&'a SliceCosts>)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    println!("\n| phase | slice writes | ready pods | ready to shown: p50 ms | p90 ms | p99 ms |");
    println!("|---|---|---|---|---|---|");
    for (name, managers) in rows {
        let each = |value: &dyn Fn(&SliceCosts) -> String| {
            let values: Vec<String> = managers.iter().map(|costs| value(costs)).collect();
            values.join(" / ")
        };
        let percentile = |percent: usize| {
            each(&|costs| format!("{:.1}", costs.percentile(percent).as_secs_f64() * 1000.0))
        };
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            each(&|costs| costs.writes.to_string()),
            each(&|costs| costs.pods().to_string()),
            percentile(50),
            percentile(90),
            percentile(99),
        );
    }
}
