//! The events of claims, pods, slices and rules. The decisions about them are made here, under one lock;
//! only evictions are queued.
//!
//! Upstream: the handlers in `Run`, `evictPod` and `cancelWorkWithEvent` in
//! `device_taint_eviction.go`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use steersman_objects::{DeviceTaintRule, Object, Pod, ResourceClaim, ResourceSlice};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_values::clock::saturating_since;

use super::evictions::Effect;
use super::rules::{self, RuleRef, STATUS_PERIOD};
use super::tracker::Tracker;
use super::{Shared, Work};

/// Adds the handlers.
///
/// Each event of one type is applied in order. The lock makes all types agree on one state.
pub(super) fn register(
    shared: &Arc<Shared>,
    claims: &SharedInformer<ResourceClaim>,
    pods: &SharedInformer<Pod>,
    slices: &SharedInformer<ResourceSlice>,
    rules: Option<&SharedInformer<DeviceTaintRule>>,
) {
    let of_claims = Arc::clone(shared);
    claims.add_handler(move |change| {
        for (old, new) in steps(&change) {
            of_claims.apply(|tracker, now| {
                let claims = tracker.devices.claim_changed(old, new, now);
                tracker.check_pods_of(&claims, &of_claims.pods)
            });
        }
    });
    let of_pods = Arc::clone(shared);
    pods.add_handler(move |change| {
        // A pod may drop out of the filter only with its UID, so no record is left behind.
        // Most pods have no claims, and the list of claims is immutable.
        let has_claims = |pod: &&Arc<Pod>| !pod.spec.resource_claims.is_empty();
        for (old, new) in steps(&change) {
            let old = old.filter(has_claims);
            let new = new.filter(has_claims);
            if old.is_some() || new.is_some() {
                of_pods.apply(|tracker, _| {
                    let old = old.map(|pod| &**pod);
                    let new = new.map(|pod| &**pod);
                    tracker.pod_changed(old, new).into_iter().collect()
                });
            }
        }
    });
    let of_slices = Arc::clone(shared);
    slices.add_handler(move |change| {
        for (old, new) in steps(&change) {
            of_slices.apply(|tracker, now| {
                let claims = tracker.devices.slice_changed(old, new, now);
                tracker.check_pods_of(&claims, &of_slices.pods)
            });
        }
    });
    if let Some(rules) = rules {
        let of_rules = Arc::clone(shared);
        rules.add_handler(move |change| {
            for (old, new) in steps(&change) {
                of_rules.rule_changed(old, new);
            }
        });
    }
    // The informers outlive the controller, and must not keep its records alive.
    let rewound = || {
        let shared = Arc::downgrade(shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                // Each cache reports its own rewind.
                shared.history_went_back();
            }
        }
    };
    claims.on_rewind(rewound());
    pods.on_rewind(rewound());
    slices.on_rewind(rewound());
    if let Some(rules) = rules {
        rules.on_rewind(rewound());
    }
}

/// An object before and after a change.
pub(super) type Step<'a, T> = (Option<&'a Arc<T>>, Option<&'a Arc<T>>);

/// A change as objects before and after. The replacement of an object by another one of its name is
/// a deletion and a creation.
pub(super) fn steps<'a, T: Object>(change: &Change<'a, T>) -> Vec<Step<'a, T>> {
    match *change {
        Change::Added { object, .. } => vec![(None, Some(object))],
        Change::Updated { old, new } if old.meta().uid != new.meta().uid => {
            vec![(Some(old), None), (None, Some(new))]
        }
        Change::Updated { old, new } => vec![(Some(old), Some(new))],
        Change::Deleted { object, .. } => vec![(Some(object), None)],
    }
}

impl Shared {
    /// The caches are complete, and the workers start.
    ///
    /// Until then, no Event tells of a cancelled eviction.
    pub(super) fn start(&self) {
        self.is_started.store(true, Ordering::Relaxed);
    }

    /// The caches go back one by one. Meanwhile they show states of two histories.
    ///
    /// Evictions are confirmed by live reads from then on, until this process ends.
    fn history_went_back(&self) {
        self.is_rewound.store(true, Ordering::Relaxed);
        self.tracker().evictions.history_went_back();
    }

    /// Queues the condition of a new or changed rule before the evictions that follow from it.
    ///
    /// Upstream: `handleRuleChange`. Users see the condition of a rule before its first eviction.
    fn rule_changed(&self, old: Option<&Arc<DeviceTaintRule>>, new: Option<&Arc<DeviceTaintRule>>) {
        // The status is written by this controller, and must not begin its own work again.
        if !rules::is_relevant(old.map(|old| &**old), new.map(|new| &**new)) {
            return;
        }
        if let Some(new) = new {
            self.queue.add(Work::Report(RuleRef::of(new)));
        }
        self.apply(|tracker, now| {
            let claims = tracker.rule_changed(old, new, now);
            tracker.check_pods_of(&claims, &self.pods)
        });
    }

    /// Queues the conditions of rules after a while, since more pods may follow.
    pub(super) fn report_later<'a>(&self, rules: impl Iterator<Item = &'a RuleRef>) {
        for rule in rules {
            let work = Work::Report(rule.clone());
            self.queue.add_after(work, STATUS_PERIOD);
        }
    }

    /// Applies one change under the lock, then queues or reports its consequences.
    ///
    /// Upstream: `handlePod`. The queue and the recorder only take notes, so a handler never blocks.
    fn apply(&self, change: impl FnOnce(&mut Tracker, Timestamp) -> Vec<Effect>) {
        let now = self.clock.now();
        let effects = change(&mut self.tracker(), now);
        for effect in effects {
            match effect {
                Effect::Evict(pod, eviction) => {
                    let delay = saturating_since(eviction.at, now);
                    tracing::debug!(%pod, ?delay, "pod is to be evicted");
                    self.queue.add_after(Work::Evict(pod), delay);
                    self.report_later(eviction.rules());
                }
                // While the caches fill, older slices may show taints that newer ones lack.
                Effect::Cancelled(pod) if self.is_started.load(Ordering::Relaxed) => {
                    self.report(&pod, "Cancelling deletion");
                }
                Effect::Cancelled(_) => {}
            }
        }
    }
}
