//! The worker loop of every queue-driven controller.
//!
//! queue -> worker -> [`Syncer::sync`] -> requeue, retry with back-off, or forget
//!
//! Workers never sync one key at the same time, since the queue gives a key to one worker only. A
//! sync in flight is finished before the workers end, so that its writes are complete. A panic is a
//! failure of its key and does not end the worker.
//!
//! Upstream: `Run`, `worker` and `processNextWorkItem` of each controller package.

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;
use tracing::Instrument;

use steersman_client::{ApiError, Category, within_sync};
use steersman_objects::ObjectKey;

use crate::controller::Controller;
use crate::panics;
use crate::tasks::CancellationToken;
use crate::workqueue::{Failed, WorkQueue};

/// The target of the spans of syncs, for filters of traces. The spans have the fields `controller`
/// and `key`.
pub const SPANS: &str = "steersman_runtime::workers";

/// Pause before a key is synced again after the write gate refused a write.
const REFUSED_PAUSE: Duration = Duration::from_secs(3);

/// The time at which a synced key returns to the queue without a further event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Never: only an event enqueues the key again.
    Never,
    /// At once: the sync has left out some of its work. Without back-off, and behind the keys that
    /// wait already.
    AtOnce,
    /// After this delay. An event before that time syncs the key too. The delayed sync still comes.
    After(Duration),
}

/// The treatment of a key after a failed sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Log, count, back off. Upstream: `AddRateLimited` after `HandleError`.
    BackOff,
    /// Back off without an error log: an expected race, such as a conflict.
    Quietly,
    /// Forget the key until an event enqueues it. Upstream's limit of retries, after which it calls
    /// `Forget`.
    Drop,
    /// Repeat the sync after this delay, since the sync has to wait. The count of failures stays as
    /// it is.
    After(Duration),
}

impl Retry {
    /// The default treatment after the failed request `request`; `None` is a failure without a
    /// request.
    ///
    /// A conflict, an existing object or a missing object is a race: the watch event about that
    /// object is still on its way. Every other failure is an error that an operator may have to
    /// act on.
    pub fn after_request(request: Option<&ApiError>) -> Self {
        let is_race = |error: &ApiError| {
            error.is_conflict() || error.is_already_exists() || error.is_object_not_found()
        };
        if request.is_some_and(is_race) {
            Self::Quietly
        } else {
            Self::BackOff
        }
    }
}

/// The sync of one controller. The default type of keys is [`ObjectKey`].
pub trait Syncer<K = ObjectKey>: Send + Sync + 'static {
    /// The failure of a sync. A failed request is in its chain of sources.
    type Error: Error + Send + 'static;

    /// Brings the object with this key a step closer to its spec. It runs to its end even after
    /// `stop`.
    fn sync(&self, key: &K) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;

    /// The treatment of a key after `error`. `_failures` is the number of earlier failures in a
    /// row, 0 for the first failure. Not called for a write that the write gate refused.
    fn retry(&self, error: &Self::Error, _failures: u32) -> Retry {
        Retry::after_request(ApiError::within(error))
    }
}

/// Runs `workers` tasks over `queue` until `stop`. Then the workers take no further key, finish the
/// syncs in flight, and shut the queue down.
///
/// A panic in a sync is logged with its key and counted (`steersman_sync_panics_total`). The key is
/// retried with back-off.
pub async fn run_workers<K: Key, S: Syncer<K>>(
    controller: &'static str,
    queue: WorkQueue<K>,
    workers: usize,
    syncer: Arc<S>,
    stop: CancellationToken,
) {
    // From here on health checks and explanations find the queue.
    queue.assign(controller);
    let worker = Arc::new(Worker {
        controller,
        queue: queue.clone(),
        syncer,
        error_pace: ErrorPace::default(),
        spare: Mutex::default(),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let worker = Arc::clone(&worker);
        let stop = stop.clone();
        tasks.spawn(worker.run(stop));
    }
    // As upstream: with zero workers the controller runs until it is stopped, and syncs nothing.
    if workers == 0 {
        stop.cancelled().await;
    }
    while let Some(end) = tasks.join_next().await {
        match end {
            // Only the shutdown of the Tokio runtime cancels a worker. The manager has logged the
            // reason by then.
            Err(error) if error.is_cancelled() => {
                tracing::debug!(controller, "worker was cancelled at the end of the process")
            }
            Err(error) => tracing::error!(controller, %error, "worker ended early"),
            Ok(()) => {}
        }
    }
    queue.shut_down();
}

/// Verb and path of the request that the API server refused. The texts of other errors have them.
fn refused<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
    let error = ApiError::within(error)?;
    error.status().map(|_| error.request())
}

