//! The report of a comparison: all samples, as a table, as a plot and as JSON.

mod chains;
mod document;
mod plot;
mod spread;
mod table;

use serde::Serialize;

pub(crate) use document::write_after_mark;
pub(crate) use spread::number;
pub(crate) use table::table;

use crate::row::Row;
use crate::run::{Phase, Sample};
use crate::workloads::Chain;
use chains::ChainLine;
use spread::Spread;

/// All samples of all managers.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The API server.
    pub(crate) api_server: String,
    /// CPUs of the machine.
    pub(crate) cpus: usize,
    /// The managers by their paths, in the order of the samples.
    pub(crate) managers: Vec<String>,
    /// The rows of the table of costs.
    pub(crate) lines: Vec<Line>,
    /// The rows of the table of chains.
    pub(crate) chains: Vec<ChainLine>,
}

/// A phase of a load.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// The load with its size, such as `jobs:2000`.
    row: String,
    phase: &'static str,
    /// Number of pods that were created, replaced or deleted.
    pods: usize,
    /// The samples of each manager, in the order of the repetitions.
    samples: Vec<Vec<Sample>>,
}

/// A value of a sample.
struct Measure {
    title: &'static str,
    value: fn(&Sample) -> Option<f64>,
    /// Colour of its ratio in the plot; `None` if a ratio means nothing.
    colour: Option<&'static str>,
}

/// The columns of the table.
const MEASURES: [Measure; 6] = [
    Measure {
        title: "wall s",
        value: |sample| Some(sample.wall_seconds),
        colour: Some("#9467bd"),
    },
    Measure {
        title: "CPU s",
        value: |sample| Some(sample.cpu_seconds),
        colour: Some("#1f77b4"),
    },
    Measure {
        title: "resident MiB",
        value: |sample| Some(sample.resident_mib),
        colour: None,
    },
    Measure {
        title: "peak MiB",
        value: |sample| Some(sample.peak_mib),
        colour: Some("#2ca02c"),
    },
    Measure {
        title: "API server CPU s",
        value: |sample| sample.api_server_cpu_seconds,
        colour: Some("#7f7f7f"),
    },
    Measure {
        title: "requests",
        value: |sample| Some(sample.requests.values().sum::<u64>() as f64),
        colour: Some("#d62728"),
    },
];

impl Report {
    pub(crate) fn new(api_server: &str, managers: Vec<String>) -> Self {
        Self {
            api_server: api_server.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            managers,
            lines: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// Adds the chains of one run of the manager of this number.
    pub(crate) fn add_chains(&mut self, row: Row, manager: usize, chains: Vec<Chain>) {
        let managers = self.managers.len();
        chains::add(&mut self.chains, row, (manager, managers), chains);
    }

    /// The table of chains; `None` without any.
    pub(crate) fn chains_markdown(&self) -> Option<String> {
        (!self.chains.is_empty()).then(|| chains::markdown(&self.chains))
    }

    /// Adds the phases of one run of the manager of this number.
    pub(crate) fn add(&mut self, row: Row, manager: usize, phases: Vec<Phase>) {
        let row = row.to_string();
        for Phase { name, pods, sample } in phases {
            let found = self
                .lines
                .iter()
                .position(|line| line.row == row && line.phase == name);
            let index = found.unwrap_or_else(|| {
                self.lines.push(Line {
                    row: row.clone(),
                    phase: name,
                    pods,
                    samples: vec![Vec::new(); self.managers.len()],
                });
                self.lines.len() - 1
            });
            self.lines[index].samples[manager].push(sample);
        }
    }
}

impl Line {
    fn title(&self) -> String {
        format!("{} {}", self.row, self.phase)
    }

    /// The spread of a value of each manager.
    fn spreads(&self, measure: &Measure) -> Vec<Option<Spread>> {
        let of = |samples: &Vec<Sample>| Spread::of(samples.iter().filter_map(measure.value));
        self.samples.iter().map(of).collect()
    }

    /// The spread of the first manager's value divided by the second one's, by repetitions. `None` for
    /// one manager, and for values of 0.
    fn ratio(&self, measure: &Measure) -> Option<Spread> {
        let [ours, theirs] = self.samples.as_slice() else {
            return None;
        };
        let pairs = ours.iter().zip(theirs);
        let values = pairs
            .filter_map(|(ours, theirs)| Some((measure.value)(ours)? / (measure.value)(theirs)?));
        Spread::of(values)
    }
}

#[cfg(test)]
mod tests {
    use crate::requests::RequestCounts;

    use super::*;

    /// CPU seconds and requests.
    type Run<'a> = (f64, &'a [(&'a str, u64)]);

    /// A report of two managers and one load, with these runs of each repetition.
    pub(super) fn report(runs: &[[Run<'_>; 2]]) -> Report {
        let mut report = Report::new("a server", vec!["ours".to_owned(), "theirs".to_owned()]);
        let row: Row = "jobs:5".parse().expect("a row");
        for run in runs {
            for (manager, (cpu_seconds, requests)) in run.iter().enumerate() {
                let requests = requests.iter().map(|(name, n)| ((*name).to_owned(), *n));
                let sample = Sample {
                    wall_seconds: 1.5,
                    cpu_seconds: *cpu_seconds,
                    resident_mib: 20.0,
                    peak_mib: 25.0,
                    requests: requests.collect::<RequestCounts>(),
                    ..Sample::default()
                };
                let phase = Phase {
                    name: "run",
                    pods: 5,
                    sample,
                };
                report.add(row, manager, vec![phase]);
            }
        }
        report
    }

    #[test]
    fn ratios_are_of_the_same_repetition() {
        let report = report(&[
            [(1.0, &[]), (2.0, &[])],
            [(3.0, &[]), (4.0, &[])],
            [(1.0, &[]), (4.0, &[])],
        ]);
        let [line] = report.lines.as_slice() else {
            panic!("{:?}", report.lines)
        };
        let ratio = line.ratio(&MEASURES[1]).expect("two managers");
        assert_eq!((ratio.median, ratio.min, ratio.max), (0.5, 0.25, 0.75));
        assert_eq!(line.ratio(&MEASURES[4]), None, "no API server process");
        assert_eq!(line.ratio(&MEASURES[5]), None, "no requests");
    }
}
