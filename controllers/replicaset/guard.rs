//! What keeps a sync from repeating writes that the caches do not show yet.
//!
//! Three layers: expectations count creations and deletions in flight; own writes hold a sync back
//! until the caches have reached the versions those writes produced; and where neither can tell (no
//! answer came, or five minutes passed) the owner is in doubt until its pods were read from the API
//! server itself.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steersman_runtime::client::ApiError;
use steersman_runtime::expectations::{Expectations, OwnWrites};
use steersman_runtime::object::ObjectKey;

/// The guards of all owners of one kind.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pub(super) expectations: Expectations,
    pub(super) own_writes: OwnWrites,
    unanswered: Mutex<HashSet<ObjectKey>>,
}

impl Guard {
    /// Nothing is known of `owner` any more: it is gone, or another object has its name.
    pub(super) fn forget(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.own_writes.forget(owner);
        self.unanswered().remove(owner);
    }

    /// The server's history went back: neither versions nor pods that were waited for may ever
    /// come. Who waited reads its pods first.
    pub(super) fn rewound(&self) {
        self.own_writes.forget_all();
        self.expectations
            .forget_all()
            .iter()
            .for_each(|owner| self.doubt(owner));
    }

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

    /// Whatever the caches show of the pods of `owner` is to be checked before the next write.
    pub(super) fn doubt(&self, owner: &ObjectKey) {
        self.unanswered().insert(owner.clone());
    }

    /// Whether the caches may lack a write for `owner` that no guard knows the version of.
    pub(super) fn in_doubt(&self, owner: &ObjectKey) -> bool {
        self.expectations.lost(owner) || self.unanswered().contains(owner)
    }

    /// The pods of `owner` were read from the API server.
    pub(super) fn checked(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
        self.unanswered().remove(owner);
    }

    fn unanswered(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
