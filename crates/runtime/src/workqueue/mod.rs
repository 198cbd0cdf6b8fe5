//! A work queue of keys that deduplicates, delays and rate-limits, as upstream's
//! `client-go/util/workqueue` does.
//!
//! add -> (dirty) -> queue -> get -> (in process) -> drop of the item
//!
//! `add_after` and `add_rate_limited` wait before they add. The queue never gives one key to two
//! workers at once. A key that is added during its processing is queued once more after it.
//!
//! Nothing else delays a key: a queue that saves syncs by waiting makes users wait, too (decision
//! record 11). Events that come while a key is queued or in process share one sync.
//!
//! One timer task handles all delays. It runs only while keys are delayed.

mod backoff;
mod delays;
mod failures;
mod inspected;
mod inspection;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use backoff::Backoff;
use delays::Delays;
pub(crate) use failures::Failed;
use failures::Failures;
pub(crate) use inspected::Waits;
use metrics::{Ages, Handles, InProcess};
pub use metrics::{ImmediateQueue, QueueMetrics};

use steersman_values::capacity::{ReleaseSpare, RemoveAndRelease};
use steersman_values::sync::{AbortHandle, Handle, Mutex, MutexGuard, sleep_until};

/// The longest back-off of one key with upstream's default limiter. Upstream: the second argument
/// in `DefaultTypedControllerRateLimiter`.
const MAX_BACKOFF: Duration = Duration::from_secs(1000);

/// The health check reports a queue without progress after this time. By then every request of a
/// sync has ended, with its retries. The check also reports a panic for this long.
const STUCK: Duration = Duration::from_secs(600);

/// A queue of keys. Cheap to clone; clones share one queue.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    /// For the timer, which must not keep the queue.
    this: Weak<Self>,
    name: String,
    state: Mutex<State<K>>,
    /// Has one permit per queued key. Closed at shutdown.
    queued: Semaphore,
    metrics: Handles,
    all: QueueMetrics,
    runtime: Handle,
    /// Wakes the timer after a change of the earliest deadline.
    rearm: Arc<Notify>,
}

struct State<K> {
    /// Keys in the order of their addition. Upstream: `queue`.
    queue: VecDeque<K>,
    /// All keys that are dirty or in process. Upstream: the sets `dirty` and `processing`.
    marks: HashMap<K, Marks>,
    delays: Delays<K>,
    backoff: Backoff<K>,
    /// The last failures, for explanations.
    failures: Failures<K>,
    /// The task that adds due keys. It runs only while keys are delayed.
    timer: Option<AbortHandle>,
    /// When a worker last took or finished a key. A queue with work and an old time is stuck.
    moved: Instant,
    /// When a sync last panicked.
    panicked: Option<Instant>,
    /// It is never reset.
    shutting_down: bool,
}

/// The marks of one key. Both are set for a key that was added during its processing.
#[derive(Default)]
struct Marks {
    /// Time of the add, if the key is dirty: added and not yet taken by a worker.
    added: Option<Instant>,
    /// Time at which a worker took the key, if it is in process.
    taken: Option<Instant>,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<K> {
    /// A queue called `name` in metrics, with upstream's default rate limiter.
    ///
    /// The back-off of one key is 5 ms and doubles up to 1000 s. All keys together may have 10
    /// rate-limited adds per second, with a burst of 100.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn new(name: &str, metrics: &QueueMetrics) -> Self {
        Self::with_max_backoff(name, metrics, MAX_BACKOFF)
    }

    /// Like [`WorkQueue::new`], with `max` as the longest back-off of one key.
    pub fn with_max_backoff(name: &str, metrics: &QueueMetrics, max: Duration) -> Self {
        Self::with_backoff(name, metrics, Backoff::new(max))
    }

    /// Like [`WorkQueue::new`], with a back-off of one key that starts with `first` and doubles up
    /// to `max`.
    pub fn with_backoff_between(
        name: &str,
        metrics: &QueueMetrics,
        first: Duration,
        max: Duration,
    ) -> Self {
        Self::with_backoff(name, metrics, Backoff::between(first, max))
    }

    /// A queue without an overall rate limit. The back-off of one key starts with `first`, and
    /// doubles up to `max`. Upstream: `NewTypedItemExponentialFailureRateLimiter`.
    pub fn with_backoff_of_keys(
        name: &str,
        metrics: &QueueMetrics,
        first: Duration,
        max: Duration,
    ) -> Self {
        Self::with_backoff(name, metrics, Backoff::per_key(first, max))
    }

    fn with_backoff(name: &str, metrics: &QueueMetrics, backoff: Backoff<K>) -> Self {
        let state = State {
            queue: VecDeque::new(),
            marks: HashMap::new(),
            delays: Delays::default(),
            backoff,
            failures: Failures::default(),
            timer: None,
            moved: Instant::now(),
            panicked: None,
            shutting_down: false,
        };
        let shared = Arc::new_cyclic(|this| Shared {
            this: this.clone(),
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

    /// Adds a key. Has no effect if the key is queued already, or after shutdown. Upstream: `Add`
    /// in `queue.go`.
    pub fn add(&self, key: K) {
        self.shared
            .add(&mut self.shared.lock(), key, Instant::now());
    }

    /// Adds a key after `delay`. If one key has several delays, the earliest deadline counts. A key
    /// that is queued or in process can be delayed as well. Upstream: `AddAfter`.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.shared.lock();
        if state.shutting_down {
            return;
        }
        // Also for delays that are no retries, as in upstream.
        self.shared.metrics.retries.inc();
        let now = Instant::now();
        if delay.is_zero() {
            return self.shared.add(&mut state, key, now);
        }
        if state.delays.insert(key, now, delay) {
            self.shared.arm(&mut state);
        }
    }

    /// Adds a key after its back-off. The back-off doubles with each call until
    /// [`WorkQueue::forget`].
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.shared.lock().backoff.next_delay(&key);
        self.add_after(key, delay);
    }

    /// Resets the back-off of a key. Workers call it after a successful sync.
    pub fn forget(&self, key: &K) {
        let mut state = self.shared.lock();
        state.backoff.forget(key);
        state.failures.forget(key);
    }

    /// Keeps the failure of a sync until [`WorkQueue::forget`], for explanations.
    pub(crate) fn failed(&self, key: &K, failed: Failed) {
        let mut state = self.shared.lock();
        state.failures.record(key, failed, Instant::now());
    }

    /// The number of [`WorkQueue::add_rate_limited`] calls for a key since its last
    /// [`WorkQueue::forget`].
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.lock().backoff.failures(key)
    }

