//! The one guard against stale caches: the trust of a sync in its caches, and its questions.
//!
//! A cache is older than the API server. A sync that trusts it too much repeats its own write, or
//! undoes a write of the previous leader. A controller has one [`ConsistencyStore`] with one record
//! per owner, and a [`TrackedCache`] for each cache that it reads. `docs/consistency.md` has the
//! rules on one page.
//!
//! - [`ConsistencyStore::ensure_ready`]: the caches show the own writes of known version.
//! - [`ConsistencyStore::satisfied`]: the events of creations and deletions have come.
//! - [`ConsistencyStore::is_in_doubt`]: a write of unknown version may be missing.
//! - [`ConsistencyStore::newest`]: a written object counts until the cache shows it.
//! - [`TrackedCache::age`]: writes of the previous leader may be missing, so a live read confirms
//!   the objects of the sync ([`confirmed`]).
//!
//! Upstream: `ConsistencyStore` of `pkg/controller/util/consistency`, which some controllers of 1.36
//! use behind the gates `StaleControllerConsistency*`, and `ControllerExpectations`.

mod age;
mod expected;
mod objects;
mod tracked;

use std::any::Any;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use steersman_client::ApiError;
use steersman_objects::ObjectKey;
use steersman_values::capacity::{ReleaseSpare, RemoveAndRelease};
use steersman_values::sync::{Mutex, MutexGuard};

use crate::informer::VersionedCache;
use crate::workers::Key;
use crate::workqueue::WorkQueue;

pub use self::age::{Age, RECHECK, Unconfirmed, confirmed};
use self::expected::Expected;
pub use self::expected::Outstanding;
pub use self::tracked::TrackedCache;

/// Other records of a controller by the key of an owner, such as a back-off.
pub trait Memory: Send + Sync + 'static {
    /// Drops the record of `owner`, which was deleted or replaced by another object of its name. A
    /// new object of the name starts without the past of the old one.
    fn forget(&self, owner: &ObjectKey);

    /// Handles a rewind, for example after an etcd restore: awaited versions and objects may never
    /// come.
    fn history_went_back(&self);
}

/// The writes of a controller that its caches may lack, by the key `K` of the owner that they are
/// about. Clones share the records.
///
/// A rewind of one tracked cache drops all records. Owners with expectations are then in doubt.
#[derive(Clone)]
pub struct ConsistencyStore<K = ObjectKey> {
    /// One lock for all owners. It is never held over a request.
    records: Arc<Records<K>>,
    /// All writes of earlier leaders have lower versions, because the Lease was written after them.
    term_start_rv: u64,
}

struct Records<K>(Mutex<HashMap<K, Record>>);

/// The writes for one owner. An owner without any has no record.
#[derive(Default)]
struct Record {
    /// The highest version in each cache.
    writes: Vec<Write>,
    /// Written objects that a cache may show in an older version.
    objects: Vec<Arc<dyn Any + Send + Sync>>,
    expected: Option<Box<Expected>>,
    /// True after a write without an answer.
    in_doubt: bool,
    /// The version in a cache that ends the doubt. `None` if only a live list ends it.
    settled_at: Option<Write>,
}

/// The highest version that a write produced in one cache.
///
/// Handlers of a cache may hold records, so records must not keep the cache alive. No sync waits for
/// a cache that is gone.
struct Write {
    /// The cache in which the version has to appear.
    cache: Weak<dyn VersionedCache>,
    version: u64,
}

/// A cache lacks an own write. Upstream: `ConsistencyError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// API group of the cache, empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
}

impl<K: Key> ConsistencyStore<K> {
    /// An empty store. `term_start_rv` is the resource version at which this leadership term began,
    /// 0 without leader election.
    pub fn new(term_start_rv: u64) -> Self {
        Self {
            records: Arc::new(Records(Mutex::default())),
            term_start_rv,
        }
    }

    /// The handle for `cache`.
    pub fn track(&self, cache: Arc<dyn VersionedCache>) -> TrackedCache<K> {
        // The cache outlives the controller, and must not keep its records alive.
        let records = Arc::downgrade(&self.records);
        cache.on_rewind(Box::new(move || {
            if let Some(records) = records.upgrade() {
                records.retain(Record::rewind);
            }
        }));
        TrackedCache::new(self.clone(), &cache)
    }

    /// Fails with the first cache that lacks a write of known version for `owner`. If all caches have
    /// caught up, drops the versions.
    pub fn ensure_ready(&self, owner: &K) -> Result<(), NotReady> {
        self.late(owner).map_or(Ok(()), |(cache, _)| {
            Err(NotReady {
                group: cache.resource().group.to_string(),
                resource: cache.resource().plural.to_string(),
            })
        })
    }

