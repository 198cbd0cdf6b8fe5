//! The order in which surplus pods are deleted.
//!
//! Pods that serve least are deleted first: unscheduled, pending and unready ones. Among ready pods
//! the deletion cost, crowded nodes and a young age decide. Upstream: `ActivePodsWithRanks` in
//! `controller_utils.go`, and `getPodsToDelete` in `replica_set.go`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{Phase, Pod, Time};

/// Whether the annotation `controller.kubernetes.io/pod-deletion-cost` counts: the feature gate
/// `PodDeletionCost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Costs {
    Count,
    Ignored,
}

/// The `count` pods of `active` to delete, in order. The rank of a pod is the number of active pods
/// of `related` on its node.
///
/// If all pods have to go, their order is left as it is, as in upstream. `now` decides about ages only.
pub(super) fn first_to_go(
    active: &[Arc<Pod>],
    related: &[Arc<Pod>],
    count: usize,
    costs: Costs,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count >= active.len() {
        return active.to_vec();
    }
    let mut on_node: HashMap<Option<&str>, usize> = HashMap::new();
    // Pods without a node share one entry. Their rank decides nothing, as all of them are unscheduled alike.
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(pod.node.as_deref()).or_default() += 1;
    }
    let rank = |pod: &Pod| on_node.get(&pod.node.as_deref()).copied().unwrap_or(0);
    let cost = |pod: &Pod| {
        if costs == Costs::Count {
            pod.deletion_cost
        } else {
            0
        }
    };
    let ranked = active
        .iter()
        .map(|pod| Ranked {
            pod,
            rank: rank(pod),
            cost: cost(pod),
        })
        .collect();
    let sorted = merge_sort(ranked, |a, b| compare(a, b, now));
    sorted
        .into_iter()
        .take(count)
        .map(|ranked| Arc::clone(ranked.pod))
        .collect()
}

/// A pod and the numbers that its comparison needs, computed once per sync.
#[derive(Debug, Clone, Copy)]
struct Ranked<'a> {
    pod: &'a Arc<Pod>,
    /// Number of active related pods on the same node.
    rank: usize,
    /// The deletion cost; 0 if costs are ignored.
    cost: i32,
}

/// Compares two pods as upstream does; the lesser one is deleted first.
///
/// This is not a total order, because three pods of one age bucket can form a cycle. Two that
/// became ready at the same time are compared by restarts. The third one is compared with each of
/// them by UID.
///
/// The steps are the eight rules of `ActivePodsWithRanks.Less`, in its order. A greater rank goes first, and
/// so does a greater number of restarts.
fn compare(a: &Ranked<'_>, b: &Ranked<'_>, now: Timestamp) -> Ordering {
    let p = &**a.pod;
    let q = &**b.pod;
    p.node
        .is_some()
        .cmp(&q.node.is_some())
        .then_with(|| phase_rank(p.phase).cmp(&phase_rank(q.phase)))
        .then_with(|| p.is_ready().cmp(&q.is_ready()))
        .then_with(|| a.cost.cmp(&b.cost))
        .then_with(|| b.rank.cmp(&a.rank))
        .then_with(|| {
            if p.is_ready() {
                compare_ages(a.pod, p.ready.since, b.pod, q.ready.since, now)
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| q.restarts.cmp(&p.restarts))
        .then_with(|| q.sidecar_restarts.cmp(&p.sidecar_restarts))
        .then_with(|| compare_ages(a.pod, p.meta.created, b.pod, q.meta.created, now))
}

/// A lesser rank is deleted first. Upstream: `podPhaseToOrdinal`, which has 0 for phases that it lacks.
fn phase_rank(phase: Phase) -> u8 {
    match phase {
        Phase::Unknown => 1,
        Phase::Running => 2,
        Phase::Pending | Phase::Other | Phase::Succeeded | Phase::Failed => 0,
    }
}

/// Compares two pods by a time: unset first, then the younger one.
///
/// Ages in the same power of two count as equal, and the UID decides. Thus deletions are spread
/// over all pods of about the same age. Only equal times compare as equal.
fn compare_ages(
    p: &Pod,
    since_p: Option<Time>,
    q: &Pod,
    since_q: Option<Time>,
    now: Timestamp,
) -> Ordering {
    match (since_p, since_q) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) if a == b => Ordering::Equal,
        (Some(a), Some(b)) => age_bucket(a, now)
            .cmp(&age_bucket(b, now))
            .then_with(|| p.meta.uid.cmp(&q.meta.uid)),
    }
}

