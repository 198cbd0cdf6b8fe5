//! The evictions that wait or run, as a state without IO.
//!
//! Upstream: `deletePodAt` and `evictedPods` in `device_taint_eviction.go`.
//!
//! The queue has only the names of pods. This state decides whether a queued pod is still to be
//! evicted, so a cancelled eviction needs no removal from the queue.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{Object, ObjectKey, Pod, Uid};
use steersman_values::clock::saturating_since;

use super::claims::Eviction;

/// A pod, told apart from other pods of its name.
///
/// Upstream: `NamespacedObject` of `tainteviction`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PodRef {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

impl PodRef {
    pub(super) fn of(pod: &Pod) -> Self {
        Self {
            key: pod.key(),
            uid: pod.meta.uid.clone(),
        }
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// The evictions of all pods.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// Upstream: `deletePodAt`. A failed eviction stays here until it succeeds or is cancelled.
    pending: HashMap<PodRef, Pending>,
    /// Pods whose eviction has ended while the cache still shows them. Upstream keeps the last 500
    /// and forgets none of them earlier, not even after a restore of etcd.
    ended: HashSet<Uid>,
}

#[derive(Debug)]
struct Pending {
    eviction: Arc<Eviction>,
    /// Whether an Event has announced the deletion. Further tries emit no other one.
    is_announced: bool,
}

/// The consequence of a check of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// The pod has this eviction now.
    ///
    /// It is new, or has another time or reason.
    Evict(PodRef, Arc<Eviction>),
    /// The pod stays.
    ///
    /// It had an eviction before, which is over.
    Cancelled(PodRef),
}

/// The state of one eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Due {
    /// There is nothing to do.
    ///
    /// The eviction was cancelled, or has ended.
    Never,
    /// After this time.
    ///
    /// A change of the taint may have moved the time since the pod was queued.
    After(Duration),
    /// Now, or earlier.
    Now(Arc<Eviction>),
}

impl Evictions {
    /// Takes over the result of a check of `pod`.
    ///
    /// `None` if nothing follows. An evicted pod may stay in the cache for its grace period, and each
    /// of its changes would begin the eviction again.
    pub(super) fn update(
        &mut self,
        pod: PodRef,
        eviction: Option<Arc<Eviction>>,
    ) -> Option<Effect> {
        let Some(eviction) = eviction else {
            return self.cancel(&pod).then_some(Effect::Cancelled(pod));
        };
        if self.ended.contains(&pod.uid) {
            return None;
        }
        match self.pending.entry(pod.clone()) {
            // Upstream queues the pod again. Each event of a claim or a rule comes here, and most
            // change nothing.
            Entry::Occupied(known) if known.get().eviction == eviction => return None,
            Entry::Occupied(mut known) => known.get_mut().eviction = Arc::clone(&eviction),
            Entry::Vacant(free) => {
                free.insert(Pending {
                    eviction: Arc::clone(&eviction),
                    is_announced: false,
                });
            }
        }
        Some(Effect::Evict(pod, eviction))
    }

    /// Forgets the eviction of `pod`. True if there was one.
    fn cancel(&mut self, pod: &PodRef) -> bool {
        self.pending.remove(pod).is_some()
    }

    /// The cache shows `pod` no more.
    ///
    /// No Event follows, as upstream: there is no pod to tell of.
    pub(super) fn gone(&mut self, pod: &PodRef) {
        self.cancel(pod);
        self.ended.remove(&pod.uid);
    }

    /// The history went back, for example after an etcd restore. Evicted pods may be there again.
    pub(super) fn history_went_back(&mut self) {
        self.ended.clear();
    }

    /// Whether the eviction of `pod` is due.
    pub(super) fn due(&self, pod: &PodRef, now: Timestamp) -> Due {
        match self.pending.get(pod).map(|pending| &pending.eviction) {
            None => Due::Never,
            Some(eviction) if eviction.at > now => Due::After(saturating_since(eviction.at, now)),
            Some(eviction) => Due::Now(Arc::clone(eviction)),
        }
    }

    /// Whether an Event has to announce the deletion of `pod`: true once.
    ///
    /// Upstream's Event follows each live read, and so repeats with each failed try.
    pub(super) fn announce(&mut self, pod: &PodRef) -> bool {
        let pending = self.pending.get_mut(pod);
        pending.is_some_and(|pending| !std::mem::replace(&mut pending.is_announced, true))
    }

    /// The eviction of `pod` has ended. `is_cached` tells whether the cache still shows the pod.
    ///
    /// The record goes with the event of the pod's deletion. A pod that the cache has dropped would
    /// keep it for ever.
    pub(super) fn ended(&mut self, pod: &PodRef, is_cached: bool) {
        self.cancel(pod);
        if is_cached {
            self.ended.insert(pod.uid.clone());
        }
    }

    /// All evictions that wait or run.
    #[cfg(test)]
    pub(super) fn pending(&self) -> Vec<(PodRef, Eviction)> {
        let pending = self.pending.iter();
        pending
            .map(|(pod, pending)| (pod.clone(), (*pending.eviction).clone()))
            .collect()
    }
}
