//! Fault injection for controllers: repeats a scenario under crashes, stale views, lost events and
//! faulty answers, and expects the same final state each time.
//!
//! scenario -> reference run -> plans (one per write, request and event) -> one run per plan ->
//! oracles -> table
//!
//! A controller adds a [`Scenario`]: its controllers, the actions of a user, and the [`Rule`]s
//! that hold after every change. The faults are derived from the reference run, so no list of them
//! needs care. Each [`Plan`] injects one fault at one point, and has a name that replays it. Every
//! run has its own cluster, runtime and paused clock, so hours pass in milliseconds.
//!
//! `docs/reliability.md` describes faults, rules and results.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod history;
mod logs;
mod manager;
mod mask;
mod oracle;
mod pace;
mod plan;
mod recording;
mod run;
mod scenario;
mod subject;
mod suite;

pub mod rules;

pub use arguments::Harness;
pub use history::{Change, ChangeKind, History, State, before_the_latest, key_of};
pub use manager::{AGENT, InProcess, Manager};
pub use mask::{Masked, difference, masked};
pub use oracle::{broken_in_the_end, broken_rules, two_leaders};
pub use plan::{Plan, Point};
pub use recording::Recording;
pub use run::{Outcome, record, run};
pub use scenario::{AllowedError, Churn, EVENT_SENDER, FinalRule, Rule, Scenario, Step};
pub use subject::Subject;
pub use suite::{in_parallel, main, write_between_marks};
