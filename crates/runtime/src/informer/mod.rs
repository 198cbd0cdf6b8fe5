//! Shared informers: one watch per resource type, a store everyone reads, handlers that hear of
//! every change.
//!
//! API server -> reflector (stream-list, watch, list) -> store -> handlers, in order -> queues
//!
//! What a reader may rely on:
//!
//! - The store holds, per object, a state that the server had. It never goes back in time, unless
//!   the server did.
//! - A handler is called for every change the reflector saw, in order, after the store shows it and
//!   before the next change is applied. All handlers of a type run on its one task, one after the
//!   other, and must only enqueue.
//! - What happened while there was no watch is told as a difference: first what is gone, with its
//!   last known state (`final_state_unknown`), then what changed or is new. A deletion and
//!   recreation under one name is one update, with two UIDs.
//! - An update whose old and new state are one version is told only by a resync. (Upstream also
//!   tells it after every relist; its handlers ignore it.)
//! - Whatever cannot be read is never skipped: the reflector logs it, keeps the state it has, and
//!   lists again after a pause. An informer over objects it cannot read does not sync.
//! - [`SharedInformer::is_synced`] means that all handlers have heard of the initial state.
//! - [`Store::resource_version`] moves with events, bookmarks and lists, also over changes of
//!   objects that were deleted again, so a writer can wait for its own writes
//!   ([`SharedInformer::when_seen`]).

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

use crate::resource::ResourceType;

pub use factory::InformerFactory;
pub use metadata::{MetadataChange, MetadataInformer};
pub use shared::SharedInformer;
pub use store::{Index, Store};

/// A change, as handlers hear of it.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// A new object. `initial` when it belongs to the first list (or is replayed to a handler that
    /// came late).
    Added {
        /// The object.
        object: &'a Arc<T>,
        /// Part of the initial state.
        initial: bool,
    },
    /// An object changed. Namespace and name are equal, the UIDs need not be: a recreation during a
    /// gap arrives so.
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

// By hand, as a derive would ask for `T: Copy`; a change only borrows.
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

/// A value in an index: an object's UID as text, a node name, a namespace.
pub type IndexKey = crate::intern::Sym;
