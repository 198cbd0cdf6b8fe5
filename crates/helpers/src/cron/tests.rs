//! Every case of `testdata/cron-schedules.json`, which upstream's own parser computed.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::Schedule;
use super::zone;

#[derive(Deserialize)]
struct Data {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    id: String,
    schedule: String,
    time_zone: Option<String>,
    start: Timestamp,
    next: Option<Vec<String>>,
    next_local: Option<Vec<String>>,
    error: Option<String>,
    #[serde(default)]
    hangs: bool,
    #[serde(rename = "note")]
    _note: Option<String>,
}

/// The text for "no run" of the data: Go's zero time.
const NO_RUN: &str = "0001-01-01T00:00:00Z";

impl Case {
    fn parse(&self) -> Result<Schedule, String> {
        let text = match &self.time_zone {
            Some(zone) => format!("TZ={zone} {}", self.schedule),
            None => self.schedule.clone(),
        };
        Schedule::parse(&text, &TimeZone::UTC).map_err(|error| error.to_string())
    }
}

/// Up to five runs in a row, as the data has them.
fn runs(schedule: &Schedule, start: Timestamp) -> Vec<Option<Timestamp>> {
    let mut runs = vec![schedule.next(start)];
    while let Some(Some(last)) = runs.last()
        && runs.len() < 5
    {
        runs.push(schedule.next(*last));
    }
    runs
}

fn cases() -> Vec<Case> {
    let text = include_str!("testdata/cron-schedules.json");
    serde_json::from_str::<Data>(text).unwrap().cases
}

#[test]
fn schedules_parse_and_run_as_upstreams_do() {
    for case in cases() {
        let schedule = case.parse();
        let id = &case.id;
        if let Some(error) = &case.error {
            assert_eq!(schedule.as_ref().err(), Some(error), "{id}");
            continue;
        }
        let schedule = schedule.unwrap_or_else(|error| panic!("{id}: {error}"));
        let Some(expected) = &case.next else {
            assert!(case.hangs, "{id}");
            continue;
        };
        let runs = runs(&schedule, case.start);
        let text = |run: &Option<Timestamp>| run.map_or(NO_RUN.to_owned(), |run| run.to_string());
        assert_eq!(runs.iter().map(text).collect::<Vec<_>>(), *expected, "{id}");
        if let Some(local) = case.next_local
            && let Some(name) = case.time_zone
        {
            let zone = zone::load(&name).unwrap();
            // Upstream prints an offset of zero as `Z`.
            let text = |run: &Option<Timestamp>| {
                let local = run.unwrap().to_zoned(zone.clone());
                let text = local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
                text.replace("+00:00", "Z")
            };
            assert_eq!(runs.iter().map(text).collect::<Vec<_>>(), local, "{id}");
        }
    }
}

/// Upstream's search never ends for the one case with `hangs`.
#[test]
fn a_date_that_a_zone_skipped_runs_in_the_next_year() {
    let hanging: Vec<Case> = cases().into_iter().filter(|case| case.hangs).collect();
    assert_eq!(hanging.len(), 1);
    let schedule = hanging[0].parse().unwrap();
    let next = schedule.next(hanging[0].start).unwrap();
    assert_eq!(
        next.to_string(),
        "2012-12-29T22:00:00Z",
        "12:00+14:00 of 30 December"
    );
}

/// Upstream's parser accepts a list without members.
#[test]
fn schedules_with_an_empty_field_never_run() {
    for text in [
        ", * * * *",
        "* , * * *",
        "* * * , *",
        "* * , * *",
        "* * * * ,",
        "* * , * ,",
    ] {
        let schedule = Schedule::parse(text, &TimeZone::UTC).unwrap();
        assert_eq!(schedule.next(Timestamp::UNIX_EPOCH), None, "{text}");
    }
}

#[test]
fn searches_at_the_ends_of_time_find_no_run() {
    for text in [
        "* * * * *",
        "0 0 31 12 *",
        "@every 1h",
        "TZ=Asia/Tokyo 0 0 1 1 *",
    ] {
        let schedule = Schedule::parse(text, &TimeZone::UTC).unwrap();
        assert_eq!(schedule.next(Timestamp::MAX), None, "{text}");
        let earliest = schedule.next(Timestamp::MIN);
        assert!(earliest.is_none_or(|run| run > Timestamp::MIN), "{text}");
    }
}
