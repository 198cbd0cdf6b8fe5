//! The differences between the releases of kube-controller-manager that Steersman can equal.
//!
//! This crate is data, and questions about it. `Release` -> gates, their effects, controllers.
//! [`follow`] chooses the release from the versions of the API servers. docs/releases.md shows the
//! tables.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod controllers;
mod effects;
pub mod follow;
mod gates;
mod release;

pub use controllers::{ADDED, GATED, gates_of};
pub use effects::{Effect, READ, effect};
pub use gates::{Gate, Spec, Stage};
pub use release::Release;
