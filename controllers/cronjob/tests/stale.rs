//! Crashes, stale caches and failed requests: no run is repeated or lost.

use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_devcluster::status::Status;

use super::*;

/// The previous process ended between the creation of the Job and the status update.
#[tokio::test(start_paused = true)]
async fn a_job_that_the_status_lacks_is_recorded_and_not_repeated() {
    // (why, limit, the Job is finished, active afterwards)
    let cases = [
        ("the Job still runs", 3, false),
        ("the Job is finished", 3, true),
        (
            "the Job is finished, and the limit would delete it",
            0,
            true,
        ),
    ];
    for (why, limit, is_finished) in cases {
        let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
        let rejected = world.cluster.faults().reject(
            Matcher::new("update", "cronjobs").subresource("status"),
            internal_error(),
            None,
        );
        let history = json!({"successfulJobsHistoryLimit": limit});
        world.create(with(cron_job("0 * * * *"), history)).await;
        world.pass_until("2026-03-10T12:00:00.101Z").await;
        assert_eq!(world.jobs(), ["c-29552400"], "{why}");
        world.restart(&[]).await;
        if is_finished {
            world.end_job("c-29552400", "Complete").await;
        }
        world.cluster.faults().remove(rejected);
        world.clear_requests();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        let status = world.cron_job_status();
        assert_eq!(status["lastScheduleTime"], "2026-03-10T12:00:00Z", "{why}");
        let running = if is_finished { vec![] } else { world.jobs() };
        assert_eq!(world.active_jobs(), running, "{why}");
        let creations: Vec<_> = world
            .writes()
            .into_iter()
            .filter(|write| write.starts_with("create"))
            .collect();
        assert_eq!(creations.len(), 1, "{why}: {creations:?}");
        assert!(creations[0].ends_with("409"), "{why}: {creations:?}");
        let expected = usize::from(limit > 0);
        assert_eq!(world.jobs().len(), expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_starts_one_job() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world.cluster.faults().on_request(
        Matcher::new("create", "jobs"),
        RequestFault::LoseAnswer,
        Some(1),
    );
    world.create(cron_job("0 * * * *")).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    assert_eq!(world.active_jobs(), ["c-29552400"]);
    assert_eq!(
        (world.jobs(), world.creation_skew().0),
        (world.active_jobs(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_repeats_no_run_and_no_deletion() {
    for stale in ["cronjobs", "jobs"] {
        let world = World::cron_at("2026-03-10T11:59:30Z").await;
        world
            .create(with(
                every_minute(),
                json!({"successfulJobsHistoryLimit": 0}),
            ))
            .await;
        world.pass_until("2026-03-10T12:00:30Z").await;
        let touch = json!({"metadata": {"labels": {"touched": "1"}}});
        world.cluster.faults().stall_watches(stale);
        if stale == "jobs" {
            world.patch("cronjobs", "c", touch).await;
        } else {
            world.end_job("c-29552400", "Complete").await;
        }
        world.pass_until("2026-03-10T12:03:30Z").await;
        // A stale cache of Jobs shows no end of a Job; a new one starts, and the next sync waits.
        assert!(
            world.sent_by_cron("create", "jobs") <= 2,
            "{stale}: {:?}",
            world.writes()
        );
        assert!(
            world.sent_by_cron("delete", "jobs") <= 1,
            "{stale}: {:?}",
            world.writes()
        );
        world.cluster.faults().resume_watches(stale);
        world.pass_until("2026-03-10T12:05:30Z").await;
        let writes = world.writes();
        for write in writes.iter().filter(|write| !write.starts_with("create")) {
            let count = writes.iter().filter(|other| *other == write).count();
            assert!(
                write.starts_with("update") || count == 1,
                "{stale}: {writes:?}"
            );
        }
        let refused = writes
            .iter()
            .any(|w| w.ends_with("409") || w.ends_with("404"));
        assert!(!refused, "{stale}: {writes:?}");
        let last = &world.cron_job_status()["lastScheduleTime"];
        assert_eq!(last, "2026-03-10T12:05:00Z", "{stale}: {writes:?}");
    }
}

/// The previous leader started the Job, which ended and was deleted. The cache of the new leader
/// shows the CronJob before that.
#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_does_not_repeat_a_run() {
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    world.create(cron_job("0 * * * *")).await;
    tokio::time::sleep(A_WHILE).await;
    let term_start_rv = world.cluster.revision() + 1_000_000;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term_start_rv;
            context
        })
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().stall_watches("cronjobs");
    let status = json!({"status": {"lastScheduleTime": "2026-03-10T12:00:00Z"}});
    world.patch("cronjobs", "c/status", status).await;
    world.pass_until("2026-03-10T12:30:00Z").await;
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!(world.sent_by_cron("get", "cronjobs"), 1);
    world.cluster.faults().resume_watches("cronjobs");
    world.pass_until("2026-03-10T13:00:30Z").await;
    assert_eq!(world.jobs(), ["c-29552460"]);
}

/// A proxy that cannot reach the API server answers 404 as well, and no event follows.
#[tokio::test(start_paused = true)]
async fn a_new_leader_repeats_a_check_that_a_proxy_has_answered() {
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    world.create(cron_job("0 * * * *")).await;
    tokio::time::sleep(A_WHILE).await;
    let term_start_rv = world.cluster.revision() + 1_000_000;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term_start_rv;
            context
        })
        .await;
    let page = Status::new(404, "NotFound", "404 page not found");
    let faults = world.cluster.faults();
    let rule = faults.reject(Matcher::new("get", "cronjobs"), page, Some(1));
    world.pass_until("2026-03-10T12:30:00Z").await;
    assert_eq!(world.cluster.faults().hits(rule), 1);
    assert_eq!(world.jobs(), ["c-29552400"]);
}

/// The case "this started but is not present in cronjob active list" of upstream's
/// `TestControllerV2SyncCronJob`, with each policy.
#[tokio::test(start_paused = true)]
async fn the_live_cron_job_decides_about_a_job_that_the_cached_one_lacks() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let mut world = World::bare_at("2016-05-19T10:00:30.1Z".parse().unwrap()).await;
        let mut cached = with(cron_job("0 * * * ?"), json!({"suspend": true}));
        cached["metadata"] = json!({"name": "c", "namespace": NAMESPACE, "uid": "1a2b3c", "creationTimestamp": "2016-05-19T08:59:00Z"});
        cached["spec"]["concurrencyPolicy"] = json!(policy);
        cached["spec"]["startingDeadlineSeconds"] = json!(1_000_000);
        cached["status"] = json!({"lastScheduleTime": "2016-05-19T09:01:00Z"});
        world.cluster.load(cached).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        world.cluster.faults().stall_watches("cronjobs");
        let active = json!([{
            "kind": "Job", "namespace": NAMESPACE, "name": "c-24394200", "uid": "1234", "apiVersion": "batch/v1",
        }]);
        world
            .patch(
                "cronjobs",
                "c/status",
                json!({"status": {"active": active}}),
            )
            .await;
        world
            .patch("cronjobs", "c", json!({"spec": {"suspend": false}}))
            .await;
        let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "1a2b3c", "controller": true}]);
        let metadata = json!({"name": "c-24394200", "namespace": NAMESPACE, "uid": "1234", "ownerReferences": owner});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()});
        world.cluster.load(job).unwrap();
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(
            (world.writes(), world.event_reasons()),
            (vec![], vec![]),
            "{policy}"
        );
        assert_eq!(world.sent_by_cron("get", "cronjobs"), 1, "{policy}");
        world.pass_until("2016-05-19T10:59:59Z").await;
        assert_eq!(world.writes(), [""; 0], "{policy}");
    }
}

