//! Perturbs controllers: tells the same story under crashes, stale views, lost events and faulty
//! answers, and expects the same end.
//!
//! scenario -> reference run -> plans, from what it wrote, asked and saw -> one run per plan ->
//! oracles -> table
//!
//! A controller enters with a [`Scenario`]: which controllers run, what a user does, and which
//! [`Rule`]s hold at every instant. What can go wrong is derived from the reference run, not
//! written down: each [`Plan`] breaks one thing at one point, and has a name that replays it. Every
//! run has a cluster, a runtime and a paused clock of its own, so that hours pass in milliseconds.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod film;
mod logs;
mod manager;
mod mask;
mod oracle;
mod plan;
mod recording;
mod run;
mod scenario;
mod suite;

pub mod rules;

pub use film::{Frame, Happened, State, key_of};
pub use manager::Manager;
pub use plan::{Plan, Point};
pub use recording::Recording;
pub use run::{Outcome, record, run};
pub use scenario::{Churn, Rule, Scenario, Step};
pub use suite::main;
