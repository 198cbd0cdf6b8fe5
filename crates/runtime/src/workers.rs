//! The worker loop every queue-driven controller runs: take a key, sync it, retry with back-off
//! when that fails.

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::client::{ApiError, Category};
use crate::controller::Controller;
use crate::object::ObjectKey;
use crate::panics;
use crate::tasks::CancellationToken;
use crate::workqueue::WorkQueue;

/// The target of the spans of syncs, for who collects them: `controller` and `key` are their
/// fields.
pub const SPANS: &str = "steersman_runtime::workers";

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
    /// Not a failure but not done either: again after this long, with earlier failures neither
    /// forgotten nor added to.
    After(Duration),
}

impl Retry {
    /// The usual answer to a failed request, or to a failure that is none.
    ///
    /// An object that changed, appeared or went away since the cache saw it is a race: the event
    /// about it is on its way. Everything else is an error that an operator may have to act on.
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

/// One controller's sync. Keys are those of objects unless said otherwise.
pub trait Syncer<K = ObjectKey>: Send + Sync + 'static {
    /// Why a sync failed. The failed request, where there is one, is in its chain of sources.
    type Error: Error + Send + 'static;

    /// Brings the object with this key a step closer to its spec.
    fn sync(&self, key: &K) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;

    /// The fate of a key after `error`, which is its failure number `failures` (0 for the first) in
    /// a row. Not asked when leadership has ended.
    fn retry(&self, error: &Self::Error, _failures: u32) -> Retry {
        Retry::after_request(ApiError::within(error))
    }
}

/// Runs `workers` tasks over `queue` until `stop`; then no further key is taken, the syncs in
/// flight are waited for, and the queue is shut down. A panic in a sync is logged with its key,
/// counted (`steersman_sync_panics_total`), and treated as a failure of that key.
pub async fn run_workers<K: Key, S: Syncer<K>>(
    controller: &'static str,
    queue: WorkQueue<K>,
    workers: usize,
    syncer: Arc<S>,
    stop: CancellationToken,
) {
    queue.assign(controller);
    let worker = Arc::new(Worker {
        controller,
        queue: queue.clone(),
        syncer,
        error_pace: ErrorPace::default(),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (worker, stop) = (Arc::clone(&worker), stop.clone());
        tasks.spawn(async move { worker.run(&stop).await });
    }
    // As upstream's: without workers it runs all the same.
    if workers == 0 {
        stop.cancelled().await;
    }
    while let Some(end) = tasks.join_next().await {
        match end {
            // Only a runtime that shuts down cancels a worker: the process ends before its work
            // did, and has said why.
            Err(error) if error.is_cancelled() => {
                tracing::debug!(controller, "worker cut off by the end of the process")
            }
            Err(error) => tracing::error!(controller, %error, "worker ended early"),
            Ok(()) => {}
        }
    }
    queue.shut_down();
}

/// A controller that is one queue and the sync of its keys, with so many workers
/// ([`run_workers`]).
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

/// What names the work of a controller.
pub trait Key: Clone + Eq + Hash + Display + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Display + Send + Sync + 'static> Key for K {}

struct Worker<K, S> {
    controller: &'static str,
    queue: WorkQueue<K>,
    syncer: Arc<S>,
    error_pace: ErrorPace,
}

impl<K: Key, S: Syncer<K>> Worker<K, S> {
    async fn run(&self, stop: &CancellationToken) {
        loop {
            let item = tokio::select! {
                biased;
                () = stop.cancelled() => return self.queue.shut_down(),
                item = self.queue.get() => item,
            };
            let Some(item) = item else { return };
            let span = tracing::info_span!(target: SPANS, "sync", controller = self.controller, key = %item.key);
            self.process(&item.key, stop).instrument(span).await;
        }
    }

    async fn process(&self, key: &K, stop: &CancellationToken) {
        let began = Instant::now();
        tracing::trace!("Started syncing");
        let outcome = panics::catch(self.sync(key)).await;
        let (result, duration) = (result_of(&outcome), began.elapsed());
        tracing::trace!(result, ?duration, "Finished syncing");
        self.queue
            .metrics()
            .synced(self.controller, result, duration);
        let retry = match outcome {
            Ok(Ok(requeue)) => {
                self.queue.forget(key);
                if let Requeue::After(delay) = requeue {
                    self.queue.add_after(key.clone(), delay);
                }
                return;
            }
            // Its writes are refused. The next leader makes them.
            Ok(Err((error, _))) if stop.is_cancelled() => {
                return tracing::debug!(%error, "sync cut short by the end");
            }
            Ok(Err((error, Retry::BackOff))) => {
                self.error_pace.wait().await;
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "sync failed");
                Retry::BackOff
            }
            Ok(Err((error, Retry::Quietly))) => {
                tracing::debug!(%error, "sync failed in a race and is repeated");
                Retry::Quietly
            }
            Ok(Err((error, Retry::Drop))) => {
                self.error_pace.wait().await;
                let category = Category::of(&error).as_str();
                tracing::warn!(category, %error, "sync failed, key dropped until its object changes");
                Retry::Drop
            }
            Ok(Err((error, Retry::After(delay)))) => {
                tracing::trace!(%error, ?delay, "sync has to wait");
                Retry::After(delay)
            }
            Err(panic) => {
                self.queue.count_panic();
                self.error_pace.wait().await;
                tracing::error!(%panic, "sync panicked");
                Retry::BackOff
            }
        };
        match retry {
            Retry::BackOff | Retry::Quietly => self.queue.add_rate_limited(key.clone()),
            Retry::Drop => self.queue.forget(key),
            Retry::After(delay) => self.queue.add_after(key.clone(), delay),
        }
    }

    async fn sync(&self, key: &K) -> Result<Requeue, (S::Error, Retry)> {
        self.syncer.sync(key).await.map_err(|error| {
            // The next leader makes the writes that were refused here.
            let retry = if ApiError::within(&error).is_some_and(ApiError::is_fenced) {
                Retry::Quietly
            } else {
                self.syncer.retry(&error, self.queue.failures(key))
            };
            (error, retry)
        })
    }
}

