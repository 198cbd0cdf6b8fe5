//! The command: explores the worlds, prints the table, and writes it into a document.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use steersman_perturb::{Harness, write_between_marks};

use crate::search::{Bounds, Report, explore};
use crate::world::World;

/// The root of the project; relative paths start there.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Violations and other findings that a report shows of each world.
const SHOWN: usize = 3;

/// Explores every order of events, answers, crashes and hand-overs in small clusters.
#[derive(Debug, Parser)]
#[command(name = "worlds")]
struct Arguments {
    /// Only worlds with one of these texts in their name.
    only: Vec<String>,
    /// Most actions on one way.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    depth: usize,
    /// Most crashes, hand-overs and lost answers on one way, instead of the world's own number.
    #[arg(long, value_name = "NUMBER")]
    faults: Option<usize>,
    /// No new layer begins after so many states of a world. The default is enough for seconds.
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    states: usize,
    /// Longest time of a world, in minutes.
    #[arg(long, value_name = "NUMBER", default_value_t = 5.0)]
    minutes: f64,
    /// Number of runs at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    threads: usize,
    /// Write the table into this document; a relative path starts at the root of the project.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    _harness: Harness,
}

/// Explores the chosen worlds.
pub fn main(worlds: &'static [World]) -> ExitCode {
    let arguments = Arguments::parse();
    let is_chosen = |world: &&World| {
        let name = world.scenario.id();
        let only = &arguments.only;
        only.is_empty() || only.iter().any(|text| name.contains(text))
    };
    let mut reports = Vec::new();
    for world in worlds.iter().filter(is_chosen) {
        let bounds = Bounds {
            depth: arguments.depth,
            faults: arguments.faults.unwrap_or(world.faults),
            states: arguments.states,
            time: Duration::from_secs_f64(arguments.minutes * 60.0),
            threads: arguments.threads,
        };
        let report = explore(world, &bounds);
        println!("{}", row(&report));
        report
            .violations
            .iter()
            .take(SHOWN)
            .for_each(|text| println!("  violation: {text}"));
        report
            .diverged
            .iter()
            .take(SHOWN)
            .for_each(|text| println!("  not repeated: {text}"));
        reports.push(report);
    }
    let text = table(&reports);
    println!("\n{text}");
    if let Some(path) = &arguments.write
        && let Err(error) = write_between_marks(&Path::new(ROOT).join(path), &text)
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if !reports.is_empty() && reports.iter().all(passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs of a world that may come to another state each time, or one in fifty if that is more.
const NOT_REPEATED: usize = 5;

/// Whether no rule is broken, and almost all runs repeat.
fn passed(report: &Report) -> bool {
    let most = NOT_REPEATED.max(report.transitions / 50);
    report.violations.is_empty() && report.diverged.len() <= most
}

/// The reports as a table in Markdown.
fn table(reports: &[Report]) -> String {
    let mut text = String::from(
        "| world | faults | states | transitions | depth | explored | ends | violations | minutes |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for report in reports {
        // A String cannot fail to be written.
        let _ = writeln!(text, "{}", row(report));
    }
    text
}

fn row(report: &Report) -> String {
    let explored = if report.is_complete {
        "complete".to_owned()
    } else {
        format!("to depth {}", report.complete_depth)
    };
    format!(
        "| {} | {} | {} | {} | {} | {explored} | {} | {} | {:.1} |",
        report.world,
        report.faults,
        report.states,
        report.transitions,
        report.depth,
        report.ends,
        report.violations.len(),
        report.time.as_secs_f64() / 60.0,
    )
}
