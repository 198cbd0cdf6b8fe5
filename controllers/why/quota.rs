//! The workloads that use the most of a ResourceQuota that is used up. A refusal tells the sum alone.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use steersman_values::quantity::Quantity;
use steersman_values::resource::{PODS, RESOURCE_QUOTAS};
use steersman_why::{Code, Doc, Explanation, World, maker, total};

/// Workloads in one text.
const SHOWN: usize = 3;

/// Names the workloads of `namespace` with the largest parts of a quota in the reasons of `answer` that tell its refusal.
pub(super) fn name_users(world: &World, namespace: &str, answer: &mut Explanation) {
    for reason in &mut answer.reasons {
        if reason.code == Code::QuotaExceeded
            && let Some(users) = users(world, namespace, &reason.message)
        {
            reason.message = format!("{}; {users}", reason.message);
        }
    }
}

/// `the largest parts are 16Gi of deployment shop/test, 8Gi of deployment shop/web`. `None` for one workload alone, and for
/// a quota with scopes: it does not count all pods.
fn users(world: &World, namespace: &str, message: &str) -> Option<String> {
    let (quota, resource) = refused(message)?;
    let quota = world.get(&RESOURCE_QUOTAS, namespace, quota).found()?;
    if quota.at("/spec/scopes").is_some() || quota.at("/spec/scopeSelector").is_some() {
        return None;
    }
    // A refusal that other objects repeat may be one of another namespace, with a quota of the same name.
    let limit = Quantity::parse(quota.at("/status/hard")?[resource].as_str()?)?;
    if limited(message, resource) != Some(limit) {
        return None;
    }
    let pods = world.within(&PODS, namespace)?;
    let parts = by_size(&pods, resource, world.now);
    if parts.len() < 2 {
        return None;
    }
    let shown = parts.iter().take(SHOWN);
    let shown = shown.map(|(maker, amount)| format!("{} of {maker}", amount.canonical()));
    let shown: Vec<String> = shown.collect();
    Some(format!("the largest parts are {}", shown.join(", ")))
}

/// The quota and its first resource in `exceeded quota: team, requested: limits.memory=4Gi, used: ...`.
fn refused(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (quota, rest) = rest.split_once(", requested: ")?;
    let (resource, _) = rest.split_once('=')?;
    Some((quota, resource))
}

/// The limit of `resource` in the refusal.
fn limited(message: &str, resource: &str) -> Option<Quantity> {
    let (_, limits) = message.split_once("limited: ")?;
    let (_, limit) = limits.split_once(&format!("{resource}="))?;
    Quantity::parse(limit.split([',', ' ', ';']).next()?)
}

/// The workloads of `pods` and their parts of `resource`, the largest one first.
fn by_size(pods: &[&Doc], resource: &str, now: Timestamp) -> Vec<(String, Quantity)> {
    let mut parts: BTreeMap<String, Quantity> = BTreeMap::new();
    for pod in pods {
        let is_counted = resource == "count/pods" || !is_over(pod, now);
        if let Some(amount) = counted(pod, resource).filter(|_| is_counted) {
            let part = parts.entry(maker(pod)).or_insert(Quantity::whole(0));
            *part = part.plus(amount);
        }
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by(|one, other| other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal));
    parts
}

/// Whether `pod` has ended, or should have ended by its grace period. The count of all objects has such pods too. Upstream:
/// `QuotaV1Pod`.
fn is_over(pod: &Doc, now: Timestamp) -> bool {
    let grace = pod.number("/metadata/deletionGracePeriodSeconds");
    let deleted = pod.time("/metadata/deletionTimestamp");
    pod.has_ended() || deleted.is_some_and(|at| now.duration_since(at).as_secs() > grace)
}

/// The part of `pod` in a quota of `resource`. Upstream: `pkg/quota/v1/evaluator/core/pods.go`.
fn counted(pod: &Doc, resource: &str) -> Option<Quantity> {
    match resource {
        "pods" | "count/pods" => Some(Quantity::whole(1)),
        "cpu" | "memory" => total(pod, "requests", resource),
        _ => {
            let (list, resource) = resource.split_once('.')?;
            matches!(list, "requests" | "limits")
                .then(|| total(pod, list, resource))
                .flatten()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_quota_and_its_resource_are_read_from_the_refusal() {
        let message = "pods \"a\" is forbidden: exceeded quota: team, requested: limits.memory=4Gi, used: limits.memory=32Gi, \
                       limited: limits.memory=32Gi";
        assert_eq!(refused(message), Some(("team", "limits.memory")));
        assert_eq!(refused("pods \"a\" is forbidden"), None);
        assert_eq!(limited(message, "limits.memory"), Quantity::parse("32Gi"));
        assert_eq!(limited(message, "pods"), None);
    }

    #[test]
    fn workloads_with_the_largest_parts_come_first() {
        let pod = |name: &str, phase: &str, limit: &str| {
            let resources = json!({"limits": {"memory": limit}, "requests": {"memory": "1Gi"}});
            Doc::new(json!({
                "metadata": {"namespace": "shop", "name": name}, "spec": {"containers": [{"resources": resources}]},
                "status": {"phase": phase},
            }))
        };
        let pods = [
            pod("small", "Running", "2Gi"),
            pod("over", "Failed", "64Gi"),
            pod("large", "Pending", "16Gi"),
        ];
        let pods: Vec<&Doc> = pods.iter().collect();
        let told = |resource: &str| {
            let parts = by_size(&pods, resource, Timestamp::UNIX_EPOCH).into_iter();
            let texts = parts.map(|(maker, amount)| format!("{maker} {}", amount.canonical()));
            texts.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            told("limits.memory"),
            "pod shop/large 16Gi, pod shop/small 2Gi"
        );
        assert_eq!(told("memory"), "pod shop/large 1Gi, pod shop/small 1Gi");
        assert_eq!(told("pods"), "pod shop/large 1, pod shop/small 1");
        assert_eq!(
            told("count/pods"),
            "pod shop/large 1, pod shop/over 1, pod shop/small 1"
        );
        assert_eq!(told("requests.storage"), "");
        assert_eq!(told("configmaps"), "");
    }
}
