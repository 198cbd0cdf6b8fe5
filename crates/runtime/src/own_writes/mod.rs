//! Read your own writes: no decision rests on a cache that lacks an earlier write of this process.
//!
//! The API server answers each write with a resource version. [`OwnWrites`] keeps it under the key
//! of the owner that the write is about. The next sync of that owner waits until the cache has
//! reached it. Without this wait, a sync that reads an older cache repeats its own write.
//!
//! Upstream: the `ConsistencyStore` of 1.36, which some controllers use behind the gates
//! `StaleControllerConsistency*`.

mod objects;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use objects::WrittenObjects;

use steersman_objects::ObjectKey;
use steersman_values::capacity::{ReleaseSpare, RemoveAndRelease};
use steersman_values::sync::{Mutex, MutexGuard};

use crate::informer::VersionedCache;
use crate::workqueue::WorkQueue;

/// Records of a controller by the key of an owner, such as [`Expectations`].
///
/// [`Expectations`]: crate::expectations::Expectations
pub trait Memory: Send + Sync + 'static {
    /// Drops the record of `owner`, which was deleted or replaced by another object of its name.
    fn forget(&self, owner: &ObjectKey);

    /// Handles a rewind, for example after an etcd restore: awaited versions and objects may never
    /// come.
    fn history_went_back(&self);

    /// The writes for `owner` whose watch events are outstanding, for explanations.
    fn outstanding(&self, _owner: &ObjectKey) -> Option<Outstanding> {
        None
    }
}

/// Writes whose watch events are outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outstanding {
    /// Number of creations.
    pub creations: usize,
    /// Number of deletions.
    pub deletions: usize,
    /// Time until the record expires; `None` if it has expired.
    pub expire: Option<Duration>,
}

/// The resource versions that writes for an owner produced. Clones share the record.
///
/// `K` is the key of an owner. A rewind of one cache drops all records.
#[derive(Clone)]
pub struct OwnWrites<K = ObjectKey> {
    records: Arc<Records<K>>,
    term_start_rv: u64,
}

struct Records<K>(Mutex<HashMap<K, Vec<Record>>>);

/// The highest version that a write produced in one cache.
///
/// Handlers of a cache may hold records, so records must not keep the cache alive. No sync waits for
/// a cache that is gone.
struct Record {
    cache: Weak<dyn VersionedCache>,
    version: u64,
}

/// A cache that a sync has to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// API group of the cache, empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> OwnWrites<K> {
    /// An empty record. `term_start_rv` is the resource version at which this leadership term
    /// began, 0 without leader election.
    pub fn new(term_start_rv: u64) -> Self {
        Self {
            records: Arc::new(Records(Mutex::default())),
            term_start_rv,
        }
    }

    /// The record of writes that show in `cache`.
    pub fn to(&self, cache: Arc<dyn VersionedCache>) -> WritesTo<K> {
        // The cache outlives the controller, and must not keep its records alive.
        let records = Arc::downgrade(&self.records);
        cache.on_rewind(Box::new(move || {
            if let Some(records) = records.upgrade() {
                records.lock().clear();
            }
        }));
        WritesTo {
            writes: self.clone(),
            cache: Arc::downgrade(&cache),
            revisits: Arc::default(),
        }
    }

    /// The first cache that lacks a write for `owner`. If all caches have caught up, drops the
    /// record.
    pub fn behind(&self, owner: &K) -> Option<Behind> {
        self.late(owner).map(|(cache, _)| Behind {
            group: cache.resource().group.to_string(),
            resource: cache.resource().plural.to_string(),
        })
    }

    /// The first cache that lacks a write for `owner`. If there is one, `then` is called once the
    /// cache has the write.
    ///
    /// Checks the record a second time after it registered `then`: a rewind just before the
    /// registration drops the record, and the awaited version may never come. The answer is `None`
    /// in that case, and `then` may never be called.
    pub fn wait_for_cache(
        &self,
        owner: &K,
        then: impl FnOnce() + Send + 'static,
    ) -> Option<Behind> {
        let (cache, version) = self.late(owner)?;
        cache.when_seen(version, Box::new(then));
        self.behind(owner)
    }

    /// Drops the record of `owner`.
    pub fn forget(&self, owner: &K) {
        self.records.lock().remove_and_release(owner);
    }

    /// True if there is a record for `owner`, even if all caches show its writes.
    pub fn has(&self, owner: &K) -> bool {
        self.records.lock().contains_key(owner)
    }

    /// Drops the records of all owners without outstanding writes.
    pub fn forget_seen(&self) {
        let mut records = self.records.lock();
        records.retain(|_, writes| writes.iter().any(Record::is_unseen));
        records.release_spare();
    }

    fn late(&self, owner: &K) -> Option<(Arc<dyn VersionedCache>, u64)> {
        let mut records = self.records.lock();
        let late = records.get(owner)?.iter().find_map(|write| {
            let cache = write.cache.upgrade()?;
            (cache.resource_version() < write.version).then_some((cache, write.version))
        });
        if late.is_none() {
            records.remove_and_release(owner);
        }
        late
    }
}

