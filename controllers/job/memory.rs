//! The records in memory about each Job, beside those about the consistency of the caches.
//!
//! Both are lost at a restart. Then a replacement may come without its back-off, while a second count is
//! still prevented by the status and by live reads.

use steersman_objects::ObjectKey;
use steersman_runtime::consistency::Memory;

use super::backoff::Backoffs;
use super::finalizers::Removals;

/// The records of all Jobs.
#[derive(Default)]
pub(super) struct JobMemory {
    /// Failures since the last success.
    pub(super) backoffs: Backoffs,
    /// Finalizers that the cache still shows.
    pub(super) removals: Removals,
}

impl Memory for JobMemory {
    /// Called after the end or the deletion of a Job, so a new Job of its name starts without failures.
    fn forget(&self, job: &ObjectKey) {
        self.backoffs.forget(job);
        self.removals.forget(job);
    }

    fn history_went_back(&self) {
        self.backoffs.history_went_back();
        self.removals.history_went_back();
    }
}
