//! Why a Deployment does not progress: the step that its rollout waits for, by the same functions
//! that decide the steps.
//!
//! Steps come from `rolling.rs` and `progress.rs`, applied to the objects of the API server. A reason thus
//! agrees with the next sync of the controller.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_objects::{Condition, Deployment, Pod, ReplicaSet, Strategy};
use steersman_values::resource::{PODS, REPLICA_SETS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, refusal, warning};

use super::conditions::{self, PROGRESSING, reason};
use super::replica_sets::ReplicaSets;
use super::{NAME, limits, progress, recreate, rolling};

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
    if is_rolling && sets.old.iter().any(|rs| rs.status.replicas > 0) && excludes_itself(doc) {
        taken_nodes(&d, answer);
    }
}

/// Texts of the scheduler about nodes that only another pod excludes.
const TAKEN: [&str; 2] = ["anti-affinity", "free ports for the requested pod ports"];

/// Changes the reasons of new pods that need nodes of old ones: a deadlock if maxUnavailable 0 keeps these,
/// else they go in one of the next steps.
fn taken_nodes(d: &Deployment, answer: &mut Explanation) {
    let is_taken = |cause: &Reason| {
        cause.code == Code::PodUnscheduled && TAKEN.iter().any(|text| cause.message.contains(text))
    };
    if !answer.causes().any(|(_, cause)| is_taken(cause)) {
        return;
    }
    if limits::min_available(d) < d.spec.replicas {
        answer.change(&|reason: &mut Reason| {
            if is_taken(reason) {
                reason.code = Code::OldPodsRunning;
                reason.message = format!(
                    "the pod waits for the node of an old pod: {}",
                    reason.message
                );
                reason.who.clear();
            }
        });
        return;
    }
    let message = "the new pod fits no node beside an old one (pod anti-affinity or host port), and maxUnavailable 0 keeps the old pods until it is available";
    let who =
        "owner of the Deployment (maxUnavailable 1), or administrator of the nodes (one more)";
    answer.add(Reason::new(Code::RolloutDeadlock, NAME, message).who(who));
}

/// Whether two pods of the template never share a node, by anti-affinity or a host port. Otherwise, other
/// pods may be what takes the nodes.
fn excludes_itself(doc: &Doc) -> bool {
    const TERMS: &str = "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let label = |key: &str| doc.at("/spec/template/metadata/labels")?.get(key);
    let selects = |term: &Value| {
        let selector = &term["labelSelector"];
        let labels = selector["matchLabels"].as_object();
        let has_labels =
            labels.is_none_or(|labels| labels.iter().all(|(key, value)| label(key) == Some(value)));
        let expressions = selector["matchExpressions"].as_array();
        let has_values = expressions.is_none_or(|expressions| {
            expressions.iter().all(|one| {
                let values = one["values"].as_array();
                let own = one["key"].as_str().and_then(label);
                one["operator"] == "In"
                    && own.is_some_and(|own| values.is_some_and(|values| values.contains(own)))
            })
        });
        selector.is_object() && has_labels && has_values
    };
    let has_host_port = |container: &Value| {
        let ports = container["ports"].as_array();
        ports.is_some_and(|ports| ports.iter().any(|port| port["hostPort"].is_number()))
    };
    doc.items(TERMS).iter().any(selects)
        || doc
            .items("/spec/template/spec/containers")
            .iter()
            .any(has_host_port)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_exclude_each_other_by_their_own_labels_or_a_host_port() {
        let anti_affinity = |selector: &Value| {
            let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
            let terms = json!([term]);
            json!({"affinity": {"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
        };
        let values = |operator, values| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        let port =
            |port: Value| json!({"containers": [{"name": "c"}, {"name": "d", "ports": [port]}]});
        let cases = [
            (anti_affinity(&json!({"matchLabels": {"app": "web"}})), true),
            (
                anti_affinity(&json!({"matchLabels": {"app": "database"}})),
                false,
            ),
            (
                anti_affinity(&json!({"matchLabels": {"app": "web", "tier": "front"}})),
                false,
            ),
            (
                anti_affinity(&values("In", json!(["database", "web"]))),
                true,
            ),
            (anti_affinity(&values("In", json!(["database"]))), false),
            (anti_affinity(&values("NotIn", json!(["database"]))), false),
            // An empty selector selects all pods, and no selector none.
            (anti_affinity(&json!({})), true),
            (anti_affinity(&Value::Null), false),
            (port(json!({"containerPort": 80, "hostPort": 80})), true),
            (port(json!({"containerPort": 80})), false),
            (json!({"containers": [{"name": "c"}]}), false),
        ];
        for (spec, expected) in cases {
            let labels = json!({"labels": {"app": "web"}});
            let template = json!({"metadata": labels, "spec": spec});
            let doc = Doc::new(json!({"spec": {"template": template}}));
            assert_eq!(excludes_itself(&doc), expected, "{template}");
        }
    }
}
