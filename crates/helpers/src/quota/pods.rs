//! Usage of pods: their number, requests and limits.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/pods.go`, and `PodRequests` and `PodLimits` of
//! `k8s.io/component-helpers/resource`.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use steersman_objects::{
    ActualResources, Container, Pod, PodAffinities, PodAffinity, PodSpec, QosClass, Resources,
};
use steersman_values::quantity::Quantity;

use super::amounts::Amounts;
use super::names::{DEVICE_CLASS, HUGE_PAGES, LIMITS, REQUESTS, is_native};
use crate::scheduling::amounts::is_of_pods;

/// The circumstances that decide about the usage of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCounting {
    /// The time: pods stuck beyond their grace period are not charged.
    pub now: Timestamp,
    /// Gate `PodLevelResources`: requests and limits of the pod as a whole count.
    pub pod_level_resources: bool,
    /// Gate `InPlacePodVerticalScaling`: the resources in the status of a pod count.
    pub status_resources: bool,
}

/// Requests or limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Requests.
    Requests,
    /// Limits.
    Limits,
}

impl Side {
    fn of(self, resources: &Resources) -> Amounts {
        Amounts::of(match self {
            Self::Requests => &resources.requests,
            Self::Limits => &resources.limits,
        })
    }
}

/// The usage of a pod. A pod that is not charged counts only for `count/pods`.
pub fn pod_usage(pod: &Pod, counting: PodCounting) -> Amounts {
    let mut usage = Amounts::default();
    if is_charged(pod, counting.now) {
        usage = compute_usage(
            &pod_amounts(pod, Side::Requests, counting),
            &pod_amounts(pod, Side::Limits, counting),
        );
    }
    usage.set("count/pods", Quantity::whole(1));
    usage
}

/// The usage of many pods. Pods of one template have the same usage, which is computed once.
#[derive(Debug)]
pub(super) struct TemplateUsage<F> {
    counting: PodCounting,
    wanted: F,
    /// The usage of charged pods by the address of their template, which stays in memory.
    known: HashMap<usize, (Arc<PodSpec>, Amounts)>,
}

impl<F: Fn(&str) -> bool> TemplateUsage<F> {
    /// Counts the resources that `wanted` selects.
    pub(super) fn new(counting: PodCounting, wanted: F) -> Self {
        let known = HashMap::new();
        Self {
            counting,
            wanted,
            known,
        }
    }

    /// Adds the usage of `pod` to `total`.
    pub(super) fn add(&mut self, total: &mut Amounts, pod: &Pod) {
        let usage = || pod_usage(pod, self.counting).only(&self.wanted);
        if !is_charged(pod, self.counting.now) || !pod.details().actual_resources.is_empty() {
            return total.add(&usage());
        }
        let template = Arc::as_ptr(&pod.spec).addr();
        let (_, usage) = self
            .known
            .entry(template)
            .or_insert_with(|| (Arc::clone(&pod.spec), usage()));
        total.add(usage);
    }
}

/// Whether a pod counts for more than `count/pods`: it has not finished, and it is not stuck beyond
/// its grace period. Upstream: `QuotaV1Pod`.
fn is_charged(pod: &Pod, now: Timestamp) -> bool {
    if pod.is_finished() {
        return false;
    }
    let grace = pod.details().deletion_grace_period_seconds;
    let Some(deleted) = pod.meta.deleted else {
        return true;
    };
    let Some(seconds) = grace else {
        return true;
    };
    match Timestamp::from(deleted).checked_add(SignedDuration::from_secs(seconds)) {
        Ok(end) => now <= end,
        // Beyond the largest time.
        Err(_) => seconds > 0,
    }
}

/// Whether the pod is in the scope `Terminating`. Upstream: `IsTerminating`.
pub fn is_terminating_scope(pod: &Pod) -> bool {
    pod.spec
        .active_deadline_seconds
        .is_some_and(|seconds| seconds >= 0)
}

/// Whether the update may release quota: other resources of a running container, another scope, or
/// an end of the charge. Upstream: `DefaultUpdateFilter`.
pub fn is_pod_replenished(old: &Pod, new: &Pod, now: Timestamp) -> bool {
    old.details().actual_resources != new.details().actual_resources
        || is_terminating_scope(old) != is_terminating_scope(new)
        || (is_charged(old, now) && !is_charged(new, now))
}

