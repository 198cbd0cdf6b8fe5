//! Stories of the TTL-after-finished controller against the in-memory API server. The tests finish
//! Jobs themselves, in place of the Job controller.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, internal_error};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::batch::job_spec;
use crate::testing::world::World;

const SECOND: Duration = Duration::from_secs(1);

fn job(ttl: impl Into<Value>) -> Value {
    let mut spec = job_spec();
    spec["ttlSecondsAfterFinished"] = ttl.into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
}

impl World {
    async fn ttl() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// Ends the Job with this condition now.
    async fn end(&self, condition: &str) {
        let now = self.clock.now_seconds().to_string();
        let is_true = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let mut status = json!({"startTime": now, "conditions": [is_true(condition)]});
        let interim = match condition {
            "Complete" => Some("SuccessCriteriaMet"),
            "Failed" => Some("FailureTarget"),
            _ => None,
        };
        if let Some(interim) = interim {
            status["conditions"] = json!([is_true(interim), is_true(condition)]);
        }
        if condition == "Complete" {
            status["completionTime"] = json!(now);
        }
        self.patch("jobs", "j/status", json!({ "status": status }))
            .await;
    }

    /// The GETs and DELETEs of the controller.
    fn gets_and_deletes(&self) -> [usize; 2] {
        let requests = self.cluster.requests();
        ["get", "delete"].map(|verb| {
            let is_it = |agent: &str| agent.ends_with("ttl-after-finished-controller");
            requests
                .iter()
                .filter(|r| is_it(&r.user_agent) && r.verb == verb)
                .count()
        })
    }

    fn is_deleted(&self) -> bool {
        self.find("jobs", "j")
            .is_none_or(|job| !job["metadata"]["deletionTimestamp"].is_null())
    }

    /// The number of observations and the sum of the metric of deletions.
    fn deletion_duration(&self) -> (u64, f64) {
        let families = self.registry.gather();
        let name = "ttl_after_finished_controller_job_deletion_duration_seconds";
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        let histogram = family.get_metric()[0].get_histogram();
        (histogram.get_sample_count(), histogram.get_sample_sum())
    }
}

