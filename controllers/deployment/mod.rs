//! Rolls out templates: each Deployment gets a ReplicaSet per template, and its pods move from the old ones to the new one.
//!
//! events -> handlers -> queue of keys -> sync -> (revision, scaling, rolling, recreate, cleanup, status, progress) -> writes
//!
//! What users may rely on: a rolling update never has more pods than surge allows, nor takes an available one away while fewer
//! than the wanted number less the unavailable ones would be left; nothing is decided on a cache older than this process's own
//! writes for the same Deployment; a Deployment at rest costs not one write.
//!
//! Upstream: `pkg/controller/deployment`. Differences:
//!
//! * An object that was written is carried on as the server returned it, where upstream goes on with its old copy and meets a
//!   conflict of its own making.
//! * Old ReplicaSets are deleted only as they were seen (UID and version are preconditions).
//! * A failed resize of an old ReplicaSet is retried; upstream waits for another event.
//! * A scaling event that asks for no change does not hold up a rollout (upstream: one ReplicaSet of the right size with a stale
//!   `desired-replicas` does, for ever).
//! * The last pod of a Recreate Deployment is found in the cache, and a missed deadline is awaited without polling.

mod annotations;
mod cleanup;
mod conditions;
mod document;
mod limits;
mod new_replica_set;
mod pause;
mod progress;
mod recreate;
mod replica_sets;
mod resize;
mod revision;
mod rollback;
mod rolling;
mod scaling;
mod status;
