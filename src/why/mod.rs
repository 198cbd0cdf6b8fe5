//! `why`: the manager says why an object does not move.
//!
//! command | debug page -> question -> explanations of the controllers -> report
//!
//! The debug page answers in the leader, with its queues. The command asks the leader, and without
//! one it answers from API objects by the same explanations.

pub(crate) mod command;
mod inside;
mod page;

/// The summary of the command, in the help of the program.
pub(crate) const ABOUT: &str =
    "Says why an object does not move: kubectl-why KIND/NAME, or all that stands still.";

pub(crate) use inside::ManagerInside;
pub(crate) use page::{Why, answer};
