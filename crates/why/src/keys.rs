//! The reasons that only a running manager knows: its last error about an object, its next try, and
//! the events for which it waits.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{Code, Doc, Failure, KeyState, Reason, World, refusal};

/// Times below this are no reason: every key waits in its queue for a moment.
const MOMENT: Duration = Duration::from_secs(2);

/// Failures of these categories are races that the next sync settles.
const RACES: [&str; 4] = ["conflict", "already_exists", "not_found", "fenced"];
/// Failures in a row after which a race is reported too.
const MANY: u32 = 5;

/// Time after a change of the spec for which a controller may not have seen it.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// The reason for a failure of `by`, without its times.
pub fn of_failure(failure: &Failure, namespace: &str, by: &str) -> Reason {
    let mut reason = refusal(&failure.error, namespace, by);
    if reason.code == Code::RequestFailed && failure.request.is_none() {
        reason.code = Code::SyncFailed;
        reason.who = "owner of the object".to_owned();
    }
    if failure.is_dropped && matches!(reason.code, Code::RequestFailed | Code::SyncFailed) {
        reason.code = Code::SyncDropped;
    }
    reason
}

/// Whether failures of this category are races that the next sync settles.
pub fn is_race(category: &str) -> bool {
    RACES.contains(&category)
}

/// The reasons that the queues of `controller` have about `key`. Empty outside the leader.
pub fn of_key(world: &World, controller: &str, key: &str, namespace: &str) -> Vec<Reason> {
    let Some(inside) = &world.inside else {
        return Vec::new();
    };
    let states = inside.keys(controller, key);
    states
        .iter()
        .flat_map(|state| of_state(state, world.now, namespace))
        .collect()
}

fn of_state(state: &KeyState, now: Timestamp, namespace: &str) -> Vec<Reason> {
    let before = |age: Duration| now.checked_sub(age).ok();
    let after = |delay: Duration| now.checked_add(delay).ok();
    let by = state.controller;
    let mut found = Vec::new();
    if let Some(failure) = &state.failure
        && (!is_race(failure.category) || failure.count >= MANY)
    {
        let mut reason = of_failure(failure, namespace, by);
        reason.attempts = failure.count;
        reason.last_try = before(failure.last);
        reason = reason
            .since(before(failure.first))
            .next(state.delayed.and_then(after))
            .field("category", failure.category);
        if let Some(request) = &failure.request {
            reason = reason.field("request", request.as_str());
        }
        found.push(reason);
    }
    if let Some(running) = state.running.filter(|age| *age >= MOMENT) {
        let reason = Reason::new(Code::SyncRunning, by, "a sync of the object is running");
        found.push(reason.since(before(running)));
    }
    if let Some(queued) = state
        .queued
        .filter(|age| *age >= MOMENT && state.running.is_none())
    {
        let message = format!(
            "the object waits for a worker, behind {} others",
            state.ahead
        );
        let reason = Reason::new(Code::SyncQueued, by, message).field("ahead", state.ahead);
        found.push(reason.since(before(queued)));
    }
    if let Some(resource) = &state.awaits_cache {
        let message =
            format!("the sync waits until the cache of {resource} shows the manager's own write");
        found
            .push(Reason::new(Code::CacheBehind, by, message).field("resource", resource.as_str()));
    }
    if state.creations + state.deletions > 0 {
        let message = format!(
            "the controller waits for the watch events of {} creations and {} deletions",
            state.creations, state.deletions
        );
        let reason = Reason::new(Code::ExpectationsOutstanding, by, message)
            .field("creations", state.creations)
            .field("deletions", state.deletions);
        found.push(reason.next(state.expire.and_then(after)));
    }
    if let Some(delay) = state.delayed.filter(|_| found.is_empty()) {
        let reason = Reason::new(
            Code::RetryScheduled,
            by,
            "the controller looks at the object again",
        );
        found.push(reason.next(after(delay)));
    }
    found
}

/// The reason if the status of `doc` is older than its spec.
pub fn not_observed(world: &World, doc: &Doc, controller: &str) -> Option<Reason> {
    let generation = doc.number("/metadata/generation");
    let observed = doc.number("/status/observedGeneration");
    if observed >= generation {
        return None;
    }
    let changed = doc.changed();
    let is_new = changed.is_some_and(|at| world.now.duration_since(at) < PATIENCE);
    let (code, who) = if is_new {
        (Code::SyncQueued, "")
    } else {
        (
            Code::NotObserved,
            "operator of the controller manager: it does not run, lacks rights, or is behind",
        )
    };
    let message = format!(
        "{controller} has seen generation {observed}, and the spec has generation {generation}"
    );
    Some(
        Reason::new(code, controller, message)
            .who(who)
            .since(changed),
    )
}
