//! A Kubernetes API server in memory with simulated nodes, to try Steersman and to run tests.
//!
//! [`DevCluster`] is the entry point. `docs/devcluster.md` describes the differences from upstream.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod auth;
pub mod conformance;
mod custom;
pub mod defaults;
pub mod faults;
pub mod fielderror;
mod fields;
pub mod https;
pub mod kinds;
pub mod manifests;
pub mod nodes;
mod openapi;
pub mod patch;
pub mod requests;
pub mod rest;
pub mod schema;
pub mod selectors;
pub mod status;
pub mod store;
pub mod tables;
pub mod transcript;
pub mod validate;

mod admission;
mod builder;
mod cluster;
mod expiry;
mod random;
mod running;
mod snapshot;

pub use admission::Admission;
pub use builder::{Builder, StartError};
pub use cluster::DevCluster;
pub use snapshot::Snapshot;