    /// As [`Self::ensure_ready`]. After a failure, `again` returns to `queue` once the cache has the
    /// write.
    pub fn ready_or_requeue<Q: Key>(
        &self,
        owner: &K,
        queue: &WorkQueue<Q>,
        again: Q,
    ) -> Result<(), NotReady> {
        let queue = queue.clone();
        self.ready_or_call(owner, move || queue.add(again))
    }

    /// As [`Self::ensure_ready`]. After a failure, `then` is called once the cache has the write.
    ///
    /// Checks the record a second time after it registered `then`: a rewind just before the
    /// registration drops the record, and the awaited version may never come. The answer is `Ok` in
    /// that case, and `then` may never be called.
    pub(crate) fn ready_or_call(
        &self,
        owner: &K,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<(), NotReady> {
        let Some((cache, version)) = self.late(owner) else {
            return Ok(());
        };
        cache.when_seen(version, Box::new(then));
        self.ensure_ready(owner)
    }

    /// Drops the record of `owner`.
    pub fn clear(&self, owner: &K) {
        self.records.lock().remove_and_release(owner);
    }

    /// True if versions are recorded for `owner`, even if all caches show them. A pass over all
    /// objects uses it to write each object once.
    pub fn has_written(&self, owner: &K) -> bool {
        let records = self.records.lock();
        records
            .get(owner)
            .is_some_and(|record| !record.writes.is_empty())
    }

    /// Drops the versions of all owners without outstanding writes.
    pub fn clear_seen(&self) {
        self.records.retain(|record| {
            if !record.writes.iter().any(Write::is_unseen) {
                record.writes.clear();
            }
        });
    }

    /// Records that a write for `owner` failed. After some failures, the server may still have done
    /// the write. A lost answer and a status of 500 or higher are such failures.
    pub fn failed(&self, owner: &K, error: &ApiError) {
        if error.may_be_done() {
            self.doubt(owner);
        }
    }

    /// Marks `owner` as in doubt: a live list must confirm the cached objects before the next write.
    pub fn doubt(&self, owner: &K) {
        let mut records = self.records.lock();
        let record = records.entry(owner.clone()).or_default();
        record.in_doubt = true;
        // The write may be later than the list of that version.
        record.settled_at = None;
    }

    /// True if the caches may lack a write for `owner` of unknown version: it has no answer, or its
    /// expectation expired.
    pub fn is_in_doubt(&self, owner: &K) -> bool {
        let ask = |record: &mut Record| {
            let settled = record.settled_at.as_ref();
            if settled.is_some_and(|list| !list.is_unseen()) {
                record.settle();
            }
            record.in_doubt || record.is_lost()
        };
        self.records.update(owner, ask).unwrap_or(false)
    }

    /// A live list of the objects of `owner` succeeded. Clears the doubt and the expectations. The
    /// versions stay: the cache still has to show them before the next sync.
    pub fn confirmed(&self, owner: &K) {
        self.records.update(owner, Record::settle);
    }

    /// The first cache that lacks a write for `owner`, with the awaited version.
    fn late(&self, owner: &K) -> Option<(Arc<dyn VersionedCache>, u64)> {
        self.records.update(owner, |record| {
            let late = record.writes.iter().find_map(Write::late);
            if late.is_none() {
                record.writes.clear();
            }
            late
        })?
    }
}

impl<K: Eq + Hash> Records<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Record>> {
        self.0.lock()
    }

    /// Changes the record of `owner`, if there is one. Drops it if it is empty afterwards.
    fn update<R>(&self, owner: &K, change: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let mut records = self.lock();
        let record = records.get_mut(owner)?;
        let result = change(record);
        if record.is_empty() {
            records.remove_and_release(owner);
        }
        Some(result)
    }

    /// Changes all records, and drops those that are empty afterwards.
    fn retain(&self, change: impl Fn(&mut Record)) {
        let mut records = self.lock();
        records.retain(|_, record| {
            change(record);
            !record.is_empty()
        });
        records.release_spare();
    }
}

impl Record {
    fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.objects.is_empty()
            && self.expected.is_none()
            && !self.in_doubt
    }

    /// Ends the doubt. A live list has also shown the writes that the expectations wait for.
    fn settle(&mut self) {
        self.expected = None;
        self.in_doubt = false;
        self.settled_at = None;
    }

    /// Awaited versions, objects and events may never come after a rewind. Versions start lower
    /// then, so an owner that waits for an old one would be blocked for ever.
    fn rewind(&mut self) {
        self.writes.clear();
        self.objects.clear();
        self.settled_at = None;
        self.in_doubt |= self.expected.take().is_some();
    }
}

impl Write {
    /// The cache and the version, if the cache lacks it.
    fn late(&self) -> Option<(Arc<dyn VersionedCache>, u64)> {
        let cache = self.cache.upgrade()?;
        (cache.resource_version() < self.version).then_some((cache, self.version))
    }

    fn is_unseen(&self) -> bool {
        self.late().is_some()
    }
}

#[cfg(test)]
mod tests;
