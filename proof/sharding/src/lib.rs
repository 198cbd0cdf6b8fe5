//! A model of replicas that share the work by namespace, and a search through all of its states.
//!
//! `docs/decisions/0017-ranges-of-namespaces.md` describes the protocol. No part of it is in the manager. The
//! model is pure code of the standard library: a [`State`] and an [`Action`] give the next state.
//!
//! - [`ranges`] cuts the hashes of namespaces into ranges.
//! - [`World`] has the sizes, the durations and the rules of one search.
//! - [`State`] has the records of Leases, and what each process knows, holds and has sent.
//! - [`step`] lists the actions of a state, and applies one of them.
//! - [`search`] visits every state, and finds the shortest way to a violation.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod action;
pub mod ranges;
pub mod search;
pub mod state;
pub mod step;
#[cfg(test)]
mod tests;
pub mod world;

pub use action::Action;
pub use search::{Counterexample, Explored, explore};
pub use state::State;
pub use world::World;
