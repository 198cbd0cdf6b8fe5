//! A Kubernetes API server in memory with simulated nodes, to try Steersman and to run tests.
//!
//! [`DevCluster`] is the entry point. `docs/devcluster.md` describes the differences from upstream.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod transcript;

mod cluster;

pub use cluster::{Builder, DevCluster, Snapshot, StartError, manifests};
pub use steersman_apiserver::{
    Admission, InProcess, auth, faults, https, requests, rest, status, store, tables,
};
pub use steersman_conformance as conformance;
pub use steersman_nodes as nodes;
