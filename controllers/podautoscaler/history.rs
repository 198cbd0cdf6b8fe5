//! The memory of each autoscaler: past recommendations, and the changes that it made.
//!
//! The memory is lost at a restart, as upstream's. Then a target shrinks only after the window of
//! stabilization, because its size at the start is the first recommendation.
//!
//! Upstream: `recommendations`, `scaleUpEvents` and `scaleDownEvents` in `horizontal.go`.
//!
//! Sizes that users set are absent here: a change of the target by a user is no recommendation. Conditions
//! and sizes of the API show the present only; the windows of stabilization and rate need the past.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use steersman_objects::{AutoscalerBehavior, ObjectKey, ScalingRules};
use steersman_runtime::consistency::Memory;

/// A number of replicas at a time. For recommendations a size, for changes a difference without sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timed {
    pub(super) replicas: i32,
    pub(super) at: Timestamp,
}

/// The memory of one autoscaler. The lists are not sorted, since new entries replace outdated ones.
/// `recommendations` has one entry per sync of its window: about 20 for 5 minutes and a period of 15 s.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Proposed sizes before stabilization. They are stored before limits, so that a raised limit has its
    /// effect at once.
    pub(super) recommendations: Vec<Timed>,
    /// Numbers of added replicas. Each resize of the controller adds one entry. `behavior.rs` sums them over
    /// the period of a policy.
    pub(super) ups: Vec<Timed>,
    /// Numbers of removed replicas. The amounts are positive, as those of `ups`.
    pub(super) downs: Vec<Timed>,
}

impl History {
    /// Makes the current size the first recommendation. Upstream: `recordInitialRecommendation`. Without it,
    /// the first sync after a restart could shrink a target at once, although the window is not over.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            let replicas = current;
            let at = now;
            self.recommendations.push(Timed { replicas, at });
        }
    }

    /// Records a change of the size. Only rules of the speed read it, so without rules there is no
    /// record. Upstream: `storeScaleEvent`. It is called after a successful write only; a failed one changes
    /// no size.
    pub(super) fn resized(
        &mut self,
        behavior: Option<&AutoscalerBehavior>,
        from: i32,
        to: i32,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let (rules, list) = if to > from {
            (&behavior.scale_up, &mut self.ups)
        } else {
            (&behavior.scale_down, &mut self.downs)
        };
        // An entry beyond the longest period has no effect on any policy, so its place is free.
        let cutoff = before(now, longest_period(rules));
        let change = Timed {
            // Limits keep the difference small. Saturation only guards against a scale with absurd sizes.
            replicas: to.saturating_sub(from).saturating_abs(),
            at: now,
        };
        record(list, change, |old| old.at < cutoff);
    }
}

/// Stores `new` in place of the last outdated entry, or else at the end. So the list stays short. Upstream:
/// the variables `foundOldSample` and `oldSampleIndex`. One entry leaves per new entry, so a shorter window
/// shortens no list.
pub(super) fn record(list: &mut Vec<Timed>, new: Timed, is_outdated: impl Fn(&Timed) -> bool) {
    match list.iter().rposition(is_outdated) {
        Some(place) => list[place] = new,
        None => list.push(new),
    }
}

/// The time `span` before `now`. A span beyond the calendar is the earliest time: then nothing is outdated.
pub(super) fn before(now: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    now.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// A number of seconds in the API; a negative one is zero. Validation excludes negative numbers. Zero makes
/// such a window empty.
pub(super) fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

/// Zero without policies; then each older entry is outdated.
fn longest_period(rules: &ScalingRules) -> Duration {
    let periods = rules.policies.iter().map(|policy| policy.period_seconds);
    seconds(periods.max().unwrap_or(0))
}

/// The memories of all autoscalers. One lock for all is enough: each use takes microseconds, and a sync has
/// at most three.
#[derive(Debug, Default)]
pub(super) struct Histories(Mutex<HashMap<ObjectKey, History>>);

impl Histories {
    /// Reads or changes the memory of one autoscaler. A first use creates it. `use_it` runs under the lock,
    /// so it must neither wait nor use this memory again.
    pub(super) fn of<T>(&self, key: &ObjectKey, use_it: impl FnOnce(&mut History) -> T) -> T {
        use_it(self.all().entry(key.clone()).or_default())
    }

    /// Reads the memory of one autoscaler, if there is one. Unlike `of`, it creates no memory, so questions
    /// of users leave no traces.
    pub(super) fn get<T>(&self, key: &ObjectKey, read: impl FnOnce(&History) -> T) -> Option<T> {
        self.all().get(key).map(read)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, History>> {
        self.0.lock()
    }
}

impl Memory for Histories {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove(owner);
    }

    fn history_went_back(&self) {
        // The changes may never have happened. An empty memory is that of a new process.
        self.all().clear();
    }
}
