//! The generic part of a controller that syncs one object at a time.
//!
//! A controller implements [`ObjectSyncer`], the decisions and writes for one cached object.
//! [`Keyed`] adds the parts that all controllers share:
//!
//! - the queue and its workers,
//! - the wait for caches that lack own writes,
//! - the removal of records about deleted objects,
//! - the rule for retries.
//!
//! Upstream repeats this in each package as `Run`, `worker`, `processNextWorkItem` and the first
//! lines of `syncX`.

use std::future::Future;
use std::sync::{Arc, Weak};

use steersman_client::ApiError;
use steersman_objects::{Object, ObjectKey};
use steersman_why::KeyState;

use crate::consistency::{ConsistencyStore, Memory, NotReady, TrackedCache};
use crate::controller::{Controller, ControllerContext};
use crate::informer::{SharedInformer, Store};
use crate::workers::{Requeue, Retry, Syncer, boxed};
use crate::workqueue::{Waits, WorkQueue};

/// The decisions and writes of a controller, for one object at a time.
pub trait ObjectSyncer: Send + Sync + 'static {
    /// The type of the objects it syncs. The key of a sync is its namespace and name.
    type Object: Object;
    /// The failure of a sync. A failed request is in its chain of sources.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Brings `object` a step closer to its spec. Syncs of one key never overlap. The caches show
    /// all earlier writes of this process for this key.
    fn sync(
        &self,
        key: &ObjectKey,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;

    /// Handles the deletion of the object with this key, after its records were dropped. Most
    /// controllers have nothing to do.
    fn clean_up(
        &self,
        _key: &ObjectKey,
    ) -> impl Future<Output = Result<Requeue, Self::Error>> + Send {
        async { Ok(Requeue::Never) }
    }

    /// The treatment of a key after a failed sync. `request` is the failed request, if there is
    /// one. `_failures` is the number of earlier failures in a row. Not called for a write
    /// that the write gate refused.
    fn retry(&self, _error: &Self::Error, request: Option<&ApiError>, _failures: u32) -> Retry {
        Retry::after_request(request)
    }
}

/// The builder of a controller: its queue, its caches, and its records by key.
pub struct Keyed<O> {
    controller: &'static str,
    queue: WorkQueue<ObjectKey>,
    objects: SharedInformer<O>,
    consistency: ConsistencyStore,
    caches: Vec<TrackedCache>,
    memories: Vec<Arc<dyn Memory>>,
    /// Counts waits in upstream's own metric of the controller, where it has one.
    on_stale_cache: Option<OnStaleCache>,
}

type OnStaleCache = Box<dyn Fn(&NotReady) + Send + Sync>;

impl<O: Object> Keyed<O> {
    /// A builder for `controller`. Metrics call its queue `queue`.
    pub fn new(ctx: &ControllerContext, controller: &'static str, queue: &str) -> Self {
        Self::over(ctx, controller, WorkQueue::new(queue, &ctx.queue_metrics))
    }

    /// The same with a given queue, for a queue with its own back-off. The cache of the synced
    /// objects is tracked from the start, since most controllers write to them.
    pub fn over(
        ctx: &ControllerContext,
        controller: &'static str,
        queue: WorkQueue<ObjectKey>,
    ) -> Self {
        let objects = ctx.informers.shared::<O>();
        let consistency = ConsistencyStore::new(ctx.term_start_rv);
        Self {
            controller,
            queue,
            caches: vec![consistency.track(objects.versioned())],
            objects,
            consistency,
            memories: Vec::new(),
            on_stale_cache: None,
        }
    }

