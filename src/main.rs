//! The manager as a program.

use std::process::ExitCode;

use steersman::ControllerRegistry;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    #[cfg(feature = "dev")]
    if let Some((name, rest)) = arguments.split_first()
        && let Some(subcommand) = steersman::dev::subcommand(name)
    {
        return subcommand(rest.to_vec());
    }
    steersman::run(arguments, ControllerRegistry::builtin())
}
