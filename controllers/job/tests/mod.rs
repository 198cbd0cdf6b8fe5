//! Syncs of Jobs against the in-memory API server.

mod latency;
mod ported;
mod stale;
mod stories;
mod takeover;
mod tracked;