    /// The queue of keys, for handlers.
    pub fn queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }

    /// The informer of the synced objects.
    pub fn objects(&self) -> &SharedInformer<O> {
        &self.objects
    }

    /// The cache of `informer`. A sync waits until it has all own writes that are recorded for the
    /// key. A second call for one cache returns the same record, so all parts of a controller share
    /// it.
    pub fn tracked<T: Object>(&mut self, informer: &SharedInformer<T>) -> TrackedCache {
        let cache = informer.versioned();
        if let Some(known) = self.caches.iter().find(|known| known.is(&cache)) {
            return known.clone();
        }
        let tracked = self.consistency.track(cache);
        self.caches.push(tracked.clone());
        tracked
    }

    /// Makes `memory` forget the keys of deleted objects. A rewind of a tracked cache clears it.
    pub fn remembers(&mut self, memory: Arc<dyn Memory>) {
        self.memories.push(memory);
    }

    /// The records of own writes and expectations, for handlers and for the middle of a sync.
    pub fn consistency(&self) -> ConsistencyStore {
        self.consistency.clone()
    }

    /// Calls `count` for each sync that has to wait for a cache. Upstream's metrics count these.
    pub fn on_stale_cache(&mut self, count: impl Fn(&NotReady) + Send + Sync + 'static) {
        self.on_stale_cache = Some(Box::new(count));
    }

    /// The controller with `workers` workers.
    pub fn boxed<S: ObjectSyncer<Object = O>>(
        self,
        workers: usize,
        syncer: S,
    ) -> Box<dyn Controller> {
        let controller = self.controller;
        let queue = self.queue.clone();
        boxed(controller, queue, workers, self.runner(syncer))
    }

    /// The syncer of [`Keyed::boxed`], for controllers that also run other tasks.
    pub fn runner<S: ObjectSyncer<Object = O>>(self, syncer: S) -> Arc<Runner<S>> {
        for (cache, memory) in self
            .caches
            .iter()
            .flat_map(|cache| self.memories.iter().map(move |memory| (cache, memory)))
        {
            // The informer outlives the controller and must not keep its records alive.
            let memory = Arc::downgrade(memory);
            cache.on_rewind(move || {
                if let Some(memory) = memory.upgrade() {
                    memory.history_went_back();
                }
            });
        }
        // Explanations read the waits through a weak reference, so an ended term leaves none.
        let metrics = self.queue.metrics().clone();
        let runner = Arc::new(Runner {
            objects: self.objects.store(),
            queue: self.queue,
            consistency: self.consistency,
            memories: self.memories,
            on_stale_cache: self.on_stale_cache,
            syncer,
        });
        let waits: Weak<Runner<S>> = Arc::downgrade(&runner);
        metrics.waits(self.controller, waits);
        runner
    }
}

/// The [`Syncer`] of a controller: loads the object of a key and calls the [`ObjectSyncer`].
pub struct Runner<S: ObjectSyncer> {
    objects: Store<S::Object>,
    queue: WorkQueue<ObjectKey>,
    consistency: ConsistencyStore,
    memories: Vec<Arc<dyn Memory>>,
    on_stale_cache: Option<OnStaleCache>,
    syncer: S,
}

impl<S: ObjectSyncer> Runner<S> {
    /// True if the sync of `key` has to wait for a cache. Then `key` returns to the queue as soon
    /// as that cache has our writes. The key is not requeued with back-off: a slow cache is no
    /// failure.
    fn waits_for_cache(&self, key: &ObjectKey) -> bool {
        let ready = self
            .consistency
            .ready_or_requeue(key, &self.queue, key.clone());
        let Err(stale) = ready else {
            return false;
        };
        self.queue.count_stale_cache(&stale.resource);
        if let Some(count) = &self.on_stale_cache {
            count(&stale);
        }
        true
    }

    /// Drops all that the controller knows about a deleted object.
    fn forget(&self, key: &ObjectKey) {
        self.consistency.clear(key);
        self.memories.iter().for_each(|memory| memory.forget(key));
    }
}

impl<S: ObjectSyncer> Waits for Runner<S> {
    fn add_to(&self, key: &str, state: &mut KeyState) -> bool {
        // The text of the key of a cluster-scoped object has no slash.
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let key = ObjectKey::new(namespace, name);
        // This also drops versions that all caches have reached, as the next sync would.
        let ready = self.consistency.ensure_ready(&key);
        state.awaits_cache = ready.err().map(|stale| stale.resource);
        if let Some(outstanding) = self.consistency.outstanding(&key) {
            state.creations += outstanding.creations;
            state.deletions += outstanding.deletions;
            state.expire = state.expire.max(outstanding.expire);
        }
        state.awaits_cache.is_some() || state.creations + state.deletions > 0
    }
}

impl<S: ObjectSyncer> Syncer for Runner<S> {
    type Error = S::Error;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, S::Error> {
        // Before the object is read, so that the read object has the own writes.
        if self.waits_for_cache(key) {
            return Ok(Requeue::Never);
        }
        // Upstream's `IsNotFound` of the lister, which ends each sync in this way.
        let Some(object) = self.objects.get(key) else {
            self.forget(key);
            tracing::debug!("{} has been deleted", S::Object::RESOURCE.kind);
            return self.syncer.clean_up(key).await;
        };
        self.syncer.sync(key, object).await
    }

    fn retry(&self, error: &S::Error, failures: u32) -> Retry {
        self.syncer.retry(error, ApiError::within(error), failures)
    }
}