/// A controller that consists of one queue and `workers` workers ([`run_workers`]).
pub fn boxed<K: Key, S: Syncer<K>>(
    controller: &'static str,
    queue: WorkQueue<K>,
    workers: usize,
    syncer: Arc<S>,
) -> Box<dyn Controller> {
    Box::new(Queue {
        controller,
        queue,
        workers,
        syncer,
    })
}

/// The controller of [`boxed`]. It has no task besides its workers.
struct Queue<K, S> {
    controller: &'static str,
    queue: WorkQueue<K>,
    workers: usize,
    syncer: Arc<S>,
}

impl<K: Key, S: Syncer<K>> Controller for Queue<K, S> {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            controller,
            queue,
            workers,
            syncer,
        } = *self;
        Box::pin(run_workers(controller, queue, workers, syncer, stop))
    }
}

/// A key of a queue: a namespaced name for most controllers.
pub trait Key: Clone + Eq + Hash + Display + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Display + Send + Sync + 'static> Key for K {}

/// The state that all workers of a controller share.
struct Worker<K, S> {
    controller: &'static str,
    queue: WorkQueue<K>,
    syncer: Arc<S>,
    error_pace: ErrorPace,
    /// Boxes of ended syncs for the next ones. The state of a sync takes kilobytes, so idle workers
    /// have none. A new box for each sync would leave gaps in the memory of the allocator.
    spare: Mutex<Vec<ReusableBoxFuture<'static, ()>>>,
}

impl<K: Key, S: Syncer<K>> Worker<K, S> {
    /// Syncs keys until `stop`, or until the queue is shut down.
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let item = tokio::select! {
                biased;
                // `biased` looks at `stop` first, so no key is taken after it.
                () = stop.cancelled() => return self.queue.shut_down(),
                item = self.queue.get() => item,
            };
            let Some(item) = item else { return };
            // The span is that of one sync, so all its log lines have controller and key.
            let span = tracing::info_span!(target: SPANS, "sync", controller = self.controller, key = %item.key);
            let worker = Arc::clone(&self);
            let stop = stop.clone();
            // Formatted only if somebody looks at writes.
            let name = self
                .queue
                .metrics()
                .names_syncs()
                .then(|| item.key.to_string().into());
            let sync = async move { worker.process(&item.key, &stop).await };
            let mut sync = self.boxed(within_sync(name, sync.instrument(span)));
            sync.get_pin().await;
            // A sync that panicked was caught inside, so its box is as good as others.
            self.spare().push(sync);
        }
    }

    fn boxed(
        &self,
        sync: impl Future<Output = ()> + Send + 'static,
    ) -> ReusableBoxFuture<'static, ()> {
        match self.spare().pop() {
            Some(mut spare) => {
                spare.set(sync);
                spare
            }
            None => ReusableBoxFuture::new(sync),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<ReusableBoxFuture<'static, ()>>> {
        self.spare.lock()
    }

    /// Syncs one key, logs and counts the result, and requeues the key.
    async fn process(&self, key: &K, stop: &CancellationToken) {
        let began = Instant::now();
        tracing::trace!("Started syncing");
        let outcome = panics::catch(self.sync(key)).await;
        let result = result_of(&outcome);
        let duration = began.elapsed();
        tracing::trace!(result, ?duration, "Finished syncing");
        self.queue
            .metrics()
            .synced(self.controller, result, duration);
        let retry = match outcome {
            Ok(Ok(requeue)) => {
                // Before the requeue: a success ends the back-off, also if the sync asks for a
                // repetition.
                self.queue.forget(key);
                match requeue {
                    Requeue::Never => {}
                    Requeue::AtOnce => self.queue.add(key.clone()),
                    Requeue::After(delay) => self.queue.add_after(key.clone(), delay),
                }
                return;
            }
            // Leadership ended, and the write gate refuses writes. The next leader makes them.
            Ok(Err((error, _))) if stop.is_cancelled() => {
                return tracing::debug!(%error, "sync ended early because leadership has ended");
            }
            Ok(Err((error, Retry::BackOff))) => {
                // The worker waits, so a hot loop of failures also takes fewer keys.
                self.error_pace.wait().await;
                let category = Category::of(&error).as_str();
                tracing::error!(category, request = refused(&error), %error, "sync failed");
                self.keep(key, &error, Retry::BackOff);
                Retry::BackOff
            }
            Ok(Err((error, Retry::Quietly))) => {
                let category = Category::of(&error).as_str();
                tracing::debug!(category, request = refused(&error), %error, "sync failed, which is no error, and is retried");
                self.keep(key, &error, Retry::Quietly);
                Retry::Quietly
            }
            Ok(Err((error, Retry::Drop))) => {
                self.error_pace.wait().await;
                let category = Category::of(&error).as_str();
                tracing::warn!(category, request = refused(&error), %error, "sync failed, key dropped until its object changes");
                // The failure stays known: it is the reason why the object does not move.
                self.queue.forget(key);
                self.keep(key, &error, Retry::Drop);
                return;
            }
            Ok(Err((error, Retry::After(delay)))) => {
                tracing::trace!(%error, ?delay, "sync has to wait");
                self.keep(key, &error, Retry::After(delay));
                Retry::After(delay)
            }
            // Upstream's process ends with a panic. Here the key is retried like a failed one.
            Err(panic) => {
                self.queue.count_panic();
                self.error_pace.wait().await;
                tracing::error!(%panic, "sync panicked");
                let failed = Failed {
                    error: format!("the sync panicked: {panic}"),
                    category: "panic",
                    request: None,
                    is_dropped: false,
                };
                self.queue.failed(key, failed);
                Retry::BackOff
            }
        };
        match retry {
            Retry::BackOff | Retry::Quietly => self.queue.add_rate_limited(key.clone()),
            Retry::Drop => self.queue.forget(key),
            Retry::After(delay) => self.queue.add_after(key.clone(), delay),
        }
    }

    /// Keeps `error` for explanations of `key`. A wait is kept too: it tells why the object does
    /// not move.
    fn keep(&self, key: &K, error: &S::Error, retry: Retry) {
        let failed = Failed {
            error: error.to_string(),
            category: Category::of(error).as_str(),
            request: refused(error).map(str::to_owned),
            is_dropped: retry == Retry::Drop,
        };
        self.queue.failed(key, failed);
    }

    async fn sync(&self, key: &K) -> Result<Requeue, (S::Error, Retry)> {
        self.syncer.sync(key).await.map_err(|error| {
            // The write gate refused a write, and another manager makes it. The pause does not
            // grow, because a manager that only watches asks again for as long as it wants the
            // write. Before the syncer's own rule, which does not know about gates.
            let retry = if ApiError::within(&error).is_some_and(ApiError::is_fenced) {
                Retry::After(REFUSED_PAUSE)
            } else {
                self.syncer.retry(&error, self.queue.failures(key))
            };
            (error, retry)
        })
    }
}