    /// Waits for the next key. `None` after shutdown, when the queue is empty.
    ///
    /// The key is in process until the item is dropped. This method is cancel safe. Upstream:
    /// `Get`.
    pub async fn get(&self) -> Option<Item<K>> {
        match self.shared.queued.acquire().await {
            Ok(permit) => permit.forget(),
            // Keys that are left in the queue are still given out.
            Err(_shut_down) => {}
        }
        let mut state = self.shared.lock();
        let key = state.queue.pop_front()?;
        state.queue.release_spare();
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

    /// Shuts the queue down: it refuses further adds and drops delayed keys. Workers still get the
    /// queued keys. Upstream: `ShutDown`.
    pub fn shut_down(&self) {
        let mut state = self.shared.lock();
        state.shutting_down = true;
        state.delays = Delays::default();
        if let Some(timer) = state.timer.take() {
            timer.abort();
        }
        self.shared.queued.close();
    }

    /// The number of queued keys, without keys that are delayed or in process.
    pub fn len(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// True if no key is queued.
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

    /// The metric handles of all queues.
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

/// A key in process. Its drop, also during a panic, marks the key as done.
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

/// The part of the queue that [`Item`] uses. With this trait, `Item` needs no bounds on its key.
trait Done<K>: Send + Sync {
    fn done(&self, key: &K);
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Shared<K> {
    /// Marks a key as dirty. A key in process is queued when its item is dropped.
    fn add(&self, state: &mut State<K>, key: K, now: Instant) {
        if state.shutting_down {
            return;
        }
        let marks = state.marks.entry(key.clone()).or_default();
        // Queued already, or in process and added again: one more sync covers both.
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

    /// Gives a dirty key to the workers.
    fn enqueue(&self, state: &mut State<K>, key: K) {
        state.queue.push_back(key);
        self.queued.add_permits(1);
    }

    /// Sets the timer to the earliest deadline, which is new.
    fn arm(&self, state: &mut State<K>) {
        if state.timer.is_some() {
            self.rearm.notify_one();
        } else {
            let timer = run_timer(self.this.clone(), Arc::clone(&self.rearm));
            state.timer = Some(self.runtime.spawn(timer).abort_handle());
        }
    }

    /// Adds all due keys. Returns the next deadline; `None` ends the timer. Upstream:
    /// `waitingLoop`.
    fn add_due(&self) -> Option<Instant> {
        let mut state = self.lock();
        let now = Instant::now();
        while let Some(key) = state.delays.pop_due(now) {
            self.add(&mut state, key, now);
        }
        let next = state.delays.next();
        if next.is_none() {
            // Under the lock: an `add_after` after this starts a new timer.
            state.timer = None;
        }
        next
    }
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Done<K> for Shared<K> {
    /// Upstream: `Done`.
    fn done(&self, key: &K) {
        let mut state = self.lock();
        let now = Instant::now();
        state.moved = now;
        let Some(marks) = state.marks.get_mut(key) else {
            return;
        };
        let took = marks.taken.take().map(|taken| now - taken);
        let is_dirty = marks.added.is_some();
        if !is_dirty {
            state.marks.remove_and_release(key);
        }
        if is_dirty {
            // It goes to the end, so a busy key does not hold up others.
            self.enqueue(&mut state, key.clone());
        }
        drop(state);
        if let Some(took) = took {
            self.metrics.work_duration.observe(took.as_secs_f64());
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

    fn findings(&self, now: Instant) -> Vec<String> {
        let mut findings = Vec::new();
        let longest = self.in_process(now).longest;
        if longest > STUCK {
            findings.push(format!(
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
        // A queue that moves is not stuck, even with an old key.
        let still = oldest.map(|added| now.saturating_duration_since(added.max(state.moved)));
        if let Some(still) = still.filter(|still| *still > STUCK && !state.shutting_down) {
            findings.push(format!(
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
            findings.push(format!(
                "a sync of queue {} panicked {}s ago",
                self.name,
                ago.as_secs()
            ));
        }
        findings
    }

    fn oldest_wait(&self, now: Instant) -> Duration {
        let state = self.lock();
        let added = state
            .queue
            .front()
            .and_then(|key| state.marks.get(key)?.added);
        added.map_or(Duration::ZERO, |added| now.saturating_duration_since(added))
    }

    fn stalled_for(&self, now: Instant) -> Duration {
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

/// Sleeps until each deadline and adds due keys. It holds the queue only between two sleeps, so
/// that the queue can be dropped meanwhile.
async fn run_timer<K: Clone + Eq + Hash + Send + Sync + 'static>(
    queue: Weak<Shared<K>>,
    rearm: Arc<Notify>,
) {
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
