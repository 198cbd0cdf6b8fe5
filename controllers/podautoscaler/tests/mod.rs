//! Tests of whole syncs, and of all computed cases.

mod computed;
mod fake;
mod stories;
