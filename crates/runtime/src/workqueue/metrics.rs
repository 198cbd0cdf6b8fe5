//! The `workqueue_*` metrics, and the checks for stalled queues.
//!
//! All series of a queue exist, with zeros, as soon as the queue exists. Upstream:
//! `client-go/util/workqueue/metrics.go` and `component-base/metrics/prometheus/workqueue`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, exponential_buckets,
};
use tokio::time::Instant;

use steersman_values::sync::{Mutex, MutexGuard};

use super::inspected::Inspected;
use crate::metrics::Registry;

/// Upstream's label is the name of the queue.
const LABELS: &[&str] = &["name"];

/// Metric handles of all queues (`workqueue_*`), one label value per queue.
#[derive(Clone)]
pub struct QueueMetrics {
    /// Upstream: `DepthKey`. Keys that are added during their processing count too.
    depth: IntGaugeVec,
    /// Upstream: `AddsKey`. An add of a dirty key does not count.
    adds: IntCounterVec,
    /// Upstream: `RetriesKey`, one for each `AddAfter`.
    retries: IntCounterVec,
    panics: IntCounterVec,
    /// Seconds from the add to the worker. Upstream: `QueueLatencyKey`.
    queue_duration: HistogramVec,
    /// Seconds with a worker. Upstream: `WorkDurationKey`.
    work_duration: HistogramVec,
    /// The families of syncs are Steersman's own, by controller and result.
    syncs: HistogramVec,
    /// Syncs that waited for a cache, by queue and resource.
    skips: IntCounterVec,
    /// The gauges that only a scrape computes, and the queues for health checks.
    work: InProcessCollector,
    /// For explanations.
    inspected: Arc<Mutex<Inspected>>,
    /// Off by default, because the text of each key costs an allocation.
    names_syncs: Arc<AtomicBool>,
}

impl fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueMetrics")
    }
}

