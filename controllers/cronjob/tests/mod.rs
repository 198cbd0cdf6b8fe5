//! Stories of the CronJob controller against the in-memory API server. The tests finish Jobs
//! themselves, in place of the Job controller.

mod bad_input;
mod clock;
mod single_syncs;
mod stale;
mod takeover;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::batch::job_spec;
use crate::testing::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// Longer than a sync with its Events, and shorter than the time to the next run.
const A_WHILE: Duration = Duration::from_secs(10);

/// A CronJob that runs every minute.
fn every_minute() -> Value {
    cron_job("* * * * *")
}

fn cron_job(schedule: &str) -> Value {
    let metadata = json!({"labels": {"app": "backup"}, "annotations": {"team": "a"}});
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"schedule": schedule, "jobTemplate": {"metadata": metadata, "spec": job_spec()}},
    })
}

/// `object` with these fields in its spec.
fn with(mut object: Value, spec: Value) -> Value {
    let fields = object["spec"].as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    object
}

impl World {
    /// A cluster at `time`, with only the CronJob controller.
    async fn cron_at(time: &str) -> Self {
        let mut world = Self::bare_at(time.parse().unwrap()).await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// Lets time pass until `time`.
    async fn pass_until(&self, time: &str) {
        let time: Timestamp = time.parse().unwrap();
        let left = time.duration_since(self.clock.now());
        tokio::time::sleep(left.try_into().unwrap()).await;
    }

    /// The names of all Jobs, in order.
    fn jobs(&self) -> Vec<String> {
        let jobs = self.cluster.objects("jobs");
        jobs.iter()
            .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn cron_job_status(&self) -> Value {
        self.find("cronjobs", "c").unwrap()["status"].clone()
    }

    /// The names in `status.active`.
    fn active_jobs(&self) -> Vec<String> {
        let status = self.cron_job_status();
        let active = status["active"].as_array().cloned().unwrap_or_default();
        active
            .iter()
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Ends a Job with this condition, as the Job controller does.
    async fn end_job(&self, name: &str, condition: &str) {
        let now = self.clock.now_seconds().to_string();
        let interim = match condition {
            "Complete" => "SuccessCriteriaMet",
            _ => "FailureTarget",
        };
        let is_true = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let mut status = json!({
            "startTime": now,
            "conditions": [is_true(interim), is_true(condition)],
        });
        if condition == "Complete" {
            status["completionTime"] = json!(now);
        }
        self.patch(
            "jobs",
            &format!("{name}/status"),
            json!({ "status": status }),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Deletes a Job with its pods.
    async fn delete_job(&self, name: &str) {
        let path = self.cluster.path("jobs", NAMESPACE, name);
        let options = json!({"propagationPolicy": "Background"});
        self.cluster.delete_with(&path, options).await.unwrap();
    }

    /// The requests of the controller with this verb and resource.
    fn sent_by_cron(&self, verb: &str, resource: &str) -> usize {
        let requests = self.cluster.requests();
        let is_it = |agent: &str| agent.ends_with("cronjob-controller");
        requests
            .iter()
            .filter(|r| is_it(&r.user_agent) && r.verb == verb && r.resource == resource)
            .count()
    }

    /// The reasons of Events about the CronJob, in order of their first occurrence.
    fn event_reasons(&self) -> Vec<String> {
        let events = self.state().events_about("c");
        events.into_iter().map(|(reason, _)| reason).collect()
    }

    /// The number of observations and the sum of the metric of creations.
    fn creation_skew(&self) -> (u64, f64) {
        let families = self.registry.gather();
        let name = "cronjob_controller_job_creation_skew_duration_seconds";
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        let histogram = family.get_metric()[0].get_histogram();
        (histogram.get_sample_count(), histogram.get_sample_sum())
    }
}

/// Upstream: `TestCronJobLaunchesPodAndCleansUp`.
#[tokio::test(start_paused = true)]
async fn a_job_is_started_for_each_scheduled_time() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let zone = json!({"timeZone": "Asia/Kolkata", "successfulJobsHistoryLimit": 1});
    world.create(with(every_minute(), zone)).await;
    world.pass_until("2026-03-10T12:00:00.099Z").await;
    assert_eq!(world.jobs(), [""; 0], "100 ms after the time");
    world.pass_until("2026-03-10T12:00:00.5Z").await;
    let job = world.find("jobs", "c-29552400").unwrap();
    let cron_job = world.find("cronjobs", "c").unwrap();
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": cron_job["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let metadata = &job["metadata"];
    assert_eq!(metadata["ownerReferences"], owner);
    let stamp = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    let annotations = json!({"team": "a", stamp: "2026-03-10T17:30:00+05:30"});
    assert_eq!(metadata["annotations"], annotations);
    assert_eq!(metadata["labels"]["app"], "backup");
    assert_eq!(metadata["creationTimestamp"], "2026-03-10T12:00:00Z");
    let reference = json!({
        "kind": "Job", "namespace": NAMESPACE, "name": "c-29552400", "uid": metadata["uid"],
        "apiVersion": "batch/v1", "resourceVersion": metadata["resourceVersion"],
    });
    let status = json!({"active": [reference], "lastScheduleTime": "2026-03-10T12:00:00Z"});
    assert_eq!(cron_job["status"], status);
    assert_eq!(world.creation_skew(), (1, 0.0));

    world.end_job("c-29552400", "Complete").await;
    let status = world.cron_job_status();
    let expected = json!({
        "lastScheduleTime": "2026-03-10T12:00:00Z", "lastSuccessfulTime": "2026-03-10T12:00:00Z",
    });
    assert_eq!(status, expected);
    world.pass_until("2026-03-10T12:01:30Z").await;
    assert_eq!(world.jobs(), ["c-29552400", "c-29552401"]);
    world.end_job("c-29552401", "Failed").await;
    world.pass_until("2026-03-10T12:02:30Z").await;
    world.end_job("c-29552402", "Complete").await;
    assert_eq!(
        world.jobs(),
        ["c-29552401", "c-29552402"],
        "one completed Job is kept"
    );
    world.pass_until("2026-03-10T12:02:50Z").await;
    let event = |reason: &str, text: &str| (reason.to_owned(), text.to_owned());
    let expected = [
        event("SuccessfulCreate", "Created job c-29552400"),
        event(
            "SawCompletedJob",
            "Saw completed job: c-29552400, condition: Complete",
        ),
        event("SuccessfulCreate", "Created job c-29552401"),
        event(
            "SawCompletedJob",
            "Saw completed job: c-29552401, condition: Failed",
        ),
        event("SuccessfulCreate", "Created job c-29552402"),
        event("SuccessfulDelete", "Deleted job c-29552400"),
        event(
            "SawCompletedJob",
            "Saw completed job: c-29552402, condition: Complete",
        ),
    ];
    assert_eq!(world.state().events_about("c"), expected);
    let writes = ["create", "delete"].map(|verb| world.sent_by_cron(verb, "jobs"));
    assert_eq!(writes, [3, 1]);
    assert_eq!(world.sent_by_cron("update", "cronjobs/status"), 6);
    assert_eq!(
        world.sent_by_cron("get", "jobs") + world.sent_by_cron("get", "cronjobs"),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn forbid_starts_the_missed_job_when_the_running_one_ends() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(every_minute(), json!({"concurrencyPolicy": "Forbid"})))
        .await;
    world.pass_until("2026-03-10T12:02:20Z").await;
    assert_eq!(world.jobs(), ["c-29552400"]);
    assert_eq!(world.sent_by_cron("update", "cronjobs/status"), 1);
    world.end_job("c-29552400", "Complete").await;
    assert_eq!(world.active_jobs(), ["c-29552402"]);
    tokio::time::sleep(A_WHILE).await;
    let expected = ["SuccessfulCreate", "JobAlreadyActive", "SawCompletedJob"];
    assert_eq!(world.event_reasons()[..3], expected);
    assert_eq!(world.creation_skew(), (2, 20.0));
}

#[tokio::test(start_paused = true)]
async fn replace_deletes_the_running_job_first() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(
            every_minute(),
            json!({"concurrencyPolicy": "Replace"}),
        ))
        .await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    assert_eq!(world.active_jobs(), ["c-29552400"]);
    world.clear_requests();
    world.pass_until("2026-03-10T12:01:30Z").await;
    assert_eq!(
        (world.jobs(), world.active_jobs()),
        (vec!["c-29552401".to_owned()], world.jobs())
    );
    let expected = [
        "delete jobs/c-29552400 200",
        "create jobs 201",
        "update cronjobs/c/status 200",
    ];
    assert_eq!(world.writes(), expected);
    assert_eq!(world.sent_by_cron("get", "jobs"), 1);
    let expected = ["SuccessfulCreate", "SuccessfulDelete", "SuccessfulCreate"];
    assert_eq!(world.event_reasons(), expected);
}

/// The case "set lastsuccessfultime if successfulJobHistoryLimit is zero" of upstream's
/// `TestControllerV2SyncCronJob`.
#[tokio::test(start_paused = true)]
async fn a_job_deleted_by_limit_zero_still_counts_as_successful() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(
            every_minute(),
            json!({"successfulJobsHistoryLimit": 0}),
        ))
        .await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    world.end_job("c-29552400", "Complete").await;
    let times = json!({
        "lastScheduleTime": "2026-03-10T12:00:00Z", "lastSuccessfulTime": "2026-03-10T12:00:30Z",
    });
    assert_eq!((world.jobs(), world.cron_job_status()), (vec![], times));
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.event_reasons(),
        ["SuccessfulCreate", "SuccessfulDelete"]
    );
}

