//! What no well-behaved client sends: each request gets upstream's answer, or its connection
//! closed, and changes nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bodies;
mod cases;
mod changes;
mod damage;
mod requests;
#[path = "../support/mod.rs"]
mod support;
