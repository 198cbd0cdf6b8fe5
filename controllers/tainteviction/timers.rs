//! The evictions that wait or run, as a state without IO.
//!
//! A timer that waits keeps its first deadline until it is cancelled. Changes of taints and
//! tolerations do not move it. Users and upstream's tests see that deadline.
//!
//! Upstream: `TimedWorkerQueue` in `timed_workers.go`.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use steersman_objects::{ObjectKey, Uid};
use tokio::time::Instant;

use super::tolerance::Tolerance;

/// The first pause after a failed eviction; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest pause after a failed eviction.
const LAST_RETRY: Duration = Duration::from_secs(300);

/// The timers of all pods.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pods: HashMap<ObjectKey, Timer>,
    /// Waiting pods by deadline and by the order of their arrival.
    waiting: BTreeMap<Position, ObjectKey>,
    next_number: u64,
}

type Position = (Instant, u64);

#[derive(Debug)]
struct Timer {
    /// A new pod of the same name has a timer of its own. Upstream knows names only.
    uid: Uid,
    fires_at: Instant,
    /// Position among the waiting pods; `None` while the eviction runs.
    position: Option<Position>,
    /// Failed evictions in a row, each after all its tries.
    failures: u32,
}

/// An eviction that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) pod: ObjectKey,
    pub(super) uid: Uid,
    /// The deadline.
    pub(super) fires_at: Instant,
}

impl Timers {
    /// Takes over the tolerance of a pod on a tainted node. True if a waiting timer was cancelled.
    ///
    /// A timer of another pod of this name is cancelled. An eviction that runs is not repeated.
    ///
    /// The order of the checks matters: another pod of the name, then a toleration for ever, then
    /// evictions that run or are due. Only then the deadline of a new timer is set. A pod that
    /// loses its toleration is evicted at once, and its Event tells that the former timer is
    /// cancelled, as in upstream.
    pub(super) fn update(
        &mut self,
        pod: &ObjectKey,
        uid: &Uid,
        tolerance: Tolerance,
        now: Instant,
    ) -> bool {
        let is_other = |timer: &Timer| timer.uid != *uid;
        let mut cancelled = self.pods.get(pod).is_some_and(is_other) && self.cancel(pod);
        let timer = self.pods.get(pod);
        let is_running = timer.is_some_and(|timer| timer.position.is_none());
        // An eviction that is due, or that failed before, is on its way and keeps its turn.
        let is_begun = timer.is_some_and(|timer| timer.failures > 0 || timer.fires_at <= now);
        let delay = match tolerance {
            Tolerance::Forever => return self.cancel(pod) || cancelled,
            _ if is_running => return cancelled,
            Tolerance::None if is_begun => return cancelled,
            Tolerance::None => {
                cancelled |= self.cancel(pod);
                Duration::ZERO
            }
            Tolerance::For(delay) => delay,
        };
        // A deadline beyond the range of the clock is never reached.
        if let Some(fires_at) = now.checked_add(delay)
            && !self.pods.contains_key(pod)
        {
            self.wait(
                pod.clone(),
                Timer {
                    uid: uid.clone(),
                    fires_at,
                    position: None,
                    failures: 0,
                },
                fires_at,
            );
        }
        cancelled
    }

    fn wait(&mut self, pod: ObjectKey, mut timer: Timer, until: Instant) {
        let position = (until, self.next_number);
        self.next_number += 1;
        timer.position = Some(position);
        self.waiting.insert(position, pod.clone());
        self.pods.insert(pod, timer);
    }

    /// Cancels the timer of a pod; true if it was waiting. An eviction that runs goes on. Upstream:
    /// `CancelWork`, which also tells whether a timer was waiting.
    pub(super) fn cancel(&mut self, pod: &ObjectKey) -> bool {
        let timer = self.pods.remove(pod);
        let position = timer.and_then(|timer| timer.position);
        position.is_some_and(|position| self.waiting.remove(&position).is_some())
    }

    /// Starts the evictions that are due, at most `limit`.
    pub(super) fn take_due(&mut self, now: Instant, limit: usize) -> Vec<Due> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let pod = first.remove();
            if let Some(timer) = self.pods.get_mut(&pod) {
                timer.position = None;
                let uid = timer.uid.clone();
                let fires_at = timer.fires_at;
                due.push(Due { pod, uid, fires_at });
            }
        }
        due
    }

    /// The next deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Forgets an eviction that has ended.
    pub(super) fn finished(&mut self, due: &Due) {
        if self.runs(due) {
            self.pods.remove(&due.pod);
        }
    }

    /// Lets the pod of a failed eviction wait for another one, unless its timer was cancelled.
    /// Upstream forgets the pod (kubernetes/kubernetes#140639).
    pub(super) fn failed(&mut self, due: &Due, now: Instant) {
        if !self.runs(due) {
            return;
        }
        if let Some(mut timer) = self.pods.remove(&due.pod) {
            let factor = 1_u32 << timer.failures.min(16);
            let pause = (FIRST_RETRY * factor).min(LAST_RETRY);
            timer.failures += 1;
            self.wait(due.pod.clone(), timer, now + pause);
        }
    }

    /// Whether the timer of this eviction is still the current one.
    fn runs(&self, due: &Due) -> bool {
        let timer = self.pods.get(&due.pod);
        timer.is_some_and(|timer| timer.uid == due.uid && timer.position.is_none())
    }

    /// The number of waiting pods.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no pod has a timer.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}