/// Users create such Jobs with `kubectl create job --from=cronjob/c`.
#[tokio::test(start_paused = true)]
async fn a_job_of_a_user_counts_for_history_and_success_only() {
    let world = World::cron_at("2026-03-10T12:00:10Z").await;
    let cron_job = with(
        cron_job("0 0 1 1 *"),
        json!({"successfulJobsHistoryLimit": 0}),
    );
    let uid = world.create(cron_job).await["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": uid, "controller": true}]);
    let metadata = json!({"name": "manual", "ownerReferences": owner});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()});
    world.create(job).await;
    tokio::time::sleep(A_WHILE).await;
    let message = "Saw a job that the controller did not create or forgot: manual";
    let expected = [("UnexpectedJob".to_owned(), message.to_owned())];
    assert_eq!(world.state().events_about("c"), expected);
    assert_eq!((world.active_jobs(), world.writes()), (vec![], vec![]));
    world.end_job("manual", "Complete").await;
    assert_eq!(world.jobs(), [""; 0]);
    assert_eq!(
        world.cron_job_status()["lastSuccessfulTime"],
        "2026-03-10T12:00:20Z"
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_was_deleted_goes_missing() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(every_minute(), json!({"concurrencyPolicy": "Forbid"})))
        .await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    world.delete_job("c-29552400").await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!((world.jobs(), world.active_jobs()), (vec![], vec![]));
    assert_eq!(world.event_reasons(), ["SuccessfulCreate", "MissingJob"]);
    assert_eq!(world.sent_by_cron("get", "jobs"), 1);
    world.pass_until("2026-03-10T12:01:30Z").await;
    assert_eq!(world.active_jobs(), ["c-29552401"]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_starts_one_job_when_it_resumes() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(cron_job("0 * * * *"), json!({"suspend": true})))
        .await;
    world.pass_until("2026-03-10T15:20:00Z").await;
    assert_eq!((world.jobs(), world.event_reasons()), (vec![], vec![]));
    world
        .patch("cronjobs", "c", json!({"spec": {"suspend": false}}))
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.cron_job_status()["lastScheduleTime"],
        "2026-03-10T15:00:00Z"
    );
    assert_eq!(world.jobs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_schedule_takes_effect_at_its_next_time() {
    let world = World::cron_at("2026-03-10T12:00:10Z").await;
    world.create(cron_job("0 0 * * *")).await;
    tokio::time::sleep(A_WHILE).await;
    world
        .patch(
            "cronjobs",
            "c",
            json!({"spec": {"schedule": "*/10 * * * *"}}),
        )
        .await;
    world.pass_until("2026-03-10T12:09:59Z").await;
    assert_eq!(world.jobs(), [""; 0]);
    world.pass_until("2026-03-10T12:10:01Z").await;
    assert_eq!(world.jobs(), ["c-29552410"]);
    world
        .patch(
            "cronjobs",
            "c",
            json!({"spec": {"timeZone": "Asia/Kolkata", "schedule": "0 * * * *"}}),
        )
        .await;
    world.pass_until("2026-03-10T12:29:59Z").await;
    assert_eq!(world.jobs().len(), 1);
    world.pass_until("2026-03-10T12:30:01Z").await;
    assert_eq!(world.jobs(), ["c-29552410", "c-29552430"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_cron_job_only_reports_its_jobs() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let mut held = every_minute();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(held).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    world.delete("cronjobs", "c").await;
    world.pass_until("2026-03-10T12:03:00Z").await;
    assert_eq!(world.jobs(), ["c-29552400"]);
    world.end_job("c-29552400", "Complete").await;
    assert_eq!(world.active_jobs(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn jobs_of_another_owner_with_the_same_name_do_not_count() {
    let world = World::cron_at("2026-03-10T12:00:10Z").await;
    world
        .create(with(
            cron_job("0 0 1 1 *"),
            json!({"failedJobsHistoryLimit": 0}),
        ))
        .await;
    let owners = [
        ("CronJob", "batch/v1", "another"),
        ("Backup", "example.com/v1", "uid"),
    ];
    for (kind, api_version, uid) in owners {
        let owner = json!([{"apiVersion": api_version, "kind": kind, "name": "c", "uid": uid, "controller": true}]);
        let metadata = json!({"name": kind.to_lowercase(), "ownerReferences": owner});
        world
            .create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()}))
            .await;
    }
    world.end_job("backup", "Failed").await;
    world
        .patch(
            "cronjobs",
            "c",
            json!({"metadata": {"labels": {"touched": "1"}}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.jobs(), ["backup", "cronjob"]);
    assert_eq!((world.event_reasons(), world.writes()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_restart_at_rest_writes_nothing() {
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    world.create(every_minute()).await;
    world.pass_until("2026-03-10T12:02:10Z").await;
    world.end_job("c-29552401", "Complete").await;
    world.pass_until("2026-03-10T12:02:20Z").await;
    world.clear_requests();
    world.restart(&[DESCRIPTOR]).await;
    world.pass_until("2026-03-10T12:02:50Z").await;
    assert_eq!(world.writes(), [""; 0]);
    let gets = world.sent_by_cron("get", "jobs") + world.sent_by_cron("get", "cronjobs");
    assert_eq!(gets, 0);
}
