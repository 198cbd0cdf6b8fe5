//! The command line: its syntax. The flags themselves are those of [`steersman_options`].

mod parse;

pub use parse::{Command, parse};
pub(crate) use steersman_options::go_bool;
pub use steersman_options::{Options, UsageError, Value};
