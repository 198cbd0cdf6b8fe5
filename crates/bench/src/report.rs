//! The table of results, in Markdown, with the requests of each phase below.

use std::time::Duration;

use crate::requests::RequestCounts;

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

    /// Prints the table in Markdown, then the requests of each phase.
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
    }
}
