//! The differences between the releases of Kubernetes that Steersman can equal.
//!
//! This crate is data, and questions about it. `Release` -> gates, their effects and sources, controllers, served
//! resources, flags, fields of `/configz`, families of metrics, other behaviour. [`follow`] chooses the release from the
//! versions of the API servers, and a user names one in the form that [`FromStr`](std::str::FromStr) reads.
//! docs/releases.md shows the tables.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod behaviours;
mod configz;
mod controllers;
mod effects;
mod families;
mod flags;
pub mod follow;
mod gates;
mod named;
mod release;
mod resources;
mod sources;

pub use behaviours::{BEHAVIOURS, Behaviour};
pub use configz::CONFIGZ;
pub use controllers::{ADDED, GATED, gates_of};
pub use effects::{Effect, READ, effect};
pub use families::{FAMILIES, FamilySpan};
pub use flags::{FLAGS, FlagSpan};
pub use gates::{Gate, Spec, Stage};
pub use named::UnknownRelease;
pub use release::Release;
pub use resources::SERVED_SINCE;
pub use sources::source;
