//! One informer: the store of a type, its handlers, and the order in which both see changes.
//!
//! A change is applied to the store first, then all handlers are called with it, then callbacks
//! that wait for its resource version run. A handler therefore never sees a change that the store
//! lacks. One lock serialises changes, so that every handler sees them in the order of the watch.
//!
//! Upstream: `shared_informer.go` in `client-go/tools/cache`. There each handler has a goroutine
//! and an unbounded buffer. Here the informer's task calls handlers directly. So no change is
//! buffered, and a version counts as observed after the last handler returned.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::error;

use steersman_objects::{Meta, Object, ObjectKey};
use steersman_values::resource::ResourceType;
use steersman_values::sync::{Mutex, MutexGuard};

use super::contact::Contact;
use super::metrics::{Cache, ResourceMetrics};
use super::store::{Objects, Store};
use super::{Change, VersionedCache};
use crate::panics;

/// The informer of one type. Cheap to clone.
pub struct SharedInformer<T> {
    pub(super) shared: Arc<Shared<T>>,
}

impl<T> Clone for SharedInformer<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Object> SharedInformer<T> {
    pub(super) fn new(metrics: ResourceMetrics) -> Self {
        Self::of(Cow::Borrowed(T::RESOURCE), metrics)
    }

    /// An informer of `resource` that decodes its objects as `T`.
    pub(super) fn of(resource: Cow<'static, ResourceType>, metrics: ResourceMetrics) -> Self {
        let shared = Arc::new(Shared::new(resource, metrics));
        let cache: Weak<Shared<T>> = Arc::downgrade(&shared);
        shared.metrics.watch(cache);
        Self { shared }
    }

    /// The cache.
    pub fn store(&self) -> Store<T> {
        self.shared.store.clone()
    }

