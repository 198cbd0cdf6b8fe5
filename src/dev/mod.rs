//! Subcommands for development: an API server, simulated nodes and the manager in one process, or
//! parts of them.

mod account_key;
mod apiserver;
pub(crate) mod assets;
mod block;
mod completion;
mod control;
mod display;
mod document;
mod embedded;
mod join;
mod kubeconfig;
mod manual;
mod missing;
mod nodes;
mod outcome;
mod parent;
mod playground;
mod progress;
mod repeats;
mod row;
mod served;
mod services;
mod settled;
mod signing;
mod simulate;
mod state;

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;
use steersman_runtime::panics;
use tracing_subscriber::fmt::MakeWriter;

use steersman_options::duration::{GoDuration, ParseDurationError};

use crate::limits;
use crate::logs::{self, LogFormat};
use crate::summaries::OF_EVERY_BUILD;

/// Runs a subcommand with its arguments.
pub(crate) type Run = fn(Vec<String>) -> ExitCode;

/// A subcommand of the program.
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// The summary in the help text; empty for a command that only scripts need.
    pub(crate) about: &'static str,
    pub(crate) run: Run,
    /// Its arguments, for completion and manual pages.
    arguments: fn() -> clap::Command,
}

/// The subcommands, sorted by name.
pub(crate) const SUBCOMMANDS: [Subcommand; 6] = [
    Subcommand {
        name: "apiserver",
        about: "Starts an API server with simulated nodes and the controllers, for tests in any language.",
        run: apiserver::run,
        arguments: apiserver::arguments,
    },
    Subcommand {
        name: "assets",
        about: "Makes a folder for KUBEBUILDER_ASSETS, for test frameworks that start kube-apiserver and etcd.",
        run: assets::run,
        arguments: assets::arguments,
    },
    Subcommand {
        name: "completion",
        about: "Prints the completion script of a shell.",
        run: completion::run,
        arguments: completion::arguments,
    },
    Subcommand {
        name: "dev",
        about: "Starts an API server, simulated nodes and the controllers in this process, to try things on.",
        run: playground::run,
        arguments: playground::arguments,
    },
    Subcommand {
        name: "manual",
        about: "",
        run: manual::run,
        arguments: manual::arguments,
    },
    Subcommand {
        name: "nodes",
        about: "Adds simulated nodes to any cluster.",
        run: nodes::run,
        arguments: nodes::arguments,
    },
];

/// Names and summaries of all subcommands in the help text, sorted by name.
pub(crate) fn commands() -> Vec<(&'static str, &'static str)> {
    let listed = SUBCOMMANDS
        .iter()
        .filter(|command| !command.about.is_empty());
    let mut commands: Vec<_> = listed
        .map(|command| (command.name, command.about))
        .collect();
    commands.extend(OF_EVERY_BUILD);
    commands.sort_unstable();
    commands
}

/// Parses the arguments of `steersman <name>`. If they are invalid or ask for help, prints a text
/// and returns the exit code.
fn parse<A: Parser>(name: &str, arguments: Vec<String>) -> Result<A, ExitCode> {
    A::try_parse_from(std::iter::once(format!("steersman {name}")).chain(arguments)).map_err(
        |error| {
            // Fails only if the output is closed.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 1 } else { 0 })
        },
    )
}

/// The threads of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    Many,
}

/// Runs `work` to its end. Without `-v`, the log shows warnings and errors only.
fn finish<E: Display>(verbosity: i64, work: impl Future<Output = Result<(), E>>) -> ExitCode {
    finish_on(Threads::Many, verbosity, work)
}

/// As [`finish`], on so many threads.
fn finish_on<E: Display>(
    threads: Threads,
    verbosity: i64,
    work: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    prepare(verbosity, std::io::stderr);
    block_on(threads, work)
}

/// As [`finish`], with the log written to `writer`.
fn finish_with<E: Display, W>(
    verbosity: i64,
    writer: W,
    work: impl Future<Output = Result<(), E>>,
) -> ExitCode
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    prepare(verbosity, writer);
    block_on(Threads::Many, work)
}

fn prepare<W>(verbosity: i64, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    panics::install_hook();
    logs::init_to(
        writer,
        LogFormat::Text,
        if verbosity == 0 {
            logs::WARNINGS_ONLY
        } else {
            verbosity
        },
        None,
    );
    limits::raise_open_files();
}

fn block_on<E: Display>(threads: Threads, work: impl Future<Output = Result<(), E>>) -> ExitCode {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    match builder.enable_all().build() {
        Ok(runtime) => match runtime.block_on(work) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(error),
        },
        Err(error) => fail(format!("cannot start threads: {error}")),
    }
}

fn fail(error: impl Display) -> ExitCode {
    complain!("Error: {error}");
    ExitCode::FAILURE
}

fn duration(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: ParseDurationError| error.to_string())?;
    if duration < GoDuration::default() {
        Err("must not be negative".to_owned())
    } else {
        Ok(duration)
    }
}
