//! Creations and deletions of pods that the cache does not show yet.
//!
//! Three layers prevent a sync from repeating them:
//!
//! - Own writes delay a sync until the cache has reached the versions of these writes.
//! - Expectations count writes that are in flight.
//! - An owner is in doubt after an unanswered write or an expired expectation. A live list of its
//!   pods clears the doubt.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::ApiError;
use steersman_objects::ObjectKey;

use crate::expectations::Expectations;
use crate::own_writes::{Memory, Outstanding};

/// The pods in flight of all owners of one kind.
#[derive(Debug, Default)]
pub(super) struct PodsInFlight {
    pub(super) expectations: Expectations,
    unanswered: Mutex<HashSet<ObjectKey>>,
}

impl Memory for PodsInFlight {
    fn forget(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.unanswered().remove(owner);
    }

    /// All owners with expectations are in doubt after a rewind.
    fn history_went_back(&self) {
        self.expectations
            .forget_all()
            .iter()
            .for_each(|owner| self.doubt(owner));
    }

    fn outstanding(&self, owner: &ObjectKey) -> Option<Outstanding> {
        self.expectations.outstanding(owner)
    }
}

impl PodsInFlight {
    /// Records that a write for `owner` failed. After some failures, the server may still have done
    /// the write.
    pub(super) fn failed(&self, owner: &ObjectKey, error: &ApiError) {
        if error.may_be_done() {
            self.doubt(owner);
        }
    }

    /// Marks `owner` as in doubt: a live list must confirm its cached pods before the next write.
    pub(super) fn doubt(&self, owner: &ObjectKey) {
        self.unanswered().insert(owner.clone());
    }

    /// True if the cache may lack a write for `owner` of unknown version.
    pub(super) fn is_in_doubt(&self, owner: &ObjectKey) -> bool {
        self.expectations.lost(owner) || self.unanswered().contains(owner)
    }

    /// A live list of the pods of `owner` succeeded. Clears the doubt and the expectations.
    pub(super) fn confirmed(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.unanswered().remove(owner);
    }

    fn unanswered(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.unanswered.lock()
    }
}
