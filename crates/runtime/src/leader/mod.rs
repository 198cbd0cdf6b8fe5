//! Leader election on a Lease.
//!
//! state.rs decides (record seen, time passed -> next request, lead, give up); elector.rs does the IO; gate.rs closes all writes
//! before another process may lead.
