//! Scenarios of the TTL-after-finished controller. The user ends Jobs, in place of the Job
//! controller. The garbage collector ends the foreground deletions.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{garbagecollector, ttlafterfinished};
use steersman_perturb::rules::NOT_BEFORE_TTL;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, count, delete, end_job, is_gone, patch, template};

const BASE: Scenario = Scenario {
    controller: "ttl-after-finished",
    controllers: &[garbagecollector::DESCRIPTOR, ttlafterfinished::DESCRIPTOR],
    rules: &[NOT_BEFORE_TTL],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "expired",
            steps: expired,
            ..BASE
        },
        Scenario {
            name: "at-once",
            steps: at_once,
            ..BASE
        },
        Scenario {
            name: "raised",
            steps: raised,
            ..BASE
        },
        Scenario {
            name: "lowered",
            steps: lowered,
            ..BASE
        },
        Scenario {
            name: "removed",
            steps: removed,
            ..BASE
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..BASE
        },
    ]
}

fn job(name: &str, ttl: impl Into<Value>) -> Step {
    let ttl: Value = ttl.into();
    let mut template = template("j", "j:1");
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"template": template, "ttlSecondsAfterFinished": ttl});
    Step::Create(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec,
    }))
}

/// Ends the Job at the start of the run, 22:13:20.
fn end(name: &str, condition: &str) -> Step {
    end_job(name, condition, "2023-11-14T22:13:20Z")
}

fn left(jobs: usize) -> Step {
    let holds = move |state: &State| count(state, "jobs") == jobs;
    Step::until("only the other Jobs left", holds)
}

fn ttl(name: &str, seconds: impl Into<Value>) -> Step {
    let seconds: Value = seconds.into();
    patch(
        "jobs",
        name,
        json!({"spec": {"ttlSecondsAfterFinished": seconds}}),
    )
}

/// Three Jobs end. One of them has no TTL and stays, as does a running one.
fn expired() -> Vec<Step> {
    vec![
        job("a", 100),
        job("b", 150),
        job("c", Value::Null),
        job("d", 10),
        end("a", "Complete"),
        end("b", "Failed"),
        end("c", "Complete"),
        left(2),
    ]
}

fn at_once() -> Vec<Step> {
    vec![
        job("a", 0),
        job("b", 0),
        end("a", "Complete"),
        end("b", "Failed"),
        left(0),
    ]
}

/// The user raises the TTL before it expires. An event can be late for 40 s.
fn raised() -> Vec<Step> {
    vec![
        job("a", 100),
        end("a", "Complete"),
        Step::Sleep(Duration::from_secs(80)),
        ttl("a", 300),
        left(0),
    ]
}

fn lowered() -> Vec<Step> {
    vec![
        job("a", 3600),
        end("a", "Complete"),
        Step::Sleep(Duration::from_secs(80)),
        ttl("a", 10),
        left(0),
    ]
}

/// The user removes the TTL before it expires, so the Job stays.
fn removed() -> Vec<Step> {
    vec![
        job("a", 100),
        job("b", 200),
        end("a", "Complete"),
        end("b", "Complete"),
        Step::Sleep(Duration::from_secs(80)),
        ttl("a", Value::Null),
        is_gone("jobs", "default/b"),
    ]
}

/// A new Job takes the name of an expiring one.
fn recreated() -> Vec<Step> {
    vec![
        job("a", 100),
        job("b", 200),
        end("a", "Complete"),
        end("b", "Complete"),
        Step::Sleep(Duration::from_secs(99)),
        delete("jobs", "a", json!({"propagationPolicy": "Background"})),
        Step::until("deleted", |state| state.get("jobs", "default/a").is_none()),
        job("a", 100),
        is_gone("jobs", "default/b"),
    ]
}
