//! `steersman completion`: the script that completes commands and flags in a shell.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use super::manual;
use crate::command::print;

/// Prints the completion script of a shell.
///
/// In a running bash: source <(steersman completion bash). Packages put the script into the folder of
/// the shell, such as /usr/share/bash-completion/completions.
#[derive(Debug, Parser)]
#[command(
    name = "steersman completion",
    bin_name = "steersman completion",
    disable_version_flag = true
)]
struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The arguments of the subcommand.
pub(super) fn arguments() -> clap::Command {
    CompletionArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let args: CompletionArgs = match super::parse("completion", arguments) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut manual::program(), "steersman", &mut script);
    print(&String::from_utf8_lossy(&script))
}
