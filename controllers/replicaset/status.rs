//! The status of a ReplicaSet or ReplicationController: counters, the condition `ReplicaFailure`,
//! and the time of the next availability check.
//!
//! Upstream: `calculateStatus` in `replica_set_utils.go`, and `FindMinNextPodAvailabilityCheck` in
//! `controller_utils.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::conditions;
use steersman_objects::{Condition, Pod, ReplicaSetStatus, next_availability_check};

use super::owner::PodOwner;

/// The condition for failed creations and deletions of pods.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status for the `active` pods and the number of `terminating` ones.
///
/// Only ReplicaSets report `terminating`. `failure` is the error of this sync's scaling.
pub(super) fn compute<O: PodOwner>(
    owner: &O,
    active: &[Arc<Pod>],
    terminating: Option<usize>,
    failure: Option<&str>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let count =
        |counts: &dyn Fn(&Pod) -> bool| number(active.iter().filter(|pod| counts(pod)).count());
    ReplicaSetStatus {
        replicas: number(active.len()),
        fully_labeled_replicas: count(&|pod| pod.meta.labels.contains_all(owner.template_labels())),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| pod.is_available(owner.min_ready_seconds(), now)),
        terminating_replicas: terminating.filter(|_| O::REPORTS_TERMINATING).map(number),
        observed_generation: owner.status().observed_generation,
        conditions: conditions(owner, active.len(), failure, now),
        extra: owner.status().extra.clone(),
    }
}

/// Adds `ReplicaFailure` at the first failure, keeps it unchanged at further ones, and removes it
/// at the first success.
///
/// So the message is that of the first failure, as in upstream, and equal failures cause no further writes.
fn conditions<O: PodOwner>(
    owner: &O,
    active: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = owner.status().conditions.clone();
    match failure {
        None => conditions::remove(&mut conditions, REPLICA_FAILURE),
        Some(message) if conditions::find(&conditions, REPLICA_FAILURE).is_none() => {
            let reason = if is_below(active, owner.replicas()) {
                "FailedCreate"
            } else {
                "FailedDelete"
            };
            let new = conditions::new(REPLICA_FAILURE, conditions::TRUE, reason, message, now);
            conditions.push(new);
        }
        Some(_) => {}
    }
    conditions
}

/// Whether pods are missing, so that the failure was one of a creation.
fn is_below(active: usize, replicas: i32) -> bool {
    usize::try_from(replicas).is_ok_and(|desired| active < desired)
}

/// Whether `new`, computed from `generation`, differs from the status in the cache.
///
/// Upstream: the steady state in `updateReplicaSetStatus`. `observed_generation` of `new` is still that of
/// the served status.
pub(super) fn needs_write(
    served: &ReplicaSetStatus,
    new: &ReplicaSetStatus,
    generation: i64,
) -> bool {
    served != new || served.observed_generation != generation
}

