//! Scenarios of Deployments: roll-outs, scaling, pauses and failures of templates.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{deployment, replicaset};
use steersman_perturb::rules::{self, is_ready};
use steersman_perturb::{Churn, Rule, Scenario, State, Step};
use steersman_runtime::controller::Descriptor;

use crate::objects::{BLANK, count, has_condition, patch, template};

const CONTROLLERS: &[Descriptor] = &[deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
const RULES: &[Rule] = &[
    rules::NO_SURPLUS,
    rules::NO_SHORTAGE,
    rules::SURGE,
    rules::MIN_AVAILABLE,
    rules::NEW_PODS_AVAILABLE,
    rules::RECREATE,
];
const BASE: Scenario = Scenario {
    controller: "deployment",
    controllers: CONTROLLERS,
    nodes: 2,
    rules: RULES,
    ..BLANK
};
/// The user replaces a template during its roll-out. The reference run creates two pods of it. A
/// controller that sees the replacement late creates all four. A controller that sees the first
/// template late creates only the one that the user waits for.
const REPLACED_TEMPLATE: Churn = Churn::Within(&[("pods", -1..=2)]);
/// The user resizes the Deployment during a roll-out. ReplicaSets grow in proportion, as in
/// upstream's `scale`. The number of additional old pods depends on the progress of the roll-out.
const PROPORTIONAL_SCALING: Churn = Churn::Within(&[("pods", 0..=3)]);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "create",
            steps: || vec![create(4), rolled_out()],
            ..BASE
        },
        Scenario {
            name: "roll",
            steps: || vec![create(4), rolled_out(), image("web:2"), rolled_out()],
            ..BASE
        },
        Scenario {
            name: "rollover",
            churn: REPLACED_TEMPLATE,
            steps: rollover,
            ..BASE
        },
        Scenario {
            name: "scale-during-roll",
            churn: PROPORTIONAL_SCALING,
            steps: scale_during_roll,
            ..BASE
        },
        Scenario {
            name: "undo",
            steps: undo,
            ..BASE
        },
        Scenario {
            name: "pause",
            churn: REPLACED_TEMPLATE,
            steps: pause,
            ..BASE
        },
        Scenario {
            name: "recreate",
            steps: recreate,
            ..BASE
        },
        Scenario {
            name: "history",
            steps: history,
            ..BASE
        },
        Scenario {
            name: "adopt",
            steps: adopt,
            ..BASE
        },
        Scenario {
            name: "deadline",
            steps: deadline,
            ..BASE
        },
        Scenario {
            name: "no-better",
            steps: no_better,
            ..BASE
        },
    ]
}

fn web(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        },
    })
}

fn create(replicas: usize) -> Step {
    Step::Create(web(replicas))
}

fn spec(changes: Value) -> Step {
    patch("deployments", "web", json!({ "spec": changes }))
}

fn image(image: &str) -> Step {
    spec(json!({ "template": template("web", image) }))
}

