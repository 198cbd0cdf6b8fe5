//! The program `steersman`: passes its arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    steersman::main(
        std::env::args_os()
            .skip(1)
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
    )
}
