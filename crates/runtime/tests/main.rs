//! The machinery against the embedded API server under injected faults.

#![allow(
    clippy::unwrap_used,
    reason = "a failed `unwrap` shows the place in the test"
)]

mod candidate;
mod election;
mod informer;
