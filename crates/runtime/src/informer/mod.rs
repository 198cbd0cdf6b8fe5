//! Shared informers: one watch per resource type, a store for all controllers, and handlers that
//! are called for every change.
//!
//! API server -> reflector (stream-list, watch, list) -> store -> handlers, in order -> queues
//!
//! Guarantees:
//!
//! - For each object, the store holds a state that the server had. A state is replaced only by a
//!   later one, except after a rewind of the server.
//! - A handler is called for every change that the reflector saw, in order. The store shows the
//!   change before the call, and the next change is applied after it. All handlers of a type run on
//!   one task, one after the other, and must only enqueue.
//! - After a gap in the watch, handlers get the difference to the new list. Deletions come first,
//!   with the last known state (`final_state_unknown`), then updates and additions. A deletion and
//!   recreation under one name is one update, with two UIDs.
//! - An update with equal old and new versions comes only from a resync. Upstream also sends it
//!   after every relist, and its handlers ignore it.
//! - The reflector never skips an undecodable object. It logs the error, keeps the state of the
//!   store, and lists again after a pause. Such an informer does not sync.
//! - [`SharedInformer::is_synced`] means that all handlers were called for the initial state.
//! - [`Store::resource_version`] advances with events, bookmarks and lists. It also advances for
//!   objects that were deleted meanwhile, so a writer can wait for its own writes
//!   ([`SharedInformer::when_seen`]).
//!
//! Upstream: `client-go/tools/cache` (`reflector.go`, `shared_informer.go`).

mod contact;
mod factory;
mod metadata;
mod metrics;
mod progress;
mod reflector;
mod run;
mod shared;
mod source;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::sync::Arc;

use steersman_values::resource::ResourceType;

pub use factory::InformerFactory;
pub use metadata::{MetadataChange, MetadataInformer};
pub use shared::SharedInformer;
pub use store::{Index, Store};

/// A change, as handlers receive it.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// A new object.
    Added {
        /// The object.
        object: &'a Arc<T>,
        /// True for an object of the first list. A handler that is added later gets all objects of
        /// the store this way.
        initial: bool,
    },
    /// A changed object. Namespace and name are equal. The UIDs differ after a recreation during a
    /// gap of the watch.
    Updated {
        /// The previous state in the store.
        old: &'a Arc<T>,
        /// The new state in the store.
        new: &'a Arc<T>,
    },
    /// A deleted object.
    Deleted {
        /// The state in the watch event, or the last known state.
        object: &'a Arc<T>,
        /// True if a relist showed the deletion after a gap, so `object` may be stale.
        final_state_unknown: bool,
    },
}

impl<'a, T> Change<'a, T> {
    /// The object as it is now, or its last state.
    pub fn object(&self) -> &'a Arc<T> {
        match self {
            Self::Added { object, .. }
            | Self::Deleted { object, .. }
            | Self::Updated { new: object, .. } => object,
        }
    }
}

impl<T> Clone for Change<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

// Written by hand, because a derive would require `T: Copy`. A change only borrows objects.
impl<T> Copy for Change<'_, T> {}

/// A cache whatever its type, as far as resource versions go.
pub trait VersionedCache: Send + Sync {
    /// The resource it holds.
    fn resource(&self) -> &ResourceType;
    /// See [`Store::resource_version`].
    fn resource_version(&self) -> u64;
    /// See [`SharedInformer::when_seen`].
    fn when_seen(&self, version: u64, then: Box<dyn FnOnce() + Send>);
    /// See [`SharedInformer::on_rewind`].
    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>);
}

/// A value in an index, such as a UID, a node name or a namespace.
pub type IndexKey = steersman_values::intern::Sym;
