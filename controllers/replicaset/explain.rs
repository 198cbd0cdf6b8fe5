//! Why a ReplicaSet or ReplicationController lacks pods.

use std::sync::Arc;

use steersman_objects::Pod;
use steersman_values::resource::PODS;
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, pod, refusal, warning};

use super::owner::PodOwner;
use super::scale::{self, Scale};

/// Adds the reasons about `doc`, of the kind `O` of the controller `by`, and the answers about its
/// pods. `by` is the name of the controller, since ReplicationControllers share this code. Without a view of
/// the pods, it stays silent rather than guess.
pub(crate) fn explain<O: PodOwner>(world: &World, doc: &Doc, by: &str, answer: &mut Explanation) {
    let Some(owner) = doc.view::<O>() else {
        return;
    };
    let Some(pods) = world.controlled(&PODS, doc.namespace(), doc.uid()) else {
        return;
    };
    let views: Vec<(&Doc, Arc<Pod>)> = pods
        .iter()
        .filter_map(|doc| Some((doc, doc.view()?)))
        .collect();
    let (active, inactive): (Vec<_>, Vec<_>) = views.iter().partition(|(_, pod)| pod.is_active());
    let min_ready = owner.min_ready_seconds();
    let available = active
        .iter()
        .filter(|(_, pod)| pod.is_available(min_ready, world.now));
    let available = available.count();
    let wanted = owner.replicas();
    answer.state = format!("has {available} of {wanted} pods available");
    // The counts agree and the answer has no cause yet, so there is nothing to explain.
    if usize::try_from(wanted) == Ok(available) && active.len() == available && !answer.is_stuck() {
        answer.reasons.clear();
        return;
    }
    if let Some(reason) = keys::not_observed(world, doc, by) {
        answer.add(reason);
    }
    match scale::decide(active.len(), wanted) {
        Scale::Steady => {}
        Scale::Create(missing) => creation(world, doc, missing, by, answer),
        Scale::Delete(surplus) => {
            let message = format!("{surplus} pods have to be deleted");
            answer.add(Reason::new(Code::PodsSurplus, by, message));
        }
    }
    let docs: Vec<Doc> = active.iter().map(|(doc, _)| (*doc).clone()).collect();
    for about in pod::unavailable(world, &docs, min_ready) {
        answer.follow(about);
    }
    // One eviction with a new pod that starts is over.
    let least = if answer.is_stuck() { 1 } else { 2 };
    let waiting = active.iter();
    let waiting = waiting.filter(|(_, pod)| !pod.is_available(min_ready, world.now));
    let waiting: Vec<Doc> = waiting.map(|(doc, _)| (*doc).clone()).collect();
    let evicted = pod::evicted(world, &pods, &waiting, least);
    answer.reasons.extend(evicted);
    // Pods that cannot end hold their place in a quota and on nodes.
    let ending: Vec<Doc> = inactive
        .iter()
        .filter(|(_, pod)| pod.meta.is_terminating())
        .map(|(doc, _)| (*doc).clone())
        .collect();
    for about in pod::unavailable(world, &ending, 0) {
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// The reason why `missing` pods are not created.
fn creation(world: &World, doc: &Doc, missing: usize, by: &str, answer: &mut Explanation) {
    if doc.deleted().is_some() || answer.knows_cause() {
        return;
    }
    let event = warning(world, doc, &["FailedCreate"]);
    let condition = doc.condition("ReplicaFailure");
    let condition = condition.filter(|condition| condition.text("/status") == "True");
    let refused = match (event, condition) {
        // The condition keeps the text of the first failure, and an Event has that of the last one.
        (Some(event), Some(condition)) => {
            let mut reason = refusal(cause(&event.message), doc.namespace(), by);
            reason.last_try = event.at;
            reason.attempts = event.count;
            reason.since(condition.time("/lastTransitionTime"))
        }
        (None, Some(condition)) => refusal(condition.text("/message"), doc.namespace(), by)
            .since(condition.time("/lastTransitionTime")),
        // Without the condition, the last creation succeeded.
        (_, None) => {
            let message = format!("{missing} pods have to be created");
            answer.add(Reason::new(Code::PodsMissing, by, message).field("missing", missing));
            return;
        }
    };
    answer.add(refused.field("missing", missing));
}

/// The error in the message of an Event about a failed creation. `createPods` in upstream's
/// `controller_utils.go` puts the same prefix before it.
fn cause(message: &str) -> &str {
    message.strip_prefix("Error creating: ").unwrap_or(message)
}
