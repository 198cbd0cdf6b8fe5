//! The command line of the suite.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};

use crate::scenario::Scenario;
use crate::subject::Subject;

/// The root of the project; relative paths start there.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Plans per scenario by default, few enough for continuous integration. Each scenario draws other
/// patterns, so that the scenarios of a controller together have most of the eleven.
const SAMPLE: usize = 4;
/// Plans per scenario of a nightly run.
const NIGHTLY: usize = 160;

/// Runs the scenarios of all controllers under injected faults.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "suite")]
pub(crate) struct Arguments {
    /// Plans per scenario.
    #[arg(long, value_name = "NUMBER", default_value_t = SAMPLE, conflicts_with_all = ["nightly", "all"])]
    plans: usize,
    /// 160 plans per scenario, for a nightly run.
    #[arg(long, conflicts_with = "all")]
    nightly: bool,
    /// Every plan.
    #[arg(long)]
    all: bool,
    /// Only plans with this text in their name.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) matching: String,
    /// Number of runs at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = at_least_one)]
    pub(crate) threads: usize,
    /// Seed of the sample of plans, and of each cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write the table into this document; a relative path starts at the root of the project.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["matching", "only"])]
    write: Option<PathBuf>,
    /// Run only this plan of this scenario.
    #[arg(long, num_args = 2, value_names = ["SCENARIO", "PLAN"])]
    replay: Option<Vec<String>>,
    /// Repeat the replay this many times.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = at_least_one, requires = "replay")]
    pub(crate) times: usize,
    /// Run this program instead of the controllers of this project: kube-controller-manager, or one with its
    /// flags. Runs take real time, so 8 threads suit two cores.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "write")]
    manager: Option<PathBuf>,
    /// With `--manager`: leave scenarios out that wait longer than this on the clock of the cluster.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        requires = "manager"
    )]
    pub(crate) longest: u64,
    /// List the scenarios.
    #[arg(long)]
    pub(crate) scenarios: bool,
    /// Only scenarios with one of these texts in their name.
    pub(crate) only: Vec<String>,
    #[command(flatten)]
    harness: Harness,
}

/// Options of Rust's own test harness. `cargo test` passes them to every test program; the suite
/// accepts and ignores them.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Harness {
    #[arg(long, hide = true, alias = "no-capture")]
    nocapture: bool,
    #[arg(long, short, hide = true)]
    quiet: bool,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, hide = true)]
    ignored: bool,
    #[arg(long, hide = true)]
    include_ignored: bool,
    #[arg(long, hide = true)]
    show_output: bool,
    #[arg(long, hide = true)]
    test_threads: Option<usize>,
    #[arg(long, hide = true)]
    skip: Vec<String>,
    #[arg(long, hide = true)]
    format: Option<String>,
    #[arg(long, hide = true)]
    color: Option<String>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

impl Arguments {
    /// The number of plans per scenario.
    pub(crate) fn plans(&self) -> usize {
        match self {
            Self { all: true, .. } => usize::MAX,
            Self { nightly: true, .. } => NIGHTLY,
            Self { plans, .. } => *plans,
        }
    }

    /// The document to write the table into. Its path starts at the root of the project, because
    /// Cargo runs tests in the folder of their crate and not in the user's.
    pub(crate) fn write(&self) -> Option<PathBuf> {
        self.write.as_ref().map(|path| Path::new(ROOT).join(path))
    }

    /// The manager under test.
    pub(crate) fn subject(&self) -> Subject {
        match &self.manager {
            Some(program) => Subject::Program(program.clone()),
            None => Subject::InProcess,
        }
    }

    /// The scenario and the plan to replay.
    pub(crate) fn replay(&self) -> Option<(&str, &str)> {
        match self.replay.as_deref() {
            Some([scenario, plan]) => Some((scenario, plan)),
            _ => None,
        }
    }

    /// Whether the command line selects this scenario.
    pub(crate) fn selects(&self, scenario: &Scenario) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|part| scenario.id().contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("suite").chain(line.split_whitespace()))
    }

    #[test]
    fn options_select_scenarios_and_plans() {
        assert_eq!(parse("roll scale").unwrap().only, ["roll", "scale"]);
        assert_eq!(parse("roll --matching :drop").unwrap().matching, ":drop");
        let plans =
            ["", "--plans 3", "--nightly", "--all"].map(|line| parse(line).unwrap().plans());
        assert_eq!(plans, [SAMPLE, 3, NIGHTLY, usize::MAX]);
        assert_eq!(
            parse("--replay a/b crash:before:1 --times 2")
                .unwrap()
                .replay(),
            Some(("a/b", "crash:before:1"))
        );
        assert_eq!(
            parse("--write docs/a.md").unwrap().write().unwrap(),
            Path::new(ROOT).join("docs/a.md")
        );
    }

    #[test]
    fn options_of_rusts_harness_are_ignored() {
        let plain = parse("").unwrap();
        for line in [
            "--nocapture --test-threads 1 -q",
            "--test-threads=1 --skip this --color never",
            "--exact --include-ignored",
        ] {
            assert_eq!(
                Arguments {
                    harness: plain.harness.clone(),
                    ..parse(line).unwrap()
                },
                plain,
                "{line}"
            );
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        let cases = [
            "--plan 3",
            "--plans many",
            "--plans 3 --all",
            "--threads 0",
            "--times 0",
            "--times 3",
            "--replay a/b",
            "--write table.md --matching :drop",
            "roll --write table.md",
        ];
        for line in cases {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
