//! Daylight saving, clocks that jump, and long outages.

use steersman_values::clock::Clock;

use super::*;

impl World {
    /// The scheduled times of all Jobs, from their annotations.
    fn scheduled_times(&self) -> Vec<String> {
        let stamp = "batch.kubernetes.io/cronjob-scheduled-timestamp";
        let time = |job: &Value| {
            job["metadata"]["annotations"][stamp]
                .as_str()
                .unwrap()
                .to_owned()
        };
        self.cluster.objects("jobs").iter().map(time).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn runs_follow_the_wall_clock_through_daylight_saving() {
    // (why, zone, schedule, begin, end, runs)
    let cases: [(&str, &str, &str, &str, &str, &[&str]); 4] = [
        (
            "the skipped time has no run",
            "Europe/Berlin",
            "30 2 * * *",
            "2026-03-29T00:00:00Z",
            "2026-03-30T01:00:00Z",
            &["2026-03-30T02:30:00+02:00"],
        ),
        (
            "the repeated time runs twice",
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-25T00:00:00Z",
            "2026-10-25T02:00:00Z",
            &["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"],
        ),
        (
            "each hour of the night runs once",
            "America/New_York",
            "0 0-3 * * *",
            "2026-03-08T04:30:00Z",
            "2026-03-08T08:30:00Z",
            &[
                "2026-03-08T00:00:00-05:00",
                "2026-03-08T01:00:00-05:00",
                "2026-03-08T03:00:00-04:00",
            ],
        ),
        (
            "a day without midnight has no run",
            "Africa/Cairo",
            "0 0 * * *",
            "2024-04-25T20:00:00Z",
            "2024-04-26T22:00:00Z",
            &["2024-04-27T00:00:00+03:00"],
        ),
    ];
    for (why, zone, schedule, begin, end, runs) in cases {
        let world = World::cron_at(begin).await;
        world
            .create(with(cron_job(schedule), json!({ "timeZone": zone })))
            .await;
        world.pass_until(end).await;
        assert_eq!(world.scheduled_times(), runs, "{why}");
        assert_eq!(
            world.sent_by_cron("update", "cronjobs/status"),
            runs.len(),
            "{why}"
        );
    }
}

/// A clock that is ahead by `hours` of that of the cluster.
async fn restart_ahead(world: &mut World, hours: i64) {
    let now = world.clock.now() + jiff::SignedDuration::from_hours(hours);
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.clock = Clock::runtime(now);
            context
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_starts_one_job_at_most() {
    let mut world = World::cron_at("2026-03-10T11:59:30Z").await;
    world.create(cron_job("0 * * * *")).await;
    world.pass_until("2026-03-10T12:30:00Z").await;
    assert_eq!(world.scheduled_times(), ["2026-03-10T12:00:00Z"]);
    restart_ahead(&mut world, 3).await;
    tokio::time::sleep(A_WHILE).await;
    let ahead = ["2026-03-10T12:00:00Z", "2026-03-10T15:00:00Z"];
    assert_eq!(
        world.scheduled_times(),
        ahead,
        "three hours later, for the last of three times"
    );
    restart_ahead(&mut world, 0).await;
    world.pass_until("2026-03-10T15:59:59Z").await;
    assert_eq!(
        world.scheduled_times(),
        ahead,
        "the clock was set back, and all is recorded"
    );
    world.pass_until("2026-03-10T16:00:01Z").await;
    assert_eq!(
        world.scheduled_times().last().unwrap(),
        "2026-03-10T16:00:00Z"
    );
    assert!(
        !world
            .event_reasons()
            .contains(&"TooManyMissedTimes".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_more_than_a_hundred_runs_leads_to_a_warning_and_one_job() {
    // (minutes of outage, deadline, reasons of Events, last scheduled time)
    let cases: [(_, _, &[&str], _); 3] = [
        (100, None, &["SuccessfulCreate"], "2026-03-10T13:40:00Z"),
        (
            101,
            None,
            &["TooManyMissedTimes", "SuccessfulCreate"],
            "2026-03-10T13:41:00Z",
        ),
        (101, Some(90), &["SuccessfulCreate"], "2026-03-10T13:41:00Z"),
    ];
    for (minutes, deadline, reasons, last) in cases {
        let mut world = World::bare_at("2026-03-10T12:00:10Z".parse().unwrap()).await;
        let spec = json!({"startingDeadlineSeconds": deadline});
        world.create(with(every_minute(), spec)).await;
        tokio::time::sleep(MINUTE * minutes).await;
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.jobs().len(), 1, "{minutes}");
        assert_eq!(
            world.cron_job_status()["lastScheduleTime"],
            last,
            "{minutes}"
        );
        let mut found = world.event_reasons();
        found.sort_by_key(|reason| reason == "SuccessfulCreate");
        assert_eq!(found, reasons, "{minutes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_later_than_its_deadline_is_skipped() {
    let mut world = World::bare_at("2026-03-10T11:59:30Z".parse().unwrap()).await;
    world
        .create(with(
            cron_job("0 * * * *"),
            json!({"startingDeadlineSeconds": 60}),
        ))
        .await;
    world.pass_until("2026-03-10T12:05:00Z").await;
    world.restart(&[DESCRIPTOR]).await;
    world.pass_until("2026-03-10T12:59:59Z").await;
    assert_eq!((world.jobs(), world.event_reasons()), (vec![], vec![]));
    world.pass_until("2026-03-10T13:00:01Z").await;
    assert_eq!(world.jobs().len(), 1);
}
