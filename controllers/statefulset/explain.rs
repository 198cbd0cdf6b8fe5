//! Why a StatefulSet does not move: the pod that blocks the others, by the plan of the next sync.
//!
//! It uses `Slots` and `Plan` of the controller, so the blocking pod is that of the real sync.

use std::sync::Arc;

use steersman_objects::{ObjectKey, PersistentVolumeClaim, Pod, StatefulSet, UpdateStrategy};
use steersman_options::features::STATEFUL_SET_RECREATE_STRATEGY;
use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES};
use steersman_why::{Code, Doc, Explanation, Inside, Reason, World, keys, refusal, warning};

use super::NAME;
use super::claims;
use super::identity::{ordinal, pod_name};
use super::plan::{Action, Plan};
use super::slots::{Slot, Slots};
use super::status::revision;

/// The owners of a refused strategy.
const REFUSED_BY: &str = "administrator of the controller manager (feature gate StatefulSetRecreateStrategy), or owner of the StatefulSet (strategy RollingUpdate)";

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
    // After a roll-back both revisions are equal, while a pod may still have the one between.
    let has_replaced = slots
        .occupied()
        .any(|pod| !status.update_revision.is_empty() && revision(pod) != status.update_revision);
    let is_updated = !has_replaced
        && (status.current_revision == status.update_revision
            || i64::from(status.updated_replicas) == wanted);
    let is_settled = i64::from(status.available_replicas) == wanted && slots.condemned.is_empty();
    answer.state = format!(
        "has {} of {wanted} pods available, {} updated",
        status.available_replicas, status.updated_replicas
    );
    // A status for an older generation says little about this one.
    if let Some(reason) = keys::not_observed(world, doc, NAME) {
        answer.add(reason);
    } else if is_updated && is_settled && !answer.is_stuck() {
        answer.reasons.clear();
        return;
    }
    if set.spec.update_strategy == UpdateStrategy::Recreate {
        let gate = STATEFUL_SET_RECREATE_STRATEGY.name;
        match &world.inside {
            // The failure of the key is a part of the answer.
            Some(leader) if has_failed(&**leader, doc, gate) => return,
            Some(_) => {}
            None => {
                if let Some(refusal) = warning(world, doc, &["UnknownStrategy"]) {
                    let reason = Reason::new(Code::SyncFailed, NAME, refusal.message);
                    answer.add(reason.who(REFUSED_BY));
                    return;
                }
            }
        }
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
        seconds_to_available: set.spec.min_ready_seconds,
        now: world.now,
    };
    // The view of a pod lacks the parts that an explanation shows.
    let doc_of = |pod: &Pod| docs.iter().find(|doc| *doc.name() == *pod.meta.name);
    if let Some(slot) = blocking(&plan) {
        slot_blocks(world, doc, &plan, &slot, answer);
        if let Some(pod) = slot.pod()
            && let Some(doc) = doc_of(pod)
        {
            let about = world.explain(&PODS, doc);
            answer
                .reasons
                .extend(governing_service(world, &set, &about));
            if about.is_stuck() && is_replaced(&plan, recreates(world, &set), pod) {
                replaced(pod, &about, answer);
            } else {
                answer.follow(about);
            }
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
        update(&plan, recreates(world, &set), answer);
    }
}

/// Whether the last sync of `doc` failed, and its error names `part`.
fn has_failed(leader: &dyn Inside, doc: &Doc, part: &str) -> bool {
    let key = ObjectKey::new(doc.namespace(), doc.name()).to_string();
    let failures = leader
        .keys(NAME, &key)
        .into_iter()
        .filter_map(|key| key.failure);
    failures
        .into_iter()
        .any(|failure| failure.error.contains(part))
}

/// Whether all old pods of `set` end before a new one is created. A sync without the gate that does not fail rolls
/// the set: the release is older than 1.37.
fn recreates(world: &World, set: &StatefulSet) -> bool {
    let is_off = world.has_gate_off(STATEFUL_SET_RECREATE_STRATEGY.name);
    set.spec.update_strategy == UpdateStrategy::Recreate && !is_off
}

