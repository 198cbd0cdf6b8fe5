//! The table of results, in Markdown, with the requests of each phase below.

use std::time::Duration;

use steersman_devcluster::requests::RequestCounts;

/// One row of the table.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// Number of pods that were created, replaced or deleted.
    pub(crate) pods: usize,
    pub(crate) wall: Duration,
    /// CPU time of the manager in this phase, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory of the manager at the end of the phase, in bytes.
    pub(crate) resident: u64,
    /// Highest resident memory of the manager so far, in bytes.
    pub(crate) peak: u64,
    /// Requests of the manager in this phase.
    pub(crate) requests: RequestCounts,
}

/// All rows.
#[derive(Default)]
pub(crate) struct Table {
    phases: Vec<Phase>,
}

impl Table {
    pub(crate) fn add(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    /// Prints the table in Markdown, then the requests of each phase.
    pub(crate) fn print(&self) {
        const MIB: f64 = 1024.0 * 1024.0;
        println!(
            "| phase | pods | wall s | CPU s | CPU s per 1,000 pods | resident MiB | peak MiB | requests |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for phase in &self.phases {
            let per_thousand = match phase.pods {
                0 => "-".to_owned(),
                pods => format!("{:.2}", phase.cpu_seconds * 1000.0 / pods as f64),
            };
            println!(
                "| {} | {} | {:.1} | {:.2} | {per_thousand} | {:.1} | {:.1} | {} |",
                phase.name,
                phase.pods,
                phase.wall.as_secs_f64(),
                phase.cpu_seconds,
                phase.resident as f64 / MIB,
                phase.peak as f64 / MIB,
                phase.requests.values().sum::<u64>(),
            );
        }
        for phase in self
            .phases
            .iter()
            .filter(|phase| !phase.requests.is_empty())
        {
            let list = phase
                .requests
                .iter()
                .map(|((verb, resource), count)| format!("{count} {verb} {resource}"));
            println!("\n{}: {}", phase.name, list.collect::<Vec<_>>().join(", "));
        }
    }
}
