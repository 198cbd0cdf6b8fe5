//! The manager as a program.

use std::process::ExitCode;

use steersman::ControllerRegistry;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    #[cfg(feature = "dev")]
    if let Some(("dev", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return steersman::dev::run(rest.to_vec());
    }
    steersman::run(arguments, ControllerRegistry::builtin())
}
