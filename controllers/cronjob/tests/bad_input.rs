//! Specs that cannot work, and a cluster that refuses Jobs: upstream's Events, and few requests.

use steersman_devcluster::faults::{Matcher, internal_error};

use super::*;

/// All requests of the controller, Events included.
fn requests(world: &World) -> usize {
    let requests = world.cluster.requests();
    requests
        .iter()
        .filter(|r| r.user_agent.ends_with("cronjob-controller"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn an_unusable_spec_is_reported_and_causes_no_further_requests() {
    let unknown = "unknown time zone";
    // (spec, reason, message)
    let cases = [
        (
            json!({"schedule": "obvious error schedule"}),
            "UnparseableSchedule",
            "unparseable schedule: \"obvious error schedule\" : expected exactly 5 fields, found 3: [obvious error schedule]".to_owned(),
        ),
        (
            json!({"schedule": "0 * * * *", "timeZone": "Mars/Phobos"}),
            "UnknownTimeZone",
            format!("invalid timeZone: \"Mars/Phobos\": {unknown} Mars/Phobos"),
        ),
        (
            json!({"schedule": "59 23 31 2 *"}),
            "InvalidSchedule",
            "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second".to_owned(),
        ),
        (
            json!({"schedule": "TZ=Mars/Phobos 0 * * * *"}),
            "UnsupportedSchedule",
            "CRON_TZ or TZ used in schedule \"TZ=Mars/Phobos 0 * * * *\" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned(),
        ),
        (
            json!({"schedule": "TZ=UTC"}),
            "UnparseableSchedule",
            "unparseable schedule: \"TZ=UTC\" : invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned(),
        ),
    ];
    for (spec, reason, message) in cases {
        let mut world = World::bare_at("2026-03-10T11:59:30Z".parse().unwrap()).await;
        let mut object = with(every_minute(), spec);
        object["metadata"] = json!({"name": "c", "namespace": NAMESPACE, "uid": "u", "creationTimestamp": "2026-03-10T11:59:00Z"});
        // The API server refuses most of these specs, and older ones may be stored.
        world.cluster.load(object).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        let events = world.state().events_about("c");
        assert!(
            events.contains(&(reason.to_owned(), message)),
            "{events:#?}"
        );
        let before = requests(&world);
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(requests(&world), before, "{reason}");
        assert_eq!((world.jobs(), world.writes()), (vec![], vec![]), "{reason}");

        let stored = world.find("cronjobs", "c").unwrap();
        let nonsense = with(stored, json!({"schedule": "nonsense"}));
        world.cluster.load(nonsense).unwrap();
        tokio::time::sleep(A_WHILE).await;
        let event = (
            "UnParseableCronJobSchedule".to_owned(),
            "unparseable schedule for cronjob: nonsense".to_owned(),
        );
        assert!(world.state().events_about("c").contains(&event), "{reason}");
        let good = json!({"spec": {"schedule": "* * * * *", "timeZone": null}});
        world.patch("cronjobs", "c", good).await;
        tokio::time::sleep(2 * MINUTE).await;
        assert!(!world.jobs().is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_in_the_schedule_works_with_a_warning() {
    let mut world = World::bare_at("2026-03-10T11:59:30Z".parse().unwrap()).await;
    let mut object = with(cron_job("CRON_TZ=Asia/Kolkata 30 17 * * *"), json!({}));
    object["metadata"] = json!({"name": "c", "namespace": NAMESPACE, "uid": "u", "creationTimestamp": "2026-03-10T11:59:00Z"});
    world.cluster.load(object).unwrap();
    world.restart(&[DESCRIPTOR]).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    assert_eq!(world.jobs(), ["c-29552400"]);
    let mut reasons = world.event_reasons();
    reasons.sort();
    assert_eq!(reasons, ["SuccessfulCreate", "UnsupportedSchedule"]);
}

/// A Job that another client created under the name of the run.
#[tokio::test(start_paused = true)]
async fn a_foreign_job_takes_the_place_of_one_run() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let metadata = json!({"name": "c-29552400"});
    world
        .create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()}))
        .await;
    world.create(cron_job("*/5 * * * *")).await;
    world.pass_until("2026-03-10T12:04:30Z").await;
    assert_eq!(
        (world.active_jobs(), world.event_reasons()),
        (vec![], vec![])
    );
    assert_eq!(world.writes(), ["create jobs 409"]);
    world.pass_until("2026-03-10T12:05:30Z").await;
    assert_eq!(world.active_jobs(), ["c-29552405"]);
}

/// The cases "create job failed" and "do nothing if the namespace is terminating" of upstream's
/// `TestControllerV2SyncCronJob`.
#[tokio::test(start_paused = true)]
async fn refused_creations_are_retried_with_back_off() {
    for terminating in [false, true] {
        let world = World::cron_at("2026-03-10T11:59:30Z").await;
        world.create(cron_job("0 * * * *")).await;
        tokio::time::sleep(A_WHILE).await;
        if terminating {
            let namespace = json!({"metadata": {"deletionTimestamp": "2026-03-10T11:59:40Z"}, "status": {"phase": "Terminating"}});
            let mut object = world
                .cluster
                .get("/api/v1/namespaces/default")
                .await
                .unwrap();
            object["metadata"]["deletionTimestamp"] =
                namespace["metadata"]["deletionTimestamp"].clone();
            object["status"] = namespace["status"].clone();
            world.cluster.load(object).unwrap();
        } else {
            world
                .cluster
                .faults()
                .reject(Matcher::new("create", "jobs"), internal_error(), None);
        }
        world.pass_until("2026-03-10T12:59:00Z").await;
        let expected = if terminating {
            vec![]
        } else {
            vec!["FailedCreate".to_owned()]
        };
        assert_eq!(
            world.event_reasons(),
            expected,
            "terminating: {terminating}"
        );
        // 5 ms, 10 ms, ... up to 1000 s: 18 attempts take 22 minutes.
        let attempts = world.sent_by_cron("create", "jobs");
        assert!(
            (15..=24).contains(&attempts),
            "{attempts} attempts in an hour"
        );
        assert_eq!(world.sent_by_cron("update", "cronjobs/status"), 0);
    }
}

/// The case "still active, is time, get job failed, R" of upstream's `TestControllerV2SyncCronJob`.
#[tokio::test(start_paused = true)]
async fn a_running_job_that_cannot_be_read_or_deleted_is_not_replaced() {
    // (verb, reason, message)
    let cases = [
        ("get", "FailedGet", "Get job: "),
        ("delete", "FailedDelete", "Deleted job: "),
    ];
    for (verb, reason, message) in cases {
        let world = World::cron_at("2026-03-10T11:59:30Z").await;
        world
            .create(with(
                every_minute(),
                json!({"concurrencyPolicy": "Replace"}),
            ))
            .await;
        world.pass_until("2026-03-10T12:00:30Z").await;
        let fault =
            world
                .cluster
                .faults()
                .reject(Matcher::new(verb, "jobs"), internal_error(), None);
        world.pass_until("2026-03-10T12:01:30Z").await;
        assert_eq!(world.active_jobs(), ["c-29552400"], "{verb}");
        let (found, text) = world.state().events_about("c").pop().unwrap();
        assert_eq!(found, reason);
        assert!(text.starts_with(message), "{text}");
        assert!(world.sent_by_cron(verb, "jobs") <= 15, "{verb}");
        world.cluster.faults().remove(fault);
        world.pass_until("2026-03-10T12:03:30Z").await;
        assert_eq!(world.active_jobs(), ["c-29552403"], "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_deleted_stays_over_the_limit() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let cron_job = with(cron_job("0 * * * *"), json!({"failedJobsHistoryLimit": 0}));
    world.create(cron_job).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    world
        .cluster
        .faults()
        .reject(Matcher::new("delete", "jobs"), internal_error(), None);
    world.end_job("c-29552400", "Failed").await;
    tokio::time::sleep(10 * MINUTE).await;
    let mut reasons = world.event_reasons();
    reasons.sort();
    let expected = ["FailedDelete", "SawCompletedJob", "SuccessfulCreate"];
    assert_eq!(reasons, expected);
    assert!(world.sent_by_cron("delete", "jobs") <= 3);
    assert_eq!(
        (world.jobs(), world.active_jobs()),
        (vec!["c-29552400".to_owned()], vec![])
    );
}

/// Upstream deletes such a Job again in each sync.
#[tokio::test(start_paused = true)]
async fn a_job_held_by_a_finalizer_is_deleted_once() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let mut object = with(every_minute(), json!({"failedJobsHistoryLimit": 0}));
    object["spec"]["jobTemplate"]["metadata"]["finalizers"] = json!(["ignored/by-the-controller"]);
    world.create(object).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    world
        .patch(
            "jobs",
            "c-29552400",
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;
    world.end_job("c-29552400", "Failed").await;
    world.pass_until("2026-03-10T12:05:30Z").await;
    assert_eq!(world.sent_by_cron("delete", "jobs"), 1);
    assert_eq!(
        world
            .event_reasons()
            .iter()
            .filter(|reason| *reason == "SuccessfulDelete")
            .count(),
        1
    );
}
