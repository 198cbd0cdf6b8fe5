//! Why a StatefulSet does not move: the pod that blocks the others, by the plan of the next sync.

use std::sync::Arc;

use steersman_objects::{PersistentVolumeClaim, Pod, StatefulSet, UpdateStrategy};
use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, refusal, warning};

use super::NAME;
use super::claims;
use super::identity::{ordinal, pod_name};
use super::plan::{Action, Plan};
use super::slots::{Slot, Slots};
use super::status::revision;

/// Adds the reasons about `doc`, and the answers about the pod and the claims that block it.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(set) = doc.view::<StatefulSet>() else {
        return;
    };
    let namespace = doc.namespace();
    let Some(docs) = world.controlled(&PODS, namespace, doc.uid()) else {
        return;
    };
    let pods: Vec<Arc<Pod>> = docs.iter().filter_map(Doc::view).collect();
    let slots = Slots::new(&set, &pods);
    let status = &set.status;
    let wanted = slots.len();
    let is_updated = status.current_revision == status.update_revision
        || i64::from(status.updated_replicas) == wanted;
    let is_settled = i64::from(status.available_replicas) == wanted && slots.condemned.is_empty();
    answer.state = format!(
        "has {} of {wanted} pods available, {} updated",
        status.available_replicas, status.updated_replicas
    );
    if let Some(reason) = keys::not_observed(world, doc, NAME) {
        answer.add(reason);
    } else if is_updated && is_settled && !answer.is_stuck() {
        answer.reasons.clear();
        return;
    }
    let claim = |name: &str| -> Option<Arc<PersistentVolumeClaim>> {
        world
            .get(&PERSISTENT_VOLUME_CLAIMS, namespace, name)
            .found()?
            .view()
    };
    let plan = Plan {
        set: &set,
        slots: &slots,
        claims: &claim,
        update_revision: &status.update_revision,
        now: world.now,
    };
    let doc_of = |pod: &Pod| docs.iter().find(|doc| *doc.name() == *pod.meta.name);
    if let Some(slot) = blocking(&plan) {
        slot_blocks(world, doc, &plan, &slot, answer);
        if let Some(pod) = slot.pod().and_then(|pod| doc_of(pod)) {
            answer.follow(world.explain(&PODS, pod));
        }
    }
    if !slots.condemned.is_empty() {
        let names: Vec<&str> = slots.condemned.iter().map(|pod| &*pod.meta.name).collect();
        let message = format!("a scale-down removes {}", names.join(", "));
        answer.add(Reason::new(Code::PodsSurplus, NAME, message));
        for pod in slots
            .condemned
            .iter()
            .filter(|pod| pod.meta.is_terminating())
        {
            answer
                .waits_for
                .extend(doc_of(pod).map(|pod| world.explain(&PODS, pod)));
        }
    }
    if !is_updated {
        update(&plan, answer);
    }
}

/// The first slot at which an ordered sync stops. A parallel one stops at no slot, so the first
/// slot without an available pod counts.
fn blocking(plan: &Plan<'_>) -> Option<Slot> {
    let seconds = plan.set.spec.min_ready_seconds;
    plan.slots
        .iter()
        .find(|slot| slot.is_unavailable(seconds, plan.now))
}

fn slot_blocks(world: &World, doc: &Doc, plan: &Plan<'_>, slot: &Slot, answer: &mut Explanation) {
    let name = match slot {
        Slot::Pod(pod) => pod.meta.name.to_string(),
        Slot::Empty { ordinal, .. } => pod_name(doc.name(), *ordinal),
    };
    let number = ordinal(&name).unwrap_or_default();
    let others = plan.slots.iter().filter(|other| match other {
        Slot::Empty { ordinal, .. } => *ordinal > number,
        Slot::Pod(_) => false,
    });
    let waiting = others.count();
    if plan.is_ordered() && waiting > 0 {
        let further = steersman_why::count(waiting, "further pod");
        let message = format!("pods are created in order: {further} after {name} is available");
        let reason = Reason::new(Code::OrdinalBlocks, NAME, message)
            .who(format!("see pod {name}"))
            .field("pod", name.as_str());
        answer.add(reason);
    }
    let turns = plan.loops().into_iter().next().into_iter().flatten();
    let wants_pod = turns
        .flat_map(|turn| turn.actions)
        .any(|action| matches!(action, Action::Create { ordinal, .. } if ordinal == number));
    if wants_pod && !answer.knows_cause() {
        match warning(world, doc, &["FailedCreate"]) {
            Some(event) => {
                let mut reason =
                    refusal(said(&event.message), doc.namespace(), NAME).since(event.first);
                reason.last_try = event.at;
                reason.attempts = event.count;
                answer.add(reason);
            }
            None => answer.add(Reason::new(
                Code::PodsMissing,
                NAME,
                format!("pod {name} has to be created"),
            )),
        }
    }
    if plan.has_stale_claim(number) {
        let message = format!("a claim of an earlier pod {name} is still being deleted");
        answer.add(Reason::new(Code::ClaimPending, NAME, message).who("see the claim"));
        for claim in claims::names(plan.set, number) {
            let found = world.get(&PERSISTENT_VOLUME_CLAIMS, doc.namespace(), &claim);
            answer.waits_for.extend(
                found
                    .found()
                    .map(|claim| world.explain(&PERSISTENT_VOLUME_CLAIMS, &claim)),
            );
        }
    }
}

/// The error in `create Pod web-0 in StatefulSet web failed error: ...`.
fn said(message: &str) -> &str {
    message
        .split_once(" failed error: ")
        .map_or(message, |(_, error)| error)
}

/// The limits of the update strategy.
fn update(plan: &Plan<'_>, answer: &mut Explanation) {
    let old = plan
        .slots
        .occupied()
        .filter(|pod| revision(pod) != plan.update_revision);
    let old: Vec<&str> = old.map(|pod| &*pod.meta.name).collect();
    if old.is_empty() {
        return;
    }
    match &plan.set.spec.update_strategy {
        UpdateStrategy::OnDelete => {
            let message = format!(
                "strategy OnDelete: a pod is updated after its deletion; old: {}",
                old.join(", ")
            );
            answer.add(Reason::new(Code::UpdateOnDelete, NAME, message));
        }
        UpdateStrategy::RollingUpdate { partition, .. } | UpdateStrategy::Other { partition } => {
            if let Some(partition) = partition.filter(|partition| *partition > 0) {
                let message = format!(
                    "partition {partition} keeps pods with a lower ordinal at the old revision"
                );
                answer.add(
                    Reason::new(Code::PartitionHolds, NAME, message).field("partition", partition),
                );
            }
            match plan.outdated(None).first() {
                Some(next) => {
                    let message = format!("pod {} is replaced next", next.meta.name);
                    answer.add(Reason::new(Code::RolloutStep, NAME, message));
                }
                None => {
                    let message = format!(
                        "the update waits for an unavailable pod; old: {}",
                        old.join(", ")
                    );
                    answer.add(Reason::new(Code::RolloutWindow, NAME, message));
                }
            }
        }
    }
}
