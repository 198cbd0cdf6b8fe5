//! The virtual time between a change and each write of the controller, at API servers of several
//! speeds. Each request takes the latency of the server, so a step that follows another by more than
//! that was delayed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::stories::{A_WHILE, name, web};
use crate::job::DESCRIPTOR;
use crate::testing::world::World;

/// Latencies of a server nearby, a busy one, one far away, and one in trouble, in milliseconds.
const LATENCIES: [u64; 4] = [2, 10, 50, 200];

/// Upstream's `SyncJobBatchPeriod`, in milliseconds.
const BATCH: u64 = 1000;

/// Upstream's `DefaultJobPodFailureBackOff`, in milliseconds.
const BACK_OFF: u64 = 10_000;

/// Writes after a cause: milliseconds after it, and the write.
type Chain<'a> = &'a [(u64, &'a str)];

/// A server that answers after `latency` milliseconds, with the controller.
async fn world_at(latency: u64) -> World {
    let world = World::bare().await;
    let mut world = world.with_latency(Duration::from_millis(latency));
    world.restart(&[DESCRIPTOR]).await;
    world
}

impl World {
    /// Waits for the moment at which the status of the Job has this number of active pods.
    async fn active_at_once(&self, count: u64) {
        let has = |jobs: &[Value]| jobs.iter().any(|job| job["status"]["active"] == count);
        let waited = self.cluster.wait_for("jobs", A_WHILE, has).await;
        waited.unwrap_or_else(|jobs| panic!("not {count} active pods: {jobs:#?}"));
    }

    /// The milliseconds since the last full second. The API stores whole seconds, from which
    /// deadlines and back-offs count.
    fn passed_of_second(&self) -> u64 {
        let passed = self.clock.now().duration_since(self.clock.now_seconds());
        passed.as_millis().try_into().unwrap()
    }

    /// Asserts the writes since `cause`, once the controller is at rest.
    async fn assert_chain(&self, cause: Instant, chain: Chain<'_>) {
        self.at_rest().await;
        let expected: Vec<String> = chain
            .iter()
            .map(|(after, write)| format!("{after} ms: {write}"))
            .collect();
        assert_eq!(self.writes_since(cause), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_job_has_its_pods_after_as_many_requests_as_upstream_needs() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        let cause = Instant::now();
        world
            .create(web(json!({"parallelism": 3, "completions": 3})))
            .await;
        world
            .assert_chain(
                cause,
                &[
                    (latency, "create pods"),
                    (2 * latency, "create pods * 2"),
                    (3 * latency, "update jobs/status"),
                ],
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_grows_right_after_its_status_has_new_pods_one_request_later() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        let elastic = |n: u64| json!({"parallelism": n, "completions": n});
        let mut spec = elastic(3);
        spec["completionMode"] = json!("Indexed");
        world.create(web(spec)).await;
        world.active_at_once(3).await;
        let cause = Instant::now();
        world
            .patch("jobs", "web", json!({"spec": elastic(4)}))
            .await;
        tokio::time::sleep(Duration::from_millis(2 * latency + 1)).await;
        let writes = world.writes_since(cause);
        let expected = [
            format!("{latency} ms: create pods"),
            format!("{} ms: update jobs/status", 2 * latency),
        ];
        let own: Vec<&String> = writes.iter().filter(|w| !w.starts_with("0 ms")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_suspended_right_after_its_status_releases_its_pods_one_request_later() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        world
            .create(web(json!({"parallelism": 2, "completions": 2})))
            .await;
        world.active_at_once(2).await;
        let cause = Instant::now();
        world
            .patch("jobs", "web", json!({"spec": {"suspend": true}}))
            .await;
        tokio::time::sleep(Duration::from_millis(3 * latency + 1)).await;
        let writes = world.writes_since(cause);
        let expected = [
            format!("{latency} ms: patch pods * 2"),
            format!("{} ms: delete pods * 2", 2 * latency),
            format!("{} ms: update jobs/status", 3 * latency),
        ];
        let own: Vec<&String> = writes.iter().filter(|w| !w.starts_with("0 ms")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_is_acted_on_at_once() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        world
            .create(web(json!({"parallelism": 2, "completions": 4})))
            .await;
        world.at_rest().await;
        let steps: [(Value, Vec<(u64, &str)>); 4] = [
            (
                json!({"parallelism": 3}),
                vec![(1, "create pods"), (2, "update jobs/status")],
            ),
            (
                json!({"parallelism": 2}),
                vec![
                    (1, "patch pods"),
                    (2, "delete pods"),
                    (3, "update jobs/status"),
                ],
            ),
            (
                json!({"suspend": true}),
                vec![
                    (1, "patch pods * 2"),
                    (2, "delete pods * 2"),
                    (3, "update jobs/status"),
                ],
            ),
            (
                json!({"suspend": false}),
                vec![
                    (1, "create pods"),
                    (2, "create pods"),
                    (3, "update jobs/status"),
                ],
            ),
        ];
        for (spec, chain) in steps {
            let cause = Instant::now();
            world.patch("jobs", "web", json!({ "spec": spec })).await;
            world.at_rest().await;
            // The number of terminating pods follows when the events about them are batched.
            let writes = world.writes_since(cause);
            let expected: Vec<String> = chain
                .iter()
                .map(|(requests, write)| format!("{} ms: {write}", requests * latency))
                .collect();
            assert_eq!(
                writes[..expected.len().min(writes.len())],
                expected,
                "{spec}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_pod_shows_after_the_batch_period() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        world.create(web(json!({}))).await;
        world.at_rest().await;
        let pod = name(&world.active()[0]);
        let cause = Instant::now();
        world.make_ready(&pod).await;
        world
            .assert_chain(cause, &[(BATCH + latency, "update jobs/status")])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_success_ends_a_job_three_requests_after_the_batch_period() {
    for (mode, latency) in ["Indexed", "NonIndexed"]
        .into_iter()
        .flat_map(|mode| LATENCIES.map(|latency| (mode, latency)))
    {
        let world = world_at(latency).await;
        world
            .create(web(json!({"completions": 1, "completionMode": mode})))
            .await;
        world.at_rest().await;
        let pod = world.active().remove(0);
        let cause = Instant::now();
        world.succeed(&pod).await;
        world
            .assert_chain(
                cause,
                &[
                    (BATCH + latency, "update jobs/status"),
                    (BATCH + 2 * latency, "patch pods"),
                    (BATCH + 3 * latency, "update jobs/status"),
                ],
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_at_the_end_of_the_back_off() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        world.create(web(json!({}))).await;
        world.at_rest().await;
        let pod = world.active().remove(0);
        let cause = Instant::now();
        let back_off = BACK_OFF - world.passed_of_second();
        world.fail(&pod).await;
        tokio::time::sleep(Duration::from_millis(back_off + 2 * latency)).await;
        world
            .assert_chain(
                cause,
                &[
                    (BATCH + latency, "update jobs/status"),
                    (BATCH + 2 * latency, "patch pods"),
                    (BATCH + 3 * latency, "update jobs/status"),
                    (back_off + latency, "create pods"),
                    (back_off + 2 * latency, "update jobs/status"),
                ],
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_the_finalizer_one_request_later() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        world
            .create(web(json!({"parallelism": 2, "completions": 2})))
            .await;
        world.at_rest().await;
        let cause = Instant::now();
        world.remove_job().await;
        world
            .assert_chain(
                cause,
                &[(latency, "patch pods"), (2 * latency, "patch pods")],
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_at_once() {
    for latency in LATENCIES {
        let world = world_at(latency).await;
        let cause = Instant::now();
        let passed = world.passed_of_second();
        world
            .create(web(json!({"activeDeadlineSeconds": 60})))
            .await;
        tokio::time::sleep(Duration::from_secs(62)).await;
        world.at_rest().await;
        let writes = world.writes_since(cause);
        let deadline = 60_000 - passed;
        let expected = [
            format!("{} ms: delete pods", deadline + latency),
            format!("{} ms: update jobs/status", deadline + 2 * latency),
            format!("{} ms: patch pods", deadline + 3 * latency),
        ];
        assert_eq!(writes[2..5], expected, "{writes:#?}");
    }
}
