//! Scenarios of the disruption controller: drains under a budget, resized workloads, pods that are
//! evicted and stay, and budgets that fail to count.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{deployment, disruption, replicaset};
use steersman_perturb::rules::{self, is_active, is_ready};
use steersman_perturb::{Rule, Scenario, State, Step};
use steersman_runtime::controller::Descriptor;

use crate::objects::{
    BLANK, delete, has_condition, patch, path, pod_on, template, until_caches_are_current,
};

const RULES: &[Rule] = &[rules::BUDGET, rules::NO_SURPLUS, rules::NO_SHORTAGE];

const BASE: Scenario = Scenario {
    controller: "disruption",
    controllers: &[disruption::DESCRIPTOR],
    rules: RULES,
    ..BLANK
};

/// With the controllers that replace evicted pods.
const DRAIN: Scenario = Scenario {
    controllers: WITH_SETS,
    nodes: 2,
    ..BASE
};

const WITH_SETS: &[Descriptor] = &[disruption::DESCRIPTOR, replicaset::DESCRIPTOR];
const WITH_DEPLOYMENTS: &[Descriptor] = &[
    disruption::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    deployment::DESCRIPTOR,
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "drain",
            steps: drain,
            ..DRAIN
        },
        Scenario {
            name: "percent",
            controllers: WITH_DEPLOYMENTS,
            steps: percent,
            ..DRAIN
        },
        Scenario {
            name: "resized",
            controllers: WITH_DEPLOYMENTS,
            steps: resized,
            ..DRAIN
        },
        Scenario {
            name: "subresource",
            steps: subresource,
            ..BASE
        },
        Scenario {
            name: "not-deleted",
            steps: not_deleted,
            ..BASE
        },
        Scenario {
            name: "stale-condition",
            steps: stale_condition,
            ..BASE
        },
        Scenario {
            name: "relabelled",
            steps: relabelled,
            ..BASE
        },
        Scenario {
            name: "uncountable",
            steps: uncountable,
            ..BASE
        },
    ]
}

/// A budget for the pods with the label `app: web`.
fn budget(mut limits: Value) -> Step {
    limits["selector"] = json!({"matchLabels": {"app": "web"}});
    Step::Create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"}, "spec": limits,
    }))
}

fn workload(kind: &str, replicas: usize) -> Step {
    Step::Create(json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    }))
}

/// A ready pod on a node without kubelet. The API server removes such a pod at once when a user
/// deletes it without a grace period.
fn ready_pod(name: &str, owner: Option<Value>) -> Vec<Step> {
    let mut pod = pod_on(name, "absent");
    pod["metadata"]["ownerReferences"] = owner.into_iter().collect();
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let status = Step::Patch(path("pods", name) + "/status", json!({"status": ready}));
    vec![Step::Create(pod), status]
}

fn kill(name: &str) -> Step {
    delete("pods", name, json!({"gracePeriodSeconds": 0}))
}

/// Waits until the status of the budget has these numbers.
fn counted(allowed: usize, healthy: usize, expected: usize) -> Step {
    Step::until("counted", move |state| {
        let Some(guard) = state.get("poddisruptionbudgets", "default/guard") else {
            return false;
        };
        let status = &guard["status"];
        let is_observed = status["observedGeneration"] == guard["metadata"]["generation"];
        is_observed
            && status["disruptionsAllowed"] == allowed
            && status["currentHealthy"] == healthy
            && status["expectedPods"] == expected
    })
}

fn ready_pods(state: &State) -> usize {
    let ready = |pod: &&Value| is_active(pod) && is_ready(pod);
    state.all("pods").filter(ready).count()
}

/// Waits until this number of pods is ready, and no other pod exists.
fn running(pods: usize) -> Step {
    Step::until("running", move |state| {
        ready_pods(state) == pods && state.all("pods").count() == pods
    })
}

