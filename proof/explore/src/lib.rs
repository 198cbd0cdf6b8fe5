//! Explores small clusters completely: every order of events, answers, crashes and hand-overs, up to
//! stated bounds.
//!
//! [`World`] -> [`search`] (layers of states) -> [`run`] (replays the way to a state, then one more
//! action) -> [`canonical`] (one number per state) -> rules -> table
//!
//! A manager in this process holds tasks and caches, which no copy can fork. So a state is the list
//! of actions that leads to it: each run starts from a fork of one cluster, repeats the list under a
//! paused clock, and adds one action. [`wire`] holds every request, answer and watch event until its
//! action comes. Two lists that lead to the same canonical state are explored once.
//!
//! `docs/exploration.md` describes actions, states, bounds and results.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod action;
mod canonical;
mod graph;
mod run;
mod search;
mod suite;
mod target;
mod wire;
mod world;

pub use search::{Bounds, Report, explore};
pub use suite::main;
pub use world::{Act, Call, World, kubelets, path_of_pod, running};
