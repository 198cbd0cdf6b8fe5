//! The records in memory about each Job, beside its expectations.

use std::sync::Arc;

use steersman_objects::{Job, ObjectKey};
use steersman_runtime::own_writes::{Memory, WrittenObjects};

use super::backoff::Backoffs;
use super::finalizers::Removals;

/// The records of all Jobs.
#[derive(Default)]
pub(super) struct JobMemory {
    /// Failures since the last success.
    pub(super) backoffs: Backoffs,
    /// Finalizers that the cache still shows.
    pub(super) removals: Removals,
    /// Jobs with the status that this process wrote last. A sync must not act on an older one: a
    /// pod that it counted would be missing, and would be created again.
    pub(super) written: WrittenObjects<Job>,
}

impl JobMemory {
    /// `cached`, or the same Job with a newer status that this process wrote.
    pub(super) fn newest(&self, key: &ObjectKey, cached: Arc<Job>) -> Arc<Job> {
        let newest = self.written.newest(key, vec![Arc::clone(&cached)]).pop();
        newest.unwrap_or(cached)
    }
}

impl Memory for JobMemory {
    fn forget(&self, job: &ObjectKey) {
        self.backoffs.forget(job);
        self.removals.forget(job);
        self.written.forget(job);
    }

    fn history_went_back(&self) {
        self.backoffs.history_went_back();
        self.removals.history_went_back();
        self.written.history_went_back();
    }
}
