//! One informer: its store, its handlers, and the order between them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::error;

use super::contact::Contact;
use super::metrics::{Cache, ResourceMetrics};
use super::store::{Objects, Store};
use super::{Change, VersionedCache};
use crate::object::{Meta, Object, ObjectKey};
use crate::panics;
use crate::resource::ResourceType;
use crate::sync::{Mutex, MutexGuard};

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

    /// An informer over `resource`, whose objects are seen as `T`.
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

    /// Adds a handler, at any time; one added late first gets an `Added { initial: true }` for
    /// every object in the store, before this returns: no change is missed or told twice. It is
    /// called from the informer's own task, in the order of changes and before the next change is
    /// applied, so it must not block: it enqueues. A panic in it is logged and counted.
    ///
    /// Must not be called from within a handler.
    pub fn add_handler(&self, handler: impl Fn(Change<'_, T>) + Send + Sync + 'static) {
        self.shared.add_handler(Box::new(handler));
    }

    /// The cache as far as resource versions go.
    pub fn versioned(&self) -> Arc<dyn VersionedCache> {
        Arc::clone(&self.shared) as Arc<dyn VersionedCache>
    }

    /// Whether the initial list is in the store and all handlers have heard of it.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Calls `then` once the store has reached `version` and the handlers have heard of it, at once
    /// when it has; for putting a key back on its queue the moment its owner's writes are visible.
    /// It also fires when the server's history went back, since `version` may then never come. Runs
    /// on the informer's task (or the caller's), so it must not block.
    pub fn when_seen(&self, version: u64, then: impl FnOnce() + Send + 'static) {
        VersionedCache::when_seen(&*self.shared, version, Box::new(then));
    }

    /// Calls `forget` whenever the server's history went back, as after the restore of a backup,
    /// before handlers hear of the older state: versions noted before mean nothing any more, and
    /// some would be waited for in vain. Runs on the informer's task, so it must not block.
    pub fn on_rewind(&self, forget: impl Fn() + Send + Sync + 'static) {
        VersionedCache::on_rewind(&*self.shared, Box::new(forget));
    }
}

type Handler<T> = Box<dyn Fn(Change<'_, T>) + Send + Sync>;
type Callback = Box<dyn FnOnce() + Send>;

/// Who waits for a version.
#[derive(Default)]
struct Waiting {
    /// The version that handlers have heard of; the store may be a change ahead.
    told: u64,
    /// By the version they wait for, and a number that keeps those of one version apart.
    callbacks: BTreeMap<(u64, u64), Callback>,
}

/// What the clones of a [`SharedInformer`] and its task have in common.
pub(super) struct Shared<T> {
    pub(super) resource: Cow<'static, ResourceType>,
    store: Store<T>,
    /// Held while a change is applied and told, so that a late handler finds the store at rest.
    /// Taken before any other lock.
    handlers: Mutex<Vec<Handler<T>>>,
    waiting: Mutex<Waiting>,
    rewound: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
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

    // Handlers run under this lock, but their panics do not get out of `notify`.
    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<T>>> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version up to which handlers have heard of everything: the store may be a change ahead.
    pub(super) fn observed_version(&self) -> u64 {
        self.waiting().told
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Nobody follows the server any more; what is in the store is where the next round starts
    /// from.
    pub(super) fn stopped(&self) {
        self.synced.send_replace(false);
    }

    pub(super) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// `object`, or the equal one that the store has already: a relist then needs no second copy of
    /// what did not change.
    pub(super) fn reuse_unchanged(&self, object: T) -> Arc<T> {
        match self.store.get(&object.key()) {
            Some(held) if is_same(held.meta(), object.meta()) => held,
            _ => Arc::new(object),
        }
    }

    /// An object was added or modified.
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

    /// An object was deleted; `object` is its last state.
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

    /// Nothing more happened up to `version`.
    pub(super) fn advance(&self, version: u64) {
        self.store.advance(version);
        self.call_waiting();
    }

    /// The complete state as of `version`. Deletions are told first, as their names may be among
    /// the additions of others.
    pub(super) fn replace(&self, objects: Objects<T>, version: u64) {
        let started = Instant::now();
        let handlers = self.handlers();
        let initial = !self.is_synced();
        let before = self.store.resource_version();
        let now: Vec<Arc<T>> = objects.iter().cloned().collect();
        let old = self.store.replace(objects, version);
        if version < before {
            for forget in &*self.rewound.lock().unwrap_or_else(PoisonError::into_inner) {
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
                Some(old) if is_same(old.meta(), object.meta()) => {}
                Some(old) => self.notify(&handlers, Change::Updated { old, new: object }),
            }
        }
        drop(handlers);
        self.metrics.relist();
        self.synced
            .send_if_modified(|synced| !std::mem::replace(synced, true));
        if version < before {
            let all = std::mem::take(&mut self.waiting().callbacks);
            all.into_values().for_each(|then| self.guard(then));
        }
        self.processed(started);
    }

    /// Tells handlers of every object once more.
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

    fn add_handler(&self, handler: Handler<T>) {
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

    /// Handlers have heard of all that is in the store.
    fn call_waiting(&self) {
        let reached = {
            let mut waiting = self.waiting();
            waiting.told = self.store.resource_version();
            if waiting.callbacks.is_empty() {
                return;
            }
            let next = (waiting.told.saturating_add(1), 0);
            let later = waiting.callbacks.split_off(&next);
            std::mem::replace(&mut waiting.callbacks, later)
        };
        reached.into_values().for_each(|then| self.guard(then));
    }

    fn processed(&self, started: Instant) {
        self.call_waiting();
        self.metrics.processed(started.elapsed(), self.store.len());
    }

    fn notify(&self, handlers: &[Handler<T>], change: Change<'_, T>) {
        handlers
            .iter()
            .for_each(|handler| self.guard(|| handler(change)));
    }

    /// Calls code of a controller: its panic must not end the watch that all controllers share.
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

    fn when_seen(&self, version: u64, then: Callback) {
        {
            let mut waiting = self.waiting();
            if waiting.told < version {
                let mut same = waiting.callbacks.range((version, 0)..=(version, u64::MAX));
                let number = same.next_back().map_or(0, |((_, n), _)| n + 1);
                waiting.callbacks.insert((version, number), then);
                return;
            }
        }
        self.guard(then);
    }

    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>) {
        self.rewound
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(forget);
    }
}

impl<T: Object> Cache for Shared<T> {
    fn contact(&self) -> &Contact {
        &self.contact
    }

    fn bytes(&self) -> usize {
        // Its key and its place in the map, about.
        let place = size_of::<ObjectKey>() + 2 * size_of::<usize>();
        self.store
            .list()
            .iter()
            .map(|object| place + size_of::<T>() + object.heap_size())
            .sum()
    }
}

/// Whether both are one state of one object.
fn is_same(a: &Meta, b: &Meta) -> bool {
    a.resource_version == b.resource_version && a.uid == b.uid
}
