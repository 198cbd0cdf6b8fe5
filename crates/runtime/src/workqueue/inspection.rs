//! Reads the state of single keys, for explanations.
//!
//! A read formats and compares keys under the lock of the queue. It happens only if somebody asks.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use tokio::time::Instant;

use steersman_why::{KeyState, StuckKey, keys};

use super::inspected::{Inspect, Waits};
use super::{QueueMetrics, Shared, WorkQueue};

impl<K: Clone + Eq + Hash + Display + Send + Sync + 'static> WorkQueue<K> {
    /// Assigns this queue to `controller`, for its health check and for explanations.
    pub(crate) fn assign(&self, controller: &'static str) {
        let queue: Weak<Shared<K>> = Arc::downgrade(&self.shared);
        self.shared.all.assign(controller, Weak::clone(&queue) as _);
        self.shared.all.inspected().queues.push((controller, queue));
    }
}

impl<K: Clone + Eq + Hash + Display + Send + Sync> Inspect for Shared<K> {
    fn key(&self, controller: &'static str, key: &str) -> Option<KeyState> {
        let now = Instant::now();
        let state = self.lock();
        // Keys of all types are compared by their text, since the caller knows only that.
        let is_meant = |known: &&K| has_text(*known, key);
        // A key is in one of these maps as long as there is anything to tell.
        let known = state.marks.keys().find(is_meant);
        let known = known.or_else(|| state.delays.keys().find(is_meant));
        let known = known.or_else(|| {
            state
                .failures
                .all(now)
                .map(|(known, _)| known)
                .find(is_meant)
        });
        let known = known?;
        let marks = state.marks.get(known);
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        Some(KeyState {
            controller,
            queued: since(marks.and_then(|marks| marks.added)),
            // Only queued keys have a place; others have 0.
            ahead: state
                .queue
                .iter()
                .position(|other| other == known)
                .unwrap_or(0),
            running: since(marks.and_then(|marks| marks.taken)),
            delayed: state
                .delays
                .due(known)
                .map(|due| due.saturating_duration_since(now)),
            failure: state.failures.get(known, now),
            ..KeyState::default()
        })
    }

    // Only failures are read, so a long queue costs nothing here.
    fn stuck(&self, controller: &'static str) -> Vec<StuckKey> {
        let state = self.lock();
        let failing = state.failures.all(Instant::now());
        let stuck = failing.map(|(key, failure)| StuckKey {
            controller,
            key: key.to_string(),
            failure,
        });
        stuck.collect()
    }
}

impl QueueMetrics {
    /// Registers the records of `controller` that hold back its syncs.
    pub(crate) fn waits(&self, controller: &'static str, waits: Weak<dyn Waits>) {
        self.inspected().waits.push((controller, waits));
    }

    /// The state of `key` in the queues of `controller`. `key` is the text of the key in logs. A
    /// controller with several queues can have several states of a key.
    pub fn keys(&self, controller: &str, key: &str) -> Vec<KeyState> {
        let inspected = self.inspected();
        let queues = inspected
            .queues
            .iter()
            .filter(|(name, _)| *name == controller);
        let mut found: Vec<KeyState> = queues
            .filter_map(|(name, queue)| queue.upgrade()?.key(name, key))
            .collect();
        for (name, waits) in &inspected.waits {
            let Some(waits) = waits.upgrade().filter(|_| *name == controller) else {
                continue;
            };
            // The waits belong to the key, not to one queue, so they join the last state.
            let mut state = found.pop().unwrap_or(KeyState {
                controller: name,
                ..KeyState::default()
            });
            let has_waits = waits.add_to(key, &mut state);
            let is_known = state.queued.is_some()
                || state.running.is_some()
                || state.delayed.is_some()
                || state.failure.is_some();
            if has_waits || is_known {
                found.push(state);
            }
        }
        found
    }

    /// All keys whose last sync failed.
    pub fn stuck(&self) -> Vec<StuckKey> {
        let inspected = self.inspected();
        let queues = inspected.queues.iter();
        queues
            .filter_map(|(name, queue)| Some(queue.upgrade()?.stuck(name)))
            .flatten()
            .collect()
    }
}

/// The gauge of keys that have failed for a minute, by controller and reason. Computed at each
/// scrape, so that it costs nothing else.
struct StuckObjects {
    metrics: QueueMetrics,
    /// Its labels are filled at each scrape.
    gauge: IntGaugeVec,
}

/// Keys count after this time of failures.
const LONG: Duration = Duration::from_secs(60);

impl QueueMetrics {
    /// The collector of `steersman_stuck_objects`.
    pub(super) fn stuck_objects(&self) -> Result<Box<dyn Collector>, prometheus::Error> {
        let opts = Opts::new(
            "steersman_stuck_objects",
            "[ALPHA] Objects whose syncs have failed for a minute or longer, by controller and reason.",
        );
        Ok(Box::new(StuckObjects {
            metrics: self.clone(),
            gauge: IntGaugeVec::new(opts, &["controller", "reason"])?,
        }))
    }
}

impl Collector for StuckObjects {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for stuck in self.metrics.stuck() {
            let failure = stuck.failure;
            // A dropped key does not come back by itself, so it counts at once. Races end by
            // themselves.
            if failure.first < LONG && !failure.is_dropped || keys::is_race(failure.category) {
                continue;
            }
            let reason = keys::of_failure(&failure, "", stuck.controller).code.name();
            *counts.entry((stuck.controller, reason)).or_default() += 1;
        }
        // A gauge of a solved problem goes away, so that an alert ends.
        self.gauge.reset();
        for ((controller, reason), count) in counts {
            self.gauge
                .with_label_values(&[controller, reason])
                .set(count);
        }
        self.gauge.collect()
    }
}

/// Whether `value` is shown as `text`. Compares without an allocation.
fn has_text(value: &impl Display, text: &str) -> bool {
    let mut rest = Rest(text);
    write!(rest, "{value}").is_ok() && rest.0.is_empty()
}

/// The part of the text that is still to be written. An error means a difference.
struct Rest<'a>(&'a str);

impl Write for Rest<'_> {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.0 = self.0.strip_prefix(part).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_by_their_text() {
        let cases = [("a/b", true), ("a/", false), ("a/bc", false), ("", false)];
        let key = steersman_objects::ObjectKey::new("a", "b");
        for (text, equal) in cases {
            assert_eq!(has_text(&key, text), equal, "{text}");
        }
    }
}
