//! The registry of metrics.
//!
//! Each module has its own struct of metric handles, made by `register(&Registry)`, with
//! upstream's metric names. Metrics are not global, so tests can run side by side.

pub use prometheus::Registry;
