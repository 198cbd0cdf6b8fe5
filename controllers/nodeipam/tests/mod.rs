//! Tests of the node IPAM controller: upstream's computed cases, and whole syncs against the
//! in-memory API server.

mod allocations;
mod computed;
mod stories;
