//! The cases of upstream's `TestControllerV2SyncCronJob`, as decisions and as whole syncs, and of
//! `TestControllerV2CleanupFinishedJobs` and `TestControllerV2GetJobsToBeReconciled`.
//!
//! `testdata/sync-cases.json` has the values: times in seconds from 2016-05-19T10:00:00Z, and the
//! delay of the next sync without the padding of 100 ms.

use std::sync::Arc;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use serde::Deserialize;
use steersman_objects::{CronJob, Job, Object};
use steersman_runtime::events::EventType;

use super::*;
use crate::cronjob::start::{self, Action};
use crate::cronjob::status::Draft;
use crate::cronjob::{history, job};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    policy: String,
    schedule: String,
    zone: Option<String>,
    deadline: Option<i64>,
    #[serde(default)]
    suspend: bool,
    created: f64,
    last: Option<f64>,
    job: Option<LastJob>,
    now: f64,
    expected: Expected,
}

/// The last Job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LastJob {
    scheduled: f64,
    /// False for a Job that completed after ten seconds.
    runs: bool,
    /// Whether the status lists it as running.
    listed: bool,
    /// Whether the cache has it.
    cached: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    creates: usize,
    deletes: usize,
    completes: usize,
    warnings: usize,
    writes: bool,
    delay: Option<f64>,
}

/// 2016-05-19T10:00:00Z plus seconds.
fn at(seconds: f64) -> Timestamp {
    let top_of_the_hour: Timestamp = "2016-05-19T10:00:00Z".parse().unwrap();
    #[allow(clippy::cast_possible_truncation, reason = "the times are small")]
    let millis = (seconds * 1000.0).round() as i64;
    top_of_the_hour + SignedDuration::from_millis(millis)
}

/// The same in whole seconds, as objects have it.
fn text(seconds: f64) -> String {
    steersman_values::clock::whole_seconds(at(seconds)).to_string()
}

impl Case {
    fn all() -> Vec<Self> {
        serde_json::from_str(include_str!("../testdata/sync-cases.json")).unwrap()
    }

    fn cron_job(&self, namespace: &str) -> Value {
        let mut object = with(
            cron_job(&self.schedule),
            json!({"concurrencyPolicy": self.policy, "suspend": self.suspend}),
        );
        object["metadata"] = json!({
            "name": "c", "namespace": namespace, "uid": "1a2b3c", "creationTimestamp": text(self.created),
        });
        if let Some(zone) = &self.zone {
            object["spec"]["timeZone"] = json!(zone);
        }
        if let Some(deadline) = self.deadline {
            object["spec"]["startingDeadlineSeconds"] = json!(deadline);
        }
        if let Some(last) = self.last {
            object["status"]["lastScheduleTime"] = json!(text(last));
        }
        if let Some(last) = self.job.as_ref().filter(|job| job.listed) {
            object["status"]["active"] = json!([{
                "kind": "Job", "namespace": namespace, "name": last.name(), "uid": "1234", "apiVersion": "batch/v1",
            }]);
        }
        object
    }

    /// The delay of a sync that ends with `action`.
    fn delay_after(&self, cron_job: &CronJob, action: &Action) -> Option<Duration> {
        match action {
            Action::Rest => None,
            Action::Wait(delay) => *delay,
            Action::Start(start) => {
                start::delay(cron_job, Some(start.at), &start.schedule, at(self.now))
            }
        }
    }
}

impl LastJob {
    fn name(&self) -> String {
        job::name("c", at(self.scheduled))
    }

    /// The Job. One that the cache lacks has no owner here, so that the controller must read it.
    fn object(&self, namespace: &str) -> Value {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "1a2b3c", "controller": true}]);
        let mut metadata = json!({"name": self.name(), "namespace": namespace, "uid": "1234"});
        if self.cached {
            metadata["ownerReferences"] = owner;
        }
        let mut object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec()});
        if !self.runs {
            let end = text(self.scheduled + 10.0);
            let condition =
                json!({"type": "Complete", "status": "True", "lastTransitionTime": end});
            object["status"] = json!({"completionTime": end, "conditions": [condition]});
        }
        object
    }
}

fn decoded<T: Object>(object: &Value) -> T {
    T::decode(object.to_string().as_bytes()).unwrap()
}

