//! A Kubernetes API server in memory, with simulated nodes: for trying Steersman, and for testing against it.

pub mod defaults;
pub mod fielderror;
pub mod patch;
pub mod tables;
pub mod validate;
