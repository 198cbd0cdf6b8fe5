//! Creations and deletions of pods that the cache does not show yet.
//!
//! Three layers keep a sync from repeating them. Own writes hold a sync back until the cache has
//! reached the versions that those writes produced. Expectations count what is in flight. Where
//! neither can tell, since no answer came or five minutes passed, the owner is in doubt until its
//! pods were read from the API server.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::client::ApiError;
use crate::expectations::Expectations;
use crate::object::ObjectKey;
use crate::own_writes::Memory;

/// The pods in flight of all owners of one kind.
#[derive(Debug, Default)]
pub struct PodsInFlight {
    pub(super) expectations: Expectations,
    unanswered: Mutex<HashSet<ObjectKey>>,
}

impl Memory for PodsInFlight {
    fn forget(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.unanswered().remove(owner);
    }

    /// Owners with expectations read their pods before the next write.
    fn history_went_back(&self) {
        self.expectations
            .forget_all()
            .iter()
            .for_each(|owner| self.doubt(owner));
    }
}

impl PodsInFlight {
    /// Notes that a write for `owner` failed. Some failures leave open whether the server did it.
    pub(super) fn failed(&self, owner: &ObjectKey, error: &ApiError) {
        let open = match error {
            ApiError::Transport { .. } | ApiError::Timeout { .. } | ApiError::Decode { .. } => true,
            ApiError::Status { code, .. } => *code >= 500,
            ApiError::Fenced { .. } => false,
        };
        if open {
            self.doubt(owner);
        }
    }

    /// The pods of `owner` in the cache have to be confirmed before the next write.
    pub(super) fn doubt(&self, owner: &ObjectKey) {
        self.unanswered().insert(owner.clone());
    }

    /// Whether the cache may lack a write for `owner` whose version is unknown.
    pub(super) fn is_in_doubt(&self, owner: &ObjectKey) -> bool {
        self.expectations.lost(owner) || self.unanswered().contains(owner)
    }

    /// The pods of `owner` were read from the API server.
    pub(super) fn confirmed(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.unanswered().remove(owner);
    }

    fn unanswered(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