#[test]
fn sync_cron_job_decisions() {
    let cases = Case::all();
    assert_eq!(cases.len(), 64);
    for case in cases {
        let name = &case.name;
        let expected = &case.expected;
        let cron_job: CronJob = decoded(&case.cron_job(NAMESPACE));
        let cached = case.job.iter().filter(|job| job.cached);
        let jobs: Vec<Arc<Job>> = cached
            .map(|job| Arc::new(decoded(&job.object(NAMESPACE))))
            .collect();
        let mut draft = Draft::of(&cron_job);
        let mut notices = draft.observe(&jobs);
        let decision = start::decide(&cron_job, &draft, at(case.now), &TimeZone::UTC);
        notices.extend(decision.notices);
        let delay = case.delay_after(&cron_job, &decision.action);
        let padding = Duration::from_millis(100);
        let expected_delay = expected
            .delay
            .map(|delay| Duration::from_secs_f64(delay) + padding);
        assert_eq!(delay, expected_delay, "{name}");
        let creates = matches!(decision.action, Action::Start(_));
        assert_eq!(creates, expected.creates == 1, "{name}");
        let count = |kind| notices.iter().filter(|notice| notice.kind == kind).count();
        assert_eq!(count(EventType::Warning), expected.warnings, "{name}");
        let is_completion = |reason: &str| reason == "SawCompletedJob";
        let completes = notices
            .iter()
            .filter(|notice| is_completion(notice.reason))
            .count();
        assert_eq!(completes, expected.completes, "{name}");
        let writes = draft.changed().is_some() || creates;
        assert_eq!(writes, expected.writes, "{name}");
    }
}

/// Cases of one time share a cluster, in a namespace each.
#[tokio::test(start_paused = true)]
async fn sync_cron_job() {
    let mut cases = Case::all();
    cases.sort_by(|a, b| a.now.total_cmp(&b.now));
    for cases in cases.chunk_by(|a, b| a.now == b.now) {
        let mut world = World::bare_at(at(cases[0].now)).await;
        for (number, case) in cases.iter().enumerate() {
            let namespace = format!("case-{number}");
            let metadata = json!({"name": namespace});
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            world.create(object).await;
            world.cluster.load(case.cron_job(&namespace)).unwrap();
            if let Some(last) = &case.job {
                world.cluster.load(last.object(&namespace)).unwrap();
            }
        }
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        for (number, case) in cases.iter().enumerate() {
            case.check(&world, &format!("case-{number}"));
        }
    }
}

impl Case {
    /// Asserts the requests, Events and status in `namespace`.
    fn check(&self, world: &World, namespace: &str) {
        let name = &self.name;
        let expected = &self.expected;
        let requests = world.cluster.requests();
        let sent = |verb: &str, resource: &str| {
            let path = format!("/namespaces/{namespace}/");
            let is_it = |agent: &str| agent.ends_with("cronjob-controller");
            let sent = requests
                .iter()
                .filter(|r| is_it(&r.user_agent) && r.path.contains(&path));
            sent.filter(|r| r.verb == verb && r.resource == resource)
                .count()
        };
        let jobs = ["create", "delete"].map(|verb| sent(verb, "jobs"));
        assert_eq!(jobs, [expected.creates, expected.deletes], "{name}");
        let updates = sent("update", "cronjobs/status");
        assert_eq!(updates, usize::from(expected.writes), "{name}");
        let is_here = |object: &&Value| object["metadata"]["namespace"] == *namespace;
        let events = world.state().events;
        let events = events.iter().filter(is_here);
        let warnings = events.filter(|event| event["type"] == "Warning").count();
        assert_eq!(warnings, expected.warnings, "{name}");
        let cron_jobs = world.cluster.objects("cronjobs");
        let status = &cron_jobs.iter().find(is_here).unwrap()["status"];
        let running = self.job.as_ref().is_some_and(|job| job.runs && job.listed);
        let active = usize::from(running) + expected.creates - expected.deletes;
        let listed = status["active"].as_array().map_or(0, Vec::len);
        assert_eq!(listed, active, "{name}");
        if let Some(ended) = self.job.as_ref().filter(|job| !job.runs) {
            let last = text(ended.scheduled + 10.0);
            assert_eq!(status["lastSuccessfulTime"], last, "{name}");
        }
    }
}

/// Upstream: `TestControllerV2JobAlreadyExistsButNotInActiveStatus`,
/// `TestControllerV2JobAlreadyExistsButDifferentOwner`, and two cases "create job failed" of
/// `TestControllerV2SyncCronJob`.
#[tokio::test(start_paused = true)]
async fn job_already_exists() {
    // (why, owned, finished, active, last scheduled time)
    let due = "2016-05-19T10:00:00Z";
    let prior = "2016-05-19T08:59:00Z";
    let cases = [
        ("not in active status", true, false, 1, due),
        ("different owner", false, false, 0, prior),
        ("finished, not in active status", true, true, 0, due),
    ];
    for (why, owned, finished, active, last) in cases {
        let mut world = World::bare_at(at(60.0)).await;
        let mut object = with(
            cron_job("0 * * * ?"),
            json!({"concurrencyPolicy": "Forbid"}),
        );
        object["metadata"] = json!({"name": "c", "namespace": NAMESPACE, "uid": "1a2b3c", "creationTimestamp": prior});
        object["status"] = json!({"lastScheduleTime": prior});
        world.cluster.load(object).unwrap();
        let job = LastJob {
            scheduled: 0.0,
            runs: !finished,
            listed: false,
            cached: owned,
        };
        world.cluster.load(job.object(NAMESPACE)).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(world.active_jobs().len(), active, "{why}");
        assert_eq!(world.cron_job_status()["lastScheduleTime"], last, "{why}");
        assert_eq!(world.sent_by_cron("create", "jobs"), 1, "{why}");
        let created = world
            .event_reasons()
            .contains(&"SuccessfulCreate".to_owned());
        assert!(!created && world.creation_skew().0 == 0, "{why}");
    }
}

