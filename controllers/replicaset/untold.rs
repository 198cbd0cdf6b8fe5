//! Owners whose last sync left out the status, because it differed by `observedGeneration` only.
//!
//! Pods that vanish as fast as they are created keep the counts equal. So of two syncs in a row at
//! most one leaves out the status.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steersman_runtime::object::ObjectKey;
use steersman_runtime::own_writes::Memory;

/// The keys of these owners.
#[derive(Default)]
pub(super) struct Untold(Mutex<HashSet<ObjectKey>>);

impl Untold {
    /// Records that a sync of `key` leaves out the status. False if the sync before did so.
    pub(super) fn leave_out(&self, key: &ObjectKey) -> bool {
        self.keys().insert(key.clone())
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for Untold {
    fn forget(&self, owner: &ObjectKey) {
        self.keys().remove(owner);
    }

    fn history_went_back(&self) {
        self.keys().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_sync_at_least_tells_its_status() {
        let (untold, [a, b]) = (
            Untold::default(),
            ["a", "b"].map(|name| ObjectKey::new("default", name)),
        );
        assert!(untold.leave_out(&a));
        assert!(!untold.leave_out(&a));
        assert!(untold.leave_out(&b));
        untold.forget(&a);
        assert!(untold.leave_out(&a));
        untold.history_went_back();
        assert!(untold.leave_out(&b));
    }
}
