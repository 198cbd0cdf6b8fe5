//! Tests of whole syncs, and of all computed and recorded cases.

mod bad_input;
mod computed;
mod fake;
mod single_syncs;
mod sizes;
mod stories;