/// Upstream: `test/e2e/apps/ttl_after_finished.go`.
#[tokio::test(start_paused = true)]
async fn a_job_is_deleted_when_its_ttl_has_expired() {
    for (condition, ttl) in [("Complete", 10), ("Failed", 10), ("Complete", 0)] {
        let world = World::ttl().await;
        world.create(job(ttl)).await;
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(world.gets_and_deletes(), [0, 0], "the Job runs");
        world.end(condition).await;
        if ttl > 0 {
            tokio::time::sleep(SECOND * 10 - SECOND / 10).await;
            assert_eq!(world.gets_and_deletes(), [0, 0], "{condition} {ttl}");
        }
        tokio::time::sleep(SECOND / 5).await;
        let left = world.find("jobs", "j").unwrap();
        assert_eq!(
            left["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "{condition}"
        );
        tokio::time::sleep(SECOND * 600).await;
        assert_eq!(world.gets_and_deletes(), [1, 1], "{condition} {ttl}");
        let (count, sum) = world.deletion_duration();
        assert!(count == 1 && sum < 1.0, "{condition} {ttl}: {sum}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_without_ttl_or_end_stays() {
    for (ttl, condition) in [
        (json!(null), "Complete"),
        (json!(0), "FailureTarget"),
        (json!(0), "SuccessCriteriaMet"),
    ] {
        let world = World::ttl().await;
        world.create(job(ttl.clone())).await;
        world.end(condition).await;
        tokio::time::sleep(SECOND * 3600).await;
        assert_eq!(world.gets_and_deletes(), [0, 0], "{ttl} {condition}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_ttl_moves_the_deletion() {
    // (why, TTL after 5 s, second of the deletion)
    let cases = [
        ("raised", json!(60), Some(60)),
        ("lowered", json!(6), Some(6)),
        ("lowered below its age", json!(1), Some(5)),
        ("removed", json!(null), None),
    ];
    for (why, ttl, expected) in cases {
        let world = World::ttl().await;
        world.create(job(10)).await;
        world.end("Complete").await;
        tokio::time::sleep(SECOND * 5).await;
        let change = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
        world.patch("jobs", "j", change).await;
        let Some(second) = expected else {
            tokio::time::sleep(SECOND * 600).await;
            assert_eq!(world.gets_and_deletes(), [0, 0], "{why}");
            continue;
        };
        if second > 5 {
            tokio::time::sleep(SECOND * (second - 5) - SECOND / 10).await;
            assert!(!world.is_deleted(), "{why}");
            assert_eq!(world.gets_and_deletes(), [0, 0], "{why}: no request before");
        }
        tokio::time::sleep(SECOND / 5).await;
        assert!(world.is_deleted(), "{why}");
        assert_eq!(world.gets_and_deletes(), [1, 1], "{why}");
    }
}

/// The cache lacks the change of the user.
#[tokio::test(start_paused = true)]
async fn the_live_job_decides() {
    let world = World::ttl().await;
    world.create(job(10)).await;
    world.end("Complete").await;
    tokio::time::sleep(SECOND).await;
    world.cluster.faults().stall_watches("jobs");
    world
        .patch(
            "jobs",
            "j",
            json!({"spec": {"ttlSecondsAfterFinished": 60}}),
        )
        .await;
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!(world.gets_and_deletes(), [1, 0]);
    assert!(!world.is_deleted());
    tokio::time::sleep(SECOND * 40).await;
    assert!(
        world.is_deleted(),
        "the timer follows the live TTL, although the cache is still stale"
    );
    assert_eq!(world.gets_and_deletes(), [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_or_recreated_is_left_alone() {
    for recreated in [false, true] {
        let world = World::ttl().await;
        world.create(job(10)).await;
        world.end("Complete").await;
        tokio::time::sleep(SECOND).await;
        world.cluster.faults().stall_watches("jobs");
        let path = world.cluster.path("jobs", NAMESPACE, "j");
        let options = json!({"propagationPolicy": "Background"});
        world.cluster.delete_with(&path, options).await.unwrap();
        if recreated {
            world.create(job(10)).await;
        }
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(world.gets_and_deletes(), [1, 0], "recreated: {recreated}");
        world.cluster.faults().resume_watches("jobs");
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(world.find("jobs", "j").is_some(), recreated);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_retried_with_back_off() {
    for verb in ["get", "delete"] {
        let world = World::ttl().await;
        let fault =
            world
                .cluster
                .faults()
                .reject(Matcher::new(verb, "jobs"), internal_error(), None);
        world.create(job(0)).await;
        world.end("Complete").await;
        tokio::time::sleep(SECOND * 60).await;
        let [gets, deletes] = world.gets_and_deletes();
        let attempts = if verb == "get" { gets } else { deletes };
        assert!(
            (10..=15).contains(&attempts),
            "{verb}: {attempts} in a minute"
        );
        world.cluster.faults().remove(fault);
        tokio::time::sleep(SECOND * 600).await;
        assert!(world.is_deleted(), "{verb}");
        assert_eq!(world.deletion_duration().0, 1, "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_an_answer_is_not_repeated() {
    let world = World::ttl().await;
    let delete = Matcher::new("delete", "jobs");
    world
        .cluster
        .faults()
        .on_request(delete, RequestFault::LoseAnswer, Some(1));
    world.create(job(0)).await;
    world.end("Complete").await;
    tokio::time::sleep(SECOND * 60).await;
    assert!(world.is_deleted());
    assert_eq!(world.gets_and_deletes()[1], 1);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_expired_before_the_start_are_deleted_at_the_start() {
    let mut world = World::bare().await;
    world.create(job(100)).await;
    world.end("Complete").await;
    tokio::time::sleep(SECOND * 3600).await;
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(SECOND).await;
    assert!(world.is_deleted());
    let (count, sum) = world.deletion_duration();
    assert!(count == 1 && (3499.0..3502.0).contains(&sum), "{sum}");
}

/// A restart at rest: the Job waits for its pods, and must not be deleted again.
#[tokio::test(start_paused = true)]
async fn a_terminating_job_is_left_alone() {
    let mut world = World::ttl().await;
    world.create(job(0)).await;
    world.end("Complete").await;
    tokio::time::sleep(SECOND * 10).await;
    assert!(world.is_deleted());
    world.clear_requests();
    world.restart(&[DESCRIPTOR]).await;
    world
        .patch(
            "jobs",
            "j",
            json!({"metadata": {"labels": {"touched": "1"}}}),
        )
        .await;
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(world.gets_and_deletes(), [0, 0]);
}
