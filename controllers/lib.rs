//! The controllers of Steersman, one folder each, and the table that names them all.

// Tables of cases are arrays of tuples.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod deployment;
pub mod garbagecollector;
pub mod namespace;
pub mod podgc;
pub mod replicaset;
pub mod replicationcontroller;
#[cfg(test)]
mod testing;
pub mod ttl;

use steersman_runtime::controller::Descriptor;

/// Every controller, in alphabetical order. Help, `--controllers`, health checks and the README
/// table come from this.
pub const ALL: &[Descriptor] = &[
    deployment::DESCRIPTOR,
    garbagecollector::DESCRIPTOR,
    namespace::DESCRIPTOR,
    podgc::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
    ttl::DESCRIPTOR,
];
