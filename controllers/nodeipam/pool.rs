//! The allocations, shared by the handlers of the cache and the syncs.
//!
//! Handlers see each change of a node once and in order. So only they record blocks of nodes, and a
//! sync of an older state cannot mark a released block again.

use std::sync::Arc;

use parking_lot::Mutex;

use steersman_objects::{Node, Object, ObjectKey};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::allocations::Allocations;

/// The allocations behind a lock. Clones share them.
#[derive(Clone)]
pub(super) struct Pool {
    allocations: Arc<Mutex<Allocations>>,
    queue: WorkQueue<ObjectKey>,
}

impl Pool {
    /// Makes `allocations` available to handlers and syncs. Nodes that waited for a block are added
    /// to `queue` when one becomes free.
    pub(super) fn new(allocations: Allocations, queue: WorkQueue<ObjectKey>) -> Self {
        Self {
            allocations: Arc::new(Mutex::new(allocations)),
            queue,
        }
    }

    /// Changes the allocations, then enqueues the nodes that may get a freed block.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut Allocations) -> R) -> R {
        let mut allocations = self.allocations.lock();
        let answer = change(&mut allocations);
        let woken = allocations.take_woken();
        drop(allocations);
        woken.into_iter().for_each(|key| self.queue.add(key));
        answer
    }

    /// Follows the nodes in the cache. As upstream, every addition and update enqueues the node,
    /// and a deletion frees its blocks at once.
    pub(super) fn follow(&self, nodes: &SharedInformer<Node>) {
        let pool = self.clone();
        nodes.add_handler(move |change| match change {
            Change::Added { object, .. } => {
                pool.with(|allocations| allocations.observe(object));
                pool.queue.add(object.key());
            }
            Change::Updated { old, new } => {
                if old.spec.pod_cidrs != new.spec.pod_cidrs {
                    pool.with(|allocations| allocations.observe(new));
                }
                pool.queue.add(new.key());
            }
            Change::Deleted { object, .. } => {
                let fits = pool.with(|allocations| {
                    allocations.forget(&object.key());
                    allocations.check(object)
                });
                if let Err(error) = fits {
                    let error = error.at_release();
                    tracing::error!(error, "Error while processing CIDR Release");
                }
            }
        });
    }
}
