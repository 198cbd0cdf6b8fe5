//! The report as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::spread::{Spread, number};
use super::{Line, MEASURES, Report};
use crate::run::Sample;
use crate::slices::SliceCosts;

/// Entries of a list of requests.
const LISTED: usize = 4;

impl Report {
    /// The tables of costs, of saved requests and of slices; `None` without costs.
    pub(crate) fn costs_markdown(&self) -> Option<String> {
        (!self.lines.is_empty()).then(|| self.tables())
    }

    fn tables(&self) -> String {
        let mut text = self.costs();
        let [_, _] = self.managers.as_slice() else {
            return text + &self.slices();
        };
        text.push('\n');
        text += &self.saved();
        text + &self.slices()
    }

    /// The medians of each manager, and the ratios with their spread.
    fn costs(&self) -> String {
        let compared = self.managers.len() == 2;
        let mut header = vec!["load"];
        for measure in &MEASURES {
            header.push(measure.title);
            if compared && measure.colour.is_some() {
                header.push("ratio");
            }
        }
        let rows = self.lines.iter().map(|line| {
            let mut cells = vec![line.title()];
            for measure in &MEASURES {
                cells.push(each(&line.spreads(measure)));
                if compared && measure.colour.is_some() {
                    let ratio = line.ratio(measure);
                    cells.push(ratio.map_or_else(String::new, |ratio| ratio.text()));
                }
            }
            cells
        });
        table(&header, rows)
    }

    /// The requests that the first manager saves, and those that only it sends.
    fn saved(&self) -> String {
        let rows = self.lines.iter().filter_map(|line| {
            let [saved, more] = differences(line);
            let is_empty = saved.is_empty() && more.is_empty();
            (!is_empty).then(|| vec![line.title(), listed(&saved), listed(&more)])
        });
        table(&["load", "requests saved", "more requests"], rows)
    }

    fn slices(&self) -> String {
        let header = [
            "load",
            "slice writes",
            "ready pods",
            "ready to shown: p50 ms",
            "p90 ms",
            "p99 ms",
        ];
        let values: [fn(&SliceCosts) -> f64; 5] = [
            |costs| costs.writes as f64,
            |costs| costs.pods as f64,
            |costs| costs.delays_ms[0],
            |costs| costs.delays_ms[1],
            |costs| costs.delays_ms[2],
        ];
        let rows = self.lines.iter().filter_map(|line| {
            let mut samples = line.samples.iter().flatten();
            if !samples.any(|sample| sample.slices.is_some()) {
                return None;
            }
            let mut cells = vec![line.title()];
            for value in values {
                let of = |samples: &Vec<Sample>| {
                    Spread::of(samples.iter().filter_map(|s| s.slices.as_ref()).map(value))
                };
                let spreads: Vec<_> = line.samples.iter().map(of).collect();
                cells.push(each(&spreads));
            }
            Some(cells)
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return String::new();
        }
        format!("\n{}", table(&header, rows.into_iter()))
    }
}

/// The medians of the managers, such as `0.42 / 0.96`; empty without a value.
fn each(spreads: &[Option<Spread>]) -> String {
    let medians = spreads.iter().flatten().map(|spread| number(spread.median));
    medians.collect::<Vec<_>>().join(" / ")
}

/// The differences between the medians of each kind of request: fewer of the first manager, and more.
/// The largest come first.
fn differences(line: &Line) -> [Vec<(f64, &str)>; 2] {
    let [ours, theirs] = line.samples.as_slice() else {
        return [Vec::new(), Vec::new()];
    };
    let names = ours
        .iter()
        .chain(theirs)
        .flat_map(|sample| sample.requests.keys());
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let median = |samples: &[Sample], name: &str| {
        let counts = samples.iter().map(|sample| sample.requests.get(name));
        let counts = counts.map(|count| count.copied().unwrap_or(0) as f64);
        Spread::of(counts).map_or(0.0, |spread| spread.median)
    };
    let mut saved = Vec::new();
    let mut more = Vec::new();
    for name in names {
        let difference = median(theirs, name) - median(ours, name);
        if difference >= 1.0 {
            saved.push((difference, name));
        } else if difference <= -1.0 {
            more.push((-difference, name));
        }
    }
    for list in [&mut saved, &mut more] {
        list.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    }
    [saved, more]
}

fn listed(requests: &[(f64, &str)]) -> String {
    let first = requests.iter().take(LISTED);
    let mut parts: Vec<String> = first
        .map(|(count, name)| format!("{} {name}", number(*count)))
        .collect();
    let rest: f64 = requests.iter().skip(LISTED).map(|(count, _)| count).sum();
    if rest > 0.0 {
        parts.push(format!("{} others", number(rest)));
    }
    parts.join(", ")
}

pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        header.join(" | "),
        "---|".repeat(header.len())
    );
    for cells in rows {
        // Writing to a string always succeeds.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn the_table_shows_medians_ratios_and_saved_requests() {
        let ours: &[(&str, u64)] = &[("create pods", 1_000), ("patch events", 20)];
        let theirs: &[(&str, u64)] = &[("create pods", 1_000), ("get pods", 3_000)];
        let report = report(&[
            [(0.5, ours), (2.0, theirs)],
            [(0.6, ours), (2.0, theirs)],
            [(0.4, ours), (2.0, theirs)],
        ]);
        let expected = "\
            | load | wall s | ratio | CPU s | ratio | resident MiB | peak MiB | ratio | API server CPU s | ratio | requests | ratio |\n\
            |---|---|---|---|---|---|---|---|---|---|---|---|\n\
            | jobs:5 run | 1.50 / 1.50 | 1.00 | 0.50 / 2 | 0.25 (0.20..0.30) | 20 / 20 | 25 / 25 | 1.00 |  |  | 1,020 / 4,000 | 0.26 |\n\
            \n\
            | load | requests saved | more requests |\n\
            |---|---|---|\n\
            | jobs:5 run | 3,000 get pods | 20 patch events |\n";
        assert_eq!(report.costs_markdown().as_deref(), Some(expected));
    }

    #[test]
    fn rare_requests_are_summed() {
        let requests = [
            (9.0, "a"),
            (8.0, "b"),
            (7.0, "c"),
            (6.0, "d"),
            (2.0, "e"),
            (1.0, "f"),
        ];
        assert_eq!(listed(&requests), "9 a, 8 b, 7 c, 6 d, 3 others");
        assert_eq!(listed(&[]), "");
    }
}