    /// Adds a handler, at any time. If the store has objects already, the handler first gets an
    /// `Added { initial: true }` for each of them, before this function returns. So the handler
    /// sees every object and every change exactly once.
    ///
    /// The informer's task calls the handler in the order of changes, before it applies the next
    /// change. A handler must not block: it enqueues keys. A panic of a handler is logged and
    /// counted.
    ///
    /// Deadlocks if a handler calls it.
    pub fn add_handler(&self, handler: impl Fn(Change<'_, T>) + Send + Sync + 'static) {
        self.shared.add_handler(Box::new(handler));
    }

    /// The cache without its object type: its resource version and callbacks.
    pub fn versioned(&self) -> Arc<dyn VersionedCache> {
        Arc::clone(&self.shared) as Arc<dyn VersionedCache>
    }

    /// True if the first list is in the store and all handlers were called for it.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until [`SharedInformer::is_synced`]. For ever, if the API server lacks the type.
    pub async fn wait_synced(&self) {
        // Fails only without a sender, which `self` holds.
        let _ = self.shared.synced().wait_for(|synced| *synced).await;
    }

    /// Calls `then` after the store has reached `version` and all handlers were called. If that is
    /// the case already, calls it at once. Controllers use it to enqueue a key as soon as the cache
    /// shows their own writes.
    ///
    /// A rewind also calls `then`, since `version` may never come after it. `then` runs on the
    /// informer's task or on the caller's, so it must not block.
    pub fn when_seen(&self, version: u64, then: impl FnOnce() + Send + 'static) {
        VersionedCache::when_seen(&*self.shared, version, Box::new(then));
    }

    /// Calls `forget` for each rewind: the server's resource versions went back, for example after
    /// an etcd restore. Recorded versions are invalid from then on, and a wait for one of them may
    /// never end. The call comes before handlers see the older state. It runs on the informer's
    /// task, so it must not block.
    pub fn on_rewind(&self, forget: impl Fn() + Send + Sync + 'static) {
        VersionedCache::on_rewind(&*self.shared, Box::new(forget));
    }
}

type Handler<T> = Box<dyn Fn(Change<'_, T>) + Send + Sync>;
type Callback = Box<dyn FnOnce() + Send>;

/// The callbacks of [`SharedInformer::when_seen`] that still wait.
#[derive(Default)]
struct Waiting {
    /// The resource version up to which all handlers were called. The store may be one change
    /// ahead. A rewind sets it to the lower version.
    observed: u64,
    /// Keyed by the awaited version, and by a number that tells callbacks of one version apart. The
    /// order of the keys lets one split find all that are due.
    callbacks: BTreeMap<(u64, u64), Callback>,
}

/// The state that the clones of a [`SharedInformer`] and its task share.
pub(super) struct Shared<T> {
    pub(super) resource: Cow<'static, ResourceType>,
    store: Store<T>,
    /// Locked while a change is applied and handlers run, so that the store does not change while
    /// a handler is added. Taken before any other lock.
    handlers: Mutex<Vec<Handler<T>>>,
    waiting: Mutex<Waiting>,
    /// The functions of [`SharedInformer::on_rewind`]. They are never removed.
    rewound: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// True from the end of the first list, until [`Shared::stopped`].
    synced: watch::Sender<bool>,
    pub(super) contact: Arc<Contact>,
    pub(super) metrics: ResourceMetrics,
}

impl<T: Object> Shared<T> {
    fn new(resource: Cow<'static, ResourceType>, metrics: ResourceMetrics) -> Self {
        Self {
            resource,
            store: Store::new(),
            handlers: Mutex::default(),
            waiting: Mutex::default(),
            rewound: Mutex::default(),
            synced: watch::Sender::new(false),
            contact: Arc::default(),
            metrics,
        }
    }

    // Handlers run under this lock. `notify` catches their panics, so the list is always intact.
    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<T>>> {
        self.handlers.lock()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// The resource version up to which all handlers were called. The store may be one change
    /// ahead.
    pub(super) fn observed_version(&self) -> u64 {
        self.waiting().observed
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The informer stopped and is no longer synced. The store keeps its objects, and the next
    /// start continues from them.
    pub(super) fn stopped(&self) {
        self.synced.send_replace(false);
    }

    pub(super) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// The stored object if it has the version of `object`, else `object`. A relist thus keeps only
    /// one copy of each unchanged object in memory.
    pub(super) fn reuse_unchanged(&self, object: T) -> Arc<T> {
        match self.store.get(&object.key()) {
            Some(stored) if is_same(stored.meta(), object.meta()) => stored,
            _ => Arc::new(object),
        }
    }

    /// An object was added or modified. A watch may repeat an object that the last list had.
    /// Handlers do not see such a repetition.
    pub(super) fn set(&self, object: Arc<T>) {
        let started = Instant::now();
        let handlers = self.handlers();
        match self.store.set(&object) {
            None => self.notify(
                &handlers,
                Change::Added {
                    object: &object,
                    initial: false,
                },
            ),
            Some(old) if is_same(old.meta(), object.meta()) => {}
            Some(old) => self.notify(
                &handlers,
                Change::Updated {
                    old: &old,
                    new: &object,
                },
            ),
        }
        drop(handlers);
        self.processed(started);
    }

    /// An object was deleted; `object` is its last state. Handlers get it even if the store lacks
    /// the object.
    pub(super) fn remove(&self, object: &Arc<T>) {
        let started = Instant::now();
        let handlers = self.handlers();
        self.store.remove(object);
        self.notify(
            &handlers,
            Change::Deleted {
                object,
                final_state_unknown: false,
            },
        );
        drop(handlers);
        self.processed(started);
    }

    /// A bookmark: there are no further changes of this type up to `version`.
    pub(super) fn advance(&self, version: u64) {
        self.store.advance(version);
        self.call_waiting();
    }

    /// Replaces the store with a list of version `version`, and calls handlers for the differences.
    ///
    /// Handlers see deletions first, then updates and additions. A list with a lower version than
    /// the store is a rewind.
    pub(super) fn replace(&self, objects: Objects<T>, version: u64) {
        let started = Instant::now();
        let handlers = self.handlers();
        let initial = !self.is_synced();
        let before = self.store.resource_version();
        // Copied before the swap, because the store owns the list afterwards.
        let now: Vec<Arc<T>> = objects.iter().cloned().collect();
        let old = self.store.replace(objects, version);
        // Before the handlers: they must not compare versions of the new history with recorded
        // ones.
        if version < before {
            for forget in &*self.rewound.lock() {
                self.guard(forget);
            }
        }
        for object in old
            .iter()
            .filter(|object| self.store.get(&object.key()).is_none())
        {
            self.notify(
                &handlers,
                Change::Deleted {
                    object,
                    final_state_unknown: true,
                },
            );
        }
        for object in &now {
            match old.peer(object) {
                None => self.notify(&handlers, Change::Added { object, initial }),
                // Upstream repeats unchanged objects after each list. Its handlers compare versions
                // and return.
                Some(old) if is_same(old.meta(), object.meta()) => {}
                Some(old) => self.notify(&handlers, Change::Updated { old, new: object }),
            }
        }
        drop(handlers);
        self.metrics.relist();
        self.synced
            .send_if_modified(|synced| !std::mem::replace(synced, true));
        // The awaited versions may never come, so all callbacks run, and their syncs read the store
        // anew.
        if version < before {
            let all = std::mem::take(&mut self.waiting().callbacks);
            all.into_values().for_each(|then| self.guard(then));
        }
        self.processed(started);
    }

    /// Calls handlers for every stored object once more, as an update to itself.
    pub(super) fn resync(&self) {
        let handlers = self.handlers();
        for object in self.store.list() {
            self.notify(
                &handlers,
                Change::Updated {
                    old: &object,
                    new: &object,
                },
            );
        }
    }

    /// Upstream: `AddEventHandler`, which replays the store as well.
    fn add_handler(&self, handler: Handler<T>) {
        // Holds the lock until the handler has seen all objects, so that no change comes in
        // between.
        let mut handlers = self.handlers();
        for object in self.store.list() {
            self.guard(|| {
                handler(Change::Added {
                    object: &object,
                    initial: true,
                })
            });
        }
        handlers.push(handler);
    }

    /// Calls the callbacks whose version the store has reached, after all handlers were called.
    fn call_waiting(&self) {
        let reached = {
            let mut waiting = self.waiting();
            waiting.observed = self.store.resource_version();
            if waiting.callbacks.is_empty() {
                return;
            }
            // The smallest key of a version that is not yet observed.
            let next = (waiting.observed.saturating_add(1), 0);
            let later = waiting.callbacks.split_off(&next);
            std::mem::replace(&mut waiting.callbacks, later)
        };
        // Without the lock: a callback may register another one.
        reached.into_values().for_each(|then| self.guard(then));
    }

    /// Runs waiting callbacks and updates metrics, after all handlers were called for a change.
    fn processed(&self, started: Instant) {
        self.call_waiting();
        self.metrics.processed(started.elapsed(), self.store.len());
    }

    /// Calls all handlers in the order of their registration.
    fn notify(&self, handlers: &[Handler<T>], change: Change<'_, T>) {
        handlers
            .iter()
            .for_each(|handler| self.guard(|| handler(change)));
    }

    /// Calls code of a controller. Its panic must not end the watch that all controllers share.
    fn guard(&self, call: impl FnOnce()) {
        if let Err(panic) = panics::catch_call(call) {
            self.metrics.panic();
            error!(resource = %self.resource, %panic, "handler panicked");
        }
    }
}

impl<T: Object> VersionedCache for Shared<T> {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn resource_version(&self) -> u64 {
        self.store.resource_version()
    }

    /// Check and registration happen under one lock, so no version slips through between them.
    fn when_seen(&self, version: u64, then: Callback) {
        {
            let mut waiting = self.waiting();
            if waiting.observed < version {
                let mut same = waiting.callbacks.range((version, 0)..=(version, u64::MAX));
                let number = same.next_back().map_or(0, |((_, n), _)| n + 1);
                waiting.callbacks.insert((version, number), then);
                return;
            }
        }
        self.guard(then);
    }

    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>) {
        self.rewound.lock().push(forget);
    }
}

impl<T: Object> Cache for Shared<T> {
    fn contact(&self) -> &Contact {
        &self.contact
    }

    fn bytes(&self) -> usize {
        // An estimate of the key and the slot in the map.
        let slot = size_of::<ObjectKey>() + 2 * size_of::<usize>();
        self.store
            .list()
            .iter()
            .map(|object| slot + size_of::<T>() + object.heap_size())
            .sum()
    }
}

/// True if both are the same version of the same object.
fn is_same(a: &Meta, b: &Meta) -> bool {
    a.resource_version == b.resource_version && a.uid == b.uid
}
