//! The program `steersman`: passes its arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    steersman::main_as(&program, arguments.collect())
}
