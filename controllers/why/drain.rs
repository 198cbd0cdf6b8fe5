//! The pods for which the drain of a node waits. An autoscaler of nodes keeps a deleted node by a finalizer until
//! its pods are gone.

use serde_json::Value;
use steersman_objects::{Pod, PodDisruptionBudget};
use steersman_values::resource::{NODES, POD_DISRUPTION_BUDGETS, PODS};
use steersman_why::{Code, Doc, Explanation, Reason, World, count, maker};

/// The kind of the object that an autoscaler has for each of its nodes.
pub(super) const NODE_CLAIM: &str = "NodeClaim";

const KARPENTER: &str = "karpenter.sh/";
/// The taint of a node that Karpenter drains. Pods that tolerate it stay, and the drain does not wait for them.
const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Pods in one answer.
const SHOWN: usize = 3;

/// Adds the pods that hold the drain of `node`, which is being deleted with `finalizers`.
pub(super) fn explain(world: &World, node: &Doc, finalizers: &[&str], answer: &mut Explanation) {
    let Some(all) = world
        .pods_on(node.name())
        .filter(|_| !finalizers.is_empty())
    else {
        return;
    };
    let is_karpenter = finalizers.iter().any(|name| name.starts_with(KARPENTER));
    let awaited = |pod: &&Doc| is_awaited(pod) && !(is_karpenter && tolerates_drain(pod));
    let pods: Vec<&Doc> = all.into_iter().filter(awaited).collect();
    // Each autoscaler knows its own annotation alone.
    let (by, annotation, value) = if is_karpenter {
        ("karpenter", "karpenter.sh/do-not-disrupt", "true")
    } else {
        (
            "",
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "false",
        )
    };
    let forbids = |pod: &&&Doc| {
        let annotations = pod.at("/metadata/annotations");
        annotations.is_some_and(|all| all[annotation] == value)
    };
    let claim = claim_of(world, node);
    for pod in pods.iter().filter(forbids).take(SHOWN) {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        let maker = maker(pod);
        let message = format!(
            "the drain waits for pod {name} of {maker}: its annotation {annotation} is {value}, so it is not evicted, and runs to its end{claim}"
        );
        let who = format!(
            "owner of {maker} (let the pod end, delete it, or remove the annotation from pod {name})"
        );
        let reason = Reason::new(Code::DrainHeld, by, message).who(who);
        answer.add(reason.since(node.deleted_since()).field("pod", name));
    }
    blocking_budgets(world, &pods, answer);
    for pod in pods.iter().filter(|pod| pod.deleted().is_some()) {
        let about = world.explain(&PODS, pod);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
    if !pods.is_empty() {
        let names = pods.iter().take(SHOWN);
        let names = names.map(|pod| format!("{}/{}", pod.namespace(), pod.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = match pods.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "the drain waits for {} on the node: {names}{more}",
            count(pods.len(), "pod")
        );
        answer.add(Reason::new(Code::DrainLeft, by, message));
    }
}

/// Whether a drain waits for the end of `pod`. Pods of DaemonSets and of the kubelet's own manifests stay.
fn is_awaited(pod: &Doc) -> bool {
    let mut owners = pod.items("/metadata/ownerReferences").iter();
    let stays = |owner: &Value| {
        let kind = owner["kind"].as_str().unwrap_or_default();
        owner["controller"] == true && matches!(kind, "DaemonSet" | "Node")
    };
    let mirror = pod.at("/metadata/annotations/kubernetes.io~1config.mirror");
    !pod.has_ended() && mirror.is_none() && !owners.any(stays)
}

fn tolerates_drain(pod: &Doc) -> bool {
    pod.items("/spec/tolerations").iter().any(|one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        let is_key = match text("key") {
            "" => text("operator") == "Exists",
            key => key == DISRUPTED,
        };
        is_key && matches!(text("effect"), "" | "NoSchedule")
    })
}

/// The object of the autoscaler that owns `node`, and its time limit of the drain, in words.
fn claim_of(world: &World, node: &Doc) -> String {
    let mut owners = node.items("/metadata/ownerReferences").iter();
    let Some(owner) = owners.find(|owner| owner["kind"] == NODE_CLAIM) else {
        return String::new();
    };
    let name = owner["name"].as_str().unwrap_or_default();
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let group = version.split('/').next().unwrap_or_default();
    let of = world.resource(group, NODE_CLAIM).found();
    let claim = of.and_then(|of| world.get(&of, "", name).found());
    let limit = claim.map(|claim| match claim.text("/spec/terminationGracePeriod") {
        "" => " sets no terminationGracePeriod, so nothing limits the wait".to_owned(),
        limit => format!(" limits the wait to {limit} (terminationGracePeriod)"),
    });
    let limit = limit.unwrap_or_else(|| " owns the node".to_owned());
    format!("; {NODE_CLAIM} {name}{limit}")
}

/// Follows the node of `claim`, a NodeClaim that is being deleted: the drain of the node comes first.
pub(super) fn follow_node(world: &World, claim: &Doc, answer: &mut Explanation) {
    let name = claim.text("/status/nodeName");
    if name.is_empty() {
        return;
    }
    if let Some(node) = world.get(&NODES, "", name).found() {
        let about = world.explain(&NODES, &node);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// Follows the budgets that allow no disruption of pods on a node: a program that drains it waits for them.
fn blocking_budgets(world: &World, pods: &[&Doc], answer: &mut Explanation) {
    let budgets = world.list(&POD_DISRUPTION_BUDGETS, "").unwrap_or_default();
    let closed = budgets
        .iter()
        .filter(|budget| budget.number("/status/disruptionsAllowed") == 0);
    let closed: Vec<&Doc> = closed.collect();
    if closed.is_empty() {
        return;
    }
    for budget in closed {
        let Some(selector) = budget
            .view::<PodDisruptionBudget>()
            .and_then(|view| view.spec.selector.clone().ok())
        else {
            continue;
        };
        let covers = |pod: &&Doc| {
            pod.namespace() == budget.namespace()
                && pod
                    .view::<Pod>()
                    .is_some_and(|pod| selector.matches(&pod.meta.labels))
        };
        if pods.iter().any(covers) {
            answer.follow(world.explain(&POD_DISRUPTION_BUDGETS, budget));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_drain_waits_for_pods_that_can_be_evicted() {
        let pod = |kind: &str, phase: &str, annotation: &str| {
            Doc::new(json!({
                "metadata": {"annotations": {annotation: "x"}, "ownerReferences": [{"kind": kind, "controller": true}]},
                "status": {"phase": phase},
            }))
        };
        let cases = [
            ("ReplicaSet", "Running", "a", true),
            ("Job", "Pending", "a", true),
            ("Job", "Succeeded", "a", false),
            ("DaemonSet", "Running", "a", false),
            ("Node", "Running", "a", false),
            (
                "ReplicaSet",
                "Running",
                "kubernetes.io/config.mirror",
                false,
            ),
        ];
        for (kind, phase, annotation, expected) in cases {
            assert_eq!(
                is_awaited(&pod(kind, phase, annotation)),
                expected,
                "{kind} {phase}"
            );
        }
    }

    #[test]
    fn a_pod_that_tolerates_the_taint_of_the_drain_stays() {
        let pod = |toleration: Value| Doc::new(json!({"spec": {"tolerations": [toleration]}}));
        assert!(tolerates_drain(&pod(json!({"operator": "Exists"}))));
        assert!(tolerates_drain(&pod(
            json!({"key": DISRUPTED, "effect": "NoSchedule"})
        )));
        assert!(!tolerates_drain(&pod(
            json!({"key": DISRUPTED, "effect": "NoExecute"})
        )));
        assert!(!tolerates_drain(&pod(
            json!({"key": "other", "operator": "Exists"})
        )));
    }
}
