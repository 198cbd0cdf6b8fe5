//! The events of claims, pods, slices and rules. The decisions about them are made here, under one lock;
//! only evictions are queued.
//!
//! Upstream: the handlers in `Run`, `evictPod` and `cancelWorkWithEvent` in
//! `device_taint_eviction.go`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use steersman_objects::{
    DeviceTaintRule, Object, ObjectReference, Pod, PublishedSlice, ResourceSlice,
};
use steersman_runtime::events::EventType;
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_values::clock::saturating_since;

use super::evictions::Effect;
use super::patches::{Broken, Changes, Failure, Patches};
use super::rules::{self, RuleRef, STATUS_PERIOD};
use super::tracker::Tracker;
use super::{Caches, FAILED_EXPRESSION, Shared, Slices, Work};

/// Adds the handlers.
///
/// Each event of one type is applied in order. The lock makes all types agree on one state.
pub(super) fn register(shared: &Arc<Shared>, caches: &Caches) {
    let of_claims = Arc::clone(shared);
    caches.claims.add_handler(move |change| {
        for (old, new) in steps(&change) {
            of_claims.apply(|tracker, now| {
                let claims = tracker.devices.claim_changed(old, new, now);
                tracker.check_pods_of(&claims, &of_claims.pods)
            });
        }
    });
    let of_pods = Arc::clone(shared);
    caches.pods.add_handler(move |change| {
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
    match &caches.slices {
        Slices::Plain(slices) => {
            register_apart(shared, caches, slices);
            rewinds(shared, slices);
        }
        Slices::Patched(slices) => {
            register_patches(shared, caches, slices);
            rewinds(shared, slices);
            rewinds(shared, &caches.classes);
        }
    }
    rewinds(shared, &caches.claims);
    rewinds(shared, &caches.pods);
    if let Some(rules) = &caches.rules {
        rewinds(shared, rules);
    }
}

/// Adds the handlers of slices, and of rules and classes that taint them.
fn register_patches(
    shared: &Arc<Shared>,
    caches: &Caches,
    slices: &SharedInformer<PublishedSlice>,
) {
    patch(shared, slices, |patches, (old, new)| {
        patches.slice_changed(old, new)
    });
    patch(shared, &caches.classes, |patches, (old, new)| {
        patches.class_changed(old, new)
    });
    if let Some(rules) = &caches.rules {
        patch(shared, rules, |patches, (old, new)| {
            if !rules::is_relevant(old.map(|old| &**old), new.map(|new| &**new)) {
                return Changes::default();
            }
            patches.rule_changed(old, new)
        });
    }
}

/// Adds the handlers of slices, and of rules that act beside them.
fn register_apart(shared: &Arc<Shared>, caches: &Caches, slices: &SharedInformer<ResourceSlice>) {
    let of_slices = Arc::clone(shared);
    slices.add_handler(move |change| {
        for (old, new) in steps(&change) {
            of_slices.apply(|tracker, now| {
                let claims = tracker.devices.slice_changed(old, new, now);
                tracker.check_pods_of(&claims, &of_slices.pods)
            });
        }
    });
    if let Some(rules) = &caches.rules {
        let of_rules = Arc::clone(shared);
        rules.add_handler(move |change| {
            for (old, new) in steps(&change) {
                of_rules.rule_changed(old, new);
            }
        });
    }
}

/// Adds a handler for changes that give slices other taints of rules.
fn patch<T: Object>(
    shared: &Arc<Shared>,
    cache: &SharedInformer<T>,
    apply: impl Fn(&mut Patches, Step<'_, T>) -> Changes + Send + Sync + 'static,
) {
    let shared = Arc::clone(shared);
    cache.add_handler(move |change| {
        for step in steps(&change) {
            shared.patched(|patches| apply(patches, step));
        }
    });
}

/// Has the live objects asked after a rewind of `cache`. Each cache reports its own.
fn rewinds<T: Object>(shared: &Arc<Shared>, cache: &SharedInformer<T>) {
    // The informers outlive the controller, and must not keep its records alive.
    let shared = Arc::downgrade(shared);
    cache.on_rewind(move || {
        if let Some(shared) = shared.upgrade() {
            shared.history_went_back();
        }
    });
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

/// Logs an expression that does not compile, because its rule or class then selects nothing.
fn log_broken(broken: &Broken) {
    let Broken {
        kind,
        name,
        expression,
        error,
    } = broken;
    tracing::error!(
        kind,
        name = &**name,
        expression = &**expression,
        error,
        "selector cannot be evaluated, so it selects no device, and evicts no pod"
    );
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
            rules::warn_of_selector(new);
            self.queue.add(Work::Report(RuleRef::of(new)));
        }
        self.apply(|tracker, now| {
            let claims = tracker.rule_changed(old, new, now);
            tracker.check_pods_of(&claims, &self.pods)
        });
    }

    /// Applies a change that gives slices other taints of rules.
    fn patched(&self, change: impl FnOnce(&mut Patches) -> Changes) {
        let mut failures = Vec::new();
        let mut broken = Vec::new();
        self.apply(|tracker, now| {
            let changes = change(&mut tracker.patches);
            failures = changes.failures;
            broken = changes.broken;
            let slices = changes.slices.iter();
            let claims = slices.flat_map(|(old, new)| {
                let devices = &mut tracker.devices;
                devices.slice_changed(old.as_ref(), new.as_ref(), now)
            });
            let claims: Vec<_> = claims.collect();
            tracker.check_pods_of(&claims, &self.pods)
        });
        failures.iter().for_each(|failure| self.failed(failure));
        broken.iter().for_each(log_broken);
    }

    /// Tells users about an expression of a rule that failed for a device.
    fn failed(&self, failure: &Failure) {
        let Some(of_tracker) = &self.of_tracker else {
            return;
        };
        let Failure {
            rule,
            selector,
            error,
        } = failure;
        let served = self.evictor.client.served(DeviceTaintRule::RESOURCE);
        let reference = ObjectReference {
            api_version: served.api_version().into_owned(),
            ..ObjectReference::of(&**rule)
        };
        let message = format!("selector #{selector}: runtime error: {error}");
        of_tracker
            .recorder
            .event(reference, EventType::Warning, FAILED_EXPRESSION, message);
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
