//! Why a Deployment does not progress: the step that its rollout waits for, by the same functions
//! that decide the steps.
//!
//! Steps come from `rolling.rs` and `progress.rs`, applied to the objects of the API server. A reason thus
//! agrees with the next sync of the controller.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::{Condition, Deployment, Pod, ReplicaSet, Strategy};
use steersman_values::resource::{PODS, REPLICA_SETS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, refusal, warning};

use super::conditions::{self, PROGRESSING, reason};
use super::replica_sets::ReplicaSets;
use super::{NAME, deadlock, limits, progress, recreate, rolling};

/// Old pods that one answer looks into.
const SHOWN: usize = 3;

/// Adds the reasons about `doc`, and the answers about its ReplicaSets.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(d) = doc.view::<Deployment>() else {
        return;
    };
    if d.spec
        .selector
        .as_ref()
        .is_ok_and(|selector| selector.is_everything())
    {
        let message =
            "the selector is empty, so the Deployment would select all pods of the namespace";
        answer
            .add(Reason::new(Code::SelectorInvalid, NAME, message).who("owner of the Deployment"));
        return;
    }
    let Some(owned) = world.controlled(&REPLICA_SETS, doc.namespace(), doc.uid()) else {
        return;
    };
    let views = owned.iter().filter_map(Doc::view::<ReplicaSet>).collect();
    let sets = ReplicaSets::of(&d, views);
    let status = progress::rollout_status(&d, &sets, world.now);
    let wanted = d.spec.replicas;
    let new_available = sets
        .new
        .as_ref()
        .map_or(0, |rs| rs.status.available_replicas);
    // Older reasons about a rollout that is over would mislead.
    if progress::is_complete(&d, &status) && !answer.is_stuck() {
        answer.reasons.clear();
        answer.state = format!("is complete ({new_available} of {wanted} pods available)");
        return;
    }
    let progressing = conditions::find(&d.status.conditions, PROGRESSING);
    let is_rolling = status.updated_replicas < wanted || status.replicas > status.updated_replicas;
    answer.state = if is_rolling {
        format!("does not progress ({new_available} of {wanted} new pods available)")
    } else {
        format!("is not available ({new_available} of {wanted} pods available)")
    };
    // The deadline counts from here too, so users see the same time.
    answer.since = progressing
        .filter(|_| is_rolling)
        .and_then(|condition| last_progress(&d, condition))
        .or_else(|| doc.condition("Available")?.time("/lastTransitionTime"));
    if let Some(reason) = keys::not_observed(world, doc, NAME) {
        answer.add(reason);
    }
    if d.spec.paused && is_rolling {
        let message = "spec.paused is true, so the rollout does not continue";
        let who = format!(
            "owner of the Deployment (kubectl rollout resume deployment/{})",
            doc.name()
        );
        answer.add(Reason::new(Code::Paused, NAME, message).who(who));
    }
    creation(world, doc, &d, &sets, answer);
    if !d.spec.paused && is_rolling {
        step(&d, &sets, answer);
    }
    deadline(world, &d, answer);
    follow(world, &owned, &d, &sets, answer);
    if is_rolling && sets.old.iter().any(|rs| rs.status.replicas > 0) {
        deadlock::explain(doc, &d, &sets, answer);
    }
}

/// Time of the last progress. The update that reports the failure is as much later as the deadline is
/// long.
fn last_progress(d: &Deployment, condition: &Condition) -> Option<Timestamp> {
    let updated = condition.last_update_time?;
    match d.spec.progress_deadline_seconds {
        Some(seconds) if condition.reason == *reason::PROGRESS_DEADLINE_EXCEEDED => updated
            .checked_sub(SignedDuration::from_secs(i64::from(seconds)))
            .ok(),
        _ => Some(updated),
    }
}

/// The failed creation of the new ReplicaSet.
fn creation(
    world: &World,
    doc: &Doc,
    d: &Deployment,
    sets: &ReplicaSets,
    answer: &mut Explanation,
) {
    if sets.new.is_some() || answer.knows_cause() {
        return;
    }
    let condition = conditions::find(&d.status.conditions, PROGRESSING)
        .filter(|condition| condition.reason == *reason::REPLICA_SET_CREATE_ERROR);
    if let Some(condition) = condition {
        let refused = refusal(&condition.message, doc.namespace(), NAME);
        answer.add(refused.since(condition.last_update_time));
    } else if let Some(event) = warning(world, doc, &["ReplicaSetCreateError", "FailedCreate"]) {
        answer.add(refusal(&event.message, doc.namespace(), NAME).since(event.first));
    }
}