/// Whether the update replaces `pod`, once its turn comes.
///
/// Below the partition, no update comes, and the pod must be mended in place.
fn is_replaced(plan: &Plan<'_>, recreates: bool, pod: &Pod) -> bool {
    let first = match &plan.set.spec.update_strategy {
        UpdateStrategy::OnDelete => return false,
        UpdateStrategy::Recreate if recreates => return false,
        UpdateStrategy::Recreate => 0,
        UpdateStrategy::RollingUpdate { partition, .. } | UpdateStrategy::Other { partition } => {
            i64::from(partition.unwrap_or(0))
        }
    };
    plan.is_ordered()
        && ordinal(&pod.meta.name).is_some_and(|ordinal| ordinal >= first)
        && revision(pod) != plan.update_revision
}

/// Adds the pod that nobody mends, because the template has been changed since, and that keeps the
/// update from its turn. Upstream documents it as a forced rollback.
fn replaced(pod: &Pod, about: &Explanation, answer: &mut Explanation) {
    let name = &pod.meta.name;
    let trouble = about
        .causes()
        .last()
        .map(|(_, cause)| cause.message.clone())
        .unwrap_or_default();
    let message = format!(
        "pod {name} has the replaced revision {} and is not ready ({trouble}); the update in order waits for it",
        revision(pod)
    );
    let who = format!("owner of the StatefulSet (kubectl delete pod {name})");
    answer.add(
        Reason::new(Code::RevisionBroken, NAME, message)
            .who(who)
            .field("pod", &**name)
            .since(about.oldest()),
    );
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
    // Only empty slots wait for this one.
    let others = plan.slots.iter().filter(|other| match other {
        Slot::Empty { ordinal, .. } => *ordinal > number,
        Slot::Pod(_) => false,
    });
    let waiting = others.count();
    if plan.is_ordered() && waiting > 0 {
        let further = steersman_why::count(waiting, "further pod");
        let message = format!("pods are created in order: {further} after {name} is available");
        answer.add(Reason::new(Code::OrdinalBlocks, NAME, message).field("pod", name.as_str()));
    }
    let turns = plan.loops().into_iter().next().into_iter().flatten();
    let wants_pod = turns
        .flat_map(|turn| turn.actions)
        .any(|action| matches!(action, Action::Create { ordinal, .. } if ordinal == number));
    // A claim that ends is named before other causes, since it explains them.
    let ending = terminating_claims(world, doc, plan, number);
    if wants_pod && let Some(reason) = name_taken(world, doc, &name) {
        answer.name_failure(reason);
    } else if wants_pod && let Some(claim) = ending.first() {
        let ends = ending
            .iter()
            .map(|claim| world.explain(&PERSISTENT_VOLUME_CLAIMS, claim));
        let ends: Vec<Explanation> = ends.collect();
        let code = if ends.iter().any(Explanation::is_stuck) {
            Code::ClaimTerminating
        } else {
            Code::PodsMissing
        };
        let message = format!(
            "claim {} of an earlier pod {name} is being deleted, and the new pod waits for its end",
            claim.name()
        );
        let reason = Reason::new(code, NAME, message).who(Reason::see("the claim"));
        answer.name_failure(reason.since(claim.deleted_since()));
        ends.into_iter().for_each(|end| answer.follow(end));
    } else if wants_pod && !answer.knows_cause() {
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
        answer.add(Reason::new(Code::ClaimPending, NAME, message).who(Reason::see("the claim")));
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

/// The reason about the Service of `spec.serviceName`, which gives the pods their DNS names, if it does not exist.
/// It is a cause if the trouble of the blocking pod, in `about`, names such a DNS name.
fn governing_service(world: &World, set: &StatefulSet, about: &Explanation) -> Option<Reason> {
    let service = &*set.spec.service_name;
    let namespace = &*set.meta.namespace;
    let found = world.get(&SERVICES, namespace, service);
    if service.is_empty() || !found.is_absent() {
        return None;
    }
    let domain = format!(".{service}.{namespace}");
    let host = format!("{}.{service}", about.object.name);
    let is_named = about
        .causes()
        .any(|(_, cause)| cause.message.contains(&domain) || cause.message.contains(&host));
    let missing = format!("Service {namespace}/{service} of spec.serviceName does not exist");
    Some(if is_named {
        let message = format!(
            "{missing}, and pod {} asks for its DNS name",
            about.object.name
        );
        let who = format!(
            "creator of Service {namespace}/{service} (clusterIP: None), or owner of the StatefulSet (serviceName)"
        );
        Reason::new(Code::GoverningServiceMissing, NAME, message).who(who)
    } else {
        let message = format!("{missing}, so the pods have no DNS names");
        Reason::new(Code::PodNamesMissing, NAME, message)
    })
}

/// The claims of the pod with this ordinal that are being deleted. The controller makes no pod with such a
/// claim. Upstream: `createPersistentVolumeClaims` in `stateful_pod_control.go`.
fn terminating_claims(world: &World, doc: &Doc, plan: &Plan<'_>, ordinal: i64) -> Vec<Doc> {
    let names = claims::names(plan.set, ordinal);
    let found = names.filter_map(|name| {
        let claim = world.get(&PERSISTENT_VOLUME_CLAIMS, doc.namespace(), &name);
        claim.found()
    });
    found.filter(|claim| claim.deleted().is_some()).collect()
}

/// The reason if a pod that the set cannot adopt has the name of its next pod. No Event tells of it.
///
/// Upstream and this controller meet `AlreadyExists` there, again and again.
fn name_taken(world: &World, doc: &Doc, name: &str) -> Option<Reason> {
    let pod = world.get(&PODS, doc.namespace(), name).found()?;
    if pod.is_controlled_by(doc.uid()) || pod.deleted().is_some() {
        return None;
    }
    let mut owners = pod.items("/metadata/ownerReferences").iter();
    let owner = owners.find(|owner| owner["controller"] == true);
    let why = match owner {
        Some(owner) => {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            format!("{} {} controls it", text("kind"), text("name"))
        }
        None => {
            let labels = pod.view::<Pod>()?.meta.labels.clone();
            let wanted = doc.at("/spec/selector/matchLabels")?.as_object()?;
            let lacks = wanted
                .iter()
                .find(|(key, value)| labels.get(key).map(|label| &**label) != value.as_str());
            let (key, value) = lacks?;
            format!(
                "it lacks the label {key}={}",
                value.as_str().unwrap_or_default()
            )
        }
    };
    let message = format!("pod {name} exists, and is not of this StatefulSet: {why}");
    Some(
        Reason::new(Code::NameTaken, NAME, message)
            .who(format!("owner of pod {name} (delete it)"))
            .field("pod", name)
            .since(pod.time("/metadata/creationTimestamp")),
    )
}

/// The error in `create Pod web-0 in StatefulSet web failed error: ...`. The Event adds words around the
/// error, which readers need not see twice.
fn said(message: &str) -> &str {
    message
        .split_once(" failed error: ")
        .map_or(message, |(_, error)| error)
}

/// The limits of the update strategy.
fn update(plan: &Plan<'_>, recreates: bool, answer: &mut Explanation) {
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
            let who =
                "owner of the StatefulSet (delete the pods one by one, or strategy RollingUpdate)";
            answer.add(Reason::new(Code::UpdateOnDelete, NAME, message).who(who));
        }
        UpdateStrategy::Recreate if recreates => {
            let message = format!(
                "strategy Recreate: new pods are created after the end of all old ones; old: {}",
                old.join(", ")
            );
            answer.add(Reason::new(Code::RolloutStep, NAME, message));
        }
        UpdateStrategy::Recreate => rolling(plan, &old, answer),
        UpdateStrategy::RollingUpdate { partition, .. } | UpdateStrategy::Other { partition } => {
            if let Some(partition) = partition.filter(|partition| *partition > 0) {
                let message = format!(
                    "partition {partition} keeps pods with a lower ordinal at the old revision"
                );
                answer.add(
                    Reason::new(Code::PartitionHolds, NAME, message).field("partition", partition),
                );
            }
            rolling(plan, &old, answer);
        }
    }
}

