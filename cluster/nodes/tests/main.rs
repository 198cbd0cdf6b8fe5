//! Simulated nodes: the lives of their pods, and the scheduler.

#![allow(
    clippy::unwrap_used,
    reason = "a failed `unwrap` shows the place in the test"
)]

mod lives;
mod scheduling;
