//! The suite: runs all scenarios under their plans, on several threads, and prints a table of
//! results.
//!
//! A run counts only if its fault happened. The suite fails if many runs do not count.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use parking_lot::Mutex;

use crate::arguments::Arguments;
use crate::plan::Plan;
use crate::recording::Recording;
use crate::run::{Outcome, record, run};
use crate::scenario::Scenario;
use crate::subject::Subject;

/// Most violations that are printed for one run.
const SHOWN: usize = 5;

/// Runs the plans that the command line selects. `known` are plans that once found a bug, as
/// scenario and plan; they run each time, beside the sample.
pub fn main(scenarios: &'static [Scenario], known: &[(&str, &str)]) -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.scenarios {
        scenarios
            .iter()
            .for_each(|scenario| println!("{}", scenario.id()));
        return ExitCode::SUCCESS;
    }
    if let Some((scenario, plan)) = arguments.replay() {
        return replay(scenarios, scenario, plan, &arguments);
    }
    let begun = Instant::now();
    let subject = arguments.subject();
    let chosen = scenarios
        .iter()
        .filter(|scenario| arguments.selects(scenario) && suits(scenario, &subject, &arguments))
        .collect::<Vec<_>>();
    let recorded = in_parallel(&chosen, arguments.threads, |scenario| {
        (*scenario, record(scenario, arguments.seed, &subject))
    });
    let mut jobs = Vec::new();
    let mut table = Table {
        seed: arguments.seed,
        ..Table::default()
    };
    for (scenario, recording) in &recorded {
        match recording {
            Ok(recording) => {
                let seed = seed_of(&scenario.id(), arguments.seed);
                let all = Plan::derived(recording, seed);
                table.row(scenario).derived += all.len();
                let again = known.iter().filter(|(of, _)| *of == scenario.id());
                let again = again.map(|(_, plan)| {
                    plan.parse::<Plan>()
                        .unwrap_or_else(|error| panic!("{error}"))
                });
                let matches = |plan: &Plan| {
                    plan.to_string().contains(&arguments.matching)
                        && (!subject.is_program() || plan.suits_a_program())
                };
                let matching = all.into_iter().filter(matches).collect();
                let plans = Plan::sample(matching, arguments.plans(), seed);
                jobs.extend(plans.into_iter().map(|plan| Job {
                    scenario,
                    recording,
                    plan,
                    known: false,
                }));
                jobs.extend(again.filter(matches).map(|plan| Job {
                    scenario,
                    recording,
                    plan,
                    known: true,
                }));
            }
            Err(violations) => {
                let failed = Outcome {
                    violations: violations.clone(),
                    ..Outcome::default()
                };
                table.add(scenario, &Plan::Nothing, &failed);
            }
        }
    }
    let outcomes = in_parallel(&jobs, arguments.threads, Job::run);
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        table.add(job.scenario, &job.plan, outcome);
    }
    let text = table.text(begun.elapsed());
    print!("{text}");
    // The order of a program's requests varies in real time, so more points are without their request.
    if let Err(error) = table.check_faults_met()
        && !subject.is_program()
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if let Some(path) = arguments.write()
        && let Err(error) = write_between_marks(&path, &text)
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if table.failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether the waits of the scenario are short enough for a program, in real time. A reference run of the
/// controllers of this project tells them.
fn suits(scenario: &'static Scenario, subject: &Subject, arguments: &Arguments) -> bool {
    if !subject.is_program() {
        return true;
    }
    let longest = Duration::from_secs(arguments.longest);
    match record(scenario, arguments.seed, &Subject::InProcess) {
        Ok(recording) if recording.reached.last() <= Some(&longest) => true,
        Ok(_) => {
            eprintln!(
                "{}: left out, its waits are longer than {} s",
                scenario.id(),
                longest.as_secs()
            );
            false
        }
        Err(violations) => {
            eprintln!("{}: left out, {}", scenario.id(), violations.join("; "));
            false
        }
    }
}

/// One run to do.
struct Job<'a> {
    scenario: &'static Scenario,
    recording: &'a Recording,
    plan: Plan,
    /// Whether the plan is a known one or a replay: its fault must happen.
    known: bool,
}

impl Job<'_> {
    fn run(&self) -> Outcome {
        let mut outcome = run(self.scenario, &self.plan, self.recording);
        let is_program = self.recording.subject.is_program();
        if self.known && !is_program {
            outcome.must_be_met();
        }
        // Such a run takes long, and the table comes at the end.
        if is_program && !outcome.violations.is_empty() {
            eprintln!(
                "{} {}: {}",
                self.scenario.id(),
                self.plan,
                outcome.violations.join("\n    ")
            );
        }
        outcome
    }
}