/// The handles of one queue.
pub(super) struct Handles {
    pub(super) depth: IntGauge,
    pub(super) adds: IntCounter,
    pub(super) retries: IntCounter,
    pub(super) panics: IntCounter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

impl QueueMetrics {
    /// Registers the seven families of upstream's work queues, and the `steersman_*` families of
    /// syncs.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let durations = |name, help| {
            HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds()?), LABELS)
        };
        let metrics = Self {
            depth: IntGaugeVec::new(
                Opts::new("workqueue_depth", "[BETA] Current depth of workqueue"),
                LABELS,
            )?,
            adds: IntCounterVec::new(
                Opts::new(
                    "workqueue_adds_total",
                    "[BETA] Total number of adds handled by workqueue",
                ),
                LABELS,
            )?,
            retries: IntCounterVec::new(
                Opts::new(
                    "workqueue_retries_total",
                    "[BETA] Total number of retries handled by workqueue",
                ),
                LABELS,
            )?,
            panics: IntCounterVec::new(
                Opts::new(
                    "steersman_sync_panics_total",
                    "[ALPHA] Syncs of a key of this queue that ended in a panic.",
                ),
                LABELS,
            )?,
            queue_duration: durations(
                "workqueue_queue_duration_seconds",
                "[BETA] How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_duration: durations(
                "workqueue_work_duration_seconds",
                "[BETA] How long in seconds processing an item from workqueue takes.",
            )?,
            syncs: {
                let opts = HistogramOpts::new(
                    "steersman_reconcile_duration_seconds",
                    "[ALPHA] Time of one sync of one key, by what came of it.",
                );
                HistogramVec::new(
                    opts.buckets(exponential_buckets(0.000_1, 4.0, 10)?),
                    &["controller", "result"],
                )?
            },
            skips: IntCounterVec::new(
                Opts::new(
                    "steersman_own_write_skips_total",
                    "[ALPHA] Syncs that waited because the cache of this resource had not seen our own writes yet.",
                ),
                &["name", "resource"],
            )?,
            work: InProcessCollector::new()?,
            inspected: Arc::default(),
            names_syncs: Arc::default(),
        };
        registry.register(Box::new(metrics.syncs.clone()))?;
        registry.register(Box::new(metrics.skips.clone()))?;
        registry.register(Box::new(metrics.depth.clone()))?;
        registry.register(Box::new(metrics.adds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        registry.register(Box::new(metrics.queue_duration.clone()))?;
        registry.register(Box::new(metrics.work_duration.clone()))?;
        registry.register(Box::new(metrics.work.clone()))?;
        registry.register(metrics.stuck_objects()?)?;
        Ok(metrics)
    }

    /// The series of one queue. Queues of one name share them, as in upstream.
    pub(super) fn handles(&self, name: &str) -> Handles {
        let values = &[name];
        Handles {
            depth: self.depth.with_label_values(values),
            adds: self.adds.with_label_values(values),
            retries: self.retries.with_label_values(values),
            panics: self.panics.with_label_values(values),
            queue_duration: self.queue_duration.with_label_values(values),
            work_duration: self.work_duration.with_label_values(values),
        }
    }

    /// The metrics of a queue that upstream has and Steersman does not need, because it does the
    /// work at once. The series exist for dashboards.
    pub fn immediate(&self, name: &str) -> ImmediateQueue {
        self.work.unfinished.with_label_values(&[name]).set(0.0);
        self.work.longest.with_label_values(&[name]).set(0.0);
        ImmediateQueue(self.handles(name))
    }

    /// Tells the witness of writes the key of each sync from now on.
    pub fn name_syncs(&self) {
        self.names_syncs.store(true, Relaxed);
    }

    /// Whether the witness of writes gets the keys of syncs.
    pub(crate) fn names_syncs(&self) -> bool {
        self.names_syncs.load(Relaxed)
    }

    /// Records the result and the duration of one sync of `controller`.
    pub(crate) fn synced(&self, controller: &str, result: &str, took: Duration) {
        self.syncs
            .with_label_values(&[controller, result])
            .observe(took.as_secs_f64());
    }

    /// Counts a sync of `queue` that waited for the cache of `resource`.
    pub(super) fn stale_cache(&self, queue: &str, resource: &str) {
        self.skips.with_label_values(&[queue, resource]).inc();
    }

    /// Assigns `queue` to `controller`. Queues of ended terms are dropped here, so that the list
    /// does not grow.
    pub(crate) fn assign(&self, controller: &'static str, queue: Weak<dyn Ages>) {
        let mut work = self.work.controllers.lock();
        work.retain(|(_, queue)| queue.strong_count() > 0);
        work.push((controller, queue));
    }

    /// The queues and records that explanations read.
    pub(super) fn inspected(&self) -> MutexGuard<'_, Inspected> {
        let mut inspected = self.inspected.lock();
        inspected.tidy();
        inspected
    }

    /// The problems of `controller`'s queues, one sentence each: an endless sync, queued keys that
    /// wait too long, or a recent panic.
    pub fn findings(&self, controller: &str) -> Vec<String> {
        let work = self.work.controllers.lock();
        let queues = work
            .iter()
            .filter(|(name, _)| *name == controller)
            .filter_map(|(_, queue)| queue.upgrade());
        let now = Instant::now();
        queues.flat_map(|queue| queue.findings(now)).collect()
    }

    /// The controller that has had work without progress for the longest time, and that time. Zero
    /// without work. `None` without a queue.
    pub fn stalled(&self) -> Option<(&'static str, Duration)> {
        let work = self.work.controllers.lock();
        let now = Instant::now();
        let queues = work
            .iter()
            .filter_map(|(name, queue)| Some((*name, queue.upgrade()?.stalled_for(now))));
        queues.max_by_key(|(_, time)| *time)
    }

    /// The time for which the oldest key of each queue has waited for a worker, by name of the queue.
    pub fn oldest_waits(&self) -> BTreeMap<String, Duration> {
        let queues = self.work.queues.lock();
        let now = Instant::now();
        let mut waits: BTreeMap<String, Duration> = BTreeMap::new();
        for (name, queue) in &*queues {
            if let Some(queue) = queue.upgrade() {
                let wait = waits.entry(name.clone()).or_default();
                *wait = queue.oldest_wait(now).max(*wait);
            }
        }
        waits
    }

    /// Registers `queue`, so that each scrape reads the ages of its keys in process.
    pub(super) fn watch(&self, name: &str, queue: Weak<dyn Ages>) {
        let mut queues = self.work.queues.lock();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((name.to_owned(), queue));
    }
}

