//! Why a PodDisruptionBudget refuses evictions: the arithmetic of its status.
//!
//! It computes the numbers anew from the pods, with the functions of the sync. Only the sizes of workloads
//! come from the status.

use std::sync::Arc;

use steersman_objects::{Pod, PodDisruptionBudget};
use steersman_values::resource::{POD_DISRUPTION_BUDGETS, PODS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, pod};

use super::disrupted;
use super::expected::{self, Basis};
use super::{NAME, status::Numbers};

/// Adds the reasons about `doc`, and the answers about its pods that are not healthy.
///
/// The order is: overlapping budgets, an unobserved change, pods that are not counted, a failed sync, and
/// last the refusal.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(budget) = doc.view::<PodDisruptionBudget>() else {
        return;
    };
    let Ok(selector) = &budget.spec.selector else {
        answer.add(
            Reason::new(Code::SelectorInvalid, NAME, "the selector cannot be read")
                .who("owner of the budget"),
        );
        return;
    };
    let Some(all) = world.list(&PODS, doc.namespace()) else {
        return;
    };
    let docs: Vec<&Doc> = all
        .iter()
        // The selector was parsed with the budget, so this costs one match for each pod of the namespace.
        .filter(|doc| {
            doc.view::<Pod>()
                .is_some_and(|pod| selector.matches(&pod.meta.labels))
        })
        .collect();
    let pods: Vec<Arc<Pod>> = docs.iter().filter_map(|doc| doc.view()).collect();
    let review = disrupted::review(&budget.status.disrupted_pods, &pods, world.now);
    let by_pods = expected::basis(&budget.spec) == Basis::Pods;
    // The sizes of the pods' controllers are in the status; counting them again needs their scales.
    let expected = if by_pods {
        i32::try_from(pods.len()).unwrap_or(i32::MAX)
    } else {
        budget.status.expected_pods
    };
    let numbers = Numbers {
        expected,
        // A malformed limit fails the sync, and its condition explains it. The old number then stays.
        desired_healthy: expected::desired_healthy(&budget.spec, expected)
            .unwrap_or(budget.status.desired_healthy),
        healthy: disrupted::healthy(&pods, &review.pending, world.now),
    };
    let allowed = numbers.disruptions_allowed();
    let number = usize::try_from(allowed).unwrap_or(0);
    answer.state = format!("allows {}", steersman_why::count(number, "disruption"));
    overlap(world, doc, &pods, answer);
    if let Some(reason) = keys::not_observed(world, doc, NAME) {
        answer.add(reason);
    }
    // Any controller counts here, even one of an unknown kind. The sync finds its size by its scale.
    let is_unmanaged = |doc: &&&Doc| {
        let owners = doc.items("/metadata/ownerReferences").iter();
        !owners.into_iter().any(|owner| owner["controller"] == true)
    };
    let unmanaged: Vec<&str> = docs
        .iter()
        .filter(is_unmanaged)
        .map(|doc| doc.name())
        .collect();
    if !by_pods && !unmanaged.is_empty() {
        let names = unmanaged.join(", ");
        let message = format!("pods without a controller are not counted: {names}");
        let who = "owner of the budget: minAvailable as a number counts any pods";
        answer.add(Reason::new(Code::UnmanagedPods, NAME, message).who(who));
    }
    let failed = doc.condition("DisruptionAllowed");
    if let Some(failed) = failed.filter(|condition| condition.text("/reason") == "SyncFailed") {
        let reason = Reason::new(Code::SyncFailed, NAME, failed.text("/message"));
        let who = "owner of the budget: minAvailable as a number needs no size of a controller";
        answer.add(reason.who(who).since(failed.time("/lastTransitionTime")));
    }
    if allowed > 0 {
        return;
    }
    let Numbers {
        expected,
        desired_healthy,
        healthy,
    } = numbers;
    // The cases go from the budget to its pods: no pods, no size, a limit without slack, unhealthy pods.
    let message = if pods.is_empty() {
        "the selector matches no pods, so the budget expects none".to_owned()
    } else if expected == 0 {
        "the budget expects no pods, so it allows no disruption".to_owned()
    } else if desired_healthy >= expected {
        format!(
            "{desired_healthy} of {expected} pods must stay healthy, so the budget never allows a disruption"
        )
    } else {
        format!("{healthy} of {expected} pods are healthy, and {desired_healthy} must stay healthy")
    };
    let who = if healthy < expected {
        "owner of the budget, or of the pods that are not healthy"
    } else {
        "owner of the budget"
    };
    let reason = Reason::new(Code::DisruptionBlocked, NAME, message)
        .who(who)
        .field("healthy", healthy)
        .field("desiredHealthy", desired_healthy)
        .field("expected", expected)
        .since(
            doc.condition("DisruptionAllowed")
                .and_then(|condition| condition.time("/lastTransitionTime")),
        );
    answer.add(reason);
    // A pending eviction holds its place until the pod is deleted or the entry is overdue.
    if !review.pending.is_empty() {
        let names: Vec<&str> = review.pending.keys().map(String::as_str).collect();
        let message = format!("evictions of {} are under way", names.join(", "));
        answer.add(Reason::new(Code::SyncQueued, NAME, message).next(review.recheck));
    }
    // Healthy again, these pods would give the budget slack, so their reasons follow.
    if healthy < expected {
        let docs: Vec<Doc> = docs.into_iter().cloned().collect();
        for about in pod::unavailable(world, &docs, 0) {
            answer.follow(about);
        }
    }
}

/// Adds the other budgets that select one of `pods`, the pods of `doc`. The API server refuses to evict
/// such a pod, whatever the budgets allow.
fn overlap(world: &World, doc: &Doc, pods: &[Arc<Pod>], answer: &mut Explanation) {
    let all = world.list(&POD_DISRUPTION_BUDGETS, doc.namespace());
    for other in all.unwrap_or_default() {
        if other.name() == doc.name() {
            continue;
        }
        let Some(view) = other.view::<PodDisruptionBudget>() else {
            continue;
        };
        let Ok(selector) = &view.spec.selector else {
            continue;
        };
        let mut both = pods.iter().filter(|pod| selector.matches(&pod.meta.labels));
        let Some(first) = both.next() else {
            continue;
        };
        let message = format!(
            "budget {} selects {} of these pods too, such as {}: the API server evicts no pod with several budgets",
            other.name(),
            both.count() + 1,
            first.meta.name
        );
        let who = format!(
            "owners of the budgets {} and {} (narrow a selector, or delete one)",
            doc.name(),
            other.name()
        );
        answer.add(Reason::new(Code::BudgetsOverlap, "kube-apiserver", message).who(who));
    }
}