/// Adds the next step of a rolling update with these old pods.
fn rolling(plan: &Plan<'_>, old: &[&str], answer: &mut Explanation) {
    match plan.outdated(None).first() {
        _ if answer.has(Code::RevisionBroken) => {}
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::{Value, json};
    use steersman_values::resource::{EVENTS, ResourceType, STATEFUL_SETS};
    use steersman_why::{Dependent, Failure, KeyState, Loaded, ManagerState, Need};

    use super::*;

    /// A leader with the gate of `Recreate` in this state, and whether its sync refuses the set.
    struct Leader(bool, bool);

    impl Inside for Leader {
        fn keys(&self, controller: &str, key: &str) -> Vec<KeyState> {
            assert_eq!((controller, key), (NAME, "ns/web"));
            let error = format!("gate {} is disabled", STATEFUL_SET_RECREATE_STRATEGY.name);
            let failure = Failure {
                error,
                category: "decision",
                request: None,
                count: 1,
                first: Duration::ZERO,
                last: Duration::ZERO,
                is_dropped: false,
            };
            vec![KeyState {
                failure: self.1.then_some(failure),
                ..KeyState::default()
            }]
        }

        fn manager(&self) -> ManagerState {
            ManagerState::default()
        }

        fn enables(&self, gate: &str) -> bool {
            gate == STATEFUL_SET_RECREATE_STRATEGY.name && self.0
        }

        fn memory(&self, _: &str, _: &str, _: Timestamp) -> Vec<Reason> {
            Vec::new()
        }

        fn blocking_dependents(&self, _: &str) -> Vec<Dependent> {
            Vec::new()
        }
    }

    /// The reasons for a set of one old, available pod whose template has changed, with the strategy `Recreate`.
    fn reasons(gate: Option<bool>, is_refused: bool) -> Vec<(Code, String)> {
        let labels = json!({"app": "web"});
        let set = Doc::new(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 2},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels}, "serviceName": "web",
                "updateStrategy": {"type": "Recreate"}, "template": {"metadata": {"labels": labels}},
            },
            "status": {
                "observedGeneration": 2, "replicas": 1, "availableReplicas": 1,
                "currentRevision": "web-1", "updateRevision": "web-2",
            },
        }));
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true,
        });
        let pod = json!({
            "metadata": {
                "name": "web-0", "namespace": "ns", "uid": "p", "ownerReferences": [owner],
                "labels": {"app": "web", "controller-revision-hash": "web-1"},
            },
            "spec": {"nodeName": "n"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T12:00:00Z"}],
            },
        });
        let event = json!({
            "metadata": {"name": "e", "namespace": "ns"}, "type": "Warning", "reason": "UnknownStrategy",
            "message": "the gate is disabled", "lastTimestamp": "2026-11-30T12:00:30Z",
        });
        let leader = |is_on: bool| Leader(is_on, !is_on && is_refused);
        let inside = gate.map(|is_on| Arc::new(leader(is_on)) as Arc<dyn Inside>);
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new("2026-11-30T12:01:00Z".parse().unwrap(), inside, none);
        let mut load = |of: &ResourceType, fields: &str, found: Vec<Value>| {
            let need = Need::List {
                of: of.clone(),
                namespace: "ns".to_owned(),
                fields: fields.to_owned(),
            };
            world.load(
                need,
                Loaded::Objects(found.into_iter().map(Doc::new).collect()),
            );
        };
        load(&PODS, "", vec![pod]);
        let events = if is_refused { vec![event] } else { Vec::new() };
        load(&EVENTS, "involvedObject.uid=u", events);
        let mut answer = Explanation::new(set.subject(&STATEFUL_SETS), "");
        explain(&world, &set, &mut answer);
        let reasons = answer.reasons.into_iter();
        reasons
            .map(|reason| (reason.code, reason.message))
            .collect()
    }

    #[test]
    fn a_gate_decides_what_the_strategy_recreate_does() {
        let step = |message: &str| vec![(Code::RolloutStep, message.to_owned())];
        let recreated =
            "strategy Recreate: new pods are created after the end of all old ones; old: web-0";
        assert_eq!(reasons(Some(true), false), step(recreated));
        assert_eq!(reasons(None, false), step(recreated));
        // The Event is older than the gate.
        assert_eq!(reasons(Some(true), true), step(recreated));
        // Releases before 1.37 roll the set.
        assert_eq!(
            reasons(Some(false), false),
            step("pod web-0 is replaced next")
        );
        // The failure of the key is another part of the answer.
        assert_eq!(reasons(Some(false), true), []);
        let refused = (Code::SyncFailed, "the gate is disabled".to_owned());
        assert_eq!(reasons(None, true), [refused]);
    }
}
