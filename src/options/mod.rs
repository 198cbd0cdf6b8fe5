//! The command line: its syntax and its help. The flags themselves are those of [`steersman_options`].

mod help;
mod parse;

pub use help::{help, usage};
pub use parse::{Command, parse};
pub(crate) use steersman_options::go_bool;
pub use steersman_options::{Options, UsageError, Value};
