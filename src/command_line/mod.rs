//! The command line. [`steersman_options`] has the table of flags and their values; this module has
//! the syntax.

mod parse;

pub use parse::{Command, parse};
pub(crate) use steersman_options::go_bool;
pub use steersman_options::{Options, UsageError, Value};
