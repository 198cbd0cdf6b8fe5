//! Tests of the node IPAM controller: upstream's computed cases, and whole syncs against the
//! in-memory API server.

mod computed;
mod ported;
mod stories;