/// The delay after `now` until the next pod becomes available.
///
/// `decided_at` is the time for which `status` was computed. The delay is zero if a pod became
/// available since then, and `min_ready_seconds` if no pod has a known time. The result is `None`
/// if all ready pods are available.
pub(super) fn next_check(
    status: &ReplicaSetStatus,
    active: &[Arc<Pod>],
    min_ready_seconds: i32,
    decided_at: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    Some(next_availability_check(
        active,
        min_ready_seconds,
        decided_at,
        now,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::{Object, ReplicaSet, ReplicationController};

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::replica_set;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn labelled(replicas: i32, labels: Value) -> ReplicaSet {
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": []}});
        replica_set("foobar")
            .replicas(replicas)
            .spec("template", template)
            .build()
    }

    fn arcs(pods: impl IntoIterator<Item = PodBuilder>) -> Vec<Arc<Pod>> {
        pods.into_iter().map(|pod| Arc::new(pod.build())).collect()
    }

    #[test]
    fn calculate_status() {
        let full = || labelled(2, json!({"name": "foo", "type": "production"}));
        let slow = || {
            let template = json!({"metadata": {"labels": {"name": "foo", "type": "production"}}, "spec": {"containers": []}});
            replica_set("foobar")
                .replicas(1)
                .spec("template", template)
                .spec("minReadySeconds", 3600)
                .build()
        };
        let part = |name: &str| pod(name).labels(json!({"name": "foo"}));
        let whole = |name: &str| pod(name).labels(json!({"name": "foo", "type": "production"}));
        let ready = |pod: PodBuilder| pod.ready_since(NOW - 1);
        // (why, ReplicaSet, pods, terminating, [replicas, fully labelled, ready, available])
        let cases = [
            (
                "1 fully labelled pod",
                full(),
                vec![ready(whole("pod1"))],
                0,
                [1, 1, 1, 1],
            ),
            (
                "1 not fully labelled pod",
                full(),
                vec![ready(part("pod1"))],
                0,
                [1, 0, 1, 1],
            ),
            (
                "2 fully labelled pods",
                full(),
                vec![ready(whole("pod1")), ready(whole("pod2"))],
                0,
                [2, 2, 2, 2],
            ),
            (
                "2 not fully labelled pods",
                full(),
                vec![ready(part("pod1")), ready(part("pod2"))],
                0,
                [2, 0, 2, 2],
            ),
            (
                "1 fully labelled pod, 1 not fully labelled pod",
                full(),
                vec![ready(part("pod1")), ready(whole("pod2"))],
                0,
                [2, 1, 2, 2],
            ),
            (
                "1 non-ready pod",
                full(),
                vec![whole("pod1").phase("Pending")],
                0,
                [1, 1, 0, 0],
            ),
            (
                "1 ready but non-available pod",
                slow(),
                vec![whole("pod1").ready_since(NOW)],
                0,
                [1, 1, 1, 0],
            ),
            (
                "1 available pod with minReadySeconds",
                slow(),
                vec![whole("pod1").ready_since(NOW - 3600)],
                0,
                [1, 1, 1, 1],
            ),
            (
                "1 available pod for a long time with minReadySeconds",
                slow(),
                vec![whole("pod1").ready_since(NOW - 7200)],
                0,
                [1, 1, 1, 1],
            ),
            (
                "unknown transition time",
                slow(),
                vec![whole("pod1").ready_without_time()],
                0,
                [1, 1, 1, 0],
            ),
            (
                "1 fully labelled pods and 2 terminating",
                full(),
                vec![ready(whole("pod1"))],
                2,
                [1, 1, 1, 1],
            ),
        ];
        for (why, rs, pods, terminating, [replicas, fully_labeled, ready, available]) in cases {
            let expected = ReplicaSetStatus {
                replicas,
                fully_labeled_replicas: fully_labeled,
                ready_replicas: ready,
                available_replicas: available,
                terminating_replicas: Some(i32::try_from(terminating).unwrap()),
                observed_generation: 1,
                ..ReplicaSetStatus::default()
            };
            assert_eq!(
                compute(&rs, &arcs(pods), Some(terminating), None, at(NOW)),
                expected,
                "{why}"
            );
        }
    }

    /// The last case of upstream's `TestCalculateStatus`.
    #[test]
    fn a_replication_controller_does_not_report_terminating_pods() {
        let json = json!({"metadata": {"name": "rc", "namespace": "default"}, "spec": {"selector": {"app": "web"}, "template": {}}});
        let rc = ReplicationController::decode(json.to_string().as_bytes()).unwrap();
        let status = compute(
            &rc,
            &arcs([pod("pod1").ready_since(NOW - 1)]),
            Some(2),
            None,
            at(NOW),
        );
        assert_eq!(
            (
                status.replicas,
                status.available_replicas,
                status.terminating_replicas
            ),
            (1, 1, None)
        );
    }

    #[test]
    fn calculate_status_conditions() {
        let labels = || json!({"name": "foo"});
        let rs = || labelled(2, labels());
        let failed = json!([{"type": "ReplicaFailure", "status": "True"}, {"type": "Other", "status": "True"}]);
        let failed = || {
            replica_set("foobar")
                .replicas(10)
                .status("conditions", failed.clone())
                .build()
        };
        // (why, ReplicaSet, pods, failure, expected)
        let cases = [
            (
                "manageReplicasErr != nil && failureCond == nil, diff < 0",
                rs(),
                1,
                Some("fake manageReplicasErr"),
                json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                    "message": "fake manageReplicasErr", "lastTransitionTime": "2027-01-15T08:00:00Z"}]),
            ),
            (
                "manageReplicasErr != nil && failureCond == nil, diff > 0",
                rs(),
                3,
                Some("fake manageReplicasErr"),
                json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedDelete",
                    "message": "fake manageReplicasErr", "lastTransitionTime": "2027-01-15T08:00:00Z"}]),
            ),
            (
                "manageReplicasErr == nil && failureCond != nil",
                failed(),
                1,
                None,
                json!([{"type": "Other", "status": "True"}]),
            ),
            (
                "manageReplicasErr != nil && failureCond != nil",
                failed(),
                1,
                Some("fake manageReplicasErr"),
                json!([{"type": "ReplicaFailure", "status": "True"}, {"type": "Other", "status": "True"}]),
            ),
            (
                "manageReplicasErr == nil && failureCond == nil",
                rs(),
                1,
                None,
                json!([]),
            ),
        ];
        for (why, rs, count, failure, expected) in cases {
            let pods = arcs((0..count).map(|i| pod(&format!("pod{i}"))));
            let now = at(NOW) + Duration::from_millis(900);
            let found = compute(&rs, &pods, Some(0), failure, now).conditions;
            assert_eq!(serde_json::to_value(found).unwrap(), expected, "{why}");
        }
    }

    #[test]
    fn a_status_is_written_only_if_it_differs() {
        let served = || {
            replica_set("web")
                .status("replicas", 2)
                .status("readyReplicas", 1)
                .build()
                .status
        };
        // (why, change, written)
        type Change = fn(&mut ReplicaSetStatus);
        let cases: [(&str, Change, bool); 5] = [
            ("equal", |_| {}, false),
            ("replicas", |s| s.replicas = 3, true),
            ("available", |s| s.available_replicas = 1, true),
            (
                "terminating, unset is not 0",
                |s| s.terminating_replicas = None,
                true,
            ),
            (
                "conditions",
                |s| {
                    s.conditions.push(
                        serde_json::from_value(json!({"type": "A", "status": "True"})).unwrap(),
                    )
                },
                true,
            ),
        ];
        for (why, change, written) in cases {
            let mut new = served();
            change(&mut new);
            assert_eq!(needs_write(&served(), &new, 1), written, "{why}");
        }
        assert!(
            needs_write(&served(), &served(), 2),
            "the generation is new"
        );
    }

    #[test]
    fn next_pod_availability_check() {
        let ready = |seconds: i64| pod("p").ready_since(NOW - seconds);
        let seconds = |n| Some(Duration::from_secs(n));
        let never = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "9999-12-30T21:59:59Z"}]);
        // (why, pod, minReadySeconds, expected)
        let cases = [
            ("not ready", pod("p").not_ready(), 0, None),
            ("not ready, minReadySeconds", pod("p").not_ready(), 10, None),
            ("no minReadySeconds defined", ready(0), 0, None),
            (
                "lastTransitionTime is zero",
                pod("p").ready_without_time(),
                1,
                None,
            ),
            (
                "just became ready - available in 1s",
                ready(0),
                1,
                seconds(1),
            ),
            (
                "ready for 20s - available in 10s",
                ready(20),
                30,
                seconds(10),
            ),
            ("available", ready(51), 50, None),
            ("available just now", ready(50), 50, None),
            (
                "ready since the maximum time",
                pod("p").status("conditions", never.clone()),
                1,
                seconds(251_602_207_200),
            ),
        ];
        for (why, pod, min_ready, expected) in cases {
            assert_eq!(
                pod.build().next_availability_check(min_ready, at(NOW)),
                expected,
                "{why}"
            );
        }
        assert!(
            !pod("p")
                .status("conditions", never)
                .build()
                .is_available(i32::MAX, at(NOW)),
            "the computation does not overflow"
        );
    }

    #[test]
    fn find_min_next_pod_availability() {
        let pods = arcs([
            pod("pod1").not_ready(),
            pod("pod2").ready_since(NOW - 2),
            pod("pod3").ready_since(NOW),
            pod("pod4").ready_since(NOW - 4),
            pod("pod5").not_ready(),
        ]);
        let waiting = ReplicaSetStatus {
            ready_replicas: 3,
            ..ReplicaSetStatus::default()
        };
        let check = |status: &ReplicaSetStatus, pods: &[Arc<Pod>], min_ready, delay| {
            next_check(
                status,
                pods,
                min_ready,
                at(NOW),
                at(NOW) + Duration::from_secs(delay),
            )
        };
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(
            check(&waiting, &pods, 10, 2),
            seconds(4),
            "6 s from the decision, of which 2 s have passed"
        );
        assert_eq!(
            check(&waiting, &pods, 10, 7),
            seconds(0),
            "more than the delay has passed"
        );
        assert_eq!(
            check(&waiting, &[], 10, 0),
            seconds(10),
            "no pod has a known time"
        );
        assert_eq!(check(&waiting, &pods, 0, 0), None, "no minReadySeconds");
        let done = ReplicaSetStatus {
            available_replicas: 3,
            ..waiting
        };
        assert_eq!(
            check(&done, &pods, 10, 0),
            None,
            "all ready pods are available"
        );
    }

    #[test]
    fn find_min_next_pod_availability_simple_check() {
        let unready = |name: &str| pod(name).not_ready();
        let ready = |name: &str, seconds: i64| pod(name).ready_since(NOW - seconds);
        // (name, pods, minReadySeconds, expected)
        let cases = [
            ("no pods", vec![], 0, None),
            (
                "unready pods",
                vec![unready("pod1"), unready("pod2")],
                0,
                None,
            ),
            (
                "ready pods with no minReadySeconds",
                vec![ready("pod1", 0), ready("pod2", 0)],
                0,
                None,
            ),
            (
                "unready and ready pods should find min next availability check",
                vec![
                    unready("pod1"),
                    ready("pod2", 2),
                    ready("pod3", 0),
                    ready("pod4", 4),
                    unready("pod5"),
                ],
                10,
                Some(Duration::from_secs(6)),
            ),
            (
                "unready and available pods do not require min next availability check",
                vec![
                    unready("pod1"),
                    ready("pod2", 15),
                    ready("pod3", 11),
                    ready("pod4", 10),
                    unready("pod5"),
                ],
                10,
                None,
            ),
        ];
        for (name, pods, min_ready, expected) in cases {
            let pods = arcs(pods);
            let rs = replica_set("web")
                .spec("minReadySeconds", min_ready)
                .build();
            let status = compute(&rs, &pods, Some(0), None, at(NOW));
            assert_eq!(
                next_check(&status, &pods, min_ready, at(NOW), at(NOW)),
                expected,
                "{name}"
            );
        }
    }
}
