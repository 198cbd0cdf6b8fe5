//! A Kubernetes API server in memory, with simulated nodes: for trying Steersman, and for testing against it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod defaults;
pub mod fielderror;
pub mod nodes;
pub mod patch;
pub mod schema;
pub mod tables;
pub mod validate;