/// Requests or limits of a pod as quotas count them, with the resources of its running containers.
fn pod_amounts(pod: &Pod, side: Side, counting: PodCounting) -> Amounts {
    let details = pod.details();
    let infeasible = details.is_resize_infeasible;
    let of_container = |container: &Container, is_init: bool| {
        let specified = side.of(&container.resources);
        let actual = details.actual_resources.iter();
        let mut actual = actual.filter(|_| counting.status_resources);
        // The last status of a name counts, as in upstream's map of statuses.
        let actual = actual.rfind(|actual| actual.name == container.name);
        match actual {
            Some(actual) if !is_init || container.restarts_always() => {
                effective(specified, actual, side, infeasible)
            }
            _ => specified,
        }
    };
    let mut total = aggregate(&pod.spec, of_container);
    add_pod_level(&mut total, &pod.spec, side, counting.pod_level_resources);
    total
}

/// The amounts that a running container holds: the largest of those specified, allocated and in
/// effect. An infeasible resize never comes into effect, so its values do not count.
fn effective(
    specified: Amounts,
    actual: &ActualResources,
    side: Side,
    infeasible: bool,
) -> Amounts {
    let mut amounts = if infeasible {
        Amounts::default()
    } else {
        specified
    };
    amounts.raise_to(&side.of(&actual.resources));
    if side == Side::Requests {
        amounts.raise_to(&Amounts::of(&actual.allocated));
    }
    amounts
}

/// Requests or limits in the spec of a pod, without its status. Upstream: `PodRequests` and
/// `PodLimits` with default options.
pub fn amounts_of_containers(spec: &PodSpec, side: Side) -> Amounts {
    let mut total = aggregate(spec, |container, _| side.of(&container.resources));
    add_pod_level(&mut total, spec, side, true);
    total
}

/// The total over containers. Containers and sidecars run together, so their amounts add up. An
/// init container runs before the containers, beside the sidecars that started earlier.
fn aggregate(spec: &PodSpec, of: impl Fn(&Container, bool) -> Amounts) -> Amounts {
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&of(container, false));
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in &spec.init_containers {
        let mut needed = of(container, true);
        if container.restarts_always() {
            total.add(&needed);
            sidecars.add(&needed);
            starting.raise_to(&sidecars);
        } else {
            needed.add(&sidecars);
            starting.raise_to(&needed);
        }
    }
    total.raise_to(&starting);
    total
}

/// Replaces amounts by those of the pod as a whole, and adds its overhead: to requests always, and to
/// limits that exist.
fn add_pod_level(total: &mut Amounts, spec: &PodSpec, side: Side, pod_level_resources: bool) {
    if pod_level_resources {
        total.replace(&side.of(&spec.resources).only(is_of_pods));
    }
    let overhead = Amounts::of(&spec.overhead);
    let counted = match side {
        Side::Requests => overhead,
        Side::Limits => overhead.only(|name| total.get(name).is_some_and(|limit| !limit.is_zero())),
    };
    total.add(&counted);
}

/// The names of quotas for requests and limits. Upstream: `podComputeUsageHelper`.
fn compute_usage(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::default();
    usage.set("pods", Quantity::whole(1));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.set(name, request);
            usage.set(&format!("{REQUESTS}{name}"), request);
        }
        if let Some(limit) = limits.get(name) {
            usage.set(&format!("{LIMITS}{name}"), limit);
        }
    }
    for (name, request) in requests.iter() {
        if name.starts_with(HUGE_PAGES) {
            usage.set(name, request);
            usage.set(&format!("{REQUESTS}{name}"), request);
        } else if is_extended(name) {
            usage.set(&format!("{REQUESTS}{name}"), request);
        }
    }
    usage
}

/// Whether `name` is an extended resource, or the implicit one of a class of devices. Names in pods
/// are valid, so they need no further check. Upstream: `IsDRAExtendedResourceName`.
fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || !(is_native(name) || name.starts_with(REQUESTS))
}