/// Upstream: `TestControllerV2CleanupFinishedJobs`.
#[tokio::test(start_paused = true)]
async fn cleanup_finished_jobs() {
    let hour = "finished-job-started-hour-ago";
    let minute = "finished-job-started-minute-ago";
    // (case, limit, Jobs with their start, now, deleted)
    let cases: [(&str, _, &[(&str, f64)], _, &[&str]); 2] = [
        (
            "jobs are still deleted when a cronjob can't create jobs due to jobs quota being reached (avoiding a deadlock)",
            1,
            &[(hour, -3660.0), (minute, -60.0)],
            60.0,
            &[hour],
        ),
        (
            "jobs are not deleted if history limit not reached",
            2,
            &[(hour, -3660.0)],
            -60.0,
            &[],
        ),
    ];
    for (case, limit, jobs, now, deleted) in cases {
        let mut world = World::bare_at(at(now)).await;
        let spec = json!({"successfulJobsHistoryLimit": limit});
        let mut object = with(cron_job("0 * * * ?"), spec);
        object["metadata"] = json!({"name": "c", "namespace": NAMESPACE, "uid": "1a2b3c", "creationTimestamp": text(-7200.0)});
        object["status"] = json!({"lastScheduleTime": text(-3540.0)});
        world.cluster.load(object).unwrap();
        for (name, start) in jobs {
            let ended = LastJob {
                scheduled: *start,
                runs: false,
                listed: false,
                cached: true,
            };
            let mut object = ended.object(NAMESPACE);
            object["metadata"]["name"] = json!(name);
            object["metadata"]["uid"] = json!(name);
            object["status"]["startTime"] = json!(text(*start));
            world.cluster.load(object).unwrap();
        }
        let quota = steersman_devcluster::faults::internal_error();
        let creations = steersman_devcluster::faults::Matcher::new("create", "jobs");
        world.cluster.faults().reject(creations, quota, None);
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        let left: Vec<String> = world.jobs();
        for (name, _) in jobs {
            let is_deleted = deleted.contains(name);
            assert_eq!(
                left.iter().any(|job| job == name),
                !is_deleted,
                "{case}: {name}"
            );
        }
        assert_eq!(
            world.sent_by_cron("delete", "jobs"),
            deleted.len(),
            "{case}"
        );
    }
}

/// Upstream: `TestControllerV2GetJobsToBeReconciled`. Upstream compares names of owners only.
#[test]
fn get_jobs_to_be_reconciled() {
    let owned_by = |name: &str, uid: &str| json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": uid, "controller": true}]);
    let none = Value::Null;
    // (case, Jobs: namespace, name, owner; found)
    let cases: [(&str, Vec<(&str, &str, Value)>, &[&str]); 4] = [
        (
            "test getting jobs in namespace without controller reference",
            vec![
                ("foo-ns", "foo", none.clone()),
                ("foo-ns", "foo1", none.clone()),
                ("foo-ns", "foo2", none.clone()),
            ],
            &[],
        ),
        (
            "test getting jobs in namespace with a controller reference",
            vec![
                ("foo-ns", "foo", none.clone()),
                ("foo-ns", "foo1", owned_by("fooer", "u")),
                ("foo-ns", "foo2", none.clone()),
            ],
            &["foo1"],
        ),
        (
            "test getting jobs in other namespaces",
            vec![
                ("bar-ns", "foo", none.clone()),
                ("bar-ns", "foo1", owned_by("fooer", "u")),
                ("bar-ns", "foo2", none),
            ],
            &[],
        ),
        (
            "test getting jobs whose labels do not match job template",
            vec![
                ("foo-ns", "foo-fooer-owner-ref", owned_by("fooer", "u")),
                (
                    "foo-ns",
                    "foo-other-owner-ref",
                    owned_by("another-cronjob", "v"),
                ),
            ],
            &["foo-fooer-owner-ref"],
        ),
    ];
    let metadata = json!({"name": "fooer", "namespace": "foo-ns", "uid": "u"});
    let owner: CronJob = decoded(&json!({ "metadata": metadata }));
    for (case, jobs, expected) in cases {
        let job = |(namespace, name, owners): (&str, &str, Value)| {
            let metadata = json!({"name": name, "namespace": namespace, "uid": name, "ownerReferences": owners, "labels": {"key": "different-value"}});
            Arc::new(decoded::<Job>(&json!({ "metadata": metadata })))
        };
        let store = jobs.into_iter().map(job).collect();
        let jobs = steersman_runtime::owner::ByController::of(&store);
        let found = jobs.controlled_by::<CronJob>(&owner.meta);
        let names: Vec<_> = found.iter().map(|job| &*job.meta.name).collect();
        assert_eq!(names, expected, "{case}");
        assert!(
            history::surplus(&owner.spec, &found).is_empty(),
            "{case}: no limits"
        );
    }
}
