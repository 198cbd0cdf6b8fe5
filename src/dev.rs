//! `steersman dev`: an API server, simulated nodes and the manager in one process.

use std::process::ExitCode;

/// Runs the subcommand with what follows `dev` on the command line.
pub fn run(_arguments: Vec<String>) -> ExitCode {
    eprintln!("Error: steersman dev is not there yet");
    ExitCode::FAILURE
}