/// The label of a metric for what came of a sync.
fn result_of<E, P>(outcome: &Result<Result<Requeue, (E, Retry)>, P>) -> &'static str {
    match outcome {
        Ok(Ok(Requeue::Never)) => "success",
        Ok(Ok(Requeue::After(_))) => "requeue",
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
    const GAP: Duration = Duration::from_millis(1);

    async fn wait(&self) {
        let now = Instant::now();
        let slot = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Does what the name of the key says, and notes when.
    struct Script {
        started: Instant,
        syncs: Mutex<Vec<(String, u128)>>,
        busy: AtomicUsize,
        finished: AtomicUsize,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Planned(&'static str);

    impl Syncer for Script {
        type Error = Planned;

        async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Planned> {
            let round = {
                let mut syncs = self.syncs.lock().unwrap();
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
                ("wait", 2) => Err(Planned("not yet")),
                ("fail" | "quiet" | "drop" | "wait", 1..=3) => Err(Planned("as planned")),
                ("fail-then-later", 1) => Err(Planned("as planned")),
                ("fail-then-later", 2) => Ok(Requeue::After(500 * MS)),
                _ => Ok(Requeue::Never),
            }
        }

        fn retry(&self, _error: &Planned, failures: u32) -> Retry {
            let syncs = self.syncs.lock().unwrap();
            match syncs.last().unwrap().0.as_str() {
                "quiet" => Retry::Quietly,
                "drop" if failures == 1 => Retry::Drop,
                "wait" if syncs.len() == 2 => Retry::After(500 * MS),
                _ => Retry::BackOff,
            }
        }
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
    async fn without_workers_it_runs_until_it_is_stopped_and_syncs_nothing() {
        let running = start(0);
        running.queue.add(key("fine"));
        tokio::time::sleep(100 * MS).await;
        assert!(!running.task.is_finished());
        running.stop.cancel();
        running.task.await.unwrap();
        assert!(running.script.syncs.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_comes_back_as_its_outcome_says() {
        // (key, when it is synced in ms, failures left in the end)
        let cases: [(&str, &[u128], u32); 8] = [
            ("fine", &[0], 0),
            ("later", &[0, 500], 0),
            ("fail", &[0, 5, 15, 35], 0),
            ("quiet", &[0, 5, 15, 35], 0),
            ("drop", &[0, 5], 0),
            // The wait in between is no failure: the back-off goes on where it was.
            ("wait", &[0, 5, 505, 515], 0),
            ("panic", &[0, 5], 0),
            ("fail-then-later", &[0, 5, 505], 0),
        ];
        for (name, times, failures) in cases {
            let running = start(1);
            running.queue.add(key(name));
            tokio::time::sleep(Duration::from_secs(10)).await;
            let syncs = running.script.syncs.lock().unwrap().clone();
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
    async fn a_panic_is_counted_and_its_worker_goes_on() {
        let running = start(1);
        running.queue.add(key("panic"));
        running.queue.add(key("fine"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let names: Vec<_> = running
            .script
            .syncs
            .lock()
            .unwrap()
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
    async fn work_that_does_not_move_is_trouble() {
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
    async fn stopping_waits_for_the_syncs_in_flight_and_takes_no_further_key() {
        let running = start(1);
        running.queue.add(key("slow"));
        running.queue.add(key("fine"));
        tokio::time::sleep(500 * MS).await;
        running.stop.cancel();
        running.task.await.unwrap();
        assert_eq!(running.script.started.elapsed(), 1000 * MS);
        assert_eq!(running.script.finished.load(Ordering::Relaxed), 1);
        assert_eq!(running.script.syncs.lock().unwrap().len(), 1);
        running.queue.add(key("late"));
        assert_eq!(
            running.queue.len(),
            1,
            "shut down: only the key that was waiting"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn reported_errors_are_a_millisecond_apart() {
        let (pace, started) = (ErrorPace::default(), Instant::now());
        for expected in 0..5 {
            pace.wait().await;
            assert_eq!(started.elapsed(), expected * MS);
        }
        tokio::time::sleep(10 * MS).await;
        pace.wait().await;
        assert_eq!(started.elapsed(), 14 * MS, "no wait after a pause");
    }
}