/// Upstream continues with the live object, and then writes the cached one, which is a conflict.
#[tokio::test(start_paused = true)]
async fn the_status_is_written_to_the_live_cron_job() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    world
        .create(with(cron_job("0 * * * *"), json!({"suspend": true})))
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().stall_watches("cronjobs");
    let uid = world.find("cronjobs", "c").unwrap()["metadata"]["uid"].clone();
    let job = |name: &str| {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": uid, "controller": true}]);
        let metadata =
            json!({"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": owner});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()})
    };
    let entry = |name: &str| json!({"namespace": NAMESPACE, "name": name, "uid": name});
    let active = json!([entry("a"), entry("b")]);
    world
        .patch(
            "cronjobs",
            "c/status",
            json!({"status": {"active": active}}),
        )
        .await;
    let mut ended = job("a");
    ended["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    world.cluster.load(ended).unwrap();
    world.cluster.load(job("b")).unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.active_jobs(), ["b"]);
    assert_eq!(world.writes(), ["update cronjobs/c/status 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_update_is_repeated_and_the_run_is_not() {
    let world = World::cron_at("2026-03-10T11:59:30Z").await;
    let status = Matcher::new("update", "cronjobs").subresource("status");
    world.cluster.faults().reject(status, conflict(), Some(2));
    world.create(cron_job("0 * * * *")).await;
    world.pass_until("2026-03-10T12:00:30Z").await;
    assert_eq!(
        (world.jobs(), world.active_jobs()),
        (world.active_jobs(), world.jobs())
    );
    assert_eq!(world.jobs(), ["c-29552400"]);
    assert_eq!(world.creation_skew().0, 1);
    assert_eq!(world.sent_by_cron("update", "cronjobs/status"), 3);
}

/// Writes that leader election no longer allows: the next leader makes them.
#[tokio::test(start_paused = true)]
async fn a_closed_write_gate_refuses_without_events() {
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    world.create(every_minute()).await;
    gate.set_open(false);
    world.pass_until("2026-03-10T12:00:30Z").await;
    assert_eq!(
        (world.jobs(), world.writes(), world.event_reasons()),
        (vec![], vec![], vec![])
    );
    assert!(gate.refused() > 0);
    gate.set_open(true);
    world.pass_until("2026-03-10T12:01:30Z").await;
    assert_eq!(world.jobs().last().unwrap(), "c-29552401");
}