/// Upstream's buckets, in seconds: 10 ns to 10 s. Upstream: `ExponentialBuckets(10e-9, 10, 10)`.
fn bounds() -> Result<Vec<f64>, prometheus::Error> {
    exponential_buckets(1e-8, 10.0, 10)
}

/// Metrics of a queue in which items never wait.
pub struct ImmediateQueue(Handles);

impl ImmediateQueue {
    /// Records one item that was processed in the time `took`.
    pub fn processed(&self, took: Duration) {
        self.0.adds.inc();
        self.0.queue_duration.observe(0.0);
        self.0.work_duration.observe(took.as_secs_f64());
    }
}

/// A queue that reports the ages of its keys. It hides the type of the keys.
pub(crate) trait Ages: Send + Sync {
    /// The ages of the keys that workers have.
    fn in_process(&self, now: Instant) -> InProcess;

    /// The problems of this queue, one sentence each.
    fn findings(&self, now: Instant) -> Vec<String>;

    /// The time for which the oldest key has waited for a worker. Zero without a queued key.
    fn oldest_wait(&self, now: Instant) -> Duration;

    /// The time since a worker last took or finished a key, while there is work. Zero without work.
    fn stalled_for(&self, now: Instant) -> Duration;
}

/// Ages of the keys in process.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct InProcess {
    /// Upstream: `unfinishedWorkSeconds` and `longestRunningProcessor`.
    sum: Duration,
    pub(super) longest: Duration,
}

impl InProcess {
    /// Adds a key that has been in process for `age`.
    pub(super) fn with(self, age: Duration) -> Self {
        Self {
            sum: self.sum + age,
            longest: self.longest.max(age),
        }
    }

    /// Adds the keys of another queue.
    fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            longest: self.longest.max(other.longest),
        }
    }
}

/// A queue with its name. The name stays after the queue is dropped, so that the series go to zero.
type Named = (String, Weak<dyn Ages>);

/// A controller and one of its queues.
type Assigned = (&'static str, Weak<dyn Ages>);

/// Upstream's two gauges of work in process, computed at each scrape. Upstream sets them every
/// 0.5 s; here, no timer wakes an idle process.
#[derive(Clone)]
struct InProcessCollector {
    unfinished: GaugeVec,
    longest: GaugeVec,
    /// All queues, for the gauges.
    queues: Arc<Mutex<Vec<Named>>>,
    /// Queues with workers, for health checks.
    controllers: Arc<Mutex<Vec<Assigned>>>,
}

impl InProcessCollector {
    fn new() -> Result<Self, prometheus::Error> {
        let unfinished = Opts::new(
            "workqueue_unfinished_work_seconds",
            "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large \
             values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this \
             increases.",
        );
        let longest = Opts::new(
            "workqueue_longest_running_processor_seconds",
            "[BETA] How many seconds has the longest running processor for workqueue been running.",
        );
        Ok(Self {
            unfinished: GaugeVec::new(unfinished, LABELS)?,
            longest: GaugeVec::new(longest, LABELS)?,
            queues: Arc::default(),
            controllers: Arc::default(),
        })
    }
}

impl Collector for InProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        [self.unfinished.desc(), self.longest.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let queues = self.queues.lock();
        let now = Instant::now();
        // Several queues may share a name, as in upstream.
        let mut by_name: BTreeMap<&str, InProcess> = BTreeMap::new();
        for (name, queue) in &*queues {
            let work = by_name.entry(name).or_default();
            if let Some(queue) = queue.upgrade() {
                *work = work.and(queue.in_process(now));
            }
        }
        for (name, work) in by_name {
            self.unfinished
                .with_label_values(&[name])
                .set(work.sum.as_secs_f64());
            self.longest
                .with_label_values(&[name])
                .set(work.longest.as_secs_f64());
        }
        [self.unfinished.collect(), self.longest.collect()].concat()
    }
}

impl fmt::Debug for InProcessCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessCollector")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_equal_upstreams_exactly() {
        let expected = [
            1e-08,
            1e-07,
            1e-06,
            9.999999999999999e-06,
            9.999999999999999e-05,
            0.001,
            0.01,
            0.1,
            1.0,
            10.0,
        ];
        assert_eq!(bounds().unwrap(), expected);
    }
}
