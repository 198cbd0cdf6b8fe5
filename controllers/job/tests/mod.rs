//! Syncs of Jobs against the in-memory API server.

mod gangs;
mod latency;
mod scheduling;
mod single_syncs;
mod stale;
mod stories;
mod takeover;
mod tracked;
