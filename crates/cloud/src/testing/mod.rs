//! Support for tests: a provider that keeps its cloud in memory, and a cluster on paused time.

pub(crate) mod cloud;
pub(crate) mod world;