impl<K> Records<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Vec<Record>>> {
        locked(&self.0)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Record {
    fn is_unseen(&self) -> bool {
        let cache = self.cache.upgrade();
        cache.is_some_and(|cache| cache.resource_version() < self.version)
    }
}

/// The writes that show in one cache.
#[derive(Clone)]
pub struct WritesTo<K = ObjectKey> {
    writes: OwnWrites<K>,
    cache: Weak<dyn VersionedCache>,
    /// The owners that return to the queue when the cache is as new as this leadership term.
    revisits: Arc<Mutex<HashSet<K>>>,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> WritesTo<K> {
    /// Records that a write for `owner` produced `version`. The highest version of a cache counts.
    pub fn record(&self, owner: &K, version: u64) {
        let mut records = self.writes.records.lock();
        let writes = records.entry(owner.clone()).or_default();
        let is_same = |write: &&mut Record| Weak::ptr_eq(&write.cache, &self.cache);
        match writes.iter_mut().find(is_same) {
            Some(write) => write.version = version.max(write.version),
            None => writes.push(Record {
                cache: Weak::clone(&self.cache),
                version,
            }),
        }
    }

    /// Records that a live read for `owner` found `version`, which the cache lacks. `owner` returns
    /// to `queue` as soon as the cache has caught up.
    pub fn await_version(&self, owner: &K, version: u64, queue: &WorkQueue<K>) {
        self.record(owner, version);
        let later = queue.clone();
        let again = owner.clone();
        let waits = self.writes.wait_for_cache(owner, move || later.add(again));
        // The cache has caught up in the meantime, or a rewind dropped the record.
        if waits.is_none() {
            queue.add(owner.clone());
        }
    }

    /// Returns `owner` to `queue` as soon as the cache is as new as this leadership term, for
    /// decisions that nothing else repeats. All calls have the same queue. False if the cache is new
    /// enough already.
    pub fn revisit_in_term(&self, owner: &K, queue: &WorkQueue<K>) -> bool {
        let cache = self.cache.upgrade();
        let Some(cache) = cache.filter(|_| self.predates_term()) else {
            return false;
        };
        let is_first = {
            let mut revisits = locked(&self.revisits);
            let is_first = revisits.is_empty();
            revisits.insert(owner.clone());
            is_first
        };
        if is_first {
            let revisits = Arc::clone(&self.revisits);
            let queue = queue.clone();
            let enqueue = move || {
                let owners = std::mem::take(&mut *locked(&revisits));
                owners.into_iter().for_each(|owner| queue.add(owner));
            };
            cache.when_seen(self.writes.term_start_rv, Box::new(enqueue));
        }
        true
    }

    /// True if the cache is older than this leadership term. It may then lack writes of the
    /// previous leader.
    pub fn predates_term(&self) -> bool {
        let cache = self.cache.upgrade();
        cache.is_some_and(|cache| cache.resource_version() < self.writes.term_start_rv)
    }
}

#[cfg(test)]
mod tests;
