//! The work queue of upstream's client-go: deduplicating, delaying, rate limited.
//!
//! A key is never handed to two workers at once; a key added while it is being processed comes once more.

use std::hash::Hash;
use std::time::Duration;

use crate::metrics::Registry;

/// A queue of keys. Cheap to clone; all clones are one queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    _k: std::marker::PhantomData<K>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        todo!("helper: queue")
    }
}

/// Metric handles of all queues (`workqueue_*`), one label value per queue.
#[derive(Debug, Clone)]
pub struct QueueMetrics {}

impl QueueMetrics {
    /// Registers the seven families of metrics.md section 2.
    pub fn register(_registry: &Registry) -> Result<Self, prometheus::Error> {
        todo!("helper: queue")
    }
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<K> {
    /// A queue called `name` in metrics, with upstream's default limiter: 5 ms doubling to 1000 s per key, 10/s with burst 100
    /// for all. Must be called inside a runtime.
    pub fn new(_name: &str, _metrics: &QueueMetrics) -> Self {
        todo!("helper: queue")
    }

    /// Adds a key unless it is queued already.
    pub fn add(&self, _key: K) {
        todo!("helper: queue")
    }

    /// Adds a key after `delay`. Of several pending delays of one key the earliest counts.
    pub fn add_after(&self, _key: K, _delay: Duration) {
        todo!("helper: queue")
    }

    /// Adds a key after its back-off, which doubles with each call until [`WorkQueue::forget`].
    pub fn add_rate_limited(&self, _key: K) {
        todo!("helper: queue")
    }

    /// Ends the back-off of a key.
    pub fn forget(&self, _key: &K) {
        todo!("helper: queue")
    }

    /// How often a key was added rate limited since it was last forgotten.
    pub fn failures(&self, _key: &K) -> u32 {
        todo!("helper: queue")
    }

    /// The next key, or `None` once the queue is shut down and empty. The key counts as processed when the item is dropped.
    pub async fn get(&self) -> Option<Item<K>> {
        todo!("helper: queue")
    }

    /// Refuses further adds and drops pending delays; queued keys are still handed out.
    pub fn shut_down(&self) {
        todo!("helper: queue")
    }

    /// Keys waiting now, without those delayed or in process.
    pub fn len(&self) -> usize {
        todo!("helper: queue")
    }

    /// True when no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A key in process. Dropping it (also in a panic) says done.
#[derive(Debug)]
pub struct Item<K> {
    /// The key.
    pub key: K,
}
