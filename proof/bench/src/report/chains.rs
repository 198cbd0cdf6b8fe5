//! The table of chains: the time from a cause to its effect, by the time that the API server takes.

use std::time::Duration;

use serde::Serialize;

use super::spread::{Spread, number};
use super::table::table;
use crate::row::Row;
use crate::slices::percentile;
use crate::workloads::{Chain, Reaction};

/// The percentiles of the table.
const PERCENTILES: [usize; 2] = [50, 99];

/// A chain on a server of one latency.
#[derive(Debug, Serialize)]
pub(crate) struct ChainLine {
    /// Delay of the manager's requests.
    delay_ms: usize,
    chain: &'static str,
    /// The repetitions of each run of each manager.
    runs: Vec<Vec<Vec<Reaction>>>,
}

/// Adds the chains of one run of the manager of this number.
pub(super) fn add(
    lines: &mut Vec<ChainLine>,
    row: Row,
    (manager, managers): (usize, usize),
    chains: Vec<Chain>,
) {
    for Chain { name, reactions } in chains {
        let is_same = |line: &ChainLine| line.delay_ms == row.count && line.chain == name;
        let index = lines.iter().position(is_same).unwrap_or_else(|| {
            lines.push(ChainLine {
                delay_ms: row.count,
                chain: name,
                runs: vec![Vec::new(); managers],
            });
            lines.len() - 1
        });
        lines[index].runs[manager].push(reactions);
    }
}

/// Percentiles over all repetitions of each manager, ratios of the percentiles of the runs in turn, and
/// the median number of requests.
pub(super) fn markdown(lines: &[ChainLine]) -> String {
    let header = [
        "delay ms", "chain", "p50 ms", "ratio", "p99 ms", "ratio", "requests",
    ];
    let rows = lines.iter().map(|line| {
        let mut cells = vec![line.delay_ms.to_string(), line.chain.to_owned()];
        for percent in PERCENTILES {
            let all = line.runs.iter().map(|runs| of(&runs.concat(), percent));
            cells.push(joined(all));
            let ratio = line.ratio(percent);
            cells.push(ratio.map_or_else(String::new, |ratio| ratio.text()));
        }
        let requests = line.runs.iter().map(|runs| {
            let counts = runs
                .iter()
                .flatten()
                .map(|reaction| reaction.requests as f64);
            Spread::of(counts).map_or(0.0, |spread| spread.median)
        });
        cells.push(joined(requests));
        cells
    });
    table(&header, rows)
}

impl ChainLine {
    /// The spread of the first manager's percentile divided by the second one's, by runs. `None` for one
    /// manager.
    fn ratio(&self, percent: usize) -> Option<Spread> {
        let [ours, theirs] = self.runs.as_slice() else {
            return None;
        };
        let pairs = ours.iter().zip(theirs);
        Spread::of(pairs.map(|(ours, theirs)| of(ours, percent) / of(theirs, percent)))
    }
}

/// A percentile of the times, in milliseconds.
fn of(reactions: &[Reaction], percent: usize) -> f64 {
    let mut times: Vec<Duration> = reactions.iter().map(|reaction| reaction.time).collect();
    times.sort_unstable();
    percentile(&times, percent)
}

fn joined(values: impl Iterator<Item = f64>) -> String {
    values.map(number).collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(times: &[u64], requests: u64) -> Vec<Chain> {
        let reaction = |ms: &u64| Reaction {
            time: Duration::from_millis(*ms),
            requests,
        };
        vec![Chain {
            name: "scale up",
            reactions: times.iter().map(reaction).collect(),
        }]
    }

    #[test]
    fn ratios_are_of_runs_in_turn() {
        let row: Row = "latency:50".parse().expect("a row");
        let mut lines = Vec::new();
        for (ours, theirs) in [
            ([100, 110, 300], [200, 220, 300]),
            ([60, 70, 90], [70, 70, 90]),
        ] {
            add(&mut lines, row, (0, 2), chain(&ours, 4));
            add(&mut lines, row, (1, 2), chain(&theirs, 6));
        }
        let expected = "\
            | delay ms | chain | p50 ms | ratio | p99 ms | ratio | requests |\n\
            |---|---|---|---|---|---|---|\n\
            | 50 | scale up | 90 / 90 | 0.75 (0.50..1.00) | 300 / 300 | 1.00 | 4 / 6 |\n";
        assert_eq!(markdown(&lines), expected);
    }

    #[test]
    fn one_manager_has_no_ratios() {
        let row: Row = "latency:2".parse().expect("a row");
        let mut lines = Vec::new();
        add(&mut lines, row, (0, 1), chain(&[5], 1));
        assert!(markdown(&lines).ends_with("| 2 | scale up | 5 |  | 5 |  | 1 |\n"));
        let json = serde_json::to_value(&lines).expect("it is JSON");
        assert_eq!(json[0]["runs"][0][0][0]["ms"], 5.0);
    }
}
