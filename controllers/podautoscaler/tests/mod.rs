//! Tests of whole syncs, and of all computed and ported cases.

mod bad_input;
mod computed;
mod fake;
mod ported;
mod sizes;
mod stories;
