//! A Kubernetes API server in memory, with simulated nodes: for trying Steersman, and for testing
//! against it.
//!
//! [`DevCluster::builder`] -> server (`steersman-apiserver`) -> objects -> nodes
//! (`steersman-nodes`) -> controllers -> programs of the user
//!
//! This crate connects the parts and owns their tasks: dropping or stopping a [`DevCluster`] ends
//! all of them. The names that tests of controllers need are exported here, so that such a test
//! depends on one crate. Upstream's counterparts are `test/integration/framework` and
//! controller-runtime's `envtest`, which start binaries.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bootstrap;
pub mod cloud;
pub mod definitions;
pub mod transcript;

mod cluster;

pub use cluster::{Builder, DevCluster, Skipped, Snapshot, StartError, manifests};
pub use steersman_apiserver::{
    Admission, COMPACTION_INTERVAL, InProcess, auth, faults, https, requests, rest, status, store,
    tables,
};
pub use steersman_nodes as nodes;
pub use steersman_releases::Release;
