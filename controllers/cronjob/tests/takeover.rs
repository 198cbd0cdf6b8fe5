//! A change of the manager. At rest, the next manager writes nothing. In the middle of the work, it
//! creates and deletes no Job twice.

use super::*;

/// A CronJob that one manager leaves to the next: its name, fields of its spec, and the condition with
/// which its first Job ended.
type Rest = (&'static str, Value, Option<&'static str>);

#[tokio::test(start_paused = true)]
async fn a_new_manager_writes_nothing_at_rest() {
    let cases: [Rest; 7] = [
        ("running", json!({}), None),
        ("completed", json!({}), Some("Complete")),
        ("failed", json!({}), Some("Failed")),
        ("forbidden", json!({"concurrencyPolicy": "Forbid"}), None),
        (
            "no-history",
            json!({"successfulJobsHistoryLimit": 0}),
            Some("Complete"),
        ),
        ("zone", json!({"timeZone": "Asia/Kolkata"}), None),
        ("deadline", json!({"startingDeadlineSeconds": 30}), None),
    ];
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    let names = |suspended: bool| {
        let name = move |case: &Rest| format!("{}-{suspended}", case.0);
        cases.iter().map(name).collect::<Vec<_>>()
    };
    for suspended in [false, true] {
        for ((_, spec, _), name) in cases.iter().zip(names(suspended)) {
            let mut object = with(every_minute(), spec.clone());
            object["metadata"]["name"] = json!(name);
            world.create(object).await;
        }
    }
    world.pass_until("2026-03-10T12:00:10Z").await;
    for suspended in [false, true] {
        for ((_, _, end), name) in cases.iter().zip(names(suspended)) {
            if let Some(condition) = end {
                world.end_job(&format!("{name}-29552400"), condition).await;
            }
            world
                .patch("cronjobs", &name, json!({"spec": {"suspend": suspended}}))
                .await;
        }
    }
    world.pass_until("2026-03-10T12:01:20Z").await;
    world.clear_requests();
    world.restart(&[DESCRIPTOR]).await;
    world.pass_until("2026-03-10T12:01:50Z").await;
    assert_eq!(world.writes(), [""; 0]);
}

/// The final state of a scenario.
#[derive(Debug, PartialEq)]
struct Outcome {
    jobs: Vec<String>,
    active: Vec<String>,
    last_schedule_time: Value,
    created: usize,
    deleted: usize,
}

/// Runs from 11:59:30 to 12:01:50. At 12:00:40 the first Job ends with `end`, if it is set. With
/// `change_after`, the manager changes after this number of writes, including Events.
///
/// Returns the outcome, and the positions of all writes but Events, on which no decision depends.
async fn run(
    spec: &Value,
    end: Option<&str>,
    change_after: Option<usize>,
) -> (Outcome, Vec<usize>) {
    let mut world = World::bare_at("2026-03-10T11:59:30Z".parse().unwrap()).await;
    let gate = world.restart_fenced(&[DESCRIPTOR]).await;
    world.create(with(every_minute(), spec.clone())).await;
    gate.close_after(change_after.unwrap_or(usize::MAX));
    let mut is_changed = change_after.is_none();
    for (time, condition) in [
        ("2026-03-10T12:00:40Z", end),
        ("2026-03-10T12:01:50Z", None),
    ] {
        let limit: Timestamp = time.parse().unwrap();
        while world.clock.now() < limit {
            if !is_changed && gate.refused() > 0 {
                world.restart(&[DESCRIPTOR]).await;
                is_changed = true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if let Some(condition) = condition {
            world.end_job("c-29552400", condition).await;
        }
    }
    let requests = world.cluster.requests();
    let by_controller = |agent: &str| agent.ends_with("cronjob-controller");
    let done = |verb: &str| {
        requests
            .iter()
            .filter(|r| by_controller(&r.user_agent) && r.verb == verb && r.resource == "jobs")
            .filter(|r| r.status < 300)
            .count()
    };
    let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
    let writes = requests
        .iter()
        .filter(|r| by_controller(&r.user_agent) && is_write(&r.verb))
        .enumerate()
        .filter(|(_, r)| r.resource != "events")
        .map(|(place, _)| place)
        .collect();
    let outcome = Outcome {
        jobs: world.jobs(),
        active: world.active_jobs(),
        last_schedule_time: world.cron_job_status()["lastScheduleTime"].clone(),
        created: done("create"),
        deleted: done("delete"),
    };
    (outcome, writes)
}

#[tokio::test(start_paused = true)]
async fn a_new_manager_completes_the_work_of_the_previous_one_without_duplicates() {
    let cases: [Rest; 3] = [
        (
            "no history",
            json!({"successfulJobsHistoryLimit": 0}),
            Some("Complete"),
        ),
        ("replaced", json!({"concurrencyPolicy": "Replace"}), None),
        (
            "forbidden",
            json!({"concurrencyPolicy": "Forbid"}),
            Some("Failed"),
        ),
    ];
    for (why, spec, end) in cases {
        let (expected, writes) = run(&spec, end, None).await;
        assert_eq!(expected.created, 2, "{why}: {expected:?}");
        for change_after in writes {
            let (outcome, _) = run(&spec, end, Some(change_after)).await;
            assert_eq!(
                outcome, expected,
                "{why}, another manager after {change_after} writes"
            );
        }
    }
}
