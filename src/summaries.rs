//! Names and summaries of the subcommands that every build has, for the help text and manual pages.

use crate::{check, shadow, ui, why};

pub(crate) const HELP: (&str, &str) = (
    "help",
    "Shows the help of the manager, or of the command that follows.",
);
pub(crate) const VERSION: (&str, &str) = (
    "version",
    "Shows the versions of Steersman and of the Kubernetes that it is equal to.",
);

/// All of them, sorted by name.
pub(crate) const OF_EVERY_BUILD: [(&str, &str); 6] = [
    ("check", check::ABOUT),
    HELP,
    ("shadow", shadow::ABOUT),
    ("ui", ui::command::ABOUT),
    VERSION,
    ("why", why::ABOUT),
];
