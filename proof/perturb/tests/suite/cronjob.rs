//! Scenarios of the CronJob controller. The user ends Jobs, in place of the Job controller.
//!
//! The clock of each run starts at 22:13:20, and faults last less than a minute. The waits of the
//! user are longer, so that the scheduled times of all runs are the same under each fault.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::cronjob;
use steersman_perturb::rules::{ONE_AT_A_TIME, ONE_RUN};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, count, delete, end_job, patch, template, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "cronjob",
    controllers: &[cronjob::DESCRIPTOR],
    rules: &[ONE_RUN, ONE_AT_A_TIME],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "runs",
            steps: runs,
            ..BASE
        },
        Scenario {
            name: "forbid",
            steps: forbid,
            ..BASE
        },
        Scenario {
            name: "replace",
            steps: replace,
            ..BASE
        },
        Scenario {
            name: "history",
            steps: history,
            ..BASE
        },
        Scenario {
            name: "suspend",
            steps: suspend,
            ..BASE
        },
        Scenario {
            name: "missing",
            steps: missing,
            ..BASE
        },
        Scenario {
            name: "foreign",
            steps: foreign,
            ..BASE
        },
        Scenario {
            name: "rescheduled",
            steps: rescheduled,
            ..BASE
        },
    ]
}

/// Minutes since the epoch at 22:20, which is in the name of the Job of that time.
const AT_22_20: u64 = 28_333_340;

/// The name of the Job that is scheduled for this number of minutes after 22:20.
fn job(minutes: u64) -> String {
    format!("c-{}", AT_22_20 + minutes)
}

/// The CronJob `c`, which runs every ten minutes, with these fields in its spec.
fn cron_job(more: Value) -> Step {
    let mut spec = json!({"schedule": "*/10 * * * *", "jobTemplate": {"spec": job_spec()}});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    Step::Create(json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec,
    }))
}

fn job_spec() -> Value {
    let mut template = template("c", "c:1");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "template": template })
}

/// Ends the Job with this condition.
fn end(job: &str, condition: &str) -> Step {
    end_job(job, condition, "2023-11-14T22:20:30Z")
}

fn active(state: &State) -> Vec<String> {
    let status = state
        .get("cronjobs", "default/c")
        .map(|c| c["status"]["active"].clone());
    let active = status
        .as_ref()
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    active
        .iter()
        .filter_map(|job| Some(job["name"].as_str()?.to_owned()))
        .collect()
}

/// Waits until exactly these Jobs are listed as running.
fn running(jobs: &[String]) -> Step {
    let jobs = jobs.to_vec();
    Step::until("running as listed", move |state| active(state) == jobs)
}

/// Suspends the CronJob, since the last step of a scenario is followed by ten minutes without a write.
fn stop() -> Step {
    patch("cronjobs", "c", json!({"spec": {"suspend": true}}))
}

fn minutes(minutes: u64) -> Step {
    Step::Sleep(Duration::from_secs(60 * minutes))
}

/// Two runs: one Job completes, the other one fails.
fn runs() -> Vec<Step> {
    vec![
        cron_job(json!({"timeZone": "Asia/Kolkata"})),
        running(&[job(0)]),
        until_caches_are_current(),
        end(&job(0), "Complete"),
        running(&[]),
        running(&[job(10)]),
        until_caches_are_current(),
        end(&job(10), "Failed"),
        running(&[]),
        stop(),
    ]
}

/// A Job runs for 25 minutes; the latest missed run starts when it ends.
fn forbid() -> Vec<Step> {
    vec![
        cron_job(json!({"concurrencyPolicy": "Forbid"})),
        running(&[job(0)]),
        minutes(25),
        end(&job(0), "Complete"),
        running(&[job(20)]),
        end(&job(20), "Complete"),
        running(&[]),
        stop(),
    ]
}

/// The second Job replaces the first one.
fn replace() -> Vec<Step> {
    vec![
        cron_job(json!({"concurrencyPolicy": "Replace"})),
        running(&[job(0)]),
        running(&[job(10)]),
        until_caches_are_current(),
        end(&job(10), "Complete"),
        running(&[]),
        stop(),
    ]
}

/// One completed Job and no failed Job are kept.
fn history() -> Vec<Step> {
    let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let mut steps = vec![cron_job(limits)];
    for (at, condition) in [(0, "Complete"), (10, "Failed"), (20, "Complete")] {
        steps.extend([
            running(&[job(at)]),
            until_caches_are_current(),
            end(&job(at), condition),
            running(&[]),
        ]);
    }
    let one = |state: &State| {
        count(state, "jobs") == 1 && state.get("jobs", &format!("default/{}", job(20))).is_some()
    };
    steps.extend([Step::until("one Job left", one), stop()]);
    steps
}

/// A CronJob that resumes after three missed runs starts one Job.
fn suspend() -> Vec<Step> {
    vec![
        cron_job(json!({"suspend": true})),
        minutes(30),
        patch("cronjobs", "c", json!({"spec": {"suspend": false}})),
        running(&[job(20)]),
        stop(),
        end(&job(20), "Complete"),
        running(&[]),
    ]
}

/// A user deletes the running Job, and the next run starts.
fn missing() -> Vec<Step> {
    vec![
        cron_job(json!({"concurrencyPolicy": "Forbid"})),
        running(&[job(0)]),
        until_caches_are_current(),
        delete("jobs", &job(0), json!({"propagationPolicy": "Background"})),
        running(&[]),
        running(&[job(10)]),
        end(&job(10), "Complete"),
        running(&[]),
        stop(),
    ]
}

/// A user's Job has the name of the first run, which is left out.
fn foreign() -> Vec<Step> {
    let metadata = json!({ "name": job(0) });
    vec![
        Step::Create(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec(),
        })),
        cron_job(json!({})),
        running(&[job(10)]),
        end(&job(10), "Complete"),
        running(&[]),
        stop(),
    ]
}

/// A user moves the run from 22:20 to 22:35.
fn rescheduled() -> Vec<Step> {
    vec![
        cron_job(json!({"schedule": "20 * * * *"})),
        Step::Sleep(Duration::from_secs(60)),
        patch("cronjobs", "c", json!({"spec": {"schedule": "35 * * * *"}})),
        running(&[job(15)]),
        end(&job(15), "Complete"),
        running(&[]),
        stop(),
    ]
}
