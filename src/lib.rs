//! Steersman, the Kubernetes controller manager, as a library.
//!
//! Tests start whole managers in-process, and other programs run it with additional controllers
//! (`examples/custom_controller.rs`).
//!
//! arguments -> [`options`] -> [`config`] -> [`manager`]: serve, elect, build controllers, run
//! them, stop in reverse order
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[macro_use]
mod printing;

mod access;
mod api;
mod beside;
mod cardinality;
mod check;
mod command;
pub mod command_line;
pub mod config;
mod configz;
#[cfg(feature = "dev")]
pub mod dev;
mod error;
mod exposition;
mod features;
mod follow;
#[doc(hidden)]
pub mod fuzzing;
pub mod health;
mod heap;
mod help;
mod leader;
mod limits;
pub mod logs;
pub mod manager;
mod metrics;
pub mod registry;
pub mod server;
mod service_accounts;
mod shadow;
mod signals;
mod spans;
mod stall;
mod subcommands;
mod summaries;
mod tls;
mod ui;
pub mod version;
mod why;
mod write_gates;
pub mod zpages;

pub use api::{Connection, Delegate};
pub use command::run;
pub use command_line::Options;
pub use config::Config;
pub use manager::{Manager, RunError};
pub use registry::ControllerRegistry;
pub use subcommands::{main, main_as};
