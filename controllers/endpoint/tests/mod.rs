//! Tests of the Endpoints controller: upstream's computed cases, and whole syncs against the
//! in-memory API server.

mod computed;
mod stories;
