//! The worker loop every queue-driven controller runs: take a key, sync it, retry with back-off when that fails.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectKey;
use crate::tasks::CancellationToken;
use crate::workqueue::WorkQueue;

/// When a synced key should come back without a further event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Only when something changes.
    Never,
    /// After this long.
    After(Duration),
}

/// What to do with a key whose sync failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Log, count, back off.
    BackOff,
    /// Back off without an error log: an expected race, such as a conflict.
    Quietly,
    /// Forget the key until something enqueues it.
    Drop,
}

/// One controller's sync.
pub trait Syncer: Send + Sync + 'static {
    /// Why a sync failed.
    type Error: Display + Send;

    /// Brings the object with this key a step closer to its spec.
    fn sync(&self, key: &ObjectKey) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;

    /// What becomes of the key after `error`, which is its failure number `failures` (0 for the first) in a row.
    fn retry(&self, _error: &Self::Error, _failures: u32) -> Retry {
        Retry::BackOff
    }
}

/// Runs `workers` tasks over `queue` until `stop`; then no further key is taken, the syncs in flight are waited for, and the queue
/// is shut down. A panic in a sync is logged with its key, counted, and treated as a failure of that key.
pub async fn run_workers<S: Syncer>(
    _controller: &'static str,
    _queue: WorkQueue<ObjectKey>,
    _workers: usize,
    _syncer: Arc<S>,
    _stop: CancellationToken,
) {
    todo!("helper: queue")
}