/// Whether the pod has neither requests nor limits of CPU and memory. Upstream: `GetPodQOS`.
pub(super) fn is_best_effort(pod: &Pod) -> bool {
    if let Some(class) = pod.qos_class {
        return class == QosClass::BestEffort;
    }
    let spec = &pod.spec;
    let is_positive = |resources: &Resources| {
        let amounts = [&resources.requests, &resources.limits].map(Amounts::of);
        let compute = amounts
            .iter()
            .flat_map(|side| ["cpu", "memory"].map(|name| side.get(name)));
        compute.flatten().any(|amount| amount > Quantity::whole(0))
    };
    if spec.resources != Resources::default() {
        return !is_positive(&spec.resources);
    }
    let mut containers = spec.containers.iter().chain(&spec.init_containers);
    !containers.any(|container| is_positive(&container.resources))
}

/// Whether a term of affinity or anti-affinity names other namespaces. Upstream:
/// `usesCrossNamespacePodAffinity`.
pub(super) fn crosses_namespaces(affinity: &PodAffinities) -> bool {
    let crosses = |affinity: &PodAffinity| {
        let preferred = affinity
            .preferred
            .iter()
            .map(|term| &term.pod_affinity_term);
        let mut terms = affinity.required.iter().chain(preferred);
        terms.any(|term| !term.namespaces.is_empty() || term.namespace_selector.is_some())
    };
    crosses(&affinity.pod_affinity) || crosses(&affinity.pod_anti_affinity)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::Object;

    use super::*;

    fn counting() -> PodCounting {
        PodCounting {
            now: "2026-07-01T00:00:00Z".parse().unwrap(),
            pod_level_resources: true,
            status_resources: true,
        }
    }

    fn pod(fields: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            pod[field] = value.clone();
        }
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    }

    fn requesting(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    /// Upstream: `TestPodEvaluatorUsageResourceResize`.
    #[test]
    fn resized_containers_count_their_largest_amounts() {
        let infeasible = json!([
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
        ]);
        // (case, specified, in effect, allocated, conditions, counted)
        let cases = [
            ("no resize", "200m", "200m", "200m", json!([]), "200m"),
            ("resize to more", "300m", "200m", "200m", json!([]), "300m"),
            ("allocated", "200m", "200m", "300m", json!([]), "300m"),
            ("resize to less", "100m", "200m", "100m", json!([]), "200m"),
            ("infeasible", "900m", "200m", "200m", infeasible, "200m"),
        ];
        for (case, specified, actual, allocated, conditions, counted) in cases {
            let container = json!({"name": "c", "resources": requesting(specified)});
            let status = json!({
                "name": "c", "resources": requesting(actual), "allocatedResources": {"cpu": allocated},
            });
            let pod = pod(json!({
                "spec": {"containers": [container]},
                "status": {"containerStatuses": [status], "conditions": conditions},
            }));
            let usage = pod_usage(&pod, counting());
            assert_eq!(
                usage.get("requests.cpu").unwrap().canonical(),
                counted,
                "{case}"
            );
            let differs = [specified, actual, allocated]
                .iter()
                .any(|text| *text != specified);
            assert_eq!(
                !pod.details().actual_resources.is_empty(),
                differs,
                "{case}"
            );
        }
    }

    /// Upstream: `TestHasResourcesChanged`, and the other parts of the filter.
    #[test]
    fn updates_that_may_release_quota() {
        let running = |cpu: &str| {
            let container = json!({"name": "c", "resources": requesting("200m")});
            let status = json!({"name": "c", "resources": requesting(cpu)});
            json!({"spec": {"containers": [container]}, "status": {"containerStatuses": [status]}})
        };
        let phase = |phase: &str| json!({"status": {"phase": phase}});
        let deadline = |seconds: Value| json!({"spec": {"activeDeadlineSeconds": seconds}});
        // (case, before, after, released)
        let cases = [
            ("equal", running("200m"), running("200m"), false),
            (
                "resources in effect",
                running("300m"),
                running("200m"),
                true,
            ),
            ("a phase", phase("Pending"), phase("Running"), false),
            ("the end", phase("Running"), phase("Failed"), true),
            ("after the end", phase("Failed"), phase("Succeeded"), false),
            (
                "a deadline",
                deadline(json!(null)),
                deadline(json!(5)),
                true,
            ),
            (
                "a later deadline",
                deadline(json!(9)),
                deadline(json!(5)),
                false,
            ),
        ];
        for (case, before, after, released) in cases {
            let now = counting().now;
            let found = is_pod_replenished(&pod(before), &pod(after), now);
            assert_eq!(found, released, "{case}");
        }
    }
}
