//! One cache of a controller, as far as the age of its content goes.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use steersman_client::live::{self, Lag};
use steersman_objects::{DecodeError, Identity, Meta, Object, ObjectKey};
use steersman_values::sync::Mutex;

use super::{Age, ConsistencyStore, RECHECK, Write};
use crate::informer::VersionedCache;
use crate::workers::Key;
use crate::workqueue::WorkQueue;

/// A cache that a [`ConsistencyStore`] tracks. Cheap to clone.
#[derive(Clone)]
pub struct TrackedCache<K = ObjectKey> {
    store: ConsistencyStore<K>,
    /// Weak, since handlers of the cache hold the controller.
    cache: Weak<dyn VersionedCache>,
    /// The owners that return to the queue when the cache is as new as this leadership term. The
    /// first one registers the callback for all.
    revisits: Arc<Mutex<HashSet<K>>>,
}

impl<K: Key> TrackedCache<K> {
    pub(super) fn new(store: ConsistencyStore<K>, cache: &Arc<dyn VersionedCache>) -> Self {
        Self {
            store,
            cache: Arc::downgrade(cache),
            revisits: Arc::default(),
        }
    }

    /// True if both are one cache, so that a controller tracks each cache once.
    pub(crate) fn is(&self, cache: &Arc<dyn VersionedCache>) -> bool {
        Weak::ptr_eq(&self.cache, &Arc::downgrade(cache))
    }

    /// See [`SharedInformer::on_rewind`](crate::informer::SharedInformer::on_rewind).
    pub(crate) fn on_rewind(&self, forget: impl Fn() + Send + Sync + 'static) {
        if let Some(cache) = self.cache.upgrade() {
            cache.on_rewind(Box::new(forget));
        }
    }

    /// Records that a write for `owner` produced `version`. The highest version of a cache counts.
    /// Answers may arrive in another order than the writes.
    pub fn wrote_at(&self, owner: &K, version: u64) {
        let mut records = self.store.records.lock();
        let writes = &mut records.entry(owner.clone()).or_default().writes;
        let is_same = |write: &&mut Write| Weak::ptr_eq(&write.cache, &self.cache);
        match writes.iter_mut().find(is_same) {
            Some(write) => write.version = version.max(write.version),
            None => writes.push(Write {
                cache: Weak::clone(&self.cache),
                version,
            }),
        }
    }

    /// Records that a write for `owner` had this `answer`, the JSON of the object. An undecodable
    /// answer is an error: the version of the write is then unknown.
    pub fn wrote_answer(&self, owner: &K, answer: &[u8]) -> Result<(), DecodeError> {
        let written = Identity::decode(answer)?;
        self.wrote_at(owner, written.resource_version);
        Ok(())
    }

    /// Records the version of a deletion for `owner` from its `answer`, a Status. False without a version, so that
    /// only an event can tell the end of the object.
    ///
    /// API servers tell this version since 1.38 (kubernetes#138724). The answer is the object itself if the object
    /// is not gone yet, and then has the version of another write.
    pub fn deleted(&self, owner: &K, answer: &[u8]) -> bool {
        let Ok(answer) = Identity::decode(answer) else {
            return false;
        };
        let is_known = answer.name.is_empty() && answer.resource_version > 0;
        if is_known {
            self.wrote_at(owner, answer.resource_version);
        }
        is_known
    }

    /// Records that a write for `owner` left `object`, with its version. [`ConsistencyStore::newest`]
    /// puts it in place of an older one.
    pub fn wrote<T: Object>(&self, owner: &K, object: &Arc<T>) {
        self.wrote_at(owner, object.meta().resource_version);
        self.store.keep(owner, object);
    }

    /// Records that a live read for `owner` found `version`, which the cache lacks. `owner` returns
    /// to `queue` as soon as the cache has caught up.
    pub fn await_version(&self, owner: &K, version: u64, queue: &WorkQueue<K>) {
        self.wrote_at(owner, version);
        let waits = self.store.ready_or_requeue(owner, queue, owner.clone());
        // The cache has caught up in the meantime, or a rewind dropped the record.
        if waits.is_ok() {
            queue.add(owner.clone());
        }
    }

    /// True if `cached` has all objects of `live`, a list, and no others. If not, `owner` returns to
    /// `queue` as soon as the cache has caught up. After a deletion, it returns after [`RECHECK`].
    pub fn agrees<'a>(
        &self,
        owner: &K,
        queue: &WorkQueue<K>,
        live: impl Iterator<Item = &'a Meta>,
        cached: impl Iterator<Item = &'a Meta>,
    ) -> bool {
        match live::lag(live, cached) {
            None => return true,
            Some(Lag::Until(version)) => self.await_version(owner, version, queue),
            Some(Lag::Deletion) => queue.add_after(owner.clone(), RECHECK),
        }
        false
    }

    /// Marks `owner` as in doubt until a later live list agrees with this cache, or the cache has
    /// reached `listed`. This is the version of a live list that lacks objects of the cache.
    pub(crate) fn doubt_until(&self, owner: &K, listed: u64) {
        let mut records = self.store.records.lock();
        let record = records.entry(owner.clone()).or_default();
        record.in_doubt = true;
        record.settled_at = Some(Write {
            cache: Weak::clone(&self.cache),
            version: listed,
        });
    }

    /// Returns `owner` to `queue` as soon as the cache is as new as this leadership term, for
    /// decisions that nothing else repeats. All calls have the same queue. False if the cache is new
    /// enough already.
    pub fn revisit_in_term(&self, owner: &K, queue: &WorkQueue<K>) -> bool {
        let cache = self.cache.upgrade();
        let Some(cache) = cache.filter(|_| self.predates_term()) else {
            return false;
        };
        // The lock ends before `when_seen`, which may call `enqueue` at once.
        let is_first = {
            let mut revisits = self.revisits.lock();
            let is_first = revisits.is_empty();
            revisits.insert(owner.clone());
            is_first
        };
        if is_first {
            let revisits = Arc::clone(&self.revisits);
            let queue = queue.clone();
            let enqueue = move || {
                let owners = std::mem::take(&mut *revisits.lock());
                owners.into_iter().for_each(|owner| queue.add(owner));
            };
            cache.when_seen(self.store.term_start_rv, Box::new(enqueue));
        }
        true
    }

    /// The present age. A sync asks before it reads the cache. A cache that is gone counts as new
    /// enough: its informer has ended.
    pub fn age(&self) -> Age {
        if self.predates_term() {
            Age::BeforeTerm
        } else {
            Age::OfTerm
        }
    }

    /// True if the cache is older than this leadership term. It may then lack writes of the
    /// previous leader.
    pub fn predates_term(&self) -> bool {
        let cache = self.cache.upgrade();
        cache.is_some_and(|cache| cache.resource_version() < self.store.term_start_rv)
    }
}