fn replay(scenarios: &'static [Scenario], id: &str, plan: &str, arguments: &Arguments) -> ExitCode {
    let times = arguments.times;
    let Some(scenario) = scenarios.iter().find(|scenario| scenario.id() == id) else {
        eprintln!("there is no scenario {id:?}; --scenarios lists all");
        return ExitCode::FAILURE;
    };
    let (plan, recording) = match (
        plan.parse::<Plan>(),
        record(scenario, arguments.seed, &arguments.subject()),
    ) {
        (Ok(plan), Ok(recording)) => (plan, recording),
        (Err(error), _) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        (_, Err(violations)) => {
            eprintln!(
                "the scenario fails without faults:\n{}",
                violations.join("\n")
            );
            return ExitCode::FAILURE;
        }
    };
    let job = Job {
        scenario,
        recording: &recording,
        plan,
        known: true,
    };
    let outcomes: Vec<Outcome> = (0..times).map(|_| job.run()).collect();
    let failed: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| !outcome.violations.is_empty())
        .collect();
    let hit: BTreeSet<String> = outcomes
        .iter()
        .map(|outcome| outcome.hit.join(", then "))
        .collect();
    for outcome in failed.iter().take(3) {
        println!("{}", outcome.violations.join("\n"));
    }
    hit.iter()
        .for_each(|hit| println!("{id} {} hit {hit}", job.plan));
    println!("{id} {}: {} of {times} runs failed", job.plan, failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs `work` for each job on several threads. Returns the results in the order of `jobs`.
///
/// # Panics
/// If `work` panics.
pub fn in_parallel<J: Sync, T: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> T + Sync,
) -> Vec<T> {
    let queue: Mutex<VecDeque<(usize, &J)>> = Mutex::new(jobs.iter().enumerate().collect());
    let next = || queue.lock().pop_front();
    let mut answers: Vec<(usize, T)> = std::thread::scope(|scope| {
        let run = || {
            std::iter::from_fn(next)
                .map(|(at, job)| (at, work(job)))
                .collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("runs catch their panics"))
            .collect()
    });
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A seed for each scenario, so that scenarios get different samples.
fn seed_of(scenario: &str, seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (scenario, seed).hash(&mut hasher);
    hasher.finish()
}

/// Results of the runs, by controller.
#[derive(Default)]
struct Table {
    seed: u64,
    rows: Vec<Row>,
    failures: usize,
    /// For each failure, the command that repeats it, the fault and the violations.
    reports: String,
}

#[derive(Default)]
struct Row {
    controller: &'static str,
    scenarios: Vec<&'static str>,
    derived: usize,
    plans: usize,
    met: usize,
    /// Runs with two crashes.
    twice: usize,
    /// Runs with two crashes in which only one crash happened, or none.
    twice_unmet: usize,
    /// Other runs in which the fault did not happen.
    unmet: Vec<String>,
    violations: usize,
    virtual_time: Duration,
    real_time: Duration,
}

impl Table {
    fn row(&mut self, scenario: &Scenario) -> &mut Row {
        let at = self
            .rows
            .iter()
            .position(|row| row.controller == scenario.controller)
            .unwrap_or_else(|| {
                self.rows.push(Row {
                    controller: scenario.controller,
                    ..Row::default()
                });
                self.rows.len() - 1
            });
        let row = &mut self.rows[at];
        if !row.scenarios.contains(&scenario.name) {
            row.scenarios.push(scenario.name);
        }
        row
    }

    fn add(&mut self, scenario: &Scenario, plan: &Plan, outcome: &Outcome) {
        let failed = !outcome.violations.is_empty();
        let row = self.row(scenario);
        row.plans += 1;
        match plan {
            Plan::Crash(points) if points.len() > 1 => {
                row.twice += 1;
                row.twice_unmet += usize::from(!outcome.met);
            }
            _ if !outcome.met => row.unmet.push(format!("{} {plan}", scenario.name)),
            _ => {}
        }
        row.met += usize::from(outcome.met);
        row.violations += usize::from(failed);
        row.virtual_time += outcome.virtual_time;
        row.real_time += outcome.real_time;
        if failed {
            self.failures += 1;
            let id = scenario.id();
            let seed = if self.seed == 0 {
                String::new()
            } else {
                format!(" --seed {}", self.seed)
            };
            let _ = writeln!(
                self.reports,
                "\ncargo test -p steersman-perturb --test suite -- --replay {id} '{plan}'{seed}"
            );
            let _ = writeln!(self.reports, "    hit {}", outcome.hit.join(", then "));
            for violation in outcome.violations.iter().take(SHOWN) {
                let _ = writeln!(self.reports, "    {violation}");
            }
        }
    }

    /// Fails if too many runs were without their fault. One in a hundred is allowed, because with
    /// another order of tasks a run may have one write fewer. A quarter of the second crashes may
    /// be missing: their point is random, and no write may be left.
    fn check_faults_met(&self) -> Result<(), String> {
        let sum = |of: fn(&Row) -> usize| self.rows.iter().map(of).sum::<usize>();
        let plans = sum(|row| row.plans);
        let met = sum(|row| row.met);
        let twice = sum(|row| row.twice);
        let twice_unmet = sum(|row| row.twice_unmet);
        let unmet = sum(|row| row.unmet.len());
        if plans == 0 {
            return Err(
                "no scenario or plan matches the selection; --scenarios lists all".to_owned(),
            );
        }
        if met > 0 && unmet <= (plans / 100).max(1) && twice_unmet <= twice.div_ceil(4) {
            return Ok(());
        }
        let which = self.rows.iter().flat_map(|row| {
            row.unmet
                .iter()
                .map(|plan| format!("\n    {}/{plan}", row.controller))
        });
        let which: String = which.take(SHOWN * 4).collect();
        let unmet = unmet + twice_unmet;
        Err(format!(
            "{unmet} of {plans} runs were without their fault, or with only the first of two crashes:{which}"
        ))
    }

    fn text(&self, wall: Duration) -> String {
        let mut text = String::from(
            "| controller | scenarios | plans known | plans run | fault met | violations | virtual hours | real seconds |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        let mut total = Row {
            controller: "all",
            ..Row::default()
        };
        let mut line = |row: &Row, scenarios: usize| {
            let hours = row.virtual_time.as_secs_f64() / 3600.0;
            let seconds = row.real_time.as_secs_f64();
            let _ = writeln!(
                text,
                "| {} | {scenarios} | {} | {} | {} | {} | {hours:.0} | {seconds:.0} |",
                row.controller, row.derived, row.plans, row.met, row.violations
            );
        };
        let mut scenarios = 0;
        for row in &self.rows {
            line(row, row.scenarios.len());
            scenarios += row.scenarios.len();
            total.derived += row.derived;
            total.plans += row.plans;
            total.met += row.met;
            total.violations += row.violations;
            total.virtual_time += row.virtual_time;
            total.real_time += row.real_time;
        }
        line(&total, scenarios);
        let _ = writeln!(
            text,
            "\n{:.0} s in all; drawn with `--seed {}`.",
            wall.as_secs_f64(),
            self.seed
        );
        text + &self.reports
    }
}

/// Replaces the text between the marks of a document.
///
/// # Errors
/// If the document cannot be read or written, or has no marks.
pub fn write_between_marks(path: &Path, text: &str) -> std::io::Result<()> {
    const MARKS: (&str, &str) = ("<!-- table: written by the suite -->", "<!-- end -->");
    let document = std::fs::read_to_string(path)?;
    let parts = document
        .split_once(MARKS.0)
        .and_then(|(before, rest)| Some((before, rest.split_once(MARKS.1)?.1)));
    let Some((before, after)) = parts else {
        return Err(std::io::Error::other(format!(
            "no marks {} and {}; add them where the table belongs",
            MARKS.0, MARKS.1
        )));
    };
    std::fs::write(
        path,
        format!(
            "{before}{}\n\n{}\n{}{after}",
            MARKS.0,
            text.trim_end(),
            MARKS.1
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_fails_if_many_runs_are_without_their_fault() {
        // (why, plans, unmet, plans with two crashes, unmet of those, passes)
        let cases = [
            ("no runs", 0, 0, 0, 0, false),
            ("the only one", 1, 1, 0, 0, false),
            ("one of a few", 8, 1, 0, 0, true),
            ("two of a few", 8, 2, 0, 0, false),
            ("one in a hundred", 400, 4, 0, 0, true),
            ("more than one in a hundred", 400, 5, 0, 0, false),
            ("a quarter of second crashes", 400, 4, 40, 10, true),
            (
                "more than a quarter of second crashes",
                400,
                0,
                40,
                11,
                false,
            ),
        ];
        for (why, plans, unmet, twice, twice_unmet, passes) in cases {
            let row = Row {
                plans,
                met: plans - unmet - twice_unmet,
                twice,
                twice_unmet,
                unmet: vec![String::new(); unmet],
                ..Row::default()
            };
            let table = Table {
                rows: vec![row],
                ..Table::default()
            };
            assert_eq!(table.check_faults_met().is_ok(), passes, "{why}");
        }
    }

    #[test]
    fn results_have_the_order_of_the_jobs() {
        let jobs: Vec<usize> = (0..100).collect();
        assert_eq!(
            in_parallel(&jobs, 3, |n| n * 2),
            (0..100).map(|n| n * 2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let path = std::env::temp_dir().join(format!("marks-{}", std::process::id()));
        std::fs::write(
            &path,
            "a\n<!-- table: written by the suite -->\nold\n<!-- end -->\nb\n",
        )
        .unwrap();
        write_between_marks(&path, "new\n").unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "nothing").unwrap();
        let without_marks = write_between_marks(&path, "new");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            written,
            "a\n<!-- table: written by the suite -->\n\nnew\n<!-- end -->\nb\n"
        );
        assert!(without_marks.is_err());
    }
}
