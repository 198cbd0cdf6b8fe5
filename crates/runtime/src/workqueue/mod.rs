//! The work queue of upstream's client-go: deduplicating, delaying, rate limited.
//!
//! add -> (dirty) -> queue -> get -> (in process) -> drop of the item; add_after and
//! add_rate_limited wait in front of add. A key is never handed to two workers at once; a key added
//! while it is being processed comes once more.

mod backoff;
mod delays;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use backoff::Backoff;
use delays::Delays;
use metrics::{Ages, Handles, InProcess};
pub use metrics::{ImmediateQueue, QueueMetrics};

use crate::sync::{AbortHandle, Handle, Mutex, MutexGuard, sleep_until};

/// The longest back-off of one key with upstream's default limiter.
const MAX_BACKOFF: Duration = Duration::from_secs(1000);

/// Work that does not move for so long is stuck: every request of a sync, its retries included, has
/// ended by then. A panic is worth a report for as long.
const STUCK: Duration = Duration::from_secs(600);

/// A queue of keys. Cheap to clone; all clones are one queue.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    name: String,
    state: Mutex<State<K>>,
    /// One permit per queued key; closed on shut-down.
    queued: Semaphore,
    metrics: Handles,
    all: QueueMetrics,
    runtime: Handle,
    /// Tells the timer that the earliest deadline has changed.
    rearm: Arc<Notify>,
}

struct State<K> {
    queue: VecDeque<K>,
    /// Every key that is dirty or in process.
    marks: HashMap<K, Marks>,
    delays: Delays<K>,
    backoff: Backoff<K>,
    /// The task that moves due keys; it runs only while keys are delayed.
    timer: Option<AbortHandle>,
    /// When a key was last taken or done.
    moved: Instant,
    panicked: Option<Instant>,
    shutting_down: bool,
}

