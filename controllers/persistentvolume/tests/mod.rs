//! Tests of whole syncs, and of all computed and ported cases.

mod computed;
mod counts;
mod fake;
mod flags;
mod ported;
mod stories;