/// Waits like `kubectl rollout status`.
fn rolled_out() -> Step {
    Step::until("rolled out", |state| {
        let Some(web) = state.get("deployments", "default/web") else {
            return false;
        };
        let wanted = &web["spec"]["replicas"];
        let status = &web["status"];
        status["observedGeneration"] == web["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "availableReplicas"]
                .iter()
                .all(|field| status[*field] == *wanted)
    })
}

fn of_image<'a>(state: &'a State, image: &'a str) -> impl Iterator<Item = &'a Value> {
    state
        .all("pods")
        .filter(move |pod| pod["spec"]["containers"][0]["image"] == image)
}

fn first_pod_of(image: &'static str) -> Step {
    Step::until("first pod created", move |state| {
        of_image(state, image).next().is_some()
    })
}

fn first_ready_pod_of(image: &'static str) -> Step {
    Step::until("first pod ready", move |state| {
        of_image(state, image).any(is_ready)
    })
}

/// A second template replaces the first one in the middle of its roll-out.
fn rollover() -> Vec<Step> {
    vec![
        create(4),
        rolled_out(),
        image("web:2"),
        first_pod_of("web:2"),
        image("web:3"),
        rolled_out(),
    ]
}

/// The Deployment grows in the middle of a roll-out.
fn scale_during_roll() -> Vec<Step> {
    let scale = spec(json!({"replicas": 6}));
    vec![
        create(4),
        rolled_out(),
        image("web:2"),
        first_ready_pod_of("web:2"),
        scale,
        rolled_out(),
    ]
}

/// A return to the first template reuses its ReplicaSet with a new revision.
fn undo() -> Vec<Step> {
    vec![
        create(3),
        rolled_out(),
        image("web:2"),
        rolled_out(),
        image("web:1"),
        rolled_out(),
    ]
}

/// A roll-out pauses half-way; after the resume, another template rolls out.
fn pause() -> Vec<Step> {
    let wait = Step::Sleep(Duration::from_secs(5));
    let pause = spec(json!({"paused": true}));
    let resume = spec(json!({"paused": null}));
    vec![
        create(4),
        rolled_out(),
        image("web:2"),
        first_pod_of("web:2"),
        pause,
        wait,
        image("web:3"),
        resume,
        rolled_out(),
    ]
}

/// With Recreate, all old pods are gone before the first new one.
fn recreate() -> Vec<Step> {
    let mut first = web(3);
    first["spec"]["strategy"] = json!({"type": "Recreate"});
    vec![
        Step::Create(first),
        rolled_out(),
        image("web:2"),
        rolled_out(),
    ]
}

/// The third template exceeds `revisionHistoryLimit`, so the oldest ReplicaSet is deleted.
fn history() -> Vec<Step> {
    let mut first = web(2);
    first["spec"]["revisionHistoryLimit"] = json!(1);
    let trimmed = Step::until("old ReplicaSets removed", |state| {
        count(state, "replicasets") == 2
    });
    vec![
        Step::Create(first),
        rolled_out(),
        image("web:2"),
        rolled_out(),
        image("web:3"),
        rolled_out(),
        trimmed,
    ]
}

/// A new Deployment adopts a ReplicaSet that its selector matches, and replaces its pods.
fn adopt() -> Vec<Step> {
    let mut labelled = template("web", "web:0");
    labelled["metadata"]["labels"]["set"] = json!("old");
    let old = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "old", "labels": {"app": "web", "set": "old"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web", "set": "old"}}, "template": labelled},
    });
    let created = Step::until("two pods created", |state| count(state, "pods") == 2);
    vec![Step::Create(old), created, create(3), rolled_out()]
}

/// The pods of the second template never become ready, so the roll-out exceeds its deadline.
fn deadline() -> Vec<Step> {
    let broken = spec(json!({"progressDeadlineSeconds": 10, "template": broken("web:2")}));
    vec![create(3), rolled_out(), broken, deadline_exceeded()]
}

/// The pods of neither template ever become ready. Old pods stay in the number that the minimum of
/// available pods demands.
fn no_better() -> Vec<Step> {
    let mut first = web(4);
    first["spec"]["template"] = broken("web:1");
    first["spec"]["progressDeadlineSeconds"] = json!(10);
    let created = Step::until("four pods created", |state| {
        of_image(state, "web:1").count() == 4
    });
    vec![
        Step::Create(first),
        created,
        spec(json!({ "template": broken("web:2") })),
        deadline_exceeded(),
    ]
}

/// A template with pods that run and never become ready.
fn broken(image: &str) -> Value {
    let mut broken = template("web", image);
    broken["metadata"]["annotations"] = json!({"simulate.steersman.dev/behaviour": "never-ready"});
    broken
}

/// Waits until the Deployment has exceeded its progress deadline.
fn deadline_exceeded() -> Step {
    Step::until("deadline exceeded", |state| {
        let web = state.get("deployments", "default/web");
        web.is_some_and(|web| {
            has_condition(web, "Progressing", "False", "ProgressDeadlineExceeded")
        })
    })
}