#[derive(Default)]
struct Marks {
    /// Dirty: when the add that still awaits processing was accepted.
    added: Option<Instant>,
    /// In process: since when.
    taken: Option<Instant>,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<K> {
    /// A queue called `name` in metrics, with upstream's default limiter: 5 ms doubling to 1000 s
    /// per key, 10/s with burst 100 for all. Must be called inside a runtime.
    pub fn new(name: &str, metrics: &QueueMetrics) -> Self {
        Self::with_max_backoff(name, metrics, MAX_BACKOFF)
    }

    /// As [`WorkQueue::new`], with another limit for the back-off of one key.
    pub fn with_max_backoff(name: &str, metrics: &QueueMetrics, max: Duration) -> Self {
        let state = State {
            queue: VecDeque::new(),
            marks: HashMap::new(),
            delays: Delays::default(),
            backoff: Backoff::new(max),
            timer: None,
            moved: Instant::now(),
            panicked: None,
            shutting_down: false,
        };
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::new(state),
            queued: Semaphore::new(0),
            metrics: metrics.handles(name),
            all: metrics.clone(),
            runtime: Handle::current(),
            rearm: Arc::default(),
        });
        let ages: Weak<Shared<K>> = Arc::downgrade(&shared);
        metrics.watch(name, ages);
        Self { shared }
    }

    /// Adds a key unless it is queued already.
    pub fn add(&self, key: K) {
        self.shared
            .add(&mut self.shared.lock(), key, Instant::now());
    }

    /// Adds a key after `delay`. Of several pending delays of one key the earliest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.shared.lock();
        if state.shutting_down {
            return;
        }
        self.shared.metrics.retries.inc();
        let now = Instant::now();
        if delay.is_zero() {
            return self.shared.add(&mut state, key, now);
        }
        if !state.delays.insert(key, now, delay) {
            return;
        }
        if state.timer.is_some() {
            self.shared.rearm.notify_one();
        } else {
            let timer = run_timer(Arc::downgrade(&self.shared), Arc::clone(&self.shared.rearm));
            state.timer = Some(self.shared.runtime.spawn(timer).abort_handle());
        }
    }

    /// Adds a key after its back-off, which doubles with each call until [`WorkQueue::forget`].
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.shared.lock().backoff.next_delay(&key);
        self.add_after(key, delay);
    }

    /// Ends the back-off of a key.
    pub fn forget(&self, key: &K) {
        self.shared.lock().backoff.forget(key);
    }

    /// How often a key was added rate limited since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.lock().backoff.failures(key)
    }

    /// The next key, or `None` once the queue is shut down and empty. The key counts as processed
    /// when the item is dropped. Cancel safe.
    pub async fn get(&self) -> Option<Item<K>> {
        match self.shared.queued.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_shut_down) => {}
        }
        let mut state = self.shared.lock();
        let key = state.queue.pop_front()?;
        shrink(&mut state.queue);
        let now = Instant::now();
        let marks = state.marks.entry(key.clone()).or_default();
        marks.taken = Some(now);
        let added = marks.added.take();
        state.moved = now;
        drop(state);
        self.shared.metrics.depth.dec();
        if let Some(added) = added {
            self.shared
                .metrics
                .queue_duration
                .observe((now - added).as_secs_f64());
        }
        Some(Item {
            key,
            queue: Arc::clone(&self.shared) as Arc<dyn Done<K>>,
        })
    }

    /// Refuses further adds and drops pending delays; queued keys are still handed out.
    pub fn shut_down(&self) {
        let mut state = self.shared.lock();
        state.shutting_down = true;
        state.delays = Delays::default();
        if let Some(timer) = state.timer.take() {
            timer.abort();
        }
        self.shared.queued.close();
    }

    /// Keys waiting now, without those delayed or in process.
    pub fn len(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// True when no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a sync that waits, since the cache of `resource` lacks our own writes for its key.
    pub fn count_stale_cache(&self, resource: &str) {
        self.shared.all.stale_cache(&self.shared.name, resource);
    }

    /// Counts a sync that panicked.
    pub(crate) fn count_panic(&self) {
        self.shared.metrics.panics.inc();
        self.shared.lock().panicked = Some(Instant::now());
    }

    /// Notes that this is the work of `controller`, for its health check.
    pub(crate) fn assign(&self, controller: &'static str) {
        let queue: Weak<Shared<K>> = Arc::downgrade(&self.shared);
        self.shared.all.assign(controller, queue);
    }

    /// Metrics of all queues.
    pub(crate) fn metrics(&self) -> &QueueMetrics {
        &self.shared.all
    }
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

/// A key in process. Dropping it (also in a panic) says done.
pub struct Item<K> {
    /// The key.
    pub key: K,
    queue: Arc<dyn Done<K>>,
}

impl<K> Drop for Item<K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

impl<K: fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.key).finish()
    }
}

/// The queue as an item sees it, so that [`Item`] itself needs no bounds on its key.
trait Done<K>: Send + Sync {
    fn done(&self, key: &K);
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    fn add(&self, state: &mut State<K>, key: K, now: Instant) {
        if state.shutting_down {
            return;
        }
        let marks = state.marks.entry(key.clone()).or_default();
        if marks.added.is_some() {
            return;
        }
        marks.added = Some(now);
        let in_process = marks.taken.is_some();
        self.metrics.adds.inc();
        self.metrics.depth.inc();
        if !in_process {
            self.enqueue(state, key);
        }
    }

    fn enqueue(&self, state: &mut State<K>, key: K) {
        state.queue.push_back(key);
        self.queued.add_permits(1);
    }

    /// Adds what is due and says when the next key will be; without one the timer is over.
    fn add_due(&self) -> Option<Instant> {
        let mut state = self.lock();
        let now = Instant::now();
        while let Some(key) = state.delays.pop_due(now) {
            self.add(&mut state, key, now);
        }
        let next = state.delays.next();
        if next.is_none() {
            state.timer = None;
        }
        next
    }
}