/// floor(log2(age in nanoseconds)); `None`, which is less than any other value, for a time that is
/// not in the past. Upstream: `logarithmicRankDiff`, which uses -1 there.
fn age_bucket(since: Time, now: Timestamp) -> Option<u32> {
    let age = now.as_nanosecond() - Timestamp::from(since).as_nanosecond();
    (age > 0).then(|| age.ilog2())
}

/// Stable merge sort for an order that need not be total. `slice::sort_by` may panic on such an
/// order.
fn merge_sort<T: Copy>(items: Vec<T>, mut compare: impl FnMut(&T, &T) -> Ordering) -> Vec<T> {
    let mut from = items;
    let mut width = 1;
    while width < from.len() {
        let mut to = Vec::with_capacity(from.len());
        for run in from.chunks(2 * width) {
            let (mut left, mut right) = run.split_at(width.min(run.len()));
            while let Some(a) = left.first()
                && let Some(b) = right.first()
            {
                let first = if compare(b, a).is_lt() {
                    &mut right
                } else {
                    &mut left
                };
                to.push(first[0]);
                *first = &first[1..];
            }
            to.extend_from_slice(left);
            to.extend_from_slice(right);
        }
        from = to;
        width *= 2;
    }
    from
}

/// The age of each ready victim, divided by the age of the youngest ready pod. As upstream, it
/// divides whole milliseconds and discards the remainder.
///
/// The result is empty if the youngest pod is less than a millisecond old; upstream divides by zero
/// there.
///
/// Upstream: `reportSortingDeletionAgeRatioMetric`. A ratio far above 2 shows that old pods went before young
/// ones.
pub(super) fn age_ratios(active: &[Arc<Pod>], victims: &[Arc<Pod>], now: Timestamp) -> Vec<i64> {
    let age = |created: Timestamp| now.as_millisecond() - created.as_millisecond();
    let ready = |pods: &[Arc<Pod>]| -> Vec<Timestamp> {
        pods.iter()
            .filter(|pod| pod.is_ready())
            .filter_map(|pod| pod.meta.created.map(Timestamp::from))
            .collect()
    };
    let Some(youngest) = ready(active)
        .into_iter()
        .max()
        .map(age)
        .filter(|age| *age > 0)
    else {
        return Vec::new();
    };
    ready(victims)
        .into_iter()
        .map(|created| age(created) / youngest)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::time;

    const NOW: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;
    const MONTH: i64 = 30 * 24 * HOUR;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    fn arc(builder: &PodBuilder) -> Arc<Pod> {
        Arc::new(builder.clone().build())
    }

    /// A pod without a UID, as in upstream's tests. Ages of the same bucket then compare as equal.
    fn anonymous(name: &str, node: &str, phase: &str) -> PodBuilder {
        pod(name).uid("").not_created().node(node).phase(phase)
    }

    /// A deterministic order for each seed.
    fn shuffled<T>(mut items: Vec<T>, seed: usize) -> Vec<T> {
        let mut state = seed as u64 + 1;
        for i in (1..items.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            items.swap(i, (state >> 33) as usize % (i + 1));
        }
        items
    }

    fn ranked(pod: &Arc<Pod>, rank: usize) -> Ranked<'_> {
        Ranked {
            pod,
            rank,
            cost: pod.deletion_cost,
        }
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.meta.name).collect()
    }

    #[test]
    fn sorts_by_active_pod() {
        let running = |name| anonymous(name, "foo", "Running");
        let then = NOW - MONTH;
        let expected = [
            anonymous("unscheduled", "", "Pending"),
            anonymous("scheduledButPending", "bar", "Pending"),
            anonymous("unknownPhase", "foo", "Unknown"),
            running("runningButNotReady"),
            running("runningNoLastTransitionTime")
                .ready_without_time()
                .restarts(&[3, 0]),
            running("runningWithLastTransitionTime")
                .ready_since(NOW)
                .restarts(&[3, 0]),
            running("runningLongerTime")
                .ready_since(then)
                .restarts(&[3, 0]),
            running("lowerSidecarContainerRestartCount")
                .ready_since(then)
                .restarts(&[2, 1])
                .sidecar_restarts(2)
                .created(NOW),
            running("lowerContainerRestartCount")
                .ready_since(then)
                .restarts(&[2, 1])
                .created(NOW),
            running("oldest")
                .ready_since(then)
                .restarts(&[2, 1])
                .created(then),
        ];
        let expected: Vec<Arc<Pod>> = expected.iter().map(arc).collect();
        for seed in 0..20 {
            let mut active = shuffled(expected.clone(), seed);
            active.push(arc(&running("never")
                .ready_since(then - MONTH)
                .created(then - 2 * MONTH)));
            let first = first_to_go(&active, &[], expected.len(), Costs::Count, now());
            assert_eq!(names(&first), names(&expected));
        }
    }

    #[test]
    fn pods_compare_as_upstream_ranks_them() {
        let running = |name| anonymous(name, "node", "Running");
        let ready = |name, since, created| {
            running(name)
                .ready_since(since)
                .created(created)
                .restarts(&[0])
        };
        let month = NOW - MONTH;
        let hours = |n: i64| NOW - n * HOUR;
        let unscheduled = anonymous("unscheduled", "", "Pending");
        let pending = anonymous("pending", "node", "Pending");
        let unknown = anonymous("unknown-phase", "node", "Unknown");
        let not_ready = running("not-ready");
        // Unready pods have transition times, too, and those decide nothing.
        let long_unready = running("long-unready").not_ready().restarts(&[1]);
        let lately_unready = running("lately-unready").status(
            "conditions",
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": time(NOW)}]),
        );
        let no_time = running("ready-no-last-transition-time")
            .ready_without_time()
            .restarts(&[0]);
        let ready_now = ready("ready-now", NOW, NOW);
        let ready_then = ready("ready-then", month, month);
        let restarts = ready("ready-high-restarts", NOW, NOW).restarts(&[9001]);
        let sidecar_restarts = restarts.clone().sidecar_restarts(9001);
        let created_then = ready("ready-now-created-then", NOW, month);
        let low_cost = created_then.clone().deletion_cost("10");
        let high_cost = created_then.clone().deletion_cost("100");
        let unscheduled_5h = unscheduled.clone().created(hours(5));
        let unscheduled_8h = unscheduled.clone().created(hours(8));
        let ready_2h = ready("ready-2-hours", hours(2), month).node("");
        let ready_5h = ready("ready-5-hours", hours(5), month).node("");
        let ready_8h = ready("ready-10-hours", hours(8), month).node("");

        let order = |a: (&PodBuilder, usize), b: (&PodBuilder, usize)| {
            let p = arc(a.0);
            let q = arc(b.0);
            let p = ranked(&p, a.1);
            let q = ranked(&q, b.1);
            let order = compare(&p, &q, now());
            assert_eq!(order, compare(&q, &p, now()).reverse(), "{p:?} {q:?}");
            order
        };
        let equal = [
            (&unscheduled, &unscheduled),
            (&pending, &pending),
            (&unknown, &unknown),
            (&not_ready, &not_ready),
            (&created_then, &created_then),
            (&ready_now, &ready_now),
            (&ready_then, &ready_then),
            (&restarts, &restarts),
            (&unscheduled_5h, &unscheduled_8h),
            (&ready_5h, &ready_8h),
        ];
        for (i, (a, b)) in equal.into_iter().enumerate() {
            assert_eq!(order((a, 1), (b, 1)), Ordering::Equal, "equality test {i}");
        }
        let lesser_and_greater = [
            ((&unscheduled, 1), (&pending, 2)),
            ((&unscheduled, 2), (&pending, 1)),
            ((&pending, 1), (&unknown, 2)),
            ((&unknown, 1), (&not_ready, 2)),
            ((&not_ready, 1), (&no_time, 1)),
            ((&long_unready, 1), (&lately_unready, 1)),
            ((&no_time, 1), (&ready_now, 1)),
            ((&ready_now, 2), (&no_time, 1)),
            ((&ready_now, 1), (&ready_then, 1)),
            ((&ready_now, 2), (&ready_then, 1)),
            ((&restarts, 1), (&ready_now, 1)),
            ((&sidecar_restarts, 1), (&restarts, 1)),
            ((&ready_now, 2), (&restarts, 1)),
            ((&ready_now, 1), (&created_then, 1)),
            ((&created_then, 2), (&ready_now, 1)),
            ((&low_cost, 2), (&high_cost, 1)),
            ((&ready_2h, 1), (&ready_5h, 1)),
        ];
        for (i, (a, b)) in lesser_and_greater.into_iter().enumerate() {
            assert_eq!(order(a, b), Ordering::Less, "inequality test {i}");
        }
    }

    #[test]
    fn the_uid_decides_between_pods_of_the_same_age_bucket() {
        let ready = |uid: &str, minutes: i64| {
            pod(uid)
                .uid(uid)
                .node("n")
                .ready_since(NOW - minutes * 60)
                .created(0)
        };
        let first = |a: &PodBuilder, b: &PodBuilder| {
            let active = [arc(a), arc(b)];
            first_to_go(&active, &[], 1, Costs::Count, now())[0]
                .meta
                .name
                .to_string()
        };
        // Bucket boundaries: 2^42 ns are 73 minutes, 2^43 ns are 147 minutes.
        assert_eq!(first(&ready("b", 80), &ready("a", 100)), "a");
        assert_eq!(first(&ready("a", 80), &ready("b", 100)), "a");
        assert_eq!(
            first(&ready("b", 70), &ready("a", 80)),
            "b",
            "a bucket boundary lies between"
        );
        assert_eq!(age_bucket(now().into(), now()), None);
        assert_eq!(
            age_bucket((now() + std::time::Duration::from_secs(1)).into(), now()),
            None,
            "a time in the future"
        );
    }

    #[test]
    fn get_pods_to_delete() {
        let fresh = |name: &str| pod(name).created(0);
        let unscheduled_pending = arc(&fresh("unscheduled-pending-pod").phase("Pending"));
        let scheduled_pending = arc(&fresh("scheduled-pending-pod")
            .phase("Pending")
            .node("fake-node"));
        let not_ready = arc(&fresh("scheduled-running-not-ready-pod")
            .node("fake-node")
            .not_ready());
        let on_node_1 = arc(&fresh("scheduled-running-ready-pod-on-node-1")
            .node("fake-node-1")
            .ready_without_time());
        let on_node_2 = arc(&fresh("scheduled-running-ready-pod-on-node-2")
            .node("fake-node-2")
            .ready_without_time());
        let all = vec![
            &on_node_1,
            &on_node_1,
            &on_node_2,
            &not_ready,
            &scheduled_pending,
            &unscheduled_pending,
        ];
        // (why, pods, related pods if they differ, count, expected)
        let cases = [
            (
                "len(pods) = 0 (i.e., diff = 0 too)",
                vec![],
                None,
                0,
                vec![],
            ),
            (
                "diff = len(pods)",
                vec![&not_ready, &on_node_1],
                None,
                2,
                vec![&not_ready, &on_node_1],
            ),
            (
                "diff < len(pods)",
                vec![&on_node_1, &not_ready],
                None,
                1,
                vec![&not_ready],
            ),
            (
                "various pod phases and conditions, diff = len(pods)",
                all.clone(),
                None,
                6,
                all.clone(),
            ),
            (
                "various pod phases and conditions, diff = len(pods), relatedPods empty",
                all.clone(),
                Some(vec![]),
                6,
                all.clone(),
            ),
            (
                "scheduled vs unscheduled, diff < len(pods)",
                vec![&scheduled_pending, &unscheduled_pending],
                None,
                1,
                vec![&unscheduled_pending],
            ),
            (
                "ready vs not-ready, diff < len(pods)",
                vec![&on_node_1, &not_ready, &not_ready],
                None,
                2,
                vec![&not_ready, &not_ready],
            ),
            (
                "ready and colocated with another ready pod vs not colocated, diff < len(pods)",
                vec![&on_node_1, &on_node_2],
                Some(vec![&on_node_1, &on_node_2, &on_node_2]),
                1,
                vec![&on_node_2],
            ),
            (
                "pending vs running, diff < len(pods)",
                vec![&scheduled_pending, &not_ready],
                None,
                1,
                vec![&scheduled_pending],
            ),
            (
                "various pod phases and conditions, diff < len(pods)",
                vec![
                    &on_node_1,
                    &on_node_2,
                    &not_ready,
                    &scheduled_pending,
                    &unscheduled_pending,
                ],
                None,
                3,
                vec![&unscheduled_pending, &scheduled_pending, &not_ready],
            ),
        ];
        let own = |pods: Vec<&Arc<Pod>>| pods.into_iter().cloned().collect::<Vec<_>>();
        for (why, pods, related, count, expected) in cases {
            let pods = own(pods);
            let related = related.map_or_else(|| pods.clone(), own);
            assert_eq!(
                names(&first_to_go(&pods, &related, count, Costs::Count, now())),
                names(&own(expected)),
                "{why}"
            );
        }
    }

    #[test]
    fn only_active_related_pods_count_for_the_rank() {
        let a = arc(&pod("a").node("n1").ready_since(NOW - 60));
        let b = arc(&pod("b").node("n2").ready_since(NOW - 60));
        let related = [
            Arc::clone(&a),
            arc(&pod("failed").node("n1").phase("Failed")),
            arc(&pod("terminating").node("n1").deleted(NOW)),
            Arc::clone(&b),
            arc(&pod("active").node("n2")),
        ];
        assert_eq!(
            names(&first_to_go(&[a, b], &related, 1, Costs::Count, now())),
            ["b"]
        );
    }

    #[test]
    fn a_pod_without_related_ones_on_its_node_has_rank_0() {
        let young = arc(&pod("young").node("n1").ready_since(NOW - 1));
        let old = arc(&pod("old").node("n2").ready_since(NOW - MONTH));
        let related = [Arc::clone(&old)];
        let first = first_to_go(&[young, old], &related, 1, Costs::Count, now());
        assert_eq!(names(&first), ["old"]);
    }

    #[test]
    fn ignored_costs_decide_nothing() {
        let at = |name, cost, second| {
            let ready = pod(name).node("n").ready_since(NOW - second);
            arc(&ready.deletion_cost(cost))
        };
        let pods = [at("old", "1", MONTH), at("young", "2", 60)];
        for (costs, expected) in [(Costs::Count, "old"), (Costs::Ignored, "young")] {
            let first = first_to_go(&pods, &[], 1, costs, now());
            assert_eq!(names(&first), [expected]);
        }
    }

    #[test]
    fn an_age_of_a_nanosecond_is_in_the_past() {
        let since = pod("a").created(NOW).build().meta.created.unwrap();
        let after = |nanosecond| Timestamp::new(NOW, nanosecond).unwrap();
        assert_eq!(age_bucket(since, after(0)), None);
        assert_eq!(age_bucket(since, after(1)), Some(0));
    }

    #[test]
    fn sorting_ends_although_the_order_has_a_cycle() {
        // x and z became ready at the same time, so z is less by its restarts. By UID, x is less
        // than y, and y is less than z.
        let at = |uid: &str, second: i64| {
            pod(uid)
                .uid(uid)
                .node("n")
                .ready_since(NOW - second)
                .created(0)
        };
        let cycle = [at("x", 4000), at("y", 4001), at("z", 4000).restarts(&[5])];
        let pods: Vec<Arc<Pod>> = (0..60).map(|i| arc(&cycle[i % 3])).collect();
        for seed in 0..20 {
            assert_eq!(
                first_to_go(&shuffled(pods.clone(), seed), &[], 59, Costs::Count, now()).len(),
                59
            );
        }
    }

    #[test]
    fn age_ratios_are_whole_multiples_of_the_youngest_ready_age() {
        let aged = |name: &str, seconds: i64| pod(name).ready_since(NOW).created(NOW - seconds);
        let old = arc(&aged("old", 25));
        let young = arc(&aged("young", 10));
        let unready = arc(&pod("unready").not_ready().created(NOW - 1));
        let active = [Arc::clone(&old), Arc::clone(&young), Arc::clone(&unready)];
        assert_eq!(
            age_ratios(
                &active,
                &[Arc::clone(&unready), Arc::clone(&young), Arc::clone(&old)],
                now()
            ),
            [1, 2]
        );
        let newborn = arc(&aged("newborn", 0));
        assert_eq!(
            age_ratios(&[newborn, Arc::clone(&old)], &[old], now()),
            Vec::<i64>::new(),
            "the youngest pod has the age 0"
        );
        assert_eq!(
            age_ratios(&[Arc::clone(&unready)], &[unready], now()),
            Vec::<i64>::new()
        );
    }
}
