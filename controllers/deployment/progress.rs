//! Progress of a rollout: progressing, complete, or beyond `progressDeadlineSeconds`.
//!
//! The deadline counts from `lastUpdateTime` of the condition `Progressing`, so it survives a
//! restart of the controller. Upstream: `progress.go`, and `DeploymentComplete`,
//! `DeploymentProgressing` and `DeploymentTimedOut` in `deployment_util.go`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::{Condition, Deployment, DeploymentStatus};

use super::conditions::{self, FALSE, PROGRESSING, REPLICA_FAILURE, TRUE, condition, reason};
use super::replica_sets::ReplicaSets;
use super::status;

/// The time that a rollout may take without progress; `None` if it is unlimited. Upstream:
/// `HasProgressDeadline`.
pub(super) fn deadline(d: &Deployment) -> Option<SignedDuration> {
    // The maximum means "unlimited"; it was the default of `extensions/v1beta1`.
    let seconds = d
        .spec
        .progress_deadline_seconds
        .filter(|seconds| *seconds != i32::MAX)?;
    Some(SignedDuration::from_secs(seconds.into()))
}

/// Whether `status` reports that all pods have the new template and are available, and that old
/// pods are gone. Upstream: `DeploymentComplete`. The generation excludes a status from before the last
/// change of the spec.
pub(super) fn is_complete(d: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = d.spec.replicas;
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= d.meta.generation
}