/// The label `result` of the metric of syncs.
fn result_of<E, P>(outcome: &Result<Result<Requeue, (E, Retry)>, P>) -> &'static str {
    match outcome {
        Ok(Ok(Requeue::Never)) => "success",
        Ok(Ok(Requeue::AtOnce | Requeue::After(_))) => "requeue",
        Ok(Err((_, Retry::BackOff))) => "error",
        Ok(Err((_, Retry::Quietly))) => "conflict",
        Ok(Err((_, Retry::Drop))) => "dropped",
        Ok(Err((_, Retry::After(_)))) => "wait",
        Err(_) => "panic",
    }
}

/// Keeps reported errors at least a millisecond apart, so that a hot failure loop cannot flood the
/// log.
#[derive(Default)]
struct ErrorPace {
    next: Mutex<Option<Instant>>,
}

impl ErrorPace {
    /// A thousand lines per second is the most that one controller writes.
    const GAP: Duration = Duration::from_millis(1);

    /// Waits for the next free slot. Concurrent callers get slots one gap apart.
    async fn wait(&self) {
        let now = Instant::now();
        let slot = {
            let mut next = self.next.lock();
            let slot = next.map_or(now, |next| next.max(now));
            *next = Some(slot + Self::GAP);
            slot
        };
        if slot > now {
            tokio::time::sleep_until(slot).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::metrics::Registry;
    use crate::workqueue::QueueMetrics;

    const MS: Duration = Duration::from_millis(1);

    /// A discovery that the API server refuses without a message has no other text than `unknown`.
    #[test]
    fn the_request_of_a_refusal_is_named() {
        let request = "GET /apis".to_owned();
        let status = Box::default();
        let refusal = Planned::Write(ApiError::Status {
            request: request.clone(),
            code: 403,
            status,
        });
        assert_eq!(refused(&refusal), Some("GET /apis"));
        let timeout = MS;
        let lost = Planned::Write(ApiError::Timeout { request, timeout });
        assert_eq!(refused(&lost), None);
        assert_eq!(refused(&Planned::Failure("no request")), None);
    }

    /// A syncer whose outcomes depend on the name of the key. Records the time of each sync.
    struct Script {
        started: Instant,
        syncs: Mutex<Vec<(String, u128)>>,
        busy: AtomicUsize,
        finished: AtomicUsize,
    }

    #[derive(Debug, thiserror::Error)]
    enum Planned {
        #[error("{0}")]
        Failure(&'static str),
        #[error("{0}")]
        Write(#[source] ApiError),
    }

    impl Syncer for Script {
        type Error = Planned;

        async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Planned> {
            let round = {
                let mut syncs = self.syncs.lock();
                syncs.push((key.name.to_string(), self.started.elapsed().as_millis()));
                syncs.iter().filter(|(name, _)| *name == *key.name).count()
            };
            self.busy.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(match &*key.name {
                "slow" => 1000 * MS,
                "endless" => Duration::MAX,
                _ => Duration::ZERO,
            })
            .await;
            self.busy.fetch_sub(1, Ordering::Relaxed);
            self.finished.fetch_add(1, Ordering::Relaxed);
            match (&*key.name, round) {
                ("later", 1) => Ok(Requeue::After(500 * MS)),
                ("panic", 1) => panic!("as planned"),
                ("wait", 2) => Err(Planned::Failure("not yet")),
                ("fail" | "quiet" | "drop" | "wait", 1..=3) => Err(Planned::Failure("as planned")),
                ("fail-then-later", 1) => Err(Planned::Failure("as planned")),
                ("fenced", 1..=3) => Err(Planned::Write(ApiError::Fenced {
                    request: "POST /x".to_owned(),
                })),
                ("fail-then-later", 2) => Ok(Requeue::After(500 * MS)),
                _ => Ok(Requeue::Never),
            }
        }

        fn retry(&self, _error: &Planned, failures: u32) -> Retry {
            let syncs = self.syncs.lock();
            match syncs.last().unwrap().0.as_str() {
                "quiet" => Retry::Quietly,
                "fenced" => Retry::Drop,
                "drop" if failures == 1 => Retry::Drop,
                "wait" if syncs.len() == 2 => Retry::After(500 * MS),
                _ => Retry::BackOff,
            }
        }
    }

    /// A syncer with 100 KB of state.
    struct Large;

    impl Syncer for Large {
        type Error = std::convert::Infallible;

        async fn sync(&self, _key: &ObjectKey) -> Result<Requeue, Self::Error> {
            let state = std::hint::black_box([1_u8; 100_000]);
            tokio::task::yield_now().await;
            std::hint::black_box(state);
            Ok(Requeue::Never)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_workers_hold_no_state_of_a_sync() {
        let registry = Registry::new();
        let queue = WorkQueue::new("test", &QueueMetrics::register(&registry).unwrap());
        let worker = Arc::new(Worker {
            controller: "test",
            queue: queue.clone(),
            syncer: Arc::new(Large),
            error_pace: ErrorPace::default(),
            spare: Mutex::default(),
        });
        let workers = || Arc::clone(&worker).run(CancellationToken::new());
        assert!(size_of_val(&workers()) < 10_000);

        for name in ["a", "b", "c"] {
            queue.add(ObjectKey::new("", name));
        }
        queue.shut_down();
        tokio::join!(workers(), workers());
        assert_eq!(worker.spare().len(), 2, "one box per busy worker");
    }

    struct Running {
        queue: WorkQueue<ObjectKey>,
        script: Arc<Script>,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
        registry: Registry,
    }

    fn start(workers: usize) -> Running {
        let registry = Registry::new();
        let queue = WorkQueue::new("test", &QueueMetrics::register(&registry).unwrap());
        let script = Arc::new(Script {
            started: Instant::now(),
            syncs: Mutex::default(),
            busy: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(run_workers(
            "test",
            queue.clone(),
            workers,
            Arc::clone(&script),
            stop.clone(),
        ));
        Running {
            queue,
            script,
            stop,
            task,
            registry,
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    #[tokio::test(start_paused = true)]
    async fn controller_without_workers_runs_until_stopped_and_syncs_nothing() {
        let running = start(0);
        running.queue.add(key("fine"));
        tokio::time::sleep(100 * MS).await;
        assert!(!running.task.is_finished());
        running.stop.cancel();
        running.task.await.unwrap();
        assert!(running.script.syncs.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_follows_the_outcome_of_the_sync() {
        // (key, times of its syncs in ms, failures at the end)
        let cases: [(&str, &[u128], u32); 9] = [
            ("fine", &[0], 0),
            ("later", &[0, 500], 0),
            ("fail", &[0, 5, 15, 35], 0),
            ("quiet", &[0, 5, 15, 35], 0),
            ("drop", &[0, 5], 0),
            // Another manager makes the refused write; the answer of `retry` does not count.
            ("fenced", &[0, 3000, 6000, 9000], 0),
            // The wait in the middle is no failure, so the back-off continues with 10 ms.
            ("wait", &[0, 5, 505, 515], 0),
            ("panic", &[0, 5], 0),
            ("fail-then-later", &[0, 5, 505], 0),
        ];
        for (name, times, failures) in cases {
            let running = start(1);
            running.queue.add(key(name));
            tokio::time::sleep(Duration::from_secs(10)).await;
            let syncs = running.script.syncs.lock().clone();
            assert_eq!(
                syncs.iter().map(|(_, at)| *at).collect::<Vec<_>>(),
                times,
                "{name}"
            );
            assert_eq!(running.queue.failures(&key(name)), failures, "{name}");
            running.stop.cancel();
            running.task.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_before_a_requeue_comes_in_addition() {
        let running = start(1);
        running.queue.add(key("later"));
        tokio::time::sleep(100 * MS).await;
        running.queue.add(key("later"));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let syncs = running.script.syncs.lock().clone();
        let found: Vec<_> = syncs.iter().map(|(_, at)| *at).collect();
        assert_eq!(found, [0, 100, 500]);
        running.stop.cancel();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn worker_counts_a_panic_and_continues() {
        let running = start(1);
        running.queue.add(key("panic"));
        running.queue.add(key("fine"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let names: Vec<_> = running
            .script
            .syncs
            .lock()
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(names, ["panic", "fine", "panic"]);
        let families = running.registry.gather();
        let panics = families
            .iter()
            .find(|f| f.name() == "steersman_sync_panics_total")
            .unwrap();
        assert_eq!(panics.get_metric()[0].get_counter().get_value(), 1.0);
        let syncs = families
            .iter()
            .find(|f| f.name() == "steersman_reconcile_duration_seconds")
            .unwrap();
        let mut results: Vec<_> = syncs
            .get_metric()
            .iter()
            .map(|m| {
                (
                    m.get_label()[1].value(),
                    m.get_histogram().get_sample_count(),
                )
            })
            .collect();
        results.sort_unstable();
        assert_eq!(results, [("panic", 1), ("success", 2)]);
        assert_eq!(
            running.queue.metrics().findings("test"),
            ["a sync of queue test panicked 1s ago"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stuck_syncs_and_stuck_queues_are_findings() {
        let running = start(1);
        let findings = || running.queue.metrics().findings("test");
        running.queue.add(key("endless"));
        tokio::time::sleep(400 * MS).await;
        running.queue.add(key("fine"));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(
            findings(),
            ["a sync of queue test has been going on for 600s"]
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            findings(),
            [
                "a sync of queue test has been going on for 601s",
                "queue test has not moved for 601s"
            ]
        );
        assert_eq!(running.queue.metrics().findings("other"), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn workers_sync_different_keys_at_the_same_time() {
        let running = start(3);
        for namespace in ["a", "b", "c", "d"] {
            running.queue.add(ObjectKey::new(namespace, "slow"));
        }
        tokio::time::sleep(500 * MS).await;
        assert_eq!(running.script.busy.load(Ordering::Relaxed), 3);
        assert_eq!(running.queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_syncs_in_flight_and_takes_no_further_key() {
        let running = start(1);
        running.queue.add(key("slow"));
        running.queue.add(key("fine"));
        tokio::time::sleep(500 * MS).await;
        running.stop.cancel();
        running.task.await.unwrap();
        assert_eq!(running.script.started.elapsed(), 1000 * MS);
        assert_eq!(running.script.finished.load(Ordering::Relaxed), 1);
        assert_eq!(running.script.syncs.lock().len(), 1);
        running.queue.add(key("late"));
        assert_eq!(
            running.queue.len(),
            1,
            "a queue that is shut down keeps the queued key and accepts no other"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn reported_errors_are_a_millisecond_apart() {
        let pace = ErrorPace::default();
        let started = Instant::now();
        for expected in 0..5 {
            pace.wait().await;
            assert_eq!(started.elapsed(), expected * MS);
        }
        tokio::time::sleep(10 * MS).await;
        pace.wait().await;
        assert_eq!(started.elapsed(), 14 * MS, "no wait after a pause");
    }
}