fn concat(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

/// Three pods of a ReplicaSet are evicted one after the other, while two must stay.
fn drain() -> Vec<Step> {
    vec![
        budget(json!({"minAvailable": 2})),
        workload("ReplicaSet", 3),
        running(3),
        counted(1, 3, 3),
        until_caches_are_current(),
        Step::Evict("web"),
        running(3),
        counted(1, 3, 3),
    ]
}

/// Four pods of a Deployment are evicted, half of them at once.
fn percent() -> Vec<Step> {
    vec![
        workload("Deployment", 4),
        budget(json!({"maxUnavailable": "50%"})),
        running(4),
        counted(2, 4, 4),
        until_caches_are_current(),
        Step::Evict("web"),
        running(4),
        counted(2, 4, 4),
    ]
}

/// A Deployment grows and is drained. Then it shrinks, and is drained again.
fn resized() -> Vec<Step> {
    let resize = |replicas: usize| {
        let spec = json!({"spec": {"replicas": replicas}});
        patch("deployments", "web", spec)
    };
    vec![
        workload("Deployment", 2),
        budget(json!({"maxUnavailable": 1})),
        running(2),
        counted(1, 2, 2),
        resize(4),
        running(4),
        counted(1, 4, 4),
        until_caches_are_current(),
        Step::Evict("web"),
        running(4),
        resize(2),
        running(2),
        counted(1, 2, 2),
        until_caches_are_current(),
        Step::Evict("web"),
        running(2),
        counted(1, 2, 2),
    ]
}

/// Pods that a Deployment controls directly count by its subresource `scale`, as pods of custom
/// resources do. Its size changes later.
fn subresource() -> Vec<Step> {
    let uid = "0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01";
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "uid": uid},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    });
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": true});
    let pod = |name: &str| ready_pod(name, Some(owner.clone()));
    let shrink = patch("deployments", "web", json!({"spec": {"replicas": 2}}));
    concat([
        vec![Step::Load(deployment)],
        pod("a"),
        pod("b"),
        pod("c"),
        vec![budget(json!({"maxUnavailable": 1})), counted(1, 3, 3)],
        vec![shrink, kill("a"), counted(1, 2, 2)],
    ])
}

/// The budget gives a disruption for a pod, and the deletion of the pod does not follow.
fn not_deleted() -> Vec<Step> {
    let evicted = |state: &State| {
        let guard = state.get("poddisruptionbudgets", "default/guard");
        guard.is_some_and(|guard| guard["status"]["disruptedPods"].get("a").is_some())
    };
    // The clock of a scenario starts before this time, so the entry lasts longer than two minutes.
    let entry = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": "2030-01-01T00:00:00Z"}}});
    let overdue = json!({"status": {"disruptedPods": {"a": "2001-01-01T00:00:00Z"}}});
    let status = path("poddisruptionbudgets", "guard") + "/status";
    concat([
        ready_pod("a", None),
        ready_pod("b", None),
        vec![
            budget(json!({"minAvailable": 1})),
            counted(1, 2, 2),
            until_caches_are_current(),
            Step::Patch(status.clone(), entry),
            counted(0, 1, 2),
            Step::until("recorded", evicted),
            Step::Patch(status, overdue),
            counted(1, 2, 2),
            Step::until("forgotten", move |state| !evicted(state)),
        ],
    ])
}

/// A pod that some client marked for disruption and did not delete. Its condition is reset.
fn stale_condition() -> Vec<Step> {
    let marked = |name: &str, status: &str| {
        let condition = json!({"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler",
            "message": "m", "lastTransitionTime": "2001-01-01T00:00:00Z"});
        let ready = json!({"type": "Ready", "status": "True"});
        let status = json!({"status": {"phase": "Running", "conditions": [ready, condition]}});
        Step::Patch(path("pods", name) + "/status", status)
    };
    let reset = |name: &'static str| {
        Step::until("reset", move |state| {
            let pod = state.get("pods", name);
            pod.is_some_and(|pod| has_condition(pod, "DisruptionTarget", "False", ""))
        })
    };
    concat([
        ready_pod("a", None),
        ready_pod("b", None),
        vec![
            marked("a", "True"),
            marked("b", "True"),
            reset("default/a"),
            reset("default/b"),
        ],
    ])
}

/// Pods leave a budget and come back by their labels.
fn relabelled() -> Vec<Step> {
    let label = |name: &str, app: &str| {
        let labels = json!({"metadata": {"labels": {"app": app}}});
        patch("pods", name, labels)
    };
    concat([
        ready_pod("a", None),
        ready_pod("b", None),
        vec![
            budget(json!({"minAvailable": 1})),
            counted(1, 2, 2),
            label("a", "other"),
            counted(0, 1, 1),
            label("a", "web"),
            label("b", "other"),
            Step::Sleep(Duration::from_secs(5)),
            counted(0, 1, 1),
            label("b", "web"),
            counted(1, 2, 2),
        ],
    ])
}

/// A percentage of pods fails to count, if their kind lacks `scale`. A number counts.
fn uncountable() -> Vec<Step> {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": "u", "controller": true});
    let failed = Step::until("failed", |state| {
        let guard = state.get("poddisruptionbudgets", "default/guard");
        guard.is_some_and(|guard| has_condition(guard, "DisruptionAllowed", "False", "SyncFailed"))
    });
    let limits = json!({"spec": {"maxUnavailable": null, "minAvailable": 1}});
    concat([
        ready_pod("a", Some(owner.clone())),
        ready_pod("b", Some(owner)),
        vec![
            budget(json!({"maxUnavailable": "50%"})),
            failed,
            patch("poddisruptionbudgets", "guard", limits),
            counted(1, 2, 2),
        ],
    ])
}