/// The step of the rollout that is due, or the limits that allow none.
fn step(d: &Deployment, sets: &ReplicaSets, answer: &mut Explanation) {
    // The strategy Recreate has no steps within limits; `follow` tells of its old pods.
    if d.spec.strategy == Strategy::Recreate {
        return;
    }
    let grows = rolling::resize_new(d, sets).ok().flatten();
    let shrinks = rolling::scale_down_old(d, sets);
    if let Some(resize) = &grows {
        let message = format!("the new ReplicaSet may grow to {} pods", resize.to);
        answer.add(Reason::new(Code::RolloutStep, NAME, message));
    } else if !shrinks.resizes.is_empty() {
        answer.add(Reason::new(
            Code::RolloutStep,
            NAME,
            "old pods may be removed now",
        ));
    }
    let surge = limits::max_surge(d);
    let least = limits::min_available(d);
    // Without old pods the window holds nothing back.
    let has_old_pods = sets.old.iter().any(|rs| rs.status.replicas > 0);
    let waits = if has_old_pods && grows.is_none() && shrinks.resizes.is_empty() {
        ": old pods stay until a new one is available"
    } else {
        ""
    };
    let message = format!(
        "rolling update: at most {} beyond {} (maxSurge), at least {least} available{waits}",
        steersman_why::count(usize::try_from(surge).unwrap_or(0), "pod"),
        d.spec.replicas
    );
    let reason = Reason::new(Code::RolloutWindow, NAME, message)
        .field("maxSurge", surge)
        .field("minAvailable", least)
        .field("size", sets.size());
    answer.add(reason);
}

/// The progress deadline.
fn deadline(world: &World, d: &Deployment, answer: &mut Explanation) {
    let Some(seconds) = d.spec.progress_deadline_seconds else {
        return;
    };
    let condition = conditions::find(&d.status.conditions, PROGRESSING);
    if condition.is_some_and(|condition| condition.reason == *reason::PROGRESS_DEADLINE_EXCEEDED) {
        let message = format!(
            "the rollout is reported as failed: no progress for {seconds} s (progressDeadlineSeconds)"
        );
        let since = condition.and_then(|condition| condition.last_transition_time);
        answer.add(Reason::new(Code::DeadlineExceeded, NAME, message).since(since));
    } else if let Some(left) = progress::next_check(d, &d.status, world.now) {
        let left = left.as_secs();
        let text = steersman_why::age(i64::try_from(left).unwrap_or(i64::MAX));
        let message = format!(
            "deadline: the rollout is reported as failed in {text} (progressDeadlineSeconds {seconds})"
        );
        answer.add(Reason::new(Code::DeadlineLeft, NAME, message).field("seconds", left));
    }
}

/// Follows the ReplicaSets that the rollout waits for.
fn follow(
    world: &World,
    owned: &[Doc],
    d: &Deployment,
    sets: &ReplicaSets,
    answer: &mut Explanation,
) {
    let doc_of = |rs: &ReplicaSet| owned.iter().find(|doc| *doc.name() == *rs.meta.name);
    if d.spec.strategy == Strategy::Recreate {
        old_pods(
            world,
            sets.old.iter().filter_map(|rs| doc_of(rs)),
            sets,
            answer,
        );
    }
    if let Some(doc) = sets.new.as_ref().and_then(|rs| doc_of(rs)) {
        answer.follow(world.explain(&REPLICA_SETS, doc));
    }
    // Pods that come or go keep the rollout from its next step.
    for rs in sets
        .old
        .iter()
        .filter(|rs| rs.spec.replicas != rs.status.replicas)
    {
        if let Some(doc) = doc_of(rs) {
            answer.follow(world.explain(&REPLICA_SETS, doc));
        }
    }
}

/// The old pods for which the strategy Recreate waits.
fn old_pods<'a>(
    world: &World,
    old: impl Iterator<Item = &'a Doc>,
    sets: &ReplicaSets,
    answer: &mut Explanation,
) {
    let pods = old.filter_map(|rs| world.controlled(&PODS, rs.namespace(), rs.uid()));
    let pods: Vec<Doc> = pods.flatten().collect();
    let views: Vec<Arc<Pod>> = pods.iter().filter_map(Doc::view).collect();
    if !recreate::old_pods_running(sets, &views) {
        return;
    }
    let message = "strategy Recreate: the old pods must end before new ones start";
    answer.add(Reason::new(Code::OldPodsRunning, NAME, message));
    for pod in pods.iter().take(SHOWN) {
        answer.follow(world.explain(&PODS, pod));
    }
}
