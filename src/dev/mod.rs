//! Subcommands for development: an API server, simulated nodes and the manager in one process, or
//! parts of them.

mod account_key;
mod apiserver;
mod block;
mod display;
mod embedded;
mod join;
mod kubeconfig;
mod nodes;
mod outcome;
mod parent;
mod playground;
mod progress;
mod row;
mod served;
mod settled;
mod signing;

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;
use steersman_runtime::panics;
use tracing_subscriber::fmt::MakeWriter;

use steersman_options::duration::{GoDuration, ParseDurationError};

use crate::limits;
use crate::logs::{self, LogFormat};

/// Runs a subcommand with its arguments.
pub(crate) type Run = fn(Vec<String>) -> ExitCode;

/// Name, summary and function of each subcommand.
pub(crate) const SUBCOMMANDS: [(&str, &str, Run); 3] = [
    (
        "apiserver",
        "Starts an API server with simulated nodes and the controllers, for tests in any language.",
        apiserver::run,
    ),
    (
        "dev",
        "Starts an API server, simulated nodes and the controllers in this process, to try things on.",
        playground::run,
    ),
    ("nodes", "Adds simulated nodes to any cluster.", nodes::run),
];

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

/// Runs `work` to its end. Without `-v`, the log shows warnings and errors only.
fn finish<E: Display>(verbosity: i64, work: impl Future<Output = Result<(), E>>) -> ExitCode {
    finish_with(verbosity, std::io::stderr, work)
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
    match tokio::runtime::Runtime::new() {
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