/// The status of `d` during and after a rollout: counters, availability, progress and failures.
///
/// Upstream: `syncRolloutStatus`. A complete rollout stays complete until the template changes, even if pods
/// fail later.
pub(super) fn rollout_status(
    d: &Deployment,
    sets: &ReplicaSets,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = status::compute(d, sets, now);
    let has_completed = status.replicas == status.updated_replicas
        && conditions::has_reason(
            &d.status.conditions,
            PROGRESSING,
            reason::NEW_REPLICA_SET_AVAILABLE,
        );
    if deadline(d).is_none() {
        conditions::remove(&mut status.conditions, PROGRESSING);
    } else if !has_completed {
        // After a rollout is complete, crashes and scaling do not count as missing progress.
        estimate(d, sets, &mut status, now);
    }
    match replica_failure(sets) {
        Some(failure) => conditions::set(&mut status.conditions, failure),
        None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

/// The status that reports that the ReplicaSet `name` was found. It changes only if `Progressing`
/// is missing, for example because a user set the deadline after the rollout. Upstream: a part of
/// `getNewReplicaSet`.
pub(super) fn found_new(d: &Deployment, name: &str, now: Timestamp) -> DeploymentStatus {
    let mut status = d.status.clone();
    if deadline(d).is_some() && conditions::find(&status.conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set {name:?}");
        conditions::set(
            &mut status.conditions,
            condition(
                PROGRESSING,
                TRUE,
                reason::FOUND_NEW_REPLICA_SET,
                message,
                now,
            ),
        );
    }
    status
}

/// The status that reports that the ReplicaSet `name` was created. The deadline of the rollout starts with
/// it.
pub(super) fn created_new(d: &Deployment, name: &str, now: Timestamp) -> DeploymentStatus {
    let message = format!("Created new replica set {name:?}");
    with_progressing(
        d,
        condition(
            PROGRESSING,
            TRUE,
            reason::NEW_REPLICA_SET_CREATED,
            message,
            now,
        ),
    )
}

/// The status that reports why the creation of the ReplicaSet failed.
pub(super) fn creation_failed(d: &Deployment, message: &str, now: Timestamp) -> DeploymentStatus {
    with_progressing(
        d,
        condition(
            PROGRESSING,
            FALSE,
            reason::REPLICA_SET_CREATE_ERROR,
            message,
            now,
        ),
    )
}

/// Without a deadline there is no condition `Progressing`.
fn with_progressing(d: &Deployment, progressing: Condition) -> DeploymentStatus {
    let mut status = d.status.clone();
    if deadline(d).is_some() {
        conditions::set(&mut status.conditions, progressing);
    }
    status
}

/// The first case that holds decides, as upstream: completion, progress, then the deadline. So late progress
/// still counts as progress.
fn estimate(d: &Deployment, sets: &ReplicaSets, status: &mut DeploymentStatus, now: Timestamp) {
    let subject = match &sets.new {
        Some(rs) => format!("ReplicaSet {:?}", &*rs.meta.name),
        None => format!("Deployment {:?}", &*d.meta.name),
    };
    if is_complete(d, status) {
        let message = format!("{subject} has successfully progressed.");
        let done = condition(
            PROGRESSING,
            TRUE,
            reason::NEW_REPLICA_SET_AVAILABLE,
            message,
            now,
        );
        conditions::set(&mut status.conditions, done);
    } else if has_progressed(&d.status, status) {
        let message = format!("{subject} is progressing.");
        let mut progressing =
            condition(PROGRESSING, TRUE, reason::REPLICA_SET_UPDATED, message, now);
        // Only this condition is replaced even with the same status and reason, because the
        // deadline counts from `lastUpdateTime`.
        if let Some(current) = conditions::find(&d.status.conditions, PROGRESSING)
            && current.status == TRUE
        {
            progressing.last_transition_time = current.last_transition_time;
        }
        conditions::remove(&mut status.conditions, PROGRESSING);
        conditions::set(&mut status.conditions, progressing);
    } else if has_timed_out(d, status, now) {
        let message = format!("{subject} has timed out progressing.");
        let late = condition(
            PROGRESSING,
            FALSE,
            reason::PROGRESS_DEADLINE_EXCEEDED,
            message,
            now,
        );
        conditions::set(&mut status.conditions, late);
    }
}

/// Whether the number of updated, ready or available pods grew, or the number of old pods shrank. Upstream:
/// `DeploymentProgressing`. A change of the size alone is no progress.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// Upstream: `DeploymentTimedOut`. A missing condition gives no time to count from.
fn has_timed_out(d: &Deployment, status: &DeploymentStatus, now: Timestamp) -> bool {
    let Some(deadline) = deadline(d) else {
        return false;
    };
    let Some(current) = conditions::find(&status.conditions, PROGRESSING) else {
        return false;
    };
    match current.reason.as_str() {
        // The condition describes the previous rollout.
        reason::NEW_REPLICA_SET_AVAILABLE => false,
        reason::PROGRESS_DEADLINE_EXCEEDED => true,
        _ => current
            .last_update_time
            .is_none_or(|progress| now.duration_since(progress) > deadline),
    }
}

/// The delay until the next check of the deadline, given that `d` reports `status` already.
///
/// The result includes one extra second, because the condition's time has no fraction. Upstream's
/// `requeueStuckDeployment` syncs every few milliseconds in two cases that differ here:
///
/// * In the last second before the deadline, one sync follows after the deadline.
/// * After a completed rollout lost pods, no sync follows, because time alone keeps its status.
pub(super) fn next_check(
    d: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = deadline(d)?;
    let current = conditions::find(&d.status.conditions, PROGRESSING)?;
    let settled = [
        reason::PROGRESS_DEADLINE_EXCEEDED,
        reason::NEW_REPLICA_SET_AVAILABLE,
    ];
    if is_complete(d, status) || settled.contains(&current.reason.as_str()) {
        return None;
    }
    // A condition without a time has used up its deadline.
    let passed = current
        .last_update_time
        .map_or(deadline, |progress| now.duration_since(progress));
    let left = Duration::try_from(deadline.saturating_sub(passed)).unwrap_or_default();
    let margin = if left < Duration::from_secs(1) {
        Duration::from_millis(1)
    } else {
        Duration::from_secs(1)
    };
    Some(left + margin)
}

/// The condition `ReplicaFailure` of the new ReplicaSet, or else of the first one that has it. Upstream:
/// `getReplicaFailures`, of which only the first result counts.
fn replica_failure(sets: &ReplicaSets) -> Option<Condition> {
    let found = sets
        .new
        .iter()
        .chain(sets.all())
        .find_map(|rs| conditions::find(&rs.status.conditions, REPLICA_FAILURE))?;
    Some(Condition {
        last_update_time: found.last_transition_time,
        extra: serde_json::Map::new(),
        ..found.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{self, ReplicaSetBuilder, deployment, replica_set};

    /// 2017-02-15 18:49:00, as in upstream's tables.
    const TEST_TIME: i64 = 1_487_184_540;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Upstream's `currentDeployment`.
    fn current(
        deadline: Option<i32>,
        replicas: i32,
        counters: [i32; 3],
        conditions: &[Value],
    ) -> Deployment {
        let [there, updated, available] = counters;
        deployment("progress-test")
            .recreate()
            .replicas(replicas)
            .spec("progressDeadlineSeconds", deadline)
            .status("replicas", there)
            .status("updatedReplicas", updated)
            .status("availableReplicas", available)
            .status("conditions", conditions)
            .build()
    }

    fn counters(
        replicas: i32,
        updated_replicas: i32,
        ready_replicas: i32,
        available_replicas: i32,
    ) -> DeploymentStatus {
        DeploymentStatus {
            replicas,
            updated_replicas,
            ready_replicas,
            available_replicas,
            ..DeploymentStatus::default()
        }
    }

    fn sets(new: Option<ReplicaSetBuilder>, old: Vec<ReplicaSetBuilder>) -> ReplicaSets {
        ReplicaSets {
            new: new.map(|rs| Arc::new(rs.build())),
            old: old.into_iter().map(|rs| Arc::new(rs.build())).collect(),
        }
    }

    fn available_set(name: &str, size: i32, replicas: i32, available: i32) -> ReplicaSetBuilder {
        replica_set(name)
            .replicas(size)
            .status("replicas", replicas)
            .status("availableReplicas", available)
    }

    #[test]
    fn test_deployment_complete() {
        // (name, desired, current, updated, available, expected)
        let cases = [
            (
                "not complete: min but not all pods become available",
                5,
                5,
                5,
                4,
                false,
            ),
            (
                "not complete: min availability is not honored",
                5,
                5,
                5,
                3,
                false,
            ),
            ("complete", 5, 5, 5, 5, true),
            (
                "not complete: all pods are available but not updated",
                5,
                5,
                4,
                5,
                false,
            ),
            ("not complete: still running old pods", 1, 2, 1, 1, false),
            (
                "not complete: one replica deployment never comes up",
                1,
                1,
                1,
                0,
                false,
            ),
        ];
        for (name, desired, there, updated, available, expected) in cases {
            let d = current(None, desired, [there, updated, available], &[]);
            assert_eq!(is_complete(&d, &d.status), expected, "{name}");
        }
        let unobserved = deployment("web").metadata("generation", 2).build();
        let status = DeploymentStatus {
            observed_generation: 1,
            ..counters(1, 1, 1, 1)
        };
        assert!(
            !is_complete(&unobserved, &status),
            "not complete: spec not observed"
        );
    }

    #[test]
    fn test_deployment_progressing() {
        // (name, before, after, expected), each as current, updated, ready, available
        let cases = [
            (
                "progressing: updated pods",
                [10, 4, 4, 4],
                [10, 6, 4, 4],
                true,
            ),
            ("not progressing", [10, 4, 4, 4], [10, 4, 4, 4], false),
            (
                "progressing: old pods removed",
                [10, 4, 6, 6],
                [8, 4, 6, 6],
                true,
            ),
            (
                "not progressing: less new pods",
                [10, 7, 3, 3],
                [10, 6, 3, 3],
                false,
            ),
            (
                "progressing: less overall but more new pods",
                [10, 4, 7, 7],
                [8, 8, 5, 5],
                true,
            ),
            (
                "progressing: more ready pods",
                [10, 10, 9, 8],
                [10, 10, 10, 8],
                true,
            ),
            (
                "progressing: more available pods",
                [10, 10, 10, 9],
                [10, 10, 10, 10],
                true,
            ),
        ];
        for (name, [a, b, c, d], [e, f, g, h], expected) in cases {
            assert_eq!(
                has_progressed(&counters(a, b, c, d), &counters(e, f, g, h)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn test_deployment_timed_out() {
        // (name, deadline, reason, progress at, now, expected)
        let cases = [
            (
                "nil progressDeadlineSeconds specified - no timeout",
                None,
                "",
                69,
                80,
                false,
            ),
            (
                "infinite progressDeadlineSeconds specified - no timeout",
                Some(i32::MAX),
                "",
                69,
                80,
                false,
            ),
            (
                "progressDeadlineSeconds: 10s, now - started => 00:01:20 - 00:01:09 => 11s",
                Some(10),
                "",
                69,
                80,
                true,
            ),
            (
                "progressDeadlineSeconds: 10s, now - started => 00:01:20 - 00:01:10 => 10s",
                Some(10),
                "",
                70,
                80,
                false,
            ),
            (
                "progressDeadlineSeconds: 10s, now - started => 00:01:20 - 00:01:11 => 9s",
                Some(10),
                "",
                71,
                80,
                false,
            ),
            (
                "previous status was a complete deployment",
                Some(10),
                reason::NEW_REPLICA_SET_AVAILABLE,
                0,
                80,
                false,
            ),
            (
                "already timed out",
                Some(10),
                reason::PROGRESS_DEADLINE_EXCEEDED,
                80,
                80,
                true,
            ),
        ];
        for (name, deadline, reason, progress, now, expected) in cases {
            let d = current(
                deadline,
                1,
                [1, 1, 0],
                &[testing::condition(PROGRESSING, TRUE, reason, progress)],
            );
            assert_eq!(has_timed_out(&d, &d.status, at(now)), expected, "{name}");
        }
        let d = current(Some(10), 1, [1, 1, 0], &[]);
        assert!(
            !has_timed_out(&d, &d.status, at(80)),
            "without the condition the deadline has no start"
        );
    }

    #[test]
    fn test_requeue_stuck_deployment() {
        let failed = testing::condition(PROGRESSING, FALSE, reason::PROGRESS_DEADLINE_EXCEEDED, 0);
        let stuck = || testing::condition(PROGRESSING, TRUE, "", TEST_TIME);
        let completed = testing::condition(
            PROGRESSING,
            TRUE,
            reason::NEW_REPLICA_SET_AVAILABLE,
            TEST_TIME,
        );
        let pds = Some(60);
        let infinite = Some(i32::MAX);
        let second = Duration::from_secs(1);
        let soon = Some(Duration::from_millis(1));
        // (name, deployment, seconds and nanoseconds after the condition, expected)
        let cases = [
            (
                "nil progressDeadlineSeconds specified",
                current(None, 4, [3, 3, 2], &[]),
                (0, 0),
                None,
            ),
            (
                "infinite progressDeadlineSeconds specified",
                current(infinite, 4, [3, 3, 2], &[]),
                (0, 0),
                None,
            ),
            (
                "no progressing condition found",
                current(pds, 4, [3, 3, 2], &[]),
                (0, 0),
                None,
            ),
            (
                "complete deployment does not need to be requeued",
                current(pds, 3, [3, 3, 3], &[stuck()]),
                (0, 0),
                None,
            ),
            (
                "already failed deployment does not need to be requeued",
                current(pds, 3, [3, 3, 0], &[failed]),
                (0, 0),
                None,
            ),
            (
                "stuck deployment - 30s",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (30, 0),
                Some(31 * second),
            ),
            (
                "stuck deployment - 1s",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (59, 0),
                Some(2 * second),
            ),
            (
                "failed deployment - less than a second",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (59, 500_000_000),
                Some(second / 2 + second / 1000),
            ),
            (
                "failed deployment - now",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (60, 0),
                soon,
            ),
            (
                "failed deployment - 1s after deadline",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (61, 0),
                soon,
            ),
            (
                "failed deployment - 60s after deadline",
                current(pds, 3, [3, 3, 1], &[stuck()]),
                (120, 0),
                soon,
            ),
            (
                "pods lost after completion",
                current(pds, 3, [3, 3, 1], &[completed]),
                (9999, 0),
                None,
            ),
        ];
        for (name, d, (seconds, nanoseconds), expected) in cases {
            let now = Timestamp::new(TEST_TIME + seconds, nanoseconds).unwrap();
            assert_eq!(next_check(&d, &d.status, now), expected, "{name}");
        }
    }

    #[test]
    fn test_sync_rollout_status() {
        const NOW: i64 = TEST_TIME + 9999;
        let pds = Some(60);
        let bar = || vec![available_set("bar", 0, 1, 1)];
        let foo = |replicas| Some(available_set("foo", 3, replicas, replicas));
        let timed_out = || {
            testing::condition(
                PROGRESSING,
                FALSE,
                reason::PROGRESS_DEADLINE_EXCEEDED,
                TEST_TIME,
            )
        };
        let updated =
            || testing::condition(PROGRESSING, TRUE, reason::REPLICA_SET_UPDATED, TEST_TIME);
        let completed = || {
            testing::condition(
                PROGRESSING,
                TRUE,
                reason::NEW_REPLICA_SET_AVAILABLE,
                TEST_TIME,
            )
        };
        let done = (TRUE, reason::NEW_REPLICA_SET_AVAILABLE);
        let on = (TRUE, reason::REPLICA_SET_UPDATED);
        let late = (FALSE, reason::PROGRESS_DEADLINE_EXCEEDED);
        // (name, deployment, ReplicaSets, (status, reason), lastUpdate, lastTransition)
        let cases = [
            (
                "General: remove Progressing condition and do not estimate progress if deployment has no Progress Deadline",
                current(None, 3, [2, 2, 2], &[updated()]),
                sets(foo(2), bar()),
                None,
            ),
            (
                "General: do not estimate progress of deployment with only one active ReplicaSet",
                current(pds, 3, [3, 3, 3], &[completed()]),
                sets(Some(available_set("bar", 3, 3, 3)), vec![]),
                Some((done, TEST_TIME, TEST_TIME)),
            ),
            (
                "DeploymentProgressing: dont update lastTransitionTime if deployment already has Progressing=True",
                current(pds, 3, [2, 2, 2], &[updated()]),
                sets(foo(2), bar()),
                Some((on, NOW, TEST_TIME)),
            ),
            (
                "DeploymentProgressing: update everything if deployment has Progressing=False",
                current(pds, 3, [2, 2, 2], &[timed_out()]),
                sets(foo(2), bar()),
                Some((on, NOW, NOW)),
            ),
            (
                "DeploymentProgressing: create Progressing condition if it does not exist",
                current(pds, 3, [2, 2, 2], &[]),
                sets(foo(2), bar()),
                Some((on, NOW, NOW)),
            ),
            (
                "DeploymentComplete: dont update lastTransitionTime if deployment already has Progressing=True",
                current(pds, 3, [3, 3, 3], &[updated()]),
                sets(foo(3), vec![]),
                Some((done, NOW, TEST_TIME)),
            ),
            (
                "DeploymentComplete: update everything if deployment has Progressing=False",
                current(pds, 3, [3, 3, 3], &[timed_out()]),
                sets(foo(3), vec![]),
                Some((done, NOW, NOW)),
            ),
            (
                "DeploymentComplete: create Progressing condition if it does not exist",
                current(pds, 3, [3, 3, 3], &[]),
                sets(foo(3), vec![]),
                Some((done, NOW, NOW)),
            ),
            (
                "DeploymentComplete: defend against NPE when newRS=nil",
                current(pds, 0, [3, 3, 3], &[updated()]),
                sets(None, vec![available_set("foo", 0, 0, 0)]),
                Some((done, NOW, TEST_TIME)),
            ),
            (
                "DeploymentTimedOut: update status if rollout exceeds Progress Deadline",
                current(pds, 3, [2, 2, 2], &[updated()]),
                sets(foo(2), vec![]),
                Some((late, NOW, NOW)),
            ),
            (
                "DeploymentTimedOut: do not update status if deployment has existing timedOut condition",
                current(pds, 3, [2, 2, 2], &[timed_out()]),
                sets(foo(2), vec![]),
                Some((late, TEST_TIME, TEST_TIME)),
            ),
        ];
        for (name, d, sets, expected) in cases {
            let status = rollout_status(&d, &sets, at(NOW));
            let found = conditions::find(&status.conditions, PROGRESSING).map(|c| {
                (
                    (c.status.as_str(), c.reason.as_str()),
                    c.last_update_time.unwrap(),
                    c.last_transition_time.unwrap(),
                )
            });
            let expected = expected
                .map(|(state, updated, transitioned)| (state, at(updated), at(transitioned)));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn messages_name_the_new_replica_set_or_else_the_deployment() {
        let d = current(Some(60), 0, [0, 0, 0], &[]);
        // (new ReplicaSet, message)
        let cases = [
            (
                Some(replica_set("foo")),
                "ReplicaSet \"foo\" has successfully progressed.",
            ),
            (
                None,
                "Deployment \"progress-test\" has successfully progressed.",
            ),
        ];
        for (new, message) in cases {
            let status = rollout_status(&d, &sets(new, vec![]), at(5));
            assert_eq!(
                &*conditions::find(&status.conditions, PROGRESSING)
                    .unwrap()
                    .message,
                message
            );
        }
    }

    #[test]
    fn the_failure_of_the_new_replica_set_comes_first() {
        let failing = |name: &str, reason: &str| {
            let condition = json!({
                "type": REPLICA_FAILURE, "status": TRUE, "reason": reason, "message": "quota",
                "lastTransitionTime": testing::time(7),
            });
            replica_set(name).status("conditions", json!([condition]))
        };
        let d = deployment("web")
            .status(
                "conditions",
                json!([testing::condition(REPLICA_FAILURE, TRUE, "Gone", 1)]),
            )
            .build();
        // (new, old, reason of the failure)
        let cases = [
            (
                failing("new", "FailedCreate"),
                failing("old", "FailedDelete"),
                Some("FailedCreate"),
            ),
            (
                replica_set("new"),
                failing("old", "FailedDelete"),
                Some("FailedDelete"),
            ),
            (replica_set("new"), replica_set("old"), None),
        ];
        for (new, old, expected) in cases {
            let status = rollout_status(&d, &sets(Some(new), vec![old]), at(99));
            let failure = conditions::find(&status.conditions, REPLICA_FAILURE);
            assert_eq!(failure.map(|c| c.reason.as_str()), expected);
            if let Some(failure) = failure {
                assert_eq!(
                    (&*failure.message, failure.last_update_time),
                    ("quota", Some(at(7)))
                );
            }
        }
    }

    #[test]
    fn the_outcome_for_the_new_replica_set_is_reported_only_with_a_deadline() {
        // (deadline, current reason, reasons after found, created, failed)
        let found = reason::FOUND_NEW_REPLICA_SET;
        let created = reason::NEW_REPLICA_SET_CREATED;
        let failed = reason::REPLICA_SET_CREATE_ERROR;
        let cases = [
            (None, None, [None, None, None]),
            (Some(i32::MAX), None, [None, None, None]),
            (Some(60), None, [Some(found), Some(created), Some(failed)]),
            (
                Some(60),
                Some("Other"),
                [Some("Other"), Some(created), Some(failed)],
            ),
        ];
        for (deadline, reason, expected) in cases {
            let conditions: Vec<_> = reason
                .iter()
                .map(|r| testing::condition(PROGRESSING, TRUE, r, 1))
                .collect();
            let d = current(deadline, 1, [0, 0, 0], &conditions);
            let outcomes = [
                found_new(&d, "web-1", at(9)),
                created_new(&d, "web-1", at(9)),
                creation_failed(&d, "no", at(9)),
            ];
            let reasons = outcomes.map(|status| {
                conditions::find(&status.conditions, PROGRESSING).map(|c| c.reason.clone())
            });
            assert_eq!(
                reasons.each_ref().map(Option::as_deref),
                expected,
                "{deadline:?} {reason:?}"
            );
        }
    }
}
