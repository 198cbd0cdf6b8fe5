//! Shared informers: one watch per resource type, a store everyone reads, handlers that hear of every change.
//!
//! API server -> reflector (list, watch, relist) -> store -> handlers, in order -> queues
//!
//! What a reader may rely on: the store holds, per object, a state that the server had, never going back in time; a handler is
//! called for every change the reflector saw, in order, after the store shows it; a relist reports what was deleted meanwhile
//! with its last known state; [`SharedInformer::is_synced`] means that all handlers have seen the initial state.

use std::sync::Arc;

use crate::client::ApiClient;
use crate::metrics::Registry;
use crate::object::{Object, ObjectKey};
use crate::tasks::{CancellationToken, Tasks};

/// A change, as handlers hear of it.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// A new object. `initial` when it belongs to the first list (or is replayed to a handler that came late).
    Added {
        /// The object.
        object: &'a Arc<T>,
        /// Part of the initial state.
        initial: bool,
    },
    /// An object changed. Namespace and name are equal, the UIDs need not be: a recreation during a gap arrives so.
    Updated {
        /// What the store held.
        old: &'a Arc<T>,
        /// What it holds now.
        new: &'a Arc<T>,
    },
    /// An object is gone.
    Deleted {
        /// The state carried by the event, or the last one known.
        object: &'a Arc<T>,
        /// The deletion was noticed by its absence after a gap, so `object` may be stale.
        final_state_unknown: bool,
    },
}

/// Makes the informers, one per type, and runs them.
#[derive(Clone)]
pub struct InformerFactory {}

impl InformerFactory {
    /// Informers over `client` (upstream's `shared-informers`). `resync` is the period after which every object is reported to
    /// handlers once more as an update to itself; zero is never.
    pub fn new(_client: ApiClient, _resync: std::time::Duration, _registry: &Registry) -> Result<Self, prometheus::Error> {
        todo!("helper: informer")
    }

    /// The informer of `T`, the same for every caller. Not started yet when new.
    pub fn shared<T: Object>(&self) -> SharedInformer<T> {
        todo!("helper: informer")
    }

    /// Starts every informer that was asked for and does not run yet, as tasks of `tasks`, until `stop`.
    pub fn start(&self, _tasks: &Tasks, _stop: &CancellationToken) {
        todo!("helper: informer")
    }

    /// Waits until all started informers have synced. False when `stop` came first.
    pub async fn wait_synced(&self, _stop: &CancellationToken) -> bool {
        todo!("helper: informer")
    }
}

/// The informer of one type. Cheap to clone.
pub struct SharedInformer<T> {
    _t: std::marker::PhantomData<Arc<T>>,
}

impl<T: Object> SharedInformer<T> {
    /// The cache.
    pub fn store(&self) -> Store<T> {
        todo!("helper: informer")
    }

    /// Adds a handler, at any time; one added late first gets an `Added { initial: true }` for every object in the store. It is
    /// called from the informer's own task, so it must not block: it enqueues. A panic in it is logged and counted.
    pub fn add_handler(&self, _handler: impl Fn(Change<'_, T>) + Send + Sync + 'static) {
        todo!("helper: informer")
    }

    /// Adds an index called `name`: `keys` gives the values an object is found under. Adding the same name again is harmless
    /// (the first function stays), so that every controller can name the indexes it needs.
    pub fn add_index(&self, _name: &'static str, _keys: fn(&T) -> Vec<IndexKey>) {
        todo!("helper: informer")
    }

    /// Whether the initial list is in the store and all handlers have heard of it.
    pub fn is_synced(&self) -> bool {
        todo!("helper: informer")
    }

    /// Calls `then` once the store has reached `version`, at once when it has; for putting a key back on its queue the moment
    /// its owner's writes are visible.
    pub fn when_seen(&self, _version: u64, _then: impl FnOnce() + Send + 'static) {
        todo!("helper: informer")
    }
}

/// A value in an index: an object's UID as text, a node name, a namespace.
pub type IndexKey = crate::intern::Sym;

/// Read access to an informer's cache. Cheap to clone. Never blocks for long: no IO happens under its lock.
pub struct Store<T> {
    _t: std::marker::PhantomData<Arc<T>>,
}

impl<T: Object> Store<T> {
    /// The object with this key.
    pub fn get(&self, _key: &ObjectKey) -> Option<Arc<T>> {
        todo!("helper: informer")
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<T>> {
        todo!("helper: informer")
    }

    /// All objects of a namespace, in no order.
    pub fn in_namespace(&self, _namespace: &str) -> Vec<Arc<T>> {
        todo!("helper: informer")
    }

    /// All objects with this value in an index, in no order.
    ///
    /// # Panics
    /// When there is no such index: a controller forgot [`SharedInformer::add_index`].
    pub fn by_index(&self, _index: &str, _value: &str) -> Vec<Arc<T>> {
        todo!("helper: informer")
    }

    /// The version up to which the cache has seen the server's history of this type (events and bookmarks).
    pub fn resource_version(&self) -> u64 {
        todo!("helper: informer")
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        todo!("helper: informer")
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
