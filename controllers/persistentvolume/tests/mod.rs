//! Tests of whole syncs, and of all computed and recorded cases.

mod computed;
mod counts;
mod fake;
mod flags;
mod single_syncs;
mod stories;
