//! What a controller has asked for and not seen yet: expectations, and the read-your-writes guard.

use std::collections::HashSet;

use crate::object::ObjectKey;

/// Creations and deletions in flight per owner, as upstream's `UIDTrackingControllerExpectations` keeps them. Runs on Tokio's
/// clock; a record older than five minutes counts as satisfied.
#[derive(Debug, Default)]
pub struct Expectations {}

impl Expectations {
    /// Replaces the record of `owner`: `count` creations to come.
    pub fn expect_creations(&self, _owner: &ObjectKey, _count: usize) {
        todo!("helper: queue")
    }

    /// Replaces the record of `owner`: these objects are to go.
    pub fn expect_deletions(&self, _owner: &ObjectKey, _objects: HashSet<ObjectKey>) {
        todo!("helper: queue")
    }

    /// One creation was seen, or will not come.
    pub fn creation_observed(&self, _owner: &ObjectKey) {
        todo!("helper: queue")
    }

    /// This object is going, or will not go. Counts once per object.
    pub fn deletion_observed(&self, _owner: &ObjectKey, _object: &ObjectKey) {
        todo!("helper: queue")
    }

    /// Nothing outstanding, or too old to wait for.
    pub fn satisfied(&self, _owner: &ObjectKey) -> bool {
        todo!("helper: queue")
    }

    /// Drops the record of `owner`.
    pub fn forget(&self, _owner: &ObjectKey) {
        todo!("helper: queue")
    }
}

/// The versions an owner's writes produced, so that it is not synced again on a cache older than they are.
#[derive(Debug, Default)]
pub struct OwnWrites {}

impl OwnWrites {
    /// Notes that a write for `owner` produced `version` in the cache called `resource` (`""` `pods`, `apps` `replicasets`).
    pub fn record(&self, _owner: &ObjectKey, _resource: &'static str, _version: u64) {
        todo!("helper: queue")
    }

    /// The first cache, with the version it must reach, that has not seen the writes of `owner`; `seen` tells how far a cache
    /// is. The record goes when all have caught up.
    pub fn behind(&self, _owner: &ObjectKey, _seen: impl Fn(&'static str) -> u64) -> Option<(&'static str, u64)> {
        todo!("helper: queue")
    }

    /// Drops the record of `owner`.
    pub fn forget(&self, _owner: &ObjectKey) {
        todo!("helper: queue")
    }
}