impl<K: Clone + Eq + Hash + Send + Sync> Done<K> for Shared<K> {
    fn done(&self, key: &K) {
        let mut state = self.lock();
        state.moved = Instant::now();
        let Some(marks) = state.marks.get_mut(key) else {
            return;
        };
        let taken = marks.taken.take();
        if marks.added.is_some() {
            self.enqueue(&mut state, key.clone());
        } else {
            state.marks.remove(key);
            shrink_map(&mut state.marks);
        }
        drop(state);
        if let Some(taken) = taken {
            self.metrics
                .work_duration
                .observe(taken.elapsed().as_secs_f64());
        }
    }
}

impl<K: Eq + Hash + Send + Sync> Ages for Shared<K> {
    fn in_process(&self, now: Instant) -> InProcess {
        let state = self.lock();
        let ages = state
            .marks
            .values()
            .filter_map(|marks| Some(now.saturating_duration_since(marks.taken?)));
        ages.fold(InProcess::default(), InProcess::with)
    }

    fn troubles(&self, now: Instant) -> Vec<String> {
        let mut troubles = Vec::new();
        let longest = self.in_process(now).longest;
        if longest > STUCK {
            troubles.push(format!(
                "a sync of queue {} has been going on for {}s",
                self.name,
                longest.as_secs()
            ));
        }
        let state = self.lock();
        let oldest = state
            .queue
            .front()
            .and_then(|key| state.marks.get(key)?.added);
        let still = oldest.map(|added| now.saturating_duration_since(added.max(state.moved)));
        if let Some(still) = still.filter(|still| *still > STUCK && !state.shutting_down) {
            troubles.push(format!(
                "queue {} has not moved for {}s",
                self.name,
                still.as_secs()
            ));
        }
        if let Some(ago) = state
            .panicked
            .map(|at| now.saturating_duration_since(at))
            .filter(|ago| *ago < STUCK)
        {
            troubles.push(format!(
                "a sync of queue {} panicked {}s ago",
                self.name,
                ago.as_secs()
            ));
        }
        troubles
    }

    fn stood_still(&self, now: Instant) -> Duration {
        let state = self.lock();
        let in_process = state.marks.values().any(|marks| marks.taken.is_some());
        let queued = state
            .queue
            .front()
            .and_then(|key| state.marks.get(key)?.added);
        let work_since = if in_process {
            Some(state.moved)
        } else {
            queued
        };
        match work_since {
            Some(since) if !state.shutting_down => {
                now.saturating_duration_since(since.max(state.moved))
            }
            _ => Duration::ZERO,
        }
    }
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        if let Some(timer) = self.lock().timer.take() {
            timer.abort();
        }
    }
}

/// Sleeps from deadline to deadline. Holds the queue only in between, so that the last clone can
/// go.
async fn run_timer<K: Clone + Eq + Hash>(queue: Weak<Shared<K>>, rearm: Arc<Notify>) {
    loop {
        let Some(next) = queue.upgrade().and_then(|queue| queue.add_due()) else {
            return;
        };
        tokio::select! {
            () = sleep_until(next) => {}
            () = rearm.notified() => {}
        }
    }
}

/// Collections below this size keep their memory.
const KEPT_CAPACITY: usize = 64;

/// The capacity to shrink to when a collection has become mostly empty, as after a burst; rare
/// enough to cost nothing per key.
fn spare(len: usize, capacity: usize) -> Option<usize> {
    (capacity > KEPT_CAPACITY && len < capacity / 4).then_some(len * 2)
}

fn shrink<T>(queue: &mut VecDeque<T>) {
    if let Some(capacity) = spare(queue.len(), queue.capacity()) {
        queue.shrink_to(capacity);
    }
}

fn shrink_map<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if let Some(capacity) = spare(map.len(), map.capacity()) {
        map.shrink_to(capacity);
    }
}
