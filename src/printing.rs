//! Output to the terminal that ignores a closed pipe (`--help | head`), where the macros of the
//! standard library panic.

use std::fmt::Arguments;
use std::io::Write;

/// As `println!`.
macro_rules! say {
    () => { say!("") };
    ($($part:tt)*) => { $crate::printing::to_stdout(format_args!($($part)*)) };
}

/// As `eprintln!`.
macro_rules! complain {
    ($($part:tt)*) => { $crate::printing::to_stderr(format_args!($($part)*)) };
}

pub(crate) fn to_stdout(line: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn to_stderr(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
